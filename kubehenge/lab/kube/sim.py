"""The simulated management cluster as a whole: the API server over HTTPS, its state file, its collector, and the model behind it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path

import structlog
from aiohttp import web

from kubehenge.lab.calls import CallLog, call_log_middleware
from kubehenge.lab.faults import Faults, FaultTarget, fault_middleware
from kubehenge.lab.kube import auth, kinds, snapshot
from kubehenge.lab.kube.admission import Admission
from kubehenge.lab.kube.capi.controller import Controller
from kubehenge.lab.kube.capi.machine import GuestRuns
from kubehenge.lab.kube.capi.seed import seed_classes, seed_providers
from kubehenge.lab.kube.gc import Collector
from kubehenge.lab.kube.registry import Registry, WriteOptions
from kubehenge.lab.kube.rest import LARGEST_BODY, Api
from kubehenge.lab.kube.storage import Store
from kubehenge.lab.pki import CertificateAuthority

STATE_FILE = "kube.jsonl"
NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease", "kubehenge-system", "clusters")
_SAVE_EVERY_S = 1.0
_SAVE_SHARE = 10  # saving takes at most a tenth of the time, however large the state

log = structlog.get_logger()


class KubeSim:
    """
    A management cluster in `directory`, on 127.0.0.1.

    Shape: `url` is known once started; with `port` 0 the system picks one. `model` False leaves Cluster API out, for benchmarks;
    `classes` False begins without ClusterClasses, for a Kubehenge that brings its own.
    `guest_runs` tells by VM id whether its kubelet can report; without it nodes never fall silent.
    Units: `speed` is simulated seconds per second.
    Errors: OSError when the directory cannot be written, ValueError when its state file cannot be read.
    """

    def __init__(
        self,
        directory: Path,
        tls: CertificateAuthority,
        faults: Faults,
        calls: CallLog,
        *,
        speed: float = 1.0,
        proxmox_urls: Sequence[str] = (),
        workload_pool: str = "kubehenge",
        port: int = 0,
        model: bool = True,
        classes: bool = True,
        guest_runs: GuestRuns | None = None,
    ) -> None:
        self._path = directory / STATE_FILE
        self._tls = tls
        self._faults = faults
        self._calls = calls
        self._port = port
        self._classes = classes
        saved = snapshot.load(self._path)
        self._store = Store()
        if saved is not None:
            self._store.load(saved.version, saved.bodies)
        self._tokens = auth.Tokens(saved.memory.get("tokens") if saved else None)
        self.registry = Registry(self._store, Admission(self._store))
        self._saved_version = saved.version if saved else 0
        self._collector: Collector | None = None
        self._controller: Controller | None = None
        if model:
            self._controller = Controller(
                self.registry, speed=speed, proxmox_urls=proxmox_urls, workload_pool=workload_pool, guest_runs=guest_runs
            )
        self._api = Api(self.registry, self._tokens)
        self._runner: web.AppRunner | None = None
        self._saving: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    @property
    def url(self) -> str:
        """The address of the API server; empty before the start."""
        return f"https://127.0.0.1:{self._port}" if self._runner is not None else ""

    def token(self, account: str = auth.KUBEHENGE) -> str:
        """
        The bearer token of `admin` or of the service account `kubehenge`.

        Errors: ValueError for another account.
        """
        return self._tokens.of(account)

    def kubeconfig(self, account: str = auth.ADMIN) -> str:
        """
        A kubeconfig of an account as YAML.

        Errors: ValueError for an account that does not exist.
        """
        return auth.kubeconfig(url=self.url, ca_pem=self._tls.pem, user=account, token=self._tokens.of(account))

    def set_speed(self, speed: float) -> None:
        """Let the model live at another speed from now on."""
        if self._controller is not None:
            self._controller.pace.speed = speed

    async def start(self) -> None:
        """Serve, collect, save; and carry out what Cluster API would."""
        self._seed()
        self._collector = Collector(self.registry)
        self._collector.start()
        middlewares = [
            call_log_middleware(self._calls, FaultTarget.KUBE),
            fault_middleware(self._faults, FaultTarget.KUBE),
            self._api.guard,
        ]
        app = web.Application(middlewares=middlewares, client_max_size=LARGEST_BODY)
        app.router.add_route("*", "/{path:.*}", self._api.handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=5.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, ssl_context=self._tls.leaf("kube").server_context())
        await site.start()
        self._port = self._runner.addresses[0][1]
        self._stopping.clear()
        self._saving = asyncio.create_task(self._save_often())
        if self._controller is not None:
            await self._controller.start()

    async def stop(self) -> None:
        """Stop everything and save."""
        if self._controller is not None:
            await self._controller.stop()
        if self._runner is not None:
            self._api.watches.end()
            await self._runner.cleanup()
            self._runner = None
        if self._collector is not None:
            self._collector.stop()
            self._collector = None
        if self._saving is not None:
            self._stopping.set()
            await self._saving  # not cancelled: two must never write the file at once
            self._saving = None
        await self._save()

    def _seed(self) -> None:
        options = WriteOptions(manager="kube-apiserver")
        for name in NAMESPACES:
            if self._store.find(kinds.NAMESPACE, "", name) is None:
                self.registry.create(kinds.NAMESPACE, "", {"metadata": {"name": name}}, options)
        seed_providers(self.registry)
        if self._classes:
            seed_classes(self.registry)
        self._store.begin()

    async def _save_often(self) -> None:
        loop = asyncio.get_running_loop()
        pause = _SAVE_EVERY_S
        while not self._stopping.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)
            begun = loop.time()
            try:
                await self._save()
            except OSError as exc:  # a full disk: what is in memory goes on, and the next second tries again
                log.warning("kube_state_not_saved", path=str(self._path), error=str(exc))
            pause = max(_SAVE_EVERY_S, (loop.time() - begun) * _SAVE_SHARE)

    async def _save(self) -> None:
        version = self._store.version
        if version == self._saved_version:
            return
        memory, bodies = {"tokens": self._tokens.saved()}, self._store.bodies()
        await asyncio.to_thread(snapshot.save, self._path, version=version, memory=memory, bodies=bodies)
        self._saved_version = version
