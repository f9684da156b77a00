"""A namespace of the plane with what clusters in it need, and the simulated Proxmox VE below it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kubehenge.lab.plane.binds import free_ports
from kubehenge.lab.plane.client import Api, ApiError, collection, path_of
from kubehenge.lab.proxmox.seed import KUBEADM_VERSIONS, LabProxmox
from tests.fakes.plane import RunningPlane
from tests.lab.proxmox.running import RunningProxmox
from tests.plane import objects
from tests.plane.objects import Body

VERSION = KUBEADM_VERSIONS[0]
_subnets = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeededProxmox:
    """A simulated Proxmox VE with the lab's world in it."""

    running: RunningProxmox
    credentials: LabProxmox


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneSite:
    plane: RunningPlane
    proxmox: SeededProxmox
    namespace: str

    @classmethod
    @contextmanager
    def made(cls, plane: RunningPlane, proxmox: SeededProxmox, namespace: str) -> Iterator[PlaneSite]:
        """A new namespace with capmox's credentials; its clusters are deleted at the end, and then it."""
        site = cls(plane=plane, proxmox=proxmox, namespace=namespace)
        given = proxmox.credentials
        site.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        url, token = next(iter(given.urls.values())), given.capmox
        ca = given.ca_file.read_text(encoding="ascii")
        site.api.apply(objects.credentials(namespace, url=url, token=token.id, secret=token.value.get_secret_value(), ca=ca))
        try:
            yield site
        finally:
            for cluster in site.list(objects.CORE, "Cluster"):
                path = f"{collection(objects.CORE, 'Cluster', namespace)}/{cluster['metadata']['name']}"
                if cluster["spec"].get("paused"):
                    site.api.patch(path, {"spec": {"paused": False}})  # nobody looks after a paused one, not at its end either
                site.api.delete(path)
            plane.until(lambda: not site.list(objects.CORE, "Cluster"), within_s=180, what="the test's clusters do not go away")
            site.api.delete(f"/api/v1/namespaces/{namespace}")

    @property
    def api(self) -> Api:
        return self.plane.api

    def apply(self, *bodies: Body) -> None:
        for body in bodies:
            self.api.apply(body, manager="test")

    def list(self, api_version: str, kind: str) -> list[Body]:
        found: list[Body] = self.api.get(collection(api_version, kind, self.namespace))["items"]
        return found

    def cluster(self, name: str, **counts: Any) -> Body:
        """A Cluster of the class, with an endpoint and addresses of its own."""
        counts = {"version": VERSION, "port": free_ports(1)[0], "subnet": f"10.90.{next(_subnets)}"} | counts
        return objects.topology_cluster(self.namespace, name, **counts)

    def until(self, body: Body, *, within_s: float = 240, **conditions: str) -> Body:
        """The object, once it has all these conditions."""
        seen: dict[str, str] = {}

        def look() -> Body | None:
            found = self.api.get(path_of(body))
            all_of_them = found.get("status", {}).get("conditions", [])
            seen.clear()
            seen.update({one["type"]: f"{one['status']} {one.get('reason')}: {one.get('message', '')[:300]}" for one in all_of_them})
            met = {one["type"]: one["status"] for one in all_of_them}
            return found if all(met.get(name) == status for name, status in conditions.items()) else None

        return self.plane.until(look, within_s=within_s, what=lambda: f"{path_of(body)} has {seen}")

    def until_gone(self, body: Body, *, within_s: float = 180) -> None:
        def look() -> bool:
            try:
                self.api.get(path_of(body))
            except ApiError as error:
                return error.code == 404
            return False

        self.plane.until(look, within_s=within_s, what=f"{path_of(body)} is still there")

    def guests(self) -> list[Any]:
        """The VMs of this site's machines in Proxmox VE."""
        names = {machine["metadata"]["name"] for machine in self.list(objects.INFRASTRUCTURE, "ProxmoxMachine")}
        return self.proxmox.running.within(lambda: [vm for vm in self.proxmox.running.server.vms if vm.name in names])
