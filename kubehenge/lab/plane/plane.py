"""One plane: started from empty, and stopped, with all that belongs to it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from kubehenge.lab.places import make_directory, write_json
from kubehenge.lab.plane import readiness
from kubehenge.lab.plane.binds import FIXED_PORT, BindKeeper, can_keep, free_ports
from kubehenge.lab.plane.client import Api, ApiError
from kubehenge.lab.plane.deployments import Deployments
from kubehenge.lab.plane.managers import MANAGERS, TYPES_ONLY, Listen, Manager
from kubehenge.lab.plane.manifests import Account, Body, Release, Webhooks
from kubehenge.lab.plane.processes import Processes
from kubehenge.lab.plane.programs import ProgramSet
from kubehenge.lab.plane.server import DESCRIPTION, STOPPED_LAST, ApiServer, PlaneFiles

GUESTS = Account(namespace="plane-system", name="guestsim")
_WITHIN_S = 180
_TOKEN_S = 30 * 24 * 3600
_SIDE_BY_SIDE = 8
_BOUND = "capmox"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A manager of this plane: where it listens, what its release holds."""

    manager: Manager
    listen: Listen
    release: Release
    has_webhooks: bool


class Plane:
    """
    A plane in `directory`, which is its own. `start()` returns once everything is ready; what it starts ends with this process.

    Shape: `on_fixed_port` names the one of those with a fixed port that has its webhooks, on that port; without it all have theirs,
    elsewhere, or capmox where the system does not let us choose. Call start() and stop() from a thread that lasts.
    Errors: PlaneError when it does not become ready, or a process ends meanwhile.
    """

    server: ApiServer
    deployments: Deployments

    def __init__(self, directory: Path, programs: ProgramSet, *, on_fixed_port: str = "") -> None:
        self.files = PlaneFiles(root=directory.expanduser().absolute())
        self._programs = programs
        self._on_fixed_port = on_fixed_port
        self.processes = Processes(self.files.logs)
        self._places: dict[str, _Place] = {}
        self._began = time.monotonic()
        self.timings: dict[str, float] = {}

    @property
    def api(self) -> Api:
        """Its API server, for the administrator."""
        return self.server.api

    # ---- life

    def start(self) -> None:
        """Start everything, from empty."""
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop what was started; its logs stay."""
        self.processes.stop_all(last=STOPPED_LAST)
        if self.processes.keeper:
            self.processes.keeper.close()
            self.processes.keeper = None
        self.files.release()

    def _start(self) -> None:
        self._began = time.monotonic()
        self.files.clear()
        self.server = ApiServer(self.files, self._programs, self.processes)
        self.server.launch()
        self._plan()
        self.server.wait()
        self._note("API server ready")
        with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
            self._install(pool)
            self._note("types served")
            self._run_managers(pool)
            self._note("managers ready")
            self._install_webhooks(pool)
        self._note("webhooks heeded")
        self._run_guests()
        self._note("all ready")
        self.write_description()

    def _note(self, what: str) -> None:
        self.timings[what] = round(time.monotonic() - self._began, 2)

    # ---- parts of the start

    def _plan(self) -> None:
        """Settle where each manager listens."""
        if not self._on_fixed_port and can_keep():
            self.processes.keeper = BindKeeper()
        bound = self._on_fixed_port or _BOUND
        certificates = self._serving_certificates()
        ports = iter(free_ports(2 * len(MANAGERS)))
        for manager in MANAGERS:
            free, health = next(ports), next(ports)
            is_bound = manager.fixed_port and self.processes.keeper is None
            has_webhooks = not is_bound or manager.name == bound
            port = FIXED_PORT if is_bound else free
            webhooks = Webhooks(port=port, ca_bundle=self.server.ca_bundle) if has_webhooks else None
            self._places[manager.name] = _Place(
                manager=manager,
                listen=Listen(webhooks=port, health=health if manager.has_health else 0, certificates=certificates),
                release=Release.of(self._programs.manifest(manager.name), webhooks),
                has_webhooks=has_webhooks,
            )

    def _serving_certificates(self) -> Path:
        folder = self.files.tls / "serving"
        make_directory(folder)
        shutil.copy(self.server.leaf.cert, folder / "tls.crt")
        shutil.copy(self.server.leaf.key, folder / "tls.key")
        return folder

    def _install(self, pool: ThreadPoolExecutor) -> None:
        """Write what must be there before the managers start, and wait until it is in force."""
        releases = [place.release for place in self._places.values()]
        releases += [Release.of(self._programs.manifest(name), None) for name in TYPES_ONLY]
        first = [*_guests_account(), *(one for release in releases for one in release.first)]
        types = [one for release in releases for one in release.types]
        _each(pool, self._create, [one for one in first if one["kind"] == "Namespace"])
        _each(pool, self._create, [*(one for one in first if one["kind"] != "Namespace"), *types])
        self._wait("The types are served", partial(readiness.are_served, self.api, types), "kube-apiserver")
        for one in first:
            if "aggregationRule" in one:
                name = one["metadata"]["name"]
                self._wait(f"{name} has rules", partial(readiness.is_aggregated, self.api, one), "kube-controller-manager")

    def _create(self, body: Body) -> None:
        """Create an object; one that a controller has made meanwhile, such as a namespace's default account, is brought to what it should be."""
        try:
            self.api.create(body)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            self.api.apply(body)

    def _run_managers(self, pool: ThreadPoolExecutor) -> None:
        accounts = {name: place.release.account for name, place in self._places.items() if place.release.account}
        _each(pool, lambda name: self._sign_in(name, accounts[name]), list(accounts))
        for name in self._places:
            self.start_manager(name)
        for name in self._places:
            self.wait_for_manager(name)

    def _sign_in(self, name: str, account: Account) -> None:
        """Write a kubeconfig for a service account."""
        token = self.api.token(account.namespace, account.name, seconds=_TOKEN_S)
        self.server.write_kubeconfig(name, token)

    def start_manager(self, name: str) -> None:
        """Start a manager, signed in as its release's service account."""
        place = self._places[name]
        flags, extra = ([], {}) if place.has_webhooks else place.manager.no_webhooks
        environment = self.server.environment(name, {"KUBECONFIG": str(self.files.kubeconfigs / f"{name}.json"), **_pod(place), **extra})
        # Where those with a fixed port look for their certificate.
        expected = Path(environment["TMPDIR"]) / "k8s-webhook-server" / "serving-certs"
        if not expected.exists():
            expected.parent.mkdir(parents=True, exist_ok=True)
            expected.symlink_to(place.listen.certificates)
        self.processes.start(
            name,
            self._programs.program(name),
            [*place.manager.flags(place.listen), *flags],
            environment=environment,
            argv0="manager",  # a client takes its field manager's name from it, and it is that in the released images
            moved={FIXED_PORT: place.listen.webhooks} if place.manager.fixed_port else {},
        )

    def wait_for_manager(self, name: str) -> None:
        """Wait until a manager serves."""
        self._wait(f"{name} serves", lambda: bool(self.serves(name)), name)

    def serves(self, name: str) -> bool | None:
        """Whether a manager's webhooks are there and it says that it is ready; None when it does not run."""
        if name not in self.processes.pids:
            return None
        place = self._places[name]
        if place.has_webhooks and not readiness.serves_tls(place.listen.webhooks, self.server.authority.cert_path):
            return False
        return not place.listen.health or readiness.is_healthy(place.listen.health)

    def _install_webhooks(self, pool: ThreadPoolExecutor) -> None:
        places = self._places.values()
        _each(pool, self._create, [hook for place in places for hook in place.release.hooks])
        marker = readiness.Marker(self.api)
        marker.place()
        self.deployments = self._deployments()
        self.deployments.install()
        self._wait("The webhooks are heeded", marker.is_heeded, "kube-apiserver")
        self._wait("A bad Cluster is refused", lambda: readiness.refuses_bad_cluster(self.api), "capi-core")

    def _deployments(self) -> Deployments:
        bodies = {name: place.release.deployment for name, place in self._places.items() if place.release.deployment}
        return Deployments(api=self.api, bodies=bodies, start=self.start_manager, stop=self.processes.stop, serves=self.serves)

    def _run_guests(self) -> None:
        self._sign_in("guestsim", GUESTS)
        environment = self.server.environment("guestsim", {"KUBECONFIG": str(self.files.kubeconfigs / "guestsim.json")})
        self.processes.start(
            "guestsim", self._programs.program("guestsim"), [f"--debug-port={free_ports(1)[0]}"], environment=environment, moved={}
        )
        log = self.files.logs / "guestsim.log"
        self._wait("guestsim is ready", lambda: " ready\n" in log.read_text(encoding="utf-8"), "guestsim")

    def _wait(self, what: str, look: Callable[[], bool], who: str) -> None:
        self.processes.wait(what, look, within_s=_WITHIN_S, who=who)

    # ---- what others need to know

    def write_description(self) -> None:
        """Write `plane.json`, which is there while the plane runs."""
        write_json(self.files.root / DESCRIPTION, self.describe())

    def describe(self) -> dict[str, Any]:
        """Return what `plane.json` says."""
        accounts = {name: place.release.account for name, place in self._places.items()}
        return {
            "pid": os.getpid(),
            "url": self.server.url,
            "ca_file": str(self.server.authority.cert_path),
            "kubeconfig": str(self.server.admin_kubeconfig),
            "kubeconfigs": str(self.files.kubeconfigs),
            "logs": str(self.files.logs),
            "accounts": {name: account.username for name, account in accounts.items() if account} | {"guestsim": GUESTS.username},
            "webhooks": {name: place.listen.webhooks for name, place in self._places.items() if place.has_webhooks},
            "timings": self.timings,
            "processes": self.processes.pids,
            "built_from": self._programs.about,
        }


def _each(pool: ThreadPoolExecutor, work: Callable[[Any], object], items: Iterable[Any]) -> None:
    """Do it for each, side by side; the first error is raised."""
    for _ in pool.map(work, items):
        pass


def _pod(place: _Place) -> dict[str, str]:
    """Return what a release's Pod tells its manager of itself."""
    deployment = place.release.deployment
    if deployment is None:
        return {}
    metadata = deployment["metadata"]
    return {"POD_NAMESPACE": metadata["namespace"], "POD_NAME": metadata["name"], "POD_UID": f"plane-{metadata['name']}"}


def _guests_account() -> list[Body]:
    """Return the account of the guests: they see what a person with a console would, and the clusters' own keys."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "plane-guestsim"}
    rules = [
        {"apiGroups": ["cluster.x-k8s.io"], "resources": ["clusters", "machines"], "verbs": ["get", "list"]},
        {"apiGroups": ["infrastructure.cluster.x-k8s.io"], "resources": ["proxmoxmachines"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]},
    ]
    subject = {"kind": "ServiceAccount", "namespace": GUESTS.namespace, "name": GUESTS.name}
    rbac = "rbac.authorization.k8s.io/v1"
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": GUESTS.namespace}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": GUESTS.namespace, "name": GUESTS.name}},
        {"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": role["name"]}, "rules": rules},
        {
            "apiVersion": rbac,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": role["name"]},
            "roleRef": role,
            "subjects": [subject],
        },
    ]
