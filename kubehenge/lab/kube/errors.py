"""What the API server refuses, in the words and form of the real one: a `Status` object with reason, code and causes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubehenge.lab.kube.kinds import Kind


class Cause(StrEnum):
    """Why one field is refused; the value is the cause's reason in a Status."""

    INVALID = "FieldValueInvalid"
    REQUIRED = "FieldValueRequired"
    FORBIDDEN = "FieldValueForbidden"
    NOT_SUPPORTED = "FieldValueNotSupported"
    TYPE = "FieldValueTypeInvalid"
    TOO_LONG = "FieldValueTooLong"
    DUPLICATE = "FieldValueDuplicate"
    INTERNAL = "InternalError"


_TITLES = {
    Cause.INVALID: "Invalid value",
    Cause.REQUIRED: "Required value",
    Cause.FORBIDDEN: "Forbidden",
    Cause.NOT_SUPPORTED: "Unsupported value",
    Cause.TYPE: "Invalid value",
    Cause.TOO_LONG: "Too long",
    Cause.DUPLICATE: "Duplicate value",
    Cause.INTERNAL: "Internal error",
}
_WITHOUT_VALUE = frozenset({Cause.REQUIRED, Cause.FORBIDDEN, Cause.TOO_LONG, Cause.INTERNAL})


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldError:
    """One refused field: `field: Invalid value: "x": detail`."""

    field: str
    cause: Cause
    value: Any = None
    detail: str = ""

    @property
    def message(self) -> str:
        """The error without its field, as a Status cause has it."""
        parts = [_TITLES[self.cause]]
        if self.cause not in _WITHOUT_VALUE:
            parts.append(json.dumps(self.value, ensure_ascii=False, separators=(",", ":")))
        if self.detail:
            parts.append(self.detail)
        return ": ".join(parts)

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class ApiError(Exception):
    """A request that is refused; `body` is the Status that answers it."""

    def __init__(self, code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details

    @property
    def body(self) -> dict[str, Any]:
        """The Status object."""
        status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message}
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        return {**status, "code": self.code}


def _details(kind: Kind, name: str, **more: Any) -> dict[str, Any]:
    details: dict[str, Any] = {"name": name} if name else {}
    if kind.group:
        details["group"] = kind.group
    return {**details, "kind": kind.plural, **more}


def not_found(kind: Kind, name: str) -> ApiError:
    """404: no object of this name."""
    return ApiError(404, "NotFound", f'{kind.resource} "{name}" not found', _details(kind, name))


def already_exists(kind: Kind, name: str) -> ApiError:
    """409: an object of this name is there."""
    return ApiError(409, "AlreadyExists", f'{kind.resource} "{name}" already exists', _details(kind, name))


def modified(kind: Kind, name: str) -> ApiError:
    """409: the resourceVersion of the request is not the object's."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(kind, name, why)


def conflict(kind: Kind, name: str, why: str) -> ApiError:
    """409: a precondition does not hold."""
    return ApiError(409, "Conflict", f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}', _details(kind, name))


def precondition(kind: Kind, name: str, what: str, *, wanted: str, actual: str) -> ApiError:
    """409: what a deletion was to be of is no longer so."""
    happened = "deleted and then recreated" if what == "UID" else "modified"
    why = f"the {what} in the precondition ({wanted}) does not match the {what} in record ({actual}). The object might have been {happened}"
    message = f'Operation cannot be fulfilled on {kind.qualified} "{name}": {why}'
    return ApiError(409, "Conflict", message, {**_details(kind, name), "kind": kind.kind})


def options_invalid(kind: str, error: FieldError) -> ApiError:
    """422: the options of a request, by their kind, are wrong."""
    causes = [{"reason": error.cause.value, "message": error.message, "field": error.field}]
    return ApiError(422, "Invalid", f'{kind}.meta.k8s.io "" is invalid: {error}', {"group": "meta.k8s.io", "kind": kind, "causes": causes})


def unknown_patch() -> ApiError:
    """415: a patch of no known sort."""
    return ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


def not_unmarshalled(webhook: str, what: str) -> ApiError:
    """400 of a webhook that cannot read an object: it says so in its JSON library's words."""
    return ApiError(400, "", f'admission webhook "{webhook}" denied the request: json: cannot unmarshal {what}')


def apply_conflict(conflicts: Sequence[tuple[str, str]]) -> ApiError:
    """
    409 of server-side apply.

    Shape: `conflicts` are (manager as it is printed, field path), in the order of the managers.
    """
    causes = [{"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": path} for manager, path in conflicts]
    if len(conflicts) == 1:
        manager, path = conflicts[0]
        message = f"Apply failed with 1 conflict: conflict with {manager}: {path}"
    else:
        lines: list[str] = []
        for manager in dict.fromkeys(manager for manager, _ in conflicts):
            lines.append(f"conflicts with {manager}:")
            lines.extend(f"- {path}" for owner, path in conflicts if owner == manager)
        message = f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
    return ApiError(409, "Conflict", message, {"causes": causes})


def invalid(kind: Kind, name: str, errors: Iterable[FieldError], *, webhook: str = "") -> ApiError:
    """422: the object breaks its schema, or the rules of an admission webhook."""
    found = list(errors)
    text = str(found[0]) if len(found) == 1 else "[" + ", ".join(dict.fromkeys(map(str, found))) + "]"
    message = f'{kind.qualified} "{name}" is invalid: {text}'
    if webhook:
        message = f'admission webhook "{webhook}" denied the request: {message}'
    causes = [{"reason": e.cause.value, "message": e.message, "field": e.field} for e in found]
    return ApiError(422, "Invalid", message, {**_details(kind, name), "kind": kind.kind, "causes": causes})


def forbidden(kind: Kind, name: str, why: str, *, causes: Sequence[dict[str, str]] = ()) -> ApiError:
    """403: allowed to nobody in this state."""
    named = f'{kind.resource} "{name}"' if name else kind.resource
    return ApiError(403, "Forbidden", f"{named} is forbidden: {why}", _details(kind, name, **({"causes": list(causes)} if causes else {})))


def denied(webhook: str, message: str) -> ApiError:
    """403 of an admission webhook that gives a sentence only."""
    return ApiError(403, "Forbidden", f'admission webhook "{webhook}" denied the request: {message}')


def bad_request(message: str) -> ApiError:
    """400: a request that cannot be read."""
    return ApiError(400, "BadRequest", message)


def unsupported_media(accepted: Iterable[str]) -> ApiError:
    """415: a body or patch in a form that is not taken."""
    types = ", ".join(accepted)
    return ApiError(
        415, "UnsupportedMediaType", f"the body of the request was in an unknown format - accepted media types include: {types}"
    )


def unauthorized() -> ApiError:
    """401: a bearer token nobody has."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def expired(message: str) -> ApiError:
    """410: a resourceVersion or continue token from before what is kept."""
    return ApiError(410, "Expired", message)


def method_not_allowed() -> ApiError:
    """405: a verb that this path does not have."""
    return ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})
