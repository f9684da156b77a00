"""Who may do what: Proxmox VE's privileges, by pool (reference: kubehenge-clusters, Who may do what)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from kubehenge.store.reads.visible import Visible, is_shared

POOLS = "/pool/"


class Act(StrEnum):
    """What someone may want to do."""

    SEE = "see it"
    CREATE = "create a cluster"
    USE_STORAGE = "put disks on a storage"
    USE_BRIDGE = "attach VMs to a bridge"
    PLACE_BY_HA_RULE = "place a cluster by an HA rule's nodes"
    INSTALL_RANCHER = "install Rancher"
    CHANGE = "change it"
    KUBECONFIG = "download the admin kubeconfig"
    TRUST_NEW = "trust identity providers in a new cluster"
    TRUST = "trust identity providers"
    SEE_SITE = "see what clusters share"
    FREEZE = "freeze and thaw it"
    FREEZE_ALL = "freeze its duties too"
    CHANGE_SITE = "decide about what clusters share"
    ADMINISTER = "administer Kubehenge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """A Proxmox VE privilege and the path that it is needed on."""

    privilege: str
    path: str

    def __str__(self) -> str:
        return f"{self.privilege} on {self.path}"


def needed(act: Act, workload_pool: str, on: str = "") -> Needed:
    """
    Return what an act needs.

    `on` is the cluster's `<namespace>/<name>`, the storage, or `<zone>/<bridge>[/<vlan>]`. Source: the reference's table; what
    clusters share, which it does not name, is seen and decided about like the workload pool itself (MODEL 20).
    """
    workloads, own = POOLS + workload_pool, cluster_path(workload_pool, on)
    privilege, path = {
        Act.SEE: ("VM.Audit", own),
        Act.CREATE: ("VM.Allocate", workloads),
        Act.USE_STORAGE: ("Datastore.AllocateSpace", f"/storage/{on}"),
        Act.USE_BRIDGE: ("SDN.Use", f"/sdn/zones/{on}"),
        Act.PLACE_BY_HA_RULE: ("Sys.Audit", "/"),
        Act.INSTALL_RANCHER: ("Sys.Modify", workloads),
        Act.CHANGE: ("VM.Allocate", own),
        Act.KUBECONFIG: ("Sys.Modify", own),
        Act.TRUST_NEW: ("Sys.Modify", workloads),
        Act.TRUST: ("Sys.Modify", own),
        Act.SEE_SITE: ("VM.Audit", workloads),
        Act.FREEZE: ("VM.Allocate", own if on else workloads),
        Act.FREEZE_ALL: ("Sys.Modify", own if on else workloads),
        Act.CHANGE_SITE: ("Sys.Modify", workloads),
        Act.ADMINISTER: ("Sys.Modify", "/"),
    }[act]
    return Needed(privilege=privilege, path=path)


def cluster_path(workload_pool: str, scope: str) -> str:
    """Return the path of a cluster's pool: `/pool/<workload pool>/<namespace>.<name>`."""
    return f"{POOLS}{workload_pool}/{scope.replace('/', '.', 1)}"


def to_approve(privilege: str, workload_pool: str, scope: str) -> Needed:
    """Return what approving a plan needs: the rules' privilege on the cluster's pool, or on the workload pool for what is shared."""
    return Needed(privilege=privilege, path=POOLS + workload_pool if is_shared(scope) else cluster_path(workload_pool, scope))


def telling(held: frozenset[str]) -> str:
    """Return what someone holds, as far as it says something about clusters."""
    of_clusters = sorted(one for one in held if one.startswith("VM.") and not one.startswith("VM.GuestAgent")) or sorted(held)
    shown = of_clusters[:4]
    return f"{', '.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else shown[0] if shown else "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """Someone's rights, as Proxmox VE's `GET /access/permissions` lists them: path to privilege to whether it propagates."""

    listed: Mapping[str, Mapping[str, bool]]

    def on(self, path: str) -> frozenset[str]:
        """
        Return the privileges on any path.

        Proxmox VE lists every path that an ACL or a pool names, with what comes from above worked in. A path that is not listed has
        what propagates from the nearest one above it that is.
        """
        if path in self.listed:
            return frozenset(self.listed[path])
        above = path
        while above not in {"", "/"}:
            above = above.rpartition("/")[0] or "/"
            if above in self.listed:
                return frozenset(privilege for privilege, propagates in self.listed[above].items() if propagates)
        return frozenset()

    def hold(self, what: Needed) -> bool:
        """Tell whether they hold a privilege."""
        return what.privilege in self.on(what.path)

    def visible(self, workload_pool: str) -> Visible:
        """Return which clusters they see, and whether what clusters share."""
        below = f"{POOLS}{workload_pool}/"
        privilege = needed(Act.SEE, workload_pool).privilege
        by_default = privilege in self.on(f"{below}-")
        named = {
            path.removeprefix(below).replace(".", "/", 1): privilege in privileges
            for path, privileges in self.listed.items()
            if path.startswith(below)
        }
        return Visible(
            all_clusters=by_default,
            exceptions=frozenset(scope for scope, sees in named.items() if sees != by_default),
            site=self.hold(needed(Act.SEE_SITE, workload_pool)),
        )
