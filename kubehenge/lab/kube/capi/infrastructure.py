"""capmox's side of a cluster: the ProxmoxCluster, its credentials Secret, and who runs where."""

from __future__ import annotations

import structlog

from kubehenge.lab.kube import kinds
from kubehenge.lab.kube.admission import CLUSTER_NAME_LABEL
from kubehenge.lab.kube.capi.conditions import condition
from kubehenge.lab.kube.capi.objects import CONTROL_PLANE_LABEL, Objects, mention
from kubehenge.lab.kube.capi.proxmox import Proxmox, ProxmoxClients, ProxmoxError, read_credentials
from kubehenge.lab.kube.capi.workqueue import Retry
from kubehenge.lab.kube.kinds import Obj

CLUSTER_FINALIZER = "proxmoxcluster.infrastructure.cluster.x-k8s.io"
SECRET_FINALIZER = f"{CLUSTER_FINALIZER}/secret"

log = structlog.get_logger()


def is_provisioned(infra: Obj | None) -> bool:
    """Whether an infrastructure object says that it is there."""
    return bool(((infra or {}).get("status") or {}).get("initialization", {}).get("provisioned"))


class Infrastructure:
    """Looks after ProxmoxClusters. As the real one it does not watch Secrets: a waiting object has to be touched."""

    def __init__(self, objects: Objects, clients: ProxmoxClients) -> None:
        self._objects = objects
        self._clients = clients

    def client(self, infra: Obj) -> Proxmox:
        """
        A client with the credentials of a cluster.

        Errors: Retry when the Secret is missing or incomplete.
        """
        name = (infra["spec"].get("credentialsRef") or {}).get("name", "")
        secret = self._objects.find(kinds.SECRET, infra["metadata"]["namespace"], name)
        if secret is None:
            raise Retry(f'failed to create scope: Secret "{name}" not found')
        found = read_credentials(secret)
        if found is None:
            raise Retry(f'failed to create scope: Secret "{name}" lacks url, token or secret')
        return self._clients.get(found)

    async def reconcile(self, namespace: str, name: str) -> float | None:
        """
        Bring one ProxmoxCluster further.

        Errors: Retry while its credentials do not work; its status then stays empty, as capmox leaves it.
        """
        objects = self._objects
        infra = objects.find(kinds.PROXMOX_CLUSTER, namespace, name)
        if infra is None:
            return None
        cluster_name = infra["metadata"].get("labels", {}).get(CLUSTER_NAME_LABEL, "")
        if "deletionTimestamp" in infra["metadata"]:
            return self._delete(infra, cluster_name)
        cluster = objects.find(kinds.CLUSTER, namespace, cluster_name)
        if cluster is None or cluster["spec"].get("paused"):
            return None
        infra = objects.add_finalizer(kinds.PROXMOX_CLUSTER, infra, CLUSTER_FINALIZER)
        if not is_provisioned(infra):
            await self._check(infra)
            found = objects.find(kinds.PROXMOX_CLUSTER, namespace, name)
            if found is None or "deletionTimestamp" in found["metadata"]:
                return None
            infra = found
        self._hold_secret(infra)
        ready = [
            condition("Ready", True, "InfoReported"),
            condition("ProxmoxAvailable", True, "Provisioned"),
        ]
        status = {"initialization": {"provisioned": True}, "nodeLocations": self._locations(namespace, cluster_name)}
        objects.set_status(kinds.PROXMOX_CLUSTER, infra, status, ready)
        return None

    async def _check(self, infra: Obj) -> None:
        try:
            await self.client(infra).get("/version")
        except ProxmoxError as exc:
            raise Retry(f"failed to create scope: {exc}") from exc

    def _hold_secret(self, infra: Obj) -> None:
        """Finalizer and ownership: the Secret goes with its ProxmoxCluster."""
        name = (infra["spec"].get("credentialsRef") or {}).get("name", "")
        secret = self._objects.find(kinds.SECRET, infra["metadata"]["namespace"], name)
        if secret is None or "deletionTimestamp" in secret["metadata"]:
            return
        reference = mention(kinds.PROXMOX_CLUSTER, infra)
        meta = secret["metadata"]
        owners = [entry for entry in meta.get("ownerReferences") or [] if entry["uid"] != reference["uid"]]
        meta["ownerReferences"] = [*owners, reference]
        meta["finalizers"] = list(dict.fromkeys([*(meta.get("finalizers") or []), SECRET_FINALIZER]))
        self._objects.update(kinds.SECRET, secret)

    def _locations(self, namespace: str, cluster: str) -> Obj:
        placed: dict[str, list[Obj]] = {"controlPlane": [], "workers": []}
        for machine in self._objects.of_cluster(kinds.PROXMOX_MACHINE, namespace, cluster):
            if node := (machine.get("status") or {}).get("proxmoxNode"):
                role = "controlPlane" if CONTROL_PLANE_LABEL in machine["metadata"]["labels"] else "workers"
                placed[role].append({"machine": {"name": machine["metadata"]["name"]}, "node": node})
        return {role: entries for role, entries in placed.items() if entries}

    def _delete(self, infra: Obj, cluster: str) -> float | None:
        namespace = infra["metadata"]["namespace"]
        if self._objects.of_cluster(kinds.PROXMOX_MACHINE, namespace, cluster):
            return None  # woken when the last one goes
        name = (infra["spec"].get("credentialsRef") or {}).get("name", "")
        if secret := self._objects.find(kinds.SECRET, namespace, name):
            self._objects.drop_finalizer(kinds.SECRET, secret, SECRET_FINALIZER)
        self._objects.drop_finalizer(kinds.PROXMOX_CLUSTER, infra, CLUSTER_FINALIZER)
        log.info("lab_proxmox_cluster_removed", cluster=f"{namespace}/{cluster}")
        return None
