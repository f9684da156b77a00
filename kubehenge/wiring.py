"""The one place that turns settings into store, drivers, engine and services."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.engine import make_url

from kubehenge.clock import Clock, SystemClock
from kubehenge.drivers.base import Driver
from kubehenge.drivers.fingerprint import secret_hmac
from kubehenge.drivers.politeness import Limits as TargetLimits
from kubehenge.drivers.politeness import Politeness
from kubehenge.engine.apply import Apply, Limits
from kubehenge.engine.class_moves import ClassMoves
from kubehenge.engine.classes import Classes
from kubehenge.engine.decide import Decide
from kubehenge.engine.holding import CallLimits, Holding, holding_of, process_name
from kubehenge.engine.loops import Intervals, Loops
from kubehenge.engine.settings_driver import SettingsDriver
from kubehenge.engine.sources import Sources
from kubehenge.engine.stored import settings_in_force
from kubehenge.engine.tick import Capmox, Tick
from kubehenge.engine.wake import Bell, wake
from kubehenge.engine.watch import Watch
from kubehenge.errors import InvariantError, SettingsError
from kubehenge.model.distribution import CLASS_NAMESPACE
from kubehenge.settings import Settings
from kubehenge.source.class_files import load_classes
from kubehenge.source.git import GitLimits
from kubehenge.store.database import Database, open_database
from kubehenge.store.sites import ensure_site

KEY_FILE = "site.key"
LOCK_FILE = "engine.lock"
CONNECT_S = 5.0
_KEY_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """What every command needs: the settings, the open database, the site's row and the clock."""

    settings: Settings
    db: Database
    site_id: int
    clock: Clock


def open_core(settings: Settings, *, clock: Clock | None = None) -> Core:
    """Open the database and find the site, made when it is not there yet."""
    clock = clock or SystemClock()
    db = open_database(settings.database.get_secret_value())
    with db.write() as session:
        site_id = ensure_site(session, settings.site, clock.now()).id
    return Core(settings=settings, db=db, site_id=site_id, clock=clock)


def decisions(core: Core) -> Decide:
    """Return the decisions of people; they wake the loops of whichever process runs them."""
    return Decide(
        core.db,
        core.site_id,
        core.clock,
        ring=lambda name: wake(core.settings.state_dir, name),
        webhook_secrets=_webhook_secrets(core.settings),
    )


def class_moves(core: Core) -> ClassMoves:
    """Return the moves of clusters to the classes of this release."""
    newest = {one.alias: one.name for one in load_classes(CLASS_NAMESPACE).values()}
    return ClassMoves(db=core.db, site_id=core.site_id, clock=core.clock, newest=newest)


def drivers(core: Core) -> Mapping[str, Driver]:
    """Return the drivers by family: Proxmox VE, the management cluster, and the site's own settings."""
    from kubehenge.drivers.kube.driver import KubeDriver
    from kubehenge.drivers.kube.signing_in import runs_in_cluster
    from kubehenge.drivers.proxmox.client import ProxmoxClient
    from kubehenge.drivers.proxmox.connections import TimeLimits
    from kubehenge.drivers.proxmox.driver import ProxmoxDriver

    settings = core.settings
    if not settings.proxmox_endpoints or settings.proxmox_token_secret is None:
        raise SettingsError(
            "Proxmox VE is not set: give KUBEHENGE_PROXMOX_ENDPOINTS, KUBEHENGE_PROXMOX_TOKEN_ID and KUBEHENGE_PROXMOX_TOKEN_SECRET_FILE."
        )
    if settings.kubeconfig is None and not runs_in_cluster(os.environ):
        raise SettingsError("The management cluster is not set: give KUBEHENGE_KUBECONFIG, or run Kubehenge as a pod in it.")
    with core.db.read() as session:
        site = settings_in_force(session, core.site_id)
    key = site_key(settings.state_dir)
    hidden = [one for one in settings.secrets if one is not None]
    client = ProxmoxClient.with_token(
        settings.proxmox_endpoints,
        ca_file=str(settings.proxmox_ca_file) if settings.proxmox_ca_file else None,
        token_id=settings.proxmox_token_id,
        secret=settings.proxmox_token_secret,
        limits=TimeLimits(connect_s=CONNECT_S, read_s=settings.proxmox_timeout_s, change_s=settings.proxmox_timeout_s),
        politeness=Politeness("Proxmox VE", TargetLimits(requests_per_s=settings.proxmox_requests_per_s, tasks=settings.proxmox_tasks)),
        hidden=hidden,
    )
    proxmox = ProxmoxDriver(
        client,
        workload_pool=site.workload_pool,
        owner_vmids=(site.owner_vm_ids.first, site.owner_vm_ids.last),
        site_key=key,
        clock=core.clock.now,
    )
    kube = KubeDriver.from_kubeconfig(
        settings.kubeconfig,
        site_key=key,
        capmox_token_id=settings.capmox_token_id,
        capmox_secret=settings.capmox_token_secret,
        proxmox_url=settings.proxmox_endpoints[0],
        proxmox_ca=settings.proxmox_ca_file.read_text() if settings.proxmox_ca_file else "",
        region=proxmox.region,
        timeout_s=settings.kube_timeout_s,
        hidden=hidden,
        politeness=Politeness("the management cluster", TargetLimits(requests_per_s=settings.kube_requests_per_s)),
        clock=core.clock.now,
    )
    return {"proxmox": proxmox, "kube": kube, "site": SettingsDriver(core.db, core.site_id, core.clock)}


def by_kind(families: Mapping[str, Driver]) -> Mapping[str, Driver]:
    """Return the driver of each kind."""
    return {kind: driver for driver in families.values() for kind in driver.kinds}


def make_tick(core: Core, families: Mapping[str, Driver]) -> Tick:
    """Return the tick of the site."""
    settings = core.settings
    capmox = Capmox()
    if settings.capmox_token_secret is not None:
        hmac = secret_hmac(site_key(settings.state_dir), settings.capmox_token_secret)
        capmox = Capmox(token_id=settings.capmox_token_id, hmac=hmac, url=settings.proxmox_endpoints[0])
    sources = Sources(settings.state_dir, limits=GitLimits(fetch_timeout_s=settings.git_timeout_s))
    classes = Classes({one.alias: one for one in load_classes(CLASS_NAMESPACE).values()})
    return Tick(core.db, core.site_id, families, sources, core.clock, capmox, classes)


def make_apply(core: Core, families: Mapping[str, Driver]) -> Apply:
    """Return the apply loop's body."""
    with core.db.read() as session:
        building = settings_in_force(session, core.site_id).concurrent_clusters
    return Apply(core.db, core.site_id, by_kind(families), core.clock, Limits(workers=core.settings.workers, building=building))


def hold(core: Core, loop: str) -> Holding:
    """Return the lease of a loop, for a process that holds the lock of the state directory."""
    limit_s = max(core.settings.proxmox_timeout_s, core.settings.kube_timeout_s)
    calls = CallLimits(call_s=limit_s, longest_s=CONNECT_S + 2 * limit_s)
    return holding_of(core.db, core.clock, core.settings.site, loop, process_name(), calls=calls, alone=core.db.is_sqlite)


def make_loops(core: Core) -> Loops:
    """Return the three loops, not yet started."""
    settings = core.settings
    from kubehenge.drivers.kube.driver import KubeDriver
    from kubehenge.drivers.proxmox.driver import ProxmoxDriver

    families = drivers(core)
    bell = Bell()
    proxmox, kube = families["proxmox"], families["kube"]
    if not isinstance(proxmox, ProxmoxDriver) or not isinstance(kube, KubeDriver):
        raise InvariantError("The drivers are not those of Proxmox VE and the management cluster.")
    return Loops(
        settings.state_dir,
        Watch(core.db, core.site_id, proxmox, core.clock, bell.ring),
        make_tick(core, families),
        make_apply(core, families),
        bell,
        lambda loop: hold(core, loop),
        Intervals(watch_s=settings.fast_poll_s, bulk_s=settings.bulk_poll_s, git_s=settings.git_poll_s),
        watchers={"kube": kube},
    )


@contextmanager
def engine_lock(settings: Settings) -> Iterator[None]:
    """
    Hold the one right to run loops on this state directory, and on this database where it is a file (MODEL 27).

    Errors: SettingsError that names the process which holds it.
    """
    with ExitStack() as stack:
        stack.enter_context(_lock(settings.state_dir / LOCK_FILE, str(settings.state_dir)))
        url = make_url(settings.database.get_secret_value())
        if url.get_backend_name() == "sqlite" and url.database:
            database = Path(url.database).resolve()
            stack.enter_context(_lock(database.with_name(f"{database.name}.{LOCK_FILE}"), str(database)))
        yield


@contextmanager
def _lock(path: Path, what: str) -> Iterator[None]:
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            raise SettingsError(
                f"Another Kubehenge runs the loops on {what}: process {file.read().strip() or 'unknown'}. Stop that one first."
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def site_key(state_dir: Path) -> bytes:
    """Return the key of the HMACs that stand for secrets, made at first use, readable by its owner only."""
    path = state_dir / KEY_FILE
    try:
        return path.read_bytes()
    except FileNotFoundError:
        key = secrets.token_bytes(_KEY_BYTES)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_bytes()
    with os.fdopen(descriptor, "wb") as file:
        file.write(key)
        file.flush()
        os.fsync(file.fileno())
    return key


def _webhook_secrets(settings: Settings) -> Mapping[str, tuple[str, ...]]:
    path = settings.webhook_secrets_file
    if path is None:
        return {}
    found: dict[str, tuple[str, ...]] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise SettingsError(f"KUBEHENGE_WEBHOOK_SECRETS_FILE: {path} cannot be read: {error.strerror}.") from None
    for line in lines:
        source, _, secret = line.strip().partition(" ")
        if source and secret and not source.startswith("#"):
            found[source] = (*found.get(source, ()), secret.strip())
    return found
