"""The API server without its transport: what create, update, patch, apply and delete do to an object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from kubehenge.lab.kube import apply, builtin, fieldset, kinds, metadata, patch, schema
from kubehenge.lab.kube.admission import Admission
from kubehenge.lab.kube.apply import Manager
from kubehenge.lab.kube.errors import (
    ApiError,
    Cause,
    FieldError,
    already_exists,
    bad_request,
    forbidden,
    invalid,
    not_found,
    options_invalid,
    precondition,
    unsupported_media,
)
from kubehenge.lab.kube.kinds import Kind, Obj
from kubehenge.lab.kube.storage import Record, Store, encode

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
_BLOCKING = frozenset({Cause.NOT_SUPPORTED, Cause.REQUIRED, Cause.TOO_LONG, Cause.TYPE})
_NOT_CHECKED = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"


class Validation(StrEnum):
    """What happens to unknown fields of a create, update or patch."""

    STRICT = "Strict"
    WARN = "Warn"
    IGNORE = "Ignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """How to write: under whose name, for real or not, into the object or its `status`."""

    manager: str = ""
    dry_run: bool = False
    force: bool = False
    validation: Validation = Validation.WARN
    subresource: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    """How to delete: what becomes of dependants, and what the object must still be."""

    policy: str = "Background"  # Background, Foreground, Orphan
    uid: str = ""
    resource_version: str = ""
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The object that a write left; `gone` when the write ended it."""

    record: Record
    created: bool = False
    gone: bool = False
    warnings: tuple[str, ...] = ()


class Registry:
    """Every verb on every kind. Calls do not wait; each is one transaction on the store."""

    def __init__(self, store: Store, admission: Admission, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.store = store
        self._admission = admission
        self._clock = now

    def now(self) -> str:
        """The time as objects have it."""
        return metadata.timestamp(self._clock())

    # ---- reading

    def get(self, kind: Kind, namespace: str, name: str) -> Record:
        """
        One object.

        Errors: ApiError 404.
        """
        record = self.store.find(kind, namespace, name)
        if record is None:
            raise not_found(kind, name)
        return record

    # ---- writing

    def create(self, kind: Kind, namespace: str, body: Obj, options: WriteOptions) -> Written:
        """
        Store a new object.

        Errors: ApiError 400, 403 (namespace ends), 404 (no namespace), 409 (exists), 422.
        """
        new = metadata.begin(kind, namespace, body)
        warnings = self._known_fields(kind, new, options)
        new = builtin.encode_plain_text(kind, schema.prune(kind.schema, new))
        metadata.birth(kind, new, self.now())
        name = new["metadata"]["name"]
        self._check_namespace(kind, namespace, name)
        if self.store.find(kind, namespace, name) is not None:
            raise already_exists(kind, name)
        if kind.custom and kind.has_status:
            new.pop("status", None)
        builtin.prepare(kind, None, new)
        manager = Manager(name=options.manager, operation="Update", api_version=kind.api_version)
        new = apply.track_update(kind, None, new, manager, self.now())
        return self._commit(kind, None, new, options, warnings)

    def update(self, kind: Kind, namespace: str, name: str, body: Obj, options: WriteOptions) -> Written:
        """
        Replace an object, or its status.

        Errors: ApiError 400, 404, 409 (resourceVersion), 422.
        """
        live = self.get(kind, namespace, name).obj()
        new = metadata.begin(kind, namespace, body)
        if new["metadata"].get("name", name) != name:
            raise bad_request(f"the name of the object ({new['metadata']['name']}) does not match the name on the URL ({name})")
        if kind.custom and not new["metadata"].get("resourceVersion"):
            error = FieldError(field="metadata.resourceVersion", cause=Cause.INVALID, value=0, detail="must be specified for an update")
            raise invalid(kind, name, [error])
        return self._replace(kind, live, new, options)

    def patch(self, kind: Kind, namespace: str, name: str, media: str, body: Any, options: WriteOptions) -> Written:
        """
        Change an object by a merge patch, a JSON patch, a strategic merge patch (built-in kinds), or an apply.

        Errors: ApiError 400, 404, 409, 415 for a form of patch that the kind does not take, 422, 500 for an apply that cannot be typed.
        """
        if media == patch.APPLY:
            return self._apply(kind, namespace, name, body, options)
        if options.force:
            raise options_invalid(
                "PatchOptions", FieldError(field="force", cause=Cause.FORBIDDEN, detail="may not be specified for non-apply patch")
            )
        live = self.get(kind, namespace, name).obj()
        match media:
            case patch.MERGE:
                if not isinstance(body, dict):
                    raise bad_request("a merge patch must be an object")
                new = patch.merge_patch(live, body)
            case patch.JSON:
                new = patch.json_patch(live, body)
            case patch.STRATEGIC if not kind.custom:
                new = patch.strategic_patch(kind.schema, live, body)
            case _:
                raise unsupported_media([patch.JSON, patch.MERGE, *([] if kind.custom else [patch.STRATEGIC]), patch.APPLY])
        if not isinstance(new, dict):
            raise bad_request(f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: the patch leaves no object')
        return self._replace(kind, live, metadata.begin(kind, namespace, new), options)

    def delete(self, kind: Kind, namespace: str, name: str, options: DeleteOptions) -> Written:
        """
        Remove an object, or mark it as being deleted while finalizers hold it.

        Errors: ApiError 403 (in use), 404, 409 (preconditions).
        """
        record = self.get(kind, namespace, name)
        live = record.obj()
        meta = live["metadata"]
        for wanted, actual, what in (
            (options.uid, meta["uid"], "UID"),
            (options.resource_version, meta["resourceVersion"], "ResourceVersion"),
        ):
            if wanted and wanted != actual:
                raise precondition(kind, name, what, wanted=wanted, actual=actual)
        self._admission.check_delete(kind, live)
        finalizers = [name for name in meta.get("finalizers") or () if name not in {FOREGROUND, ORPHAN}]
        finalizers += {"Foreground": [FOREGROUND], "Orphan": [ORPHAN]}.get(options.policy, [])
        if record.deleting:
            finalizers = meta.get("finalizers") or []
        held = bool(finalizers) or bool(kind is kinds.NAMESPACE and live["spec"].get("finalizers"))
        if not held:
            if not options.dry_run:
                self.store.remove(record)
            return Written(record=record, gone=True)
        if record.deleting or options.dry_run:
            return Written(record=record)
        meta.update(deletionTimestamp=self.now(), deletionGracePeriodSeconds=0, finalizers=finalizers)
        if "generation" in meta:
            meta["generation"] += 1
        if kind is kinds.NAMESPACE:
            live["status"] = {**live.get("status", {}), "phase": "Terminating"}
        return Written(record=self.store.put(kind, {**live, "metadata": {k: v for k, v in meta.items() if v != []}}))

    # ---- steps

    def _apply(self, kind: Kind, namespace: str, name: str, body: Any, options: WriteOptions) -> Written:
        if not options.manager:
            raise options_invalid(
                "PatchOptions", FieldError(field="fieldManager", cause=Cause.REQUIRED, detail="is required for apply patch")
            )
        if not isinstance(body, dict):
            raise bad_request("error decoding YAML: an apply patch must be an object")
        if not body.get("kind") or not body.get("apiVersion"):
            group, _, version = str(body.get("apiVersion") or "").rpartition("/")
            raise bad_request(f"invalid object type: {group}/{version}, Kind={body.get('kind') or ''}")
        config = metadata.begin(kind, namespace, _written_part(kind, body, options.subresource))
        if config["metadata"].pop("managedFields", None):
            raise bad_request("metadata.managedFields must be nil")
        if config["metadata"].setdefault("name", name) != name:
            raise bad_request(f"the name of the object ({config['metadata']['name']}) does not match the name on the URL ({name})")
        own = (body.get("metadata") or {}).get("namespace", "")
        where = f"{own}/{name}" if kind.namespaced else name
        if wrong := list(fieldset.mistakes(kind.schema, config)):
            shown = wrong[0] if len(wrong) == 1 else "errors:\n  " + "\n  ".join(wrong)
            gvk = f"{kind.api_version if kind.group else '/' + kind.version}, Kind={kind.kind}"
            raise ApiError(500, "", f"failed to create typed patch object ({where}; {gvk}): {shown}")
        config = builtin.encode_plain_text(kind, config)
        manager = Manager(name=options.manager, operation="Apply", api_version=kind.api_version, subresource=options.subresource)
        record = self.store.find(kind, namespace, name)
        if record is None:
            return self._apply_new(kind, namespace, config, manager, options)
        live = record.obj()
        wanted = config["metadata"].get("resourceVersion")
        new = apply.apply(kind, live, config, manager, self.now(), force=options.force)
        builtin.prepare(kind, live, new)
        if wanted:
            new["metadata"]["resourceVersion"] = wanted
        return self._settle(kind, live, new, options, ())

    def _apply_new(self, kind: Kind, namespace: str, config: Obj, manager: Manager, options: WriteOptions) -> Written:
        if options.subresource:
            raise not_found(kind, config["metadata"]["name"])
        config = {**config, "metadata": dict(config["metadata"])}
        metadata.birth(kind, config, self.now())
        self._check_namespace(kind, namespace, config["metadata"]["name"])
        if kind.custom and kind.has_status:
            config.pop("status", None)
        empty = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {}}
        new = apply.apply(kind, empty, config, manager, self.now(), force=True)
        builtin.prepare(kind, None, new)
        return self._commit(kind, None, new, options, ())

    def _replace(self, kind: Kind, live: Obj, new: Obj, options: WriteOptions) -> Written:
        warnings = self._known_fields(kind, new, options)
        new = builtin.encode_plain_text(kind, schema.prune(kind.schema, new))
        if options.subresource == "status":
            meta = {**live["metadata"], "resourceVersion": new["metadata"].get("resourceVersion", "")}
            kept = {name: value for name, value in live.items() if name != "status"}
            new = {**kept, "metadata": meta, **({"status": new["status"]} if "status" in new else {})}
        elif kind.has_status:
            new.pop("status", None)
            new.update({"status": live["status"]} if "status" in live else {})
        builtin.prepare(kind, live, new)
        manager = Manager(name=options.manager, operation="Update", api_version=kind.api_version, subresource=options.subresource)
        new = apply.track_update(kind, live, new, manager, self.now())
        return self._settle(kind, live, new, options, warnings)

    def _settle(self, kind: Kind, live: Obj, new: Obj, options: WriteOptions, warnings: tuple[str, ...]) -> Written:
        metadata.carry_over(kind, live, new)
        builtin.check_update(kind, live, new)
        return self._commit(kind, live, new, options, warnings)

    def _commit(self, kind: Kind, live: Obj | None, new: Obj, options: WriteOptions, warnings: tuple[str, ...]) -> Written:
        """Check, let admission fill in and judge, count the generation, store; an update that changes nothing is not written."""
        meta = new["metadata"]
        judged = not options.subresource
        if judged:
            warnings += self._admission.fill_in(kind, live, new)
        wrong = [*schema.check(kind.schema, new), *metadata.check(kind, new)]
        if unreadable := [e for e in wrong if e.cause is Cause.TYPE and e.field.startswith("metadata.")]:
            raise metadata.undecodable(kind, unreadable[0])
        if wrong:
            raise invalid(kind, meta["name"], [*wrong, *_rules_left_out(kind, wrong)])
        if judged:
            warnings += self._admission.judge(kind, live, new)
        if live is None:
            if options.dry_run:
                return Written(record=encode(kind, new, 0), created=True, warnings=warnings)
            return Written(record=self.store.put(kind, new), created=True, warnings=warnings)
        if kind.custom and _changed(live, new):
            meta["generation"] = live["metadata"]["generation"] + 1
        current = self.get(kind, meta.get("namespace", ""), meta["name"])
        if _same(live, new):
            return Written(record=current, warnings=warnings)
        if options.dry_run:
            return Written(record=encode(kind, new, current.version), warnings=warnings)
        if current.deleting and not meta.get("finalizers") and kind is not kinds.NAMESPACE:
            last = encode(kind, new, current.version)
            self.store.remove(last)
            return Written(record=last, gone=True, warnings=warnings)
        return Written(record=self.store.put(kind, new), warnings=warnings)

    def _known_fields(self, kind: Kind, obj: Obj, options: WriteOptions) -> tuple[str, ...]:
        if options.validation is Validation.IGNORE:
            return ()
        unknown = tuple(f'unknown field "{path}"' for path in schema.unknown_fields(kind.schema, obj))
        if unknown and options.validation is Validation.STRICT:
            raise bad_request(
                f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: strict decoding error: ' + ", ".join(unknown)
            )
        return unknown

    def _check_namespace(self, kind: Kind, namespace: str, name: str) -> None:
        if not kind.namespaced:
            return
        record = self.store.find(kinds.NAMESPACE, "", namespace)
        if record is None:
            raise not_found(kinds.NAMESPACE, namespace)
        if record.deleting:
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            raise forbidden(kind, name, why, causes=[cause])


def _written_part(kind: Kind, body: Obj, subresource: str) -> Obj:
    """The fields of an applied object that count: all but the status, or the status alone."""
    if not kind.has_status:
        return body
    if subresource == "status":
        return {name: value for name, value in body.items() if name in {"apiVersion", "kind", "metadata", "status"}}
    return {name: value for name, value in body.items() if name != "status"}


def _rules_left_out(kind: Kind, wrong: Iterable[FieldError]) -> Iterator[FieldError]:
    """What the server adds where a type has rules of its own, which it looks at only in objects of the right form."""
    if kind.has_rules and any(error.cause in _BLOCKING for error in wrong):
        yield FieldError(field="<nil>", cause=Cause.INVALID, value=None, detail=_NOT_CHECKED)


def _changed(live: Obj, new: Obj) -> bool:
    def counted(obj: Obj) -> Obj:
        return {name: value for name, value in obj.items() if name not in {"metadata", "status"}}

    return counted(live) != counted(new)


def _same(live: Obj, new: Obj) -> bool:
    def compared(obj: Obj) -> Obj:
        meta = {name: value for name, value in obj["metadata"].items() if name not in {"resourceVersion", "managedFields"}}
        owners = [{**entry, "time": ""} for entry in obj["metadata"].get("managedFields") or ()]
        return {**obj, "metadata": {**meta, "managedFields": owners}}

    return compared(live) == compared(new)
