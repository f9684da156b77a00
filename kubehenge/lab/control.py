"""The lab's control: a plain HTTP server on loopback by which scripts and tests switch faults, nodes and speed, and look inside."""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from kubehenge.lab.calls import CallLog
from kubehenge.lab.faults import Faults, FaultTarget, parse_rule
from kubehenge.lab.proxmox import inspect
from kubehenge.lab.proxmox.errors import PveError, spoken
from kubehenge.lab.proxmox.sim import ProxmoxSim
from kubehenge.lab.proxmox.tasks import Ending

_HOST = "127.0.0.1"
_PAGE = 1000


class Control:
    """
    The control server of one lab.

    Shape: JSON in and out; each request carries `Authorization: Bearer <key>`. `speed_setters` are called with a new speed beside the
    simulated Proxmox VE, `states` add their part to GET /state under their name.
    Errors: 400 with `error` for a request that cannot be meant, 401 for a wrong key, 404 for what is not there.
    """

    def __init__(
        self,
        *,
        key: str,
        faults: Faults,
        calls: CallLog,
        proxmox: ProxmoxSim,
        speed_setters: Sequence[Callable[[float], None]] = (),
        states: Mapping[str, Callable[[], Any]] | None = None,
    ) -> None:
        if not key:
            raise ValueError("the control needs a key")
        self._key = key.encode()
        self._faults = faults
        self._calls = calls
        self._proxmox = proxmox
        self._speed_setters = (proxmox.set_speed, *speed_setters)
        self._states = states or {}
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def start(self, port: int = 0) -> str:
        """Listen, and return the base URL; port 0 takes a free one."""
        self._runner = web.AppRunner(self.app(), access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        await web.TCPSite(self._runner, _HOST, port).start()
        self.url = f"http://{_HOST}:{self._runner.addresses[0][1]}"
        return self.url

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def app(self) -> web.Application:
        """The application, without a listener."""
        app = web.Application(middlewares=[self._guard])
        app.add_routes(
            [
                web.get("/faults", self._list_faults),
                web.post("/faults", self._add_fault),
                web.delete("/faults", self._clear_faults),
                web.delete("/faults/{id}", self._remove_fault),
                web.get("/calls", self._list_calls),
                web.get("/state", self._get_state),
                web.post("/nodes/{node}", self._set_node),
                web.post("/quorum", self._set_quorum),
                web.get("/speed", self._get_speed),
                web.post("/speed", self._set_speed),
                web.post("/proxmox/call", self._call_proxmox),
                web.post("/proxmox/guests/{vmid}", self._change_guest),
                web.delete("/proxmox/guests/{vmid}", self._drop_guest),
                web.post("/proxmox/endings", self._add_ending),
                web.post("/proxmox/sign-out", self._sign_out),
            ]
        )
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), self._key):
            return _error(401, "the control key is missing or wrong; it stands in lab.json")
        try:
            return await handler(request)
        except web.HTTPException as exc:
            return _error(exc.status, exc.reason)
        except (ValueError, TypeError) as exc:
            return _error(400, str(exc))
        except LookupError as exc:
            return _error(404, f"{exc.args[0] if exc.args else exc} is not there")

    # ---- faults and calls

    async def _list_faults(self, _request: web.Request) -> web.Response:
        return web.json_response({"faults": [rule.to_json() for rule in self._faults.list()]})

    async def _add_fault(self, request: web.Request) -> web.Response:
        return web.json_response(self._faults.add(parse_rule(await _body(request))).to_json(), status=201)

    async def _clear_faults(self, _request: web.Request) -> web.Response:
        self._faults.clear()
        return web.json_response({})

    async def _remove_fault(self, request: web.Request) -> web.Response:
        if not self._faults.remove(request.match_info["id"]):
            raise LookupError(f"fault {request.match_info['id']}")
        return web.json_response({})

    async def _list_calls(self, request: web.Request) -> web.Response:
        """The calls after `since`, oldest first, a thousand at a time; `last_n` is the newest there is."""
        name = request.query.get("target")
        found = self._calls.since(int(request.query.get("since", "0")), FaultTarget(name) if name else None)
        counts = [{"target": target.value, "method": method, "count": count} for (target, method), count in self._calls.counts.items()]
        writes = {target.value: count for target, count in self._calls.writes.items()}
        shown = [call.to_json() for call in found[:_PAGE]]
        return web.json_response({"last_n": self._calls.last_n, "counts": counts, "writes": writes, "calls": shown})

    # ---- the world

    async def _get_state(self, _request: web.Request) -> web.Response:
        parts = {name: read() for name, read in self._states.items()}
        return web.json_response({"proxmox": inspect.state_of(self._proxmox.server), **parts})

    async def _set_node(self, request: web.Request) -> web.Response:
        body = await _body(request)
        node = request.match_info["node"]
        if node not in self._proxmox.server.nodes:
            raise LookupError(f"node {node}")
        await self._proxmox.set_node(node, online=_flag(body, "online"), crash=bool(body.get("crash", False)))
        return web.json_response({"node": node, "online": self._proxmox.server.is_online(node)})

    async def _set_quorum(self, request: web.Request) -> web.Response:
        self._proxmox.set_quorum(quorate=_flag(await _body(request), "quorate"))
        return web.json_response({"quorate": self._proxmox.server.has_quorum()})

    async def _get_speed(self, _request: web.Request) -> web.Response:
        return web.json_response({"speed": self._proxmox.clock.speed})

    async def _set_speed(self, request: web.Request) -> web.Response:
        speed = (await _body(request)).get("speed")
        if speed == "instant":
            speed = 0
        if isinstance(speed, bool) or not isinstance(speed, int | float):
            raise TypeError('speed: a number, or "instant"')
        for set_speed in self._speed_setters:
            set_speed(float(speed))
        return await self._get_speed(request)

    # ---- Proxmox VE by hand

    async def _call_proxmox(self, request: web.Request) -> web.Response:
        """A call of the Proxmox VE API as root@pam: {"method", "path", "params"}; what a person at the console could do."""
        body = await _body(request)
        try:
            data = await self._proxmox.server.call_as_root(str(body["method"]).upper(), str(body["path"]), body.get("params") or {})
        except PveError as exc:
            return _error(400, spoken(exc))
        return web.json_response({"data": data})

    async def _change_guest(self, request: web.Request) -> web.Response:
        return await self._with_guest(request, lambda vmid, body: inspect.change_guest(self._proxmox.server, vmid, body))

    async def _drop_guest(self, request: web.Request) -> web.Response:
        return await self._with_guest(request, lambda vmid, _body: inspect.drop_guest(self._proxmox.server, vmid))

    async def _with_guest(self, request: web.Request, act: Callable[[int, Mapping[str, Any]], None]) -> web.Response:
        act(int(request.match_info["vmid"]), await _body(request))
        return web.json_response({})

    async def _add_ending(self, request: web.Request) -> web.Response:
        """How the next tasks of a type end: {"type": "qmclone", "exitstatus": "WARNINGS: 1", "times": 1}."""
        body = await _body(request)
        ending = Ending(task_type=str(body["type"]), exitstatus=str(body["exitstatus"]), times=int(body.get("times", 1)))
        self._proxmox.server.endings.append(ending)
        return web.json_response({}, status=201)

    async def _sign_out(self, _request: web.Request) -> web.Response:
        """Make every ticket invalid."""
        self._proxmox.server.signin.end_all_sessions()
        self._proxmox.server.touch()
        return web.json_response({})


async def _body(request: web.Request) -> dict[str, Any]:
    text = await request.text()
    if not text:
        return {}
    try:
        body = json.loads(text)
    except ValueError as exc:
        raise ValueError(f"the body is no JSON ({exc})") from exc
    if not isinstance(body, dict):
        raise TypeError("the body is no JSON object")
    return body


def _flag(body: Mapping[str, Any], name: str) -> bool:
    if not isinstance(body.get(name), bool):
        raise TypeError(f"{name}: true or false")
    return bool(body[name])


def _error(status: int, text: str) -> web.Response:
    return web.json_response({"error": text}, status=status)
