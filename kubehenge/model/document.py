"""Documents read from files: their verdict, their problems, and what they declare (ACCEPTANCE 2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from kubehenge.model.cluster import ClusterDeclaration
from kubehenge.model.site import ApprovalRules, SiteSettings

Declaration = ClusterDeclaration | SiteSettings | ApprovalRules
"""What an accepted document declares."""


class Verdict(StrEnum):
    """What became of a document: applied, nothing of it applied, or not Kubehenge's."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    SKIPPED = "skipped"


class Severity(StrEnum):
    """Whether a problem refuses the document or is only shown."""

    ERROR = "error"
    WARNING = "warning"


class ProblemKind(StrEnum):
    """What is wrong, in one or two words."""

    SYNTAX = "syntax"
    ENCODING = "encoding"
    SIZE = "size"
    DEPTH = "depth"
    ALIASES = "aliases"
    DUPLICATE = "duplicate"
    ENCRYPTED = "encrypted"
    TEMPLATE = "template"
    TYPE = "type"
    REQUIRED = "required"
    UNKNOWN = "unknown"
    NOT_ALLOWED = "not allowed"
    FORM = "form"
    LENGTH = "length"
    MINIMUM = "minimum"
    MAXIMUM = "maximum"
    RANGE = "range"
    STEP = "step"
    OVERLAP = "overlap"
    OUTSIDE = "outside"
    CAPACITY = "capacity"
    IGNORED = "ignored"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """
    One thing that is wrong with a document.

    `document` counts from 1 within the file, documents that hold nothing left out. `line` and `column` count from 1. `field` is a path such as
    `variables.oidc[1].issuerURL`, '' when it is about the whole document.
    """

    path: str
    document: int
    line: int
    column: int
    field: str
    kind: ProblemKind
    message: str
    severity: Severity = Severity.ERROR

    def as_json(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        return {name: str(value) if isinstance(value, StrEnum) else value for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedDocument:
    """
    One document with its verdict.

    `api_version`, `kind`, `namespace` and `name` are '' where they cannot be read. `reason` says why a document is skipped. `problems` hold
    warnings, too. `body` is what `kubectl` would send, `body_hash` its hash, and `declaration` what it means; they are there exactly when it
    is accepted by itself, also when a rule across documents refuses it.
    """

    path: str
    blob_id: str
    number: int
    line: int
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    verdict: Verdict
    reason: str = ""
    problems: tuple[Problem, ...] = ()
    body: Mapping[str, Any] | None = None
    body_hash: str | None = None
    declaration: Declaration | None = None

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that refuse it."""
        return tuple(problem for problem in self.problems if problem.severity is Severity.ERROR)

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """The problems that are only shown."""
        return tuple(problem for problem in self.problems if problem.severity is Severity.WARNING)

    @property
    def scope(self) -> str:
        """`<namespace>/<name>`, or what of it can be read."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name
