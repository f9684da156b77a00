"""The simulated Proxmox VE cluster of a lab: its listeners, its seed, and its state over restarts."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog
from aiohttp import web

from kubehenge.lab.calls import CallLog
from kubehenge.lab.faults import Faults
from kubehenge.lab.pki import CertificateAuthority
from kubehenge.lab.proxmox import state
from kubehenge.lab.proxmox.clock import SimClock
from kubehenge.lab.proxmox.nodes import NodeSize
from kubehenge.lab.proxmox.server import ProxmoxServer

log = structlog.get_logger()

DEFAULT_NODES = ("pve1", "pve2", "pve3")
_HOST = "127.0.0.1"
_KEEPALIVE_S = 5  # Proxmox VE closes an idle connection after this
_SAVE_EVERY_S = 0.5


class ProxmoxSim:
    """
    Several nodes' APIs on loopback ports over one state.

    Shape: `directory` keeps `proxmox.json`, None keeps nothing; `urls` are by node, good between start() and stop();
    `server` holds the state for whoever wants to look or to meddle.
    Units: `speed` in simulated seconds per real one, 0 is instant.
    Errors: OSError when a port that an earlier run used is taken, ValueError when the saved state cannot be read.
    """

    def __init__(
        self,
        *,
        ca: CertificateAuthority,
        directory: Path | None = None,
        nodes: Sequence[str] = DEFAULT_NODES,
        size: NodeSize | None = None,
        speed: float = 60,
        faults: Faults | None = None,
        calls: CallLog | None = None,
        ports: Mapping[str, int] | None = None,
    ) -> None:
        self.ca = ca
        self._path = directory / "proxmox.json" if directory else None
        saved = state.read(self._path) if self._path else None
        self.clock = SimClock(speed, started_at=saved["now"] if saved else None)
        self.faults = faults or Faults()
        self.calls = calls or CallLog()
        self.server = ProxmoxServer(nodes=nodes, size=size or NodeSize(), clock=self.clock, faults=self.faults, calls=self.calls)
        self.is_new = saved is None
        self._saved_state = saved
        self._ports: dict[str, int] = dict(ports or {})
        self._runner: web.AppRunner | None = None
        self._sites: dict[str, web.SockSite] = {}
        self._saver: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()
        self._saved_changes = -1

    @property
    def urls(self) -> dict[str, str]:
        """The base URL of each node's API, without a path."""
        return {node: f"https://{_HOST}:{port}" for node, port in self._ports.items()}

    # ---- life

    async def start(self) -> None:
        """Load what was saved, and listen."""
        if self._saved_state is not None:
            self._ports = {**self._saved_state.get("ports", {}), **self._ports}
            state.load(self.server, self._saved_state)
            self._saved_state = None
        self._runner = web.AppRunner(self.server.build_app(), access_log=None, keepalive_timeout=_KEEPALIVE_S, shutdown_timeout=1)
        await self._runner.setup()
        try:
            for node in self.server.nodes:
                self.server.fingerprints[node] = self.ca.leaf(node).fingerprint
                await self._listen(node)
        except OSError:
            await self._stop_listening()
            raise
        if self._path is not None:
            self._saver = asyncio.ensure_future(self._save_now_and_then())

    async def stop(self) -> None:
        """Stop listening, let running tasks come to their end, and save."""
        await self._stop_listening()
        await self.server.finish_tasks()
        self.server.is_stopping = True
        await self.server.stop_background()
        if self._saver is not None:
            self._ending.set()  # not cancelled: a file may be half written
            await self._saver
            self._saver = None
        await self.save()

    async def _stop_listening(self) -> None:
        for node in list(self._sites):
            await self._close(node)
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _listen(self, node: str) -> None:
        """Serve a node's API on the port it had before, on a free one the first time; not while it is offline."""
        if self._runner is None or (not self.server.is_online(node) and node in self._ports):
            return
        port = self._ports.get(node, 0)
        try:
            listener = socket.create_server((_HOST, port))
        except OSError as exc:
            text = f"the API of {node} cannot listen on {_HOST}:{port}: {exc.strerror}; free the port and start again"
            raise OSError(exc.errno, text) from exc
        self._ports[node] = listener.getsockname()[1]
        self.server.ports[self._ports[node]] = node
        self._sites[node] = web.SockSite(self._runner, listener, ssl_context=self.ca.leaf(node).server_context())
        await self._sites[node].start()

    async def _close(self, node: str) -> None:
        """Stop serving a node's API; who is connected to it loses the connection."""
        site = self._sites.pop(node, None)
        if site is None or self._runner is None or self._runner.server is None:
            return
        await site.stop()
        for connection in self._runner.server.connections:
            address = connection.transport.get_extra_info("sockname") if connection.transport else None
            if connection.transport and address and address[1] == self._ports[node]:
                connection.transport.abort()  # a graceful end of TLS would wait for the client
        await asyncio.sleep(0)  # the sockets are closed by then

    # ---- scenarios

    async def set_node(self, node: str, *, online: bool, crash: bool = False) -> None:
        """
        Take a node off the network or bring it back.

        Shape: its guests run on behind the lost network; with `crash` they stop, and those with `onboot` start when it returns.
        Errors: KeyError for a node that is not there.
        """
        server = self.server
        was_online = server.is_online(node)
        server.nodes[node]["online"] = online
        server.touch()
        if not online:
            if crash:
                server.nodes[node]["crashed"] = True
                for guest in [guest for guest in server.vms if guest.node == node and guest.status == "running"]:
                    server.power_off(guest)
            await self._close(node)
        elif not was_online:
            if server.nodes[node].pop("crashed", False):
                for guest in [guest for guest in server.vms if guest.node == node and str(guest.config.get("onboot", 0)) == "1"]:
                    server.power_on(guest)
            await self._listen(node)

    def set_quorum(self, *, quorate: bool) -> None:
        """Take the cluster's quorum away, or give it back where enough nodes are online."""
        self.server.quorate = quorate
        self.server.touch()

    def set_speed(self, speed: float) -> None:
        """Let time pass at another speed."""
        self.clock.set_speed(speed)

    # ---- state

    async def save(self) -> None:
        """Write the state, if there is a directory for it and something has changed."""
        if self._path is None or self.server.changes == self._saved_changes:
            return
        changes = self.server.changes
        snapshot = {**state.dump(self.server), "ports": dict(self._ports)}
        await asyncio.to_thread(state.write, self._path, snapshot)
        self._saved_changes = changes

    async def _save_now_and_then(self) -> None:
        """Save within a second of a change; a large state less often, so that saving never takes most of the time."""
        while not self._ending.is_set():
            began = time.monotonic()
            try:
                await self.save()
            except OSError as exc:
                log.error("lab_state_not_saved", path=str(self._path), reason=str(exc))  # noqa: TRY400 - the reason says it all
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), max(_SAVE_EVERY_S, 5 * (time.monotonic() - began)))
