"""The lab as one thing: simulated Proxmox VE and management cluster, repository and control, in one directory and one process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shlex
import shutil
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

import kubehenge
from kubehenge.errors import UsageError
from kubehenge.lab.calls import CallLog
from kubehenge.lab.control import Control
from kubehenge.lab.description import Description
from kubehenge.lab.faults import Faults
from kubehenge.lab.git_host import BRANCH, Editor, GitHttp, install_hook, make_repository, now
from kubehenge.lab.kube import auth, kinds
from kubehenge.lab.kube.sim import KubeSim
from kubehenge.lab.pki import CertificateAuthority, Leaf
from kubehenge.lab.places import REPOSITORY, SOURCE, Lock, Places, claim, make_directory, write_json, write_private
from kubehenge.lab.proxmox.seed import LabProxmox, LabSignIn, seed
from kubehenge.lab.proxmox.sim import ProxmoxSim
from kubehenge.lab.story import Story

HOST = "127.0.0.1"
_FORMAT = 1
_LARGEST_PUSH = 256 * 1024 * 1024
_POLL_S = 2.0
_STEPS = ("proxmox", "kube", "git", "secrets", "state")
"""What a start that was broken off leaves, and the next one makes anew."""


def find_example() -> Path | None:
    """Return the folder `gitops` with the example fleet: in the installed package, or beside it in a working tree."""
    package = Path(kubehenge.__file__).parent
    return next((folder for folder in (package / "gitops", package.parent / "gitops") if folder.is_dir()), None)


@dataclass(slots=True)
class _Memory:
    """What the lab remembers in `site.json`."""

    ports: dict[str, int] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    speed: float = 60.0
    story_told: bool = False

    @classmethod
    def read(cls, path: Path) -> _Memory | None:
        if not path.exists():
            return None
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
            if value["format"] != _FORMAT:
                raise UsageError(f"{path} was written by another version of the lab. Remove {path.parent} to begin a new one.")
            return cls(ports=value["ports"], secrets=value["secrets"], speed=value["speed"], story_told=value["story_told"])
        except (ValueError, KeyError, TypeError):
            raise UsageError(f"{path} cannot be read. Remove {path.parent} to begin a new lab.") from None

    def write(self, path: Path) -> None:
        kept = {"ports": self.ports, "secrets": self.secrets, "speed": self.speed, "story_told": self.story_told}
        write_json(path, {"format": _FORMAT, **kept})


class LabSite:
    """
    One lab. `start()` and `stop()` run in the event loop that it lives in; everything else is good between them.

    Shape: `proxmox`, `kube`, `faults` and `calls` are there for tests to look at and to meddle with; `gitops` fills a new repository
    (None: an empty one). With `story`, a new lab pushes one upgrade once its clusters run.
    Units: `speed` in simulated seconds per real one, 0 is instant; None takes the speed that the lab had, 60 for a new one.
    Errors: UsageError, in words: the directory is in use, holds something else, or cannot be read.
    """

    proxmox: ProxmoxSim
    kube: KubeSim
    credentials: LabProxmox

    def __init__(self, directory: Path, *, speed: float | None = None, gitops: Path | None = None, story: bool = False) -> None:
        self.places = Places.of(directory)
        self.faults = Faults()
        self.calls = CallLog()
        self._speed = speed
        self._gitops = gitops
        self._has_story = story
        self._memory = _Memory()
        self._lock: Lock | None = None
        self._runner: web.AppRunner | None = None
        self._control: Control | None = None
        self._story: asyncio.Task[None] | None = None
        self._page_certificate: Leaf | None = None

    # ---- life

    async def start(self) -> None:
        """Begin a new lab in the directory, or go on with the one that is there."""
        self._take_directory()
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    def _take_directory(self) -> None:
        root = self.places.root
        claim(self.places)
        lock = Lock(self.places.lock)
        if not lock.take():
            lock.release()
            raise UsageError(f"A lab runs in {root} already. Stop it with `kubehenge lab down --dir {root}`, or choose another directory.")
        self._lock = lock

    async def _start(self) -> None:
        places = self.places
        remembered = _Memory.read(places.site)
        if remembered is None:
            for name in _STEPS:
                shutil.rmtree(places.root / name, ignore_errors=True)
        self._memory = memory = remembered or _Memory(secrets={name: secrets.token_urlsafe(24) for name in ("git", "control", "webhook")})
        memory.speed = memory.speed if self._speed is None else self._speed
        for folder in (places.tls, places.proxmox, places.kube, places.git, places.secrets, places.state, places.logs):
            make_directory(folder)
        ca = CertificateAuthority(places.tls)
        self._page_certificate = ca.leaf("page")
        await self._start_proxmox(ca)
        await self._start_kube(ca)
        await self._start_git(ca)
        await self._start_control()
        memory.ports.setdefault("page", _free_port())
        self._keep_ports()
        self._write_files()
        await self.proxmox.save()
        memory.write(places.site)
        if self._has_story and not memory.story_told:
            editor = Editor(places.repository, places.git)
            self._story = asyncio.create_task(Story(editor=editor, clusters_run=self._clusters_run, done=self._note_story).tell())

    async def _start_proxmox(self, ca: CertificateAuthority) -> None:
        ports = {name.removeprefix("proxmox-"): port for name, port in self._memory.ports.items() if name.startswith("proxmox-")}
        self.proxmox = ProxmoxSim(
            ca=ca, directory=self.places.proxmox, speed=self._memory.speed, faults=self.faults, calls=self.calls, ports=ports
        )
        await _listening(self.proxmox.start())
        self.credentials = seed(self.proxmox, self.places.proxmox)

    async def _start_kube(self, ca: CertificateAuthority) -> None:
        self.kube = KubeSim(
            self.places.kube,
            ca,
            self.faults,
            self.calls,
            speed=self._memory.speed,
            proxmox_urls=tuple(self.proxmox.urls.values()),
            port=self._memory.ports.get("kube", 0),
            classes=False,
        )
        await _listening(self.kube.start())

    async def _start_git(self, ca: CertificateAuthority) -> None:
        await asyncio.to_thread(make_repository, self.places, self._gitops, now=now())
        app = web.Application(client_max_size=_LARGEST_PUSH)
        GitHttp(self.places.repository, self._memory.secrets["git"]).add_routes(app)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=2.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, HOST, self._memory.ports.get("git", 0), ssl_context=ca.leaf("git").server_context())
        await _listening(site.start())
        self._memory.ports["git"] = self._runner.addresses[0][1]

    async def _start_control(self) -> None:
        self._control = Control(
            key=self._memory.secrets["control"],
            faults=self.faults,
            calls=self.calls,
            proxmox=self.proxmox,
            speed_setters=(self.kube.set_speed, self._note_speed),
            states={"lab": self.status},
        )
        await _listening(self._control.start(self._memory.ports.get("control", 0)))
        self._memory.ports["control"] = _port_of(self._control.url)

    def _keep_ports(self) -> None:
        ports = self._memory.ports
        ports.update({f"proxmox-{node}": _port_of(url) for node, url in self.proxmox.urls.items()})
        ports["kube"] = _port_of(self.kube.url)

    async def stop(self) -> None:
        """Stop everything, and save it."""
        if self._story is not None:
            self._story.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._story
            self._story = None
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        if self._control is not None:
            await self._control.stop()
            self._control = None
        for name in ("kube", "proxmox"):
            simulator = self.__dict__.pop(name, None)
            if simulator is not None:
                await simulator.stop()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # ---- what others need to know

    @property
    def page_url(self) -> str:
        """The address that Kubehenge's page has."""
        return f"https://{HOST}:{self._memory.ports['page']}"

    @property
    def git_url(self) -> str:
        """The repository's address over https; the token is the password, whatever the user's name."""
        return f"https://{HOST}:{self._memory.ports['git']}/{REPOSITORY}"

    @property
    def ca_file(self) -> Path:
        """The certificate authority of every server of the lab."""
        return self.proxmox.ca.cert_path

    def _secret_file(self, name: str) -> Path:
        return self.places.secrets / name

    def process_settings(self) -> dict[str, str]:
        """Return the variables of a `kubehenge serve` that works with this lab; secrets stand in the files that they name."""
        assert self._page_certificate is not None  # noqa: S101 - between start and stop
        given = {
            "STATE_DIR": self.places.state,
            "PROXMOX_ENDPOINTS": ",".join(self.proxmox.urls.values()),
            "PROXMOX_CA_FILE": self.ca_file,
            "PROXMOX_TOKEN_ID": self.credentials.engine.id,
            "PROXMOX_TOKEN_SECRET_FILE": self._secret_file("engine-token"),
            "CAPMOX_TOKEN_ID": self.credentials.capmox.id,
            "CAPMOX_TOKEN_SECRET_FILE": self._secret_file("capmox-token"),
            "KUBECONFIG": self._secret_file("kubeconfig"),
            "WEBHOOK_SECRETS_FILE": self._secret_file("webhooks"),
            "LISTEN_ADDRESS": HOST,
            "LISTEN_PORT": self._memory.ports["page"],
            "PUBLIC_URL": self.page_url,
            "TLS_CERT_FILE": self._page_certificate.cert,
            "TLS_KEY_FILE": self._page_certificate.key,
            # The lab lives fast, and only for us: nobody else is kept waiting by looking often.
            "FAST_POLL_S": _POLL_S,
            "BULK_POLL_S": _POLL_S,
            "GIT_POLL_S": 5 * _POLL_S,
            "PROXMOX_REQUESTS_PER_S": 200,
            "KUBE_REQUESTS_PER_S": 200,
        }
        return {f"KUBEHENGE_{name}": str(value) for name, value in given.items()}

    def source_credentials(self) -> dict[str, str]:
        """Return the credentials of the lab's source as a source's row keeps them."""
        return {"token_file": str(self._secret_file("git-token")), "ca_file": str(self.ca_file)}

    def describe(self) -> Description:
        """Return what `lab.json` says."""
        credentials = self.credentials
        return Description(
            {
                "format": _FORMAT,
                "pid": os.getpid(),
                "directory": str(self.places.root),
                "speed": self._memory.speed,
                "page": {"url": self.page_url},
                "ca_file": str(self.ca_file),
                "sign_ins": {"administrator": _sign_in(credentials.administrator), "viewer": _sign_in(credentials.viewer)},
                "git": {
                    "source": SOURCE,
                    "url": self.git_url,
                    "path": str(self.places.repository),
                    "branch": BRANCH,
                    "token_file": str(self._secret_file("git-token")),
                },
                "proxmox": {
                    "endpoints": dict(self.proxmox.urls),
                    "engine": {"token_id": credentials.engine.id, "token_file": str(self._secret_file("engine-token"))},
                    "capmox": {"token_id": credentials.capmox.id, "token_file": str(self._secret_file("capmox-token"))},
                },
                "kube": {
                    "url": self.kube.url,
                    "kubeconfig": str(self._secret_file("kubeconfig")),
                    "admin_kubeconfig": str(self._secret_file("admin-kubeconfig")),
                },
                "control": {"url": self._control.url if self._control else "", "key": self._memory.secrets["control"]},
                "settings_file": str(self.places.settings),
            }
        )

    def _write_files(self) -> None:
        kept = self._memory.secrets
        contents = {
            "engine-token": self.credentials.engine.value.get_secret_value(),
            "capmox-token": self.credentials.capmox.value.get_secret_value(),
            "git-token": kept["git"],
            "webhooks": f"{SOURCE} {kept['webhook']}",
            "kubeconfig": self.kube.kubeconfig(auth.KUBEHENGE),
            "admin-kubeconfig": self.kube.kubeconfig(auth.ADMIN),
        }
        for name, content in contents.items():
            write_private(self._secret_file(name), f"{content}\n")
        write_private(self.places.settings, "".join(f"{name}={shlex.quote(value)}\n" for name, value in self.process_settings().items()))
        install_hook(self.places, page_url=self.page_url, clone_url=self.git_url, secret=kept["webhook"])
        write_json(self.places.description, self.describe().value)

    # ---- what is going on

    def status(self) -> dict[str, Any]:
        """Summarise the lab: nodes, speed, clusters with their machines, faults, and how many calls there were."""
        return {
            "pid": os.getpid(),
            "speed": self._memory.speed,
            "quorate": self.proxmox.server.has_quorum(),
            "nodes": {node: {"online": self.proxmox.server.is_online(node)} for node in self.proxmox.server.nodes},
            "clusters": self._clusters(),
            "vms": sum(not vm.template for vm in self.proxmox.server.vms),
            "faults": len(self.faults.list()),
            "calls": self.calls.last_n,
        }

    def _clusters(self) -> list[dict[str, Any]]:
        store = self.kube.registry.store
        machines = [record.obj() for record in store.scan(kinds.MACHINE)]
        return [_summary(record.obj(), machines) for record in store.scan(kinds.CLUSTER)]

    # ---- the story

    def _clusters_run(self) -> bool:
        """Whether every cluster of a new repository is available."""
        wanted = len(list((self._gitops / "clusters").glob("*.yaml"))) if self._gitops else 0
        found = self._clusters()
        return len(found) >= wanted and all(cluster["available"] and not cluster["deleting"] for cluster in found)

    def _note_speed(self, speed: float) -> None:
        self._memory.speed = speed
        self._memory.write(self.places.site)

    def _note_story(self) -> None:
        self._memory.story_told = True
        self._memory.write(self.places.site)


async def _listening(start: Any) -> None:
    """Start a server; a port that is taken is said in words."""
    try:
        await start
    except OSError as error:
        raise UsageError(
            f"The lab cannot listen: {error.strerror or error}. It keeps its ports, so free that one and start it again."
        ) from None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


def _sign_in(person: LabSignIn) -> dict[str, str]:
    user, _, realm = person.userid.partition("@")
    return {"username": user, "realm": realm, "password": person.password.get_secret_value()}


def _summary(cluster: Mapping[str, Any], machines: list[Any]) -> dict[str, Any]:
    metadata, status = cluster["metadata"], cluster.get("status") or {}
    own = [
        one for one in machines if one["metadata"]["namespace"] == metadata["namespace"] and one["spec"]["clusterName"] == metadata["name"]
    ]
    running = [one for one in own if (one.get("status") or {}).get("nodeRef")]
    available = {condition["type"]: condition["status"] for condition in status.get("conditions") or []}.get("Available")
    return {
        "name": f"{metadata['namespace']}/{metadata['name']}",
        "version": cluster["spec"].get("topology", {}).get("version", ""),
        "phase": status.get("phase", ""),
        "available": available == "True",
        "deleting": "deletionTimestamp" in metadata,
        "machines": len(own),
        "machines_running": len(running),
    }
