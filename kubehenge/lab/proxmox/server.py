"""The simulated Proxmox VE as an HTTP server: one state behind the APIs of all its nodes."""

from __future__ import annotations

import asyncio
import functools
import json
import re
import urllib.parse
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, TypeVar

import structlog
from aiohttp import web
from fakepve import FakePve
from fakepve import schema as api_schema
from fakepve.server import GENERIC, USER

from kubehenge.lab.calls import WHO, CallLog, call_log_middleware
from kubehenge.lab.faults import Faults, FaultTarget, fault_middleware
from kubehenge.lab.proxmox.access import AccessCalls
from kubehenge.lab.proxmox.call import ApiCall, Page
from kubehenge.lab.proxmox.checks import check_call
from kubehenge.lab.proxmox.clock import SimClock
from kubehenge.lab.proxmox.drives import DriveCalls
from kubehenge.lab.proxmox.errors import PveError, bad_parameter, failed
from kubehenge.lab.proxmox.files import FileCalls
from kubehenge.lab.proxmox.guest_config import GuestConfigCalls
from kubehenge.lab.proxmox.guest_life import GuestLifeCalls
from kubehenge.lab.proxmox.guest_power import GuestPowerCalls
from kubehenge.lab.proxmox.guests import GuestCalls, GuestList
from kubehenge.lab.proxmox.network import NetworkCalls
from kubehenge.lab.proxmox.nodes import NodeCalls, NodeSize
from kubehenge.lab.proxmox.pools import PoolCalls
from kubehenge.lab.proxmox.rights import ROOT, Rights
from kubehenge.lab.proxmox.signin import SignIn
from kubehenge.lab.proxmox.storage import StorageCalls
from kubehenge.lab.proxmox.tasks import Ending, TaskCalls

T = TypeVar("T")

log = structlog.get_logger()

# In simulated seconds: how late a refused sign-in comes, and the news that a node does not answer.
REFUSAL_S = 3
NO_ROUTE_S = 3
_BODY_LIMIT = 512 * 1024
_UPLOAD_LIMIT = 64 * 1024**2


class ProxmoxServer(
    AccessCalls,
    PoolCalls,
    NodeCalls,
    NetworkCalls,
    StorageCalls,
    FileCalls,
    GuestCalls,
    GuestLifeCalls,
    GuestConfigCalls,
    DriveCalls,
    GuestPowerCalls,
    TaskCalls,
    FakePve,
):
    """
    The state of a cluster and what answers its API.

    Calls that a mixin lists in a `_calls_…` method are answered there; the base class answers the rest of the schema.
    """

    def __init__(self, *, nodes: Iterable[str], size: NodeSize, clock: SimClock, faults: Faults, calls: CallLog) -> None:
        super().__init__(user=ROOT, host="127.0.0.1", port=0)
        self.clock = clock
        self.faults = faults
        self.call_log = calls
        self.started_at = clock.now()
        self.cluster_name = "lab"
        self.nodes = {node: {"online": True} for node in nodes}
        self.sizes = dict.fromkeys(self.nodes, size)
        self.fingerprints: dict[str, str] = {}
        self.ports: dict[int, str] = {}  # the node that listens on each
        self.vms = GuestList()
        self.storages: dict[str, dict[str, Any]] = {}
        self.pools: dict[str, set[int]] = {}
        self.pool_info: dict[str, dict[str, Any]] = {}
        self.pool_by_vm: dict[int, str] = {}
        self.rights = Rights(self.pools_of)
        self.signin = SignIn(self.rights)
        self.bridges = ("vmbr0",)
        self.zones: dict[str, str] = {}
        self.vnets: dict[str, str] = {}
        self.endings: list[Ending] = []
        self.running: dict[str, asyncio.Task[None]] = {}
        self.is_stopping = False
        self.changes = 0
        self.client_max_size = _UPLOAD_LIMIT
        self._random.seed(0)  # the same calls are answered in the same order each time
        self._background: set[asyncio.Task[Any]] = set()
        listed = (route for name in sorted(dir(self)) if name.startswith("_calls_") for route in getattr(self, name)())
        self._handlers = {(method, template): handler for method, template, handler in listed}
        for method, template in self._handlers:
            if method not in _schema().paths[template]:
                raise KeyError(f"{method} {template} is not in the API schema")

    # ---- what the mixins and the base class lean on

    @property
    def time_scale(self) -> float:
        """Real seconds in a simulated one, as the base class asks for it."""
        return self.clock.scale

    @time_scale.setter
    def time_scale(self, _value: float) -> None:
        """Nothing: the clock says how fast time passes."""

    def touch(self) -> None:
        """Note that the state has changed and wants saving."""
        self.changes += 1

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run something in the background until it ends or the server stops."""
        runner = asyncio.ensure_future(work)
        self._background.add(runner)
        runner.add_done_callback(self._background.discard)

    def in_any_order(self, items: Iterable[T]) -> list[T]:
        """A list whose order means nothing and changes from call to call, as where Proxmox VE answers from a hash."""
        shuffled = list(items)
        self._random.shuffle(shuffled)
        return shuffled

    async def stop_background(self) -> None:
        """End everything that runs in the background."""
        left = [*self.running.values(), *self._background]
        for runner in left:
            runner.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def allowed(self, user: str, path: str, priv: str) -> bool:
        """Whether an auth id holds a privilege; the base class asks here."""
        return self.rights.has(user, path, priv)

    def check_permissions(self, *_args: Any, **_kwargs: Any) -> None:
        """Nothing: each call was judged before it came here."""

    @staticmethod
    def _check_acl_path(*_args: Any, **_kwargs: Any) -> None:
        """Nothing, for the same reason."""

    @staticmethod
    def schema_properties(template: str, method: str) -> Mapping[str, Any]:
        """The parameters of a call, as the schema has them."""
        properties: Mapping[str, Any] = _schema().paths[template][method]["parameters"]["properties"]
        return properties

    # ---- serving

    def build_app(self) -> web.Application:
        """The API, which every node serves alike."""
        app: web.Application = self._build_app()
        target = FaultTarget.PROXMOX
        app.middlewares.insert(0, fault_middleware(self.faults, target))
        app.middlewares.insert(0, call_log_middleware(self.call_log, target, write=_is_write))
        return app

    def _local_node(self, request: web.Request) -> str:
        """The node whose API took a request."""
        address = request.transport.get_extra_info("sockname") if request.transport else None
        return self.ports.get(address[1], "") if address else ""

    @web.middleware
    async def _middleware(self, request: web.Request, handler: Any) -> web.StreamResponse:
        """Judge a call as Proxmox VE does, in its order, then have it answered."""
        match = self._match(_below_api(request))
        try:
            return await self._serve(request, handler, match)
        except PveError as exc:
            if exc.status == 401 or _is_refused_upload(exc, request):
                await self.pause(REFUSAL_S)
            elif exc.status == 595:
                await self.pause(NO_ROUTE_S)
            return _refusal(exc, request)
        except (web.HTTPException, asyncio.CancelledError):
            raise
        except Exception:
            log.exception("call_crashed", method=request.method, path=request.path)
            return _refusal(failed("internal error"), request)

    async def _serve(self, request: web.Request, handler: Any, match: Any) -> web.StreamResponse:
        info = match.methods.get(request.method) if match else None
        auth = self._authenticate(request, world=bool(info and (info.get("permissions") or {}).get("user") == "world"))
        request[USER] = request[WHO] = auth or ""
        if info is None:
            raise PveError(501, f"Method '{request.method} {_below_api(request)}' not implemented")
        if auth and "!" in auth and not info.get("allowtoken", 1):
            words = f"URI '{_below_api(request)}' not available with API token, need proper ticket.\n"
            raise PveError(403, f"Permission check failed ({words})")
        upload = request.content_type == "multipart/form-data"
        if not upload and (request.content_length or 0) > _BODY_LIMIT:
            raise PveError(501, "for data too large")
        sent = {**(await _upload_fields(request) if upload else await _params(request)), **match.params}
        check_call(self.rights, auth, info.get("permissions"), sent)
        self._check_route(match.params.get("node"))
        own = self._handlers.get((request.method, match.template))
        request[GENERIC] = match
        try:
            if own is None:
                if request.method != "GET":
                    self.need_quorum()
                return await handler(request)
            call = ApiCall(params=_checked(match, info, sent), auth=auth or "", local_node=self._local_node(request), request=request)
            answer = await own(call)
            if isinstance(answer, Page):
                total = {"total": answer.total} if answer.total else {}
                return web.json_response({"data": answer.data, **total})
            return web.json_response({"data": answer})
        finally:
            if request.method != "GET":
                self.touch()

    async def call_as_root(self, method: str, path: str, given: Mapping[str, Any]) -> Any:
        """
        Make a call as root@pam without HTTP, and return its data.

        Errors: PveError as the API would answer; LookupError for a call that only the base class answers.
        """
        match = self._match(path)
        info = match.methods.get(method) if match else None
        own = self._handlers.get((method, match.template)) if info else None
        if info is None or own is None:
            raise LookupError(f"the call {method} {path}")
        self._check_route(match.params.get("node"))
        call = ApiCall(params=_checked(match, info, {**given, **match.params}), auth=ROOT, local_node=next(iter(self.nodes)))
        answer = await own(call)
        self.touch()
        return answer.data if isinstance(answer, Page) else answer

    def _match(self, path: str) -> Any:
        """The call that a path means. An encoded slash is a slash: pools in pools have no path of their own."""
        match = _schema().match(path)
        before, content, volume = path.partition("/content/")
        if match is None and content and volume:
            match = _schema().match(f"{before}/content/x")
            if match is not None:
                match.params["volume"] = volume
        return match

    def _authenticate(self, request: web.Request, *, world: bool = False) -> str | None:
        """The auth id of a request; None only where no sign-in is needed."""
        header = request.headers.get("Authorization", "")
        ticket = urllib.parse.unquote(request.cookies.get("PVEAuthCookie", ""))
        if header.startswith("PVEAPIToken="):
            auth = self.signin.token_user(header)
        elif ticket and not world:
            auth = self.signin.ticket_user(ticket)
            csrf = request.headers.get("CSRFPreventionToken", "")
            if auth and request.method not in {"GET", "HEAD"} and not self.signin.check_csrf(auth, csrf):
                raise PveError(401, "Permission denied - invalid csrf token")
        elif world:
            return None
        else:
            raise PveError(401, "No ticket")
        if auth is None:
            raise PveError(401, "Authentication failed!")
        return auth

    def _check_route(self, node: str | None) -> None:
        """Every node answers for every other, as long as that one is there."""
        if node is None:
            return
        if node not in self.nodes:
            words = f"hostname lookup '{node}' failed - failed to get address info for: {node}: Temporary failure in name resolution"
            raise failed(words)
        if not self.is_online(node):
            raise PveError(595, "No route to host")


def _checked(match: Any, info: Mapping[str, Any], sent: Mapping[str, Any]) -> dict[str, Any]:
    """
    The parameters of a call as the schema types them.

    Errors: a 400 that names each one which the schema does not allow.
    """
    declared = (info.get("parameters") or {}).get("properties", {})
    # A few parameters of paths are missing in the schema.
    judged = {name: value for name, value in sent.items() if name in declared or name not in match.params}
    values, errors = api_schema.validate(info.get("parameters"), judged)
    if errors:
        raise bad_parameter(errors)
    return {**match.params, **values}


@functools.cache
def _schema() -> Any:
    """The API schema, with its patterns in the form that Python reads: Perl writes `(?^:` before what has its default flags."""
    schema = api_schema.load()

    def mend(part: Any) -> None:
        for key, value in part.items() if isinstance(part, dict) else enumerate(part):
            if key == "pattern" and isinstance(value, str):
                part[key] = re.sub(r"\(\?\^u?:", "(?:", value)
            elif isinstance(value, dict | list):
                mend(value)

    mend(schema.paths)
    return schema


def _below_api(request: web.Request) -> str:
    path = urllib.parse.unquote(request.rel_url.raw_path)
    return "/" + path.split("/", 3)[3].rstrip("/") if path.startswith("/api2/") and path.count("/") > 2 else path


async def _params(request: web.Request) -> dict[str, Any]:
    """
    The parameters in query and body; what is sent empty counts as sent.

    Errors: a 400 for a body that is neither a form nor a JSON object.
    """
    found: dict[str, Any] = dict(request.query)
    body = await request.text()
    if not body:
        return found
    if request.content_type != "application/json":
        return {**found, **dict(urllib.parse.parse_qsl(body, keep_blank_values=True))}
    try:
        sent = json.loads(body)
    except ValueError:
        sent = None
    if not isinstance(sent, dict):
        raise PveError(400, "JSON body is no object")
    return {**found, **sent}


async def _upload_fields(request: web.Request) -> dict[str, Any]:
    """The parameters of an upload: its fields, and its file by name."""
    form = await request.post()
    fields = {name: value.filename if isinstance(value, web.FileField) else str(value) for name, value in form.items()}
    return {**request.query, **fields}


def _is_write(request: web.Request) -> bool:
    return request.method not in {"GET", "HEAD"} and not request.path.endswith("/access/ticket")


def _is_refused_upload(error: PveError, request: web.Request) -> bool:
    """Proxmox VE has not read the file when it refuses one: the answer comes late, and without a body."""
    return error.status == 403 and request.content_type == "multipart/form-data"


def _refusal(error: PveError, request: web.Request) -> web.Response:
    """An error as Proxmox VE sends it: in the reason phrase and, mostly, in the body; the connection ends with it."""
    reason = error.message.splitlines()[0]
    no_ticket = error.status == 401 and not request.path.endswith("/access/ticket")
    if error.status >= 595 or no_ticket or _is_refused_upload(error, request):
        answer = web.Response(status=error.status, reason=reason)
    else:
        text = error.message if error.status == 501 else f"{error.message}\n"
        body = {"data": None, "message": text, **({"errors": error.errors} if error.errors else {})}
        answer = web.json_response(body, status=error.status, reason=reason)
    answer.force_close()
    return answer
