"""`kubehenge validate`: the verdicts of a directory, for people, programs and code hosts (ACCEPTANCE 2.4)."""

from __future__ import annotations

import hashlib
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, assert_never

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kubehenge.model.cluster import ClusterDeclaration
from kubehenge.model.document import JudgedDocument, Problem, Severity, Verdict
from kubehenge.model.site import SiteSettings
from kubehenge.source.crossdoc import Claim, DocumentKey, check_against_site, judge_together
from kubehenge.source.findings import Finding
from kubehenge.source.judge import place_findings
from kubehenge.source.shape import printable
from kubehenge.source.tree import Ignored, SourceFile, judge_files, read_directory

EXIT_ACCEPTED = 0
EXIT_REFUSED = 1
EXIT_CANNOT_RUN = 2

IGNORED_SHOWN = 10
"""Ignored paths that the text for people names; the JSON names all."""
PLAIN_WIDTH = 160
"""Columns of the text for people where no terminal says its own."""

_BY_SETTINGS = "whether clusters may use their storages and bridges: no Site document settles it"
_BY_THE_WORLD = (
    "clusters of other sources, and those made elsewhere: their names, addresses and Rancher",
    "what a running cluster does not take: another pod network, smaller disks, a version that goes back or skips one",
    "Proxmox VE: whether storages, bridges and nodes exist, memory and disk are free, templates are there, addresses are unused",
    "who may approve it, such as identity providers beyond those set for every cluster",
)


class ReportFormat(StrEnum):
    """How verdicts are printed: for people, as JSON, or as what GitHub and GitLab show beside the line."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"
    GITLAB = "gitlab"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The documents with their verdicts, the paths that are no declarations, and what only settings or the world can answer."""

    documents: tuple[JudgedDocument, ...]
    ignored: tuple[Ignored, ...]
    not_looked_at: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """0 when nothing is refused, else 1."""
        return EXIT_REFUSED if any(document.verdict is Verdict.REFUSED for document in self.documents) else EXIT_ACCEPTED


def validate(path: str, form: ReportFormat = ReportFormat.TEXT, *, colour: bool = False, width: int = PLAIN_WIDTH) -> tuple[str, int]:
    """
    Judge the files under a path, without a database or a network: the text to print, and the exit code.

    Shape: the exit code is 0 (nothing refused), 1 (something refused) or 2 (it could not run; the text says why).
    Units: `width` in columns; `colour` for a terminal.
    """
    root = Path(path)
    try:
        tree = read_directory(root)
    except OSError as error:
        return f"{path} cannot be read: {error.strerror or error}. Name a directory or a file.\n", EXIT_CANNOT_RUN
    shown = root if root.is_dir() else root.parent
    files = [file._replace(path=(shown / file.path).as_posix()) for file in tree.files]
    ignored = [replace(item, path=(shown / item.path).as_posix()) for item in tree.ignored]
    report = report_on(files, ignored)
    return print_report(report, form, colour=colour, width=width), report.exit_code


def report_on(files: Iterable[SourceFile], ignored: Iterable[Ignored] = ()) -> Report:
    """Judge files, each document by itself and all together, and against the one Site among them."""
    files = tuple(files)
    documents = judge_files(files)
    accepted = {_key(document): document for document in documents if document.verdict is Verdict.ACCEPTED}
    claims = [
        Claim(key=key, line=document.line, declaration=document.declaration) for key, document in accepted.items() if document.declaration
    ]
    findings: dict[DocumentKey, list[Finding]] = {key: list(found) for key, found in judge_together(claims).items()}
    sites = [claim.declaration for claim in claims if isinstance(claim.declaration, SiteSettings) and claim.key not in findings]
    if len(sites) == 1:
        for claim in claims:
            if isinstance(claim.declaration, ClusterDeclaration) and (found := check_against_site(claim.declaration, sites[0])):
                findings.setdefault(claim.key, []).extend(found)
    contents = {file.path: file.content for file in files}
    judged = tuple(
        place_findings(document, findings[_key(document)], contents.get(document.path)) if _key(document) in findings else document
        for document in documents
    )
    not_looked_at = _BY_THE_WORLD if len(sites) == 1 else (_BY_SETTINGS, *_BY_THE_WORLD)
    return Report(documents=judged, ignored=tuple(ignored), not_looked_at=not_looked_at)


def _key(document: JudgedDocument) -> DocumentKey:
    return DocumentKey(source="", path=document.path, number=document.number)


def print_report(report: Report, form: ReportFormat, *, colour: bool = False, width: int = PLAIN_WIDTH) -> str:
    """Write a report in one of the formats."""
    match form:
        case ReportFormat.TEXT:
            return _as_text(report, colour=colour, width=width)
        case ReportFormat.JSON:
            return json.dumps(_as_json(report), indent=2, ensure_ascii=False) + "\n"
        case ReportFormat.GITHUB:
            return "".join(f"{line}\n" for line in _as_github(report))
        case ReportFormat.GITLAB:
            return json.dumps(list(_as_gitlab(report)), indent=2, ensure_ascii=False) + "\n"
        case _:
            assert_never(form)


def _all_problems(report: Report) -> Iterator[Problem]:
    for document in report.documents:
        yield from document.problems


# For people

_STYLES = {Verdict.ACCEPTED: "green", Verdict.REFUSED: "bold red", Verdict.SKIPPED: "dim"}


def _as_text(report: Report, *, colour: bool, width: int) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=colour, no_color=not colour, width=width, highlight=False, emoji=False)
    for document in report.documents:
        if document.problems or document.verdict is not Verdict.ACCEPTED:
            _print_document(console, document)
    if report.ignored:
        names = ", ".join(printable(item.path) for item in report.ignored[:IGNORED_SHOWN])
        more = len(report.ignored) - IGNORED_SHOWN
        console.print(Text(f"Ignored  {names}{f' and {more} more' if more > 0 else ''}", style="dim"))
    console.print(Text(_summary(report)))
    console.print(Text("Not looked at here; the plan does:"))
    for item in report.not_looked_at:
        console.print(Text(f"  - {item}"))
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def _print_document(console: Console, document: JudgedDocument) -> None:
    place = printable(document.path) + (f", document {document.number}" if document.number > 1 else "")
    what = " ".join(word for word in (document.kind, document.scope) if word)
    reason = document.reason or _counted(document)
    head = (document.verdict.value.capitalize(), place, printable(what), reason)
    console.print(Text("  ".join(word for word in head if word), style=_STYLES[document.verdict]))
    if not document.problems:
        return
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 2))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold", max_width=48)
    table.add_column(overflow="fold")
    for problem in document.problems:
        mark = "warning: " if problem.severity is Severity.WARNING else ""
        table.add_row(f"{problem.line}:{problem.column}", Text(problem.field), Text(f"{mark}{problem.message}"))
    console.print(table)


def _counted(document: JudgedDocument) -> str:
    counts = ((len(document.errors), "error"), (len(document.warnings), "warning"))
    return ", ".join(f"{count} {word}{'' if count == 1 else 's'}" for count, word in counts if count)


def _summary(report: Report) -> str:
    counts = Counter(document.verdict for document in report.documents)
    if not report.documents:
        return "No documents."
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict) + "."


# For programs and code hosts


def _as_json(report: Report) -> dict[str, Any]:
    counts = Counter(document.verdict for document in report.documents)
    return {
        "documents": [
            {
                "path": document.path,
                "document": document.number,
                "line": document.line,
                "apiVersion": document.api_version,
                "kind": document.kind,
                "namespace": document.namespace,
                "name": document.name,
                "verdict": str(document.verdict),
                "reason": document.reason,
                "problems": [problem.as_json() for problem in document.problems],
            }
            for document in report.documents
        ],
        "counts": {str(verdict): counts[verdict] for verdict in Verdict},
        "ignored": [{"path": item.path, "reason": item.reason} for item in report.ignored],
        "notLookedAt": list(report.not_looked_at),
    }


def _as_github(report: Report) -> Iterator[str]:
    """Yield GitHub's workflow commands, which Gitea and Forgejo know, too."""
    for problem in _all_problems(report):
        title = f"{problem.field}: {problem.kind}" if problem.field else str(problem.kind)
        fields = {"file": problem.path, "line": str(problem.line), "col": str(problem.column), "title": title}
        written = ",".join(f"{name}={_escaped(value, ':,')}" for name, value in fields.items())
        yield f"::{problem.severity} {written}::{_escaped(problem.message)}"


def _escaped(text: str, also: str = "") -> str:
    for mark in f"%\r\n{also}":
        text = text.replace(mark, f"%{ord(mark):02X}")
    return text


def _as_gitlab(report: Report) -> Iterator[dict[str, Any]]:
    """Yield the entries of GitLab's code quality report; a fingerprint stays the same while the problem moves to another line."""
    seen: Counter[str] = Counter()
    for problem in _all_problems(report):
        subject = "\n".join((problem.path, str(problem.document), problem.field, problem.kind, problem.message))
        seen[subject] += 1
        yield {
            "description": f"{problem.field}: {problem.message}" if problem.field else problem.message,
            "check_name": str(problem.kind),
            "fingerprint": hashlib.sha256(f"{subject}\n{seen[subject]}".encode()).hexdigest(),
            "severity": "major" if problem.severity is Severity.ERROR else "minor",
            "location": {"path": problem.path, "lines": {"begin": problem.line}},
        }
