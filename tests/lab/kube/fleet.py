"""A lab of both simulated servers, with what the tests of the model ask of it again and again."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

from tests.contract.objects import INFRA, MERGE
from tests.lab.kube.running import RunningKube, until

_CLUSTERS = "/apis/cluster.x-k8s.io/v1beta2/namespaces/clusters"
_INFRA_PATH = f"/apis/{INFRA}/namespaces/clusters"
_numbers = itertools.count(0)
Body = dict[str, Any]


@dataclass(kw_only=True)
class Cluster:
    """One cluster of a test, in a lab that others share."""

    kube: RunningKube
    name: str
    number: int = field(default_factory=lambda: next(_numbers))

    # ---- asking

    def body(
        self, *, class_name: str = "kubehenge-k3s", version: str = "v1.36.5+k3s1", control_planes: int = 1, workers: int = 1, **more: Any
    ) -> Body:
        network = {
            "bridge": "vmbr0",
            "addresses": more.pop("addresses", [f"10.{self.number}.0.11-10.{self.number}.0.40"]),
            "prefix": 24,
            "gateway": f"10.{self.number}.0.1",
            "dnsServers": ["192.0.2.1"],
        }
        variables = {
            "controlPlaneEndpoint": f"10.{self.number}.0.10",
            "network": network,
            "storage": "shared-storage",
            **more.pop("variables", {}),
        }
        first = 10_000_000 + self.number * 1000
        annotations = {
            "kubehenge.dev/vm-id-range": f"{first}-{first + 999}",
            "kubehenge.dev/online-nodes": "pve1,pve2,pve3",
            **more.pop("annotations", {}),
        }
        topology: Body = {
            "classRef": {"name": class_name, "namespace": "kubehenge-system"},
            "version": version,
            "controlPlane": {"replicas": control_planes},
            "variables": [{"name": name, "value": value} for name, value in variables.items() if value is not None],
        }
        if workers:
            topology["workers"] = {"machineDeployments": [{"class": "worker", "name": "md-0", "replicas": workers}]}
        meta = {"name": self.name, "namespace": "clusters", "annotations": annotations, "labels": {"kubehenge.dev/cluster-name": self.name}}
        return {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": meta, "spec": {"topology": topology, **more}}

    def corner(self) -> None:
        """Its Proxmox VE pool, as Kubehenge makes it."""
        server = self.kube.proxmox.server

        def make() -> None:
            server.pools[self.pool] = set()
            server.pool_info[self.pool] = {"comment": None, "storage": set()}
            server.rights.changed()

        self.kube.loop.within(make)

    def credentials(self, **changed: str) -> None:
        """capmox's Secret."""
        token = self.kube.lab.capmox
        values = {"url": next(iter(self.kube.lab.urls.values())), "token": token.id, "secret": token.value.get_secret_value(), **changed}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"{self.name}-proxmox-credentials"}, "stringData": values}
        path = f"/api/v1/namespaces/clusters/secrets/{self.name}-proxmox-credentials?fieldManager=kubehenge&force=true"
        status, answer = self.kube.server.call("PATCH", path, body, media="application/apply-patch+yaml")
        assert status in {200, 201}, answer

    def create(self, **options: Any) -> Body:
        status, body = self.kube.server.call("POST", f"{_CLUSTERS}/clusters", self.body(**options))
        assert status == 201, body
        return body

    def build(self, **options: Any) -> Body:
        """Everything, until it is available."""
        self.corner()
        self.credentials()
        self.create(**options)
        return self.settled()

    def change(self, body: Body) -> Body:
        status, answer = self.kube.server.call("PATCH", f"{_CLUSTERS}/clusters/{self.name}", body, media=MERGE)
        assert status == 200, answer
        return answer

    def topology(self, **changed: Any) -> Body:
        return self.change({"spec": {"topology": changed}})

    def variable(self, name: str, value: Any) -> Body:
        variables = self.read()["spec"]["topology"]["variables"]
        return self.topology(variables=[*(entry for entry in variables if entry["name"] != name), {"name": name, "value": value}])

    def scale(self, *, control_planes: int | None = None, workers: int | None = None) -> None:
        if control_planes is not None:
            self.topology(controlPlane={"replicas": control_planes})
        if workers is not None:
            self.topology(workers={"machineDeployments": [{"class": "worker", "name": "md-0", "replicas": workers}]})

    def annotate(self, **annotations: str) -> None:
        self.change({"metadata": {"annotations": annotations}})

    def nudge(self) -> None:
        """Touch what waits for a Secret."""
        (infra,) = self.objects("proxmoxclusters")
        path = f"{_INFRA_PATH}/proxmoxclusters/{infra['metadata']['name']}"
        body = {"metadata": {"annotations": {"kubehenge.dev/credentials-checked": "now"}}}
        assert self.kube.server.call("PATCH", path, body, media=MERGE)[0] == 200

    def delete(self) -> None:
        assert self.kube.server.call("DELETE", f"{_CLUSTERS}/clusters/{self.name}")[0] == 200

    def gone(self) -> None:
        until(lambda: self.kube.server.call("GET", f"{_CLUSTERS}/clusters/{self.name}")[0] == 404, within_s=60, why=self.story)

    # ---- looking

    @property
    def pool(self) -> str:
        return f"kubehenge/clusters.{self.name}"

    def read(self) -> Body:
        status, body = self.kube.server.call("GET", f"{_CLUSTERS}/clusters/{self.name}")
        assert status == 200, body
        return body

    def objects(self, plural: str, *, root: str = "") -> list[Body]:
        base = root or (_INFRA_PATH if plural.startswith("proxmox") else _CLUSTERS)
        status, body = self.kube.server.call("GET", f"{base}/{plural}?labelSelector=cluster.x-k8s.io/cluster-name%3D{self.name}")
        assert status == 200, body
        return body["items"]

    def machines(self, role: str = "") -> list[Body]:
        label = "cluster.x-k8s.io/control-plane"
        every = self.objects("machines")
        return [item for item in every if not role or (label in item["metadata"]["labels"]) == (role == "control-plane")]

    def vms(self) -> dict[str, Any]:
        """The VMs in its pool by name."""
        server = self.kube.proxmox.server
        return self.kube.loop.within(lambda: {vm.name: vm for vm in server.vms if server.pool_by_vm.get(vm.vmid) == self.pool})

    def conditions(self) -> dict[str, tuple[str, str, str]]:
        return conditions_of(self.read())

    def condition(self, name: str, status: str, reason: str = "", words: str = "") -> str:
        """Wait for a condition; its message."""

        def look() -> tuple[str, str, str] | None:
            found = self.conditions().get(name)
            return found if found and found[0] == status and (not reason or found[1] == reason) and words in found[2] else None

        return until(look, within_s=60, why=self.story)[2]

    def machine_reason(self, reason: str, words: str = "") -> str:
        """Wait until a ProxmoxMachine stands at a reason; its message."""

        def look() -> tuple[str, str] | None:
            for machine in self.objects("proxmoxmachines"):
                found = conditions_of(machine).get("VirtualMachineProvisioned")
                if found and found[1] == reason and words in found[2]:
                    return found[1:]
            return None

        return until(look, within_s=60, why=self.story)[1]

    def settled(self) -> Body:
        """Wait until all it asks for is there and nothing rolls."""

        def look() -> Body | None:
            body = self.read()
            status, found, topology = body.get("status", {}), conditions_of(body), body["spec"]["topology"]
            if status.get("observedGeneration") != body["metadata"]["generation"] or found.get("Available", ("",))[0] != "True":
                return None
            if found["TopologyReconciled"][0] != "True" or any(
                found[name][0] != "False" for name in ("RollingOut", "ScalingUp", "ScalingDown")
            ):
                return None
            wanted = (
                topology["controlPlane"]["replicas"],
                sum(pool["replicas"] for pool in topology.get("workers", {}).get("machineDeployments", [])),
            )
            ready = tuple(status[part].get("readyReplicas", 0) for part in ("controlPlane", "workers"))
            versions = {entry["version"] for part in ("controlPlane", "workers") for entry in status[part].get("versions", [])}
            return body if ready == wanted and versions == {topology["version"]} else None

        return until(look, within_s=60, why=self.story)

    def story(self) -> str:
        """What a failed test shows."""
        machines = [
            (item["metadata"]["name"], conditions_of(item).get("VirtualMachineProvisioned")) for item in self.objects("proxmoxmachines")
        ]
        calls = [(call.method, call.path, call.status) for call in self.kube.calls.since() if call.status >= 400][-5:]
        try:
            return f"{self.conditions()}\n{machines}\n{calls}"
        except AssertionError:
            return f"{machines}\n{calls}"


def conditions_of(body: Body) -> dict[str, tuple[str, str, str]]:
    return {entry["type"]: (entry["status"], entry["reason"], entry["message"]) for entry in body.get("status", {}).get("conditions", [])}
