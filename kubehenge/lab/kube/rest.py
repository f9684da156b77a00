"""The API over HTTP: paths, methods, bodies, query parameters, and the form of answers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import structlog
import yaml
from aiohttp import web
from aiohttp.typedefs import Handler

from kubehenge.lab.calls import WHO
from kubehenge.lab.kube import discovery, kinds, patch, protobuf, scale, table
from kubehenge.lab.kube.auth import Tokens, review
from kubehenge.lab.kube.errors import (
    ApiError,
    Cause,
    FieldError,
    bad_request,
    method_not_allowed,
    options_invalid,
    unknown_patch,
    unsupported_media,
)
from kubehenge.lab.kube.kinds import Kind
from kubehenge.lab.kube.listing import Query, list_page
from kubehenge.lab.kube.registry import DeleteOptions, Registry, Validation, WriteOptions, Written
from kubehenge.lab.kube.selectors import parse_fields, parse_labels
from kubehenge.lab.kube.table import Shape
from kubehenge.lab.kube.watch import DEFAULT_TIMEOUT_S, Watches

LARGEST_BODY = 3 * 1024 * 1024
_JSON = "application/json"
_YAML = "application/yaml"
_OPTIONS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}
_PATCHES = frozenset({patch.MERGE, patch.JSON, patch.STRATEGIC, patch.APPLY})
_YAML_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a path names: a collection, or one object of it, or an object's subresource."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def parse_path(path: str) -> Target | None:
    """The target of an API path, or None when it names nothing that is served."""
    match tuple(part for part in path.split("/") if part):
        case ("api", "v1", *rest):
            group, version = "", "v1"
        case ("apis", group, version, *rest):
            pass
        case _:
            return None
    namespace = ""
    scoped = rest[:1] == ["namespaces"] and len(rest) >= 3 and not (not group and len(rest) == 3 and rest[2] in {"status", "finalize"})
    if scoped:
        _, namespace, *rest = rest
    if not 1 <= len(rest) <= 3:
        return None
    plural, name, subresource = (*rest, "", "")[:3]
    kind = kinds.find_by_plural(group, version, plural)
    if kind is None or (scoped and not kind.namespaced) or (kind.namespaced and name and not scoped):
        return None
    if subresource and subresource not in {*(["status"] if kind.has_status else ()), *(["scale"] if kind.has_scale else ())}:
        return None
    return Target(kind=kind, namespace=namespace, name=name, subresource=subresource)


class Api:
    """The handler of every request."""

    def __init__(self, registry: Registry, tokens: Tokens) -> None:
        self._registry = registry
        self._tokens = tokens
        self.watches = Watches(registry.store)

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Find out who asks, and turn refusals into Status answers; the innermost middleware."""
        try:
            user = self._tokens.authenticate(request.headers.get("Authorization", ""), request.path)
            request[WHO] = request.query.get("fieldManager") or user.name
            return await handler(request)
        except ApiError as exc:
            return _answer(json.dumps(exc.body).encode(), status=exc.code)
        except web.HTTPException:
            raise
        except Exception:
            log.exception("kube_request_failed", method=request.method, path=request.path)
            error = ApiError(500, "InternalError", "Internal error occurred: the lab's API server failed; its log says where", {})
            return _answer(json.dumps(error.body).encode(), status=500)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        path = request.path
        if path in {"/healthz", "/livez", "/readyz"}:
            return web.Response(text="ok")
        if path == discovery.REVIEWS and request.method == "POST":
            return _answer(json.dumps(review(_object(await _body(request)))).encode(), status=201)
        target = parse_path(path)
        if target is None:
            document = discovery.answer(path) if request.method == "GET" else None
            if document is None and path.startswith("/api/v1/"):
                raise ApiError(404, "NotFound", "the server could not find the requested resource", {})
            if document is None:
                return web.Response(status=404, text="404 page not found\n")
            return _answer(json.dumps(document).encode())
        if target.subresource == "scale":
            return await self._scale(request, target)
        match request.method, bool(target.name):
            case "GET", True if "watch" not in request.query:
                record = self._registry.get(target.kind, target.namespace, target.name)
                return _answer(table.one(record, table.shape_of(request.headers.get("Accept", ""))))
            case "GET", _:
                return await self._list(request, target)
            case "POST", False:
                body = await _body(request)
                written = self._registry.create(target.kind, target.namespace, _object(body), self._options(request, target))
                return _written(request, written)
            case "PUT", True:
                body = await _body(request)
                options = self._options(request, target)
                return _written(request, self._registry.update(target.kind, target.namespace, target.name, _object(body), options))
            case "PATCH", True:
                return await self._patch(request, target)
            case "DELETE", named:
                wanted = _delete_options(request.query, await _body(request, optional=True))
                return self._delete(target, wanted) if named else self._delete_all(request, target, wanted)
            case _:
                raise method_not_allowed()

    async def _scale(self, request: web.Request, target: Target) -> web.StreamResponse:
        """Read or change how many replicas are asked for, and nothing else."""
        record = self._registry.get(target.kind, target.namespace, target.name)
        if request.method == "GET":
            return _answer(json.dumps(scale.of(record.obj())).encode())
        if request.method not in {"PATCH", "PUT"} or request.content_type not in {patch.MERGE, _JSON}:
            raise unknown_patch() if request.method == "PATCH" else method_not_allowed()
        wanted = scale.change(record.obj(), _object(await _body(request, media=_JSON)))
        options = replace(self._options(request, target), subresource="")
        written = self._registry.patch(target.kind, target.namespace, target.name, patch.MERGE, wanted, options)
        return _answer(json.dumps(scale.of(written.record.obj())).encode())

    async def _list(self, request: web.Request, target: Target) -> web.StreamResponse:
        query = _query(request.query, target)
        shape = table.shape_of(request.headers.get("Accept", ""))
        if request.query.get("watch") not in {"true", "1"}:
            return _answer(table.many(target.kind, list_page(self._registry.store, target.kind, query), shape))
        if "sendInitialEvents" in request.query:
            why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
            raise ApiError(422, "Invalid", f'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: {why}', {})
        version = request.query.get("resourceVersion", "")
        timeout_s = float(_number(request.query, "timeoutSeconds") or DEFAULT_TIMEOUT_S)
        return await self.watches.serve(request, target.kind, query, version=version, timeout_s=timeout_s, shape=shape)

    async def _patch(self, request: web.Request, target: Target) -> web.StreamResponse:
        media = request.content_type
        if media not in _PATCHES:
            raise unknown_patch()
        body = await _body(request, media=_YAML if media == patch.APPLY else _JSON)
        options = self._options(request, target, named=media == patch.APPLY)
        written = self._registry.patch(target.kind, target.namespace, target.name, media, body, options)
        return _written(request, written)

    def _delete(self, target: Target, options: DeleteOptions) -> web.Response:
        written = self._registry.delete(target.kind, target.namespace, target.name, options)
        if not written.gone:
            return _answer(written.record.raw, status=202 if options.policy == "Foreground" else 200)
        details: dict[str, Any] = {"name": target.name, "kind": target.kind.plural, "uid": written.record.uid}
        if target.kind.group:
            details["group"] = target.kind.group
        body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        return _answer(json.dumps(body).encode())

    def _delete_all(self, request: web.Request, target: Target, options: DeleteOptions) -> web.Response:
        page = list_page(self._registry.store, target.kind, _query(request.query, target))
        for record in page.records:
            self._registry.delete(target.kind, record.namespace, record.name, options)
        return _answer(table.many(target.kind, page, Shape.WHOLE))

    def _options(self, request: web.Request, target: Target, *, named: bool = False) -> WriteOptions:
        """The options of a write; one that is no apply goes by the client's own name when it gives no field manager."""
        query = request.query
        manager = query.get("fieldManager", "")
        if not manager and not named:
            manager = re.split(r"[/\s]", request.headers.get("User-Agent", "") or "unknown")[0][:128]
        checks = query.get("fieldValidation", Validation.WARN.value)
        if checks not in set(Validation):
            supported = 'supported values: "", "Ignore", "Strict", "Warn"'
            error = FieldError(field="fieldValidation", cause=Cause.NOT_SUPPORTED, value=checks, detail=supported)
            raise options_invalid(_OPTIONS[request.method], error)
        return WriteOptions(
            manager=manager,
            dry_run=_dry_run(query.getall("dryRun", []), _OPTIONS[request.method]),
            force=query.get("force") in {"true", "1"},
            validation=Validation(checks),
            subresource=target.subresource,
        )


def _query(query: Mapping[str, str], target: Target) -> Query:
    fields = parse_fields(target.kind, query.get("fieldSelector", ""))
    if target.name:  # a watch on one object
        fields["metadata.name"] = (target.name, True)
    labels = parse_labels(query.get("labelSelector", ""))
    return Query(namespace=target.namespace, labels=labels, fields=fields, limit=_number(query, "limit"), token=query.get("continue", ""))


def _number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name, "") or "0"
    if not text.isdigit():
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


def _dry_run(values: list[str], options: str) -> bool:
    if any(value != "All" for value in values):
        detail = 'supported values: "All"'
        raise options_invalid(options, FieldError(field="dryRun", cause=Cause.NOT_SUPPORTED, value=values, detail=detail))
    return bool(values)


def _delete_options(query: Mapping[str, str], body: Any) -> DeleteOptions:
    given = body if isinstance(body, dict) else {}
    needed = given.get("preconditions") or {}
    orphans = given.get("orphanDependents")
    policy = given.get("propagationPolicy") or query.get("propagationPolicy") or ("Orphan" if orphans else "Background")
    if policy not in {"Background", "Foreground", "Orphan"}:
        supported = 'supported values: "Foreground", "Background", "Orphan", "nil"'
        error = FieldError(field="propagationPolicy", cause=Cause.NOT_SUPPORTED, value=policy, detail=supported)
        raise options_invalid("DeleteOptions", error)
    dry_run = given.get("dryRun") or ([query["dryRun"]] if "dryRun" in query else [])
    return DeleteOptions(
        policy=policy,
        uid=needed.get("uid") or "",
        resource_version=needed.get("resourceVersion") or "",
        dry_run=_dry_run(dry_run, "DeleteOptions"),
    )


async def _body(request: web.Request, *, media: str = "", optional: bool = False) -> Any:
    content = await request.read()
    if not content and optional:
        return None
    media = media or request.content_type
    try:
        if media == _YAML:
            return _from_yaml(content)
        if media == protobuf.MEDIA_TYPE:
            return protobuf.decode(content)
        if media in {_JSON, "application/octet-stream"}:  # what is sent without a Content-Type
            return json.loads(content)
    except (ValueError, yaml.YAMLError) as exc:
        raise bad_request(f"the object provided is unrecognized (must be of type JSON or YAML): {exc}") from exc
    if optional:
        return None
    raise unsupported_media([_JSON, _YAML, protobuf.MEDIA_TYPE])


def _from_yaml(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return yaml.load(content, Loader=_YAML_LOADER)  # noqa: S506 - a safe loader


def _object(body: Any) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise bad_request("the object provided is unrecognized (must be of type JSON object)")
    return body


def _written(request: web.Request, written: Written) -> web.Response:
    shape = table.shape_of(request.headers.get("Accept", ""))
    response = _answer(table.one(written.record, shape), status=201 if written.created else 200)
    for warning in written.warnings:
        text = warning.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{text}"')
    return response


def _answer(body: bytes, *, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, headers={"Content-Type": _JSON, "Cache-Control": "no-cache, private"})
