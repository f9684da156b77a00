"""Objects for the contract, and a namespace to keep them in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.lab.kube.running import Server, until

CAPI = "cluster.x-k8s.io/v1beta2"
INFRA = "infrastructure.cluster.x-k8s.io/v1alpha2"
CONTROL = "controlplane.cluster.x-k8s.io/v1beta2"
BOOTSTRAP = "bootstrap.cluster.x-k8s.io/v1beta2"
_API = {"Cluster": CAPI, "ClusterClass": CAPI, "Machine": CAPI, "ProxmoxMachineTemplate": INFRA, "ProxmoxClusterTemplate": INFRA}
_API |= {"MachineDeployment": CAPI, "MachineSet": CAPI, "MachineHealthCheck": CAPI, "ProxmoxCluster": INFRA, "ProxmoxMachine": INFRA}
_API |= {"KubeadmControlPlaneTemplate": CONTROL, "KubeadmControlPlane": CONTROL, "KubeadmConfigTemplate": BOOTSTRAP}
_PLURALS = {"ClusterClass": "clusterclasses"}

SHARED = "contract-shared"  # the name of a class for everybody, and of its namespace
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

Body = dict[str, Any]


def path_of(namespace: str, kind: str, name: str = "") -> str:
    api = _API.get(kind, "v1")
    root = f"/apis/{api}" if "/" in api else f"/api/{api}"
    plural = _PLURALS.get(kind, f"{kind.lower()}s")
    return f"{root}/namespaces/{namespace}/{plural}" + (f"/{name}" if name else "")


def config_map(name: str, data: dict[str, str] | None = None, **meta: Any) -> Body:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **meta}, **({"data": data} if data else {})}


def secret(name: str, **fields: Any) -> Body:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, **fields}


def cluster(name: str, *, class_name: str = "", version: str = "v1.35.0", variables: list[Body] | None = None, **topology: Any) -> Body:
    """A paused Cluster, of the class that all checks share or of another one in its own namespace."""
    reference = {"name": class_name} if class_name else {"name": SHARED, "namespace": SHARED}
    parts: Body = {"classRef": reference, "version": version, "controlPlane": {"replicas": 1}, **topology}
    if variables:
        parts["variables"] = variables
    return {"apiVersion": CAPI, "kind": "Cluster", "metadata": {"name": name}, "spec": {"paused": True, "topology": parts}}


def cluster_class(name: str) -> list[Body]:
    """A ClusterClass with the variables `cores` (required, 1 to 8), `size` (an object with defaults), and its templates."""
    device = {"name": "net0", "bridge": "vmbr0", "model": "virtio"}
    machine = {"sourceNode": "pve1", "templateID": 100, "numCores": 2, "network": {"networkDevices": [device]}}
    infra = {
        "controlPlaneEndpoint": {"host": "192.0.2.9", "port": 6443},
        "dnsServers": ["192.0.2.1"],
        "ipv4Config": {"addresses": ["192.0.2.10-192.0.2.19"], "prefix": 24, "gateway": "192.0.2.1"},
    }

    def template(api: str, kind: str, spec: Body) -> Body:
        return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": {"template": {"spec": spec}}}

    def ref(api: str, kind: str) -> Body:
        return {"templateRef": {"apiVersion": api, "kind": kind, "name": name}}

    size = {
        "type": "object",
        "properties": {"memoryMiB": {"type": "integer", "minimum": 1024, "default": 4096}, "diskGiB": {"type": "integer", "default": 40}},
    }
    spec = {
        "infrastructure": ref(INFRA, "ProxmoxClusterTemplate"),
        "controlPlane": {**ref(CONTROL, "KubeadmControlPlaneTemplate"), "machineInfrastructure": ref(INFRA, "ProxmoxMachineTemplate")},
        "workers": {
            "machineDeployments": [
                {
                    "class": "worker",
                    "bootstrap": ref(BOOTSTRAP, "KubeadmConfigTemplate"),
                    "infrastructure": ref(INFRA, "ProxmoxMachineTemplate"),
                }
            ]
        },
        "variables": [
            {"name": "cores", "required": True, "schema": {"openAPIV3Schema": {"type": "integer", "minimum": 1, "maximum": 8}}},
            {
                "name": "mode",
                "required": False,
                "schema": {"openAPIV3Schema": {"type": "string", "enum": ["off", "patch"], "default": "off"}},
            },
            {"name": "size", "required": False, "schema": {"openAPIV3Schema": size}},
        ],
    }
    return [
        template(INFRA, "ProxmoxClusterTemplate", infra),
        template(INFRA, "ProxmoxMachineTemplate", machine),
        template(CONTROL, "KubeadmControlPlaneTemplate", {"kubeadmConfigSpec": {"preKubeadmCommands": ["true"]}}),
        template(BOOTSTRAP, "KubeadmConfigTemplate", {"preKubeadmCommands": ["true"]}),
        {"apiVersion": CAPI, "kind": "ClusterClass", "metadata": {"name": name}, "spec": spec},
    ]


def share_class(server: Server) -> None:
    """Make the class that takes whatever a check says; it is there once Clusters of it are judged by it."""
    server.call("POST", "/api/v1/namespaces", {"metadata": {"name": SHARED}})
    bodies = cluster_class(SHARED)
    anything = {"x-kubernetes-preserve-unknown-fields": True}
    types = {"a": "integer", "b": "object", "size": "object"}
    bodies[-1]["spec"]["variables"] = [
        *({"name": name, "required": False, "schema": {"openAPIV3Schema": {"type": kind, **anything}}} for name, kind in types.items()),
        {"name": "online", "required": False, "schema": {"openAPIV3Schema": {"type": "array", "items": {"type": "string"}}}},
    ]
    for body in bodies:
        status, answer = server.call("POST", path_of(SHARED, body["kind"]), body)
        assert status in {201, 409}, answer
    shared = Namespace(server=server, name=SHARED)
    until(lambda: shared.post(cluster("c1", variables=[{"name": "nobody", "value": 1}]), "?dryRun=All")[0] == 422)


@dataclass(frozen=True, kw_only=True)
class Namespace:
    """A namespace and the calls in it; each answers status and body."""

    server: Server
    name: str

    def create(self) -> None:
        status, body = self.server.call("POST", "/api/v1/namespaces", {"metadata": {"name": self.name}})
        assert status == 201, body

    def remove(self) -> None:
        """It goes, with all it holds; nobody looks after a paused Cluster, not at its end either."""
        self.server.call("DELETE", f"/api/v1/namespaces/{self.name}")
        for name in self.names("Cluster"):
            self.patch("Cluster", name, {"spec": {"paused": False}})

    def post(self, body: Body, query: str = "") -> tuple[int, Body]:
        return self.server.call("POST", path_of(self.name, body["kind"]) + query, body)

    def make(self, body: Body) -> Body:
        status, made = self.post(body)
        assert status == 201, made
        return made

    def get(self, kind: str, name: str) -> tuple[int, Body]:
        return self.server.call("GET", path_of(self.name, kind, name))

    def read(self, kind: str, name: str) -> Body:
        status, body = self.get(kind, name)
        assert status == 200, body
        return body

    def list(self, kind: str, query: str = "", **options: Any) -> tuple[int, Body]:
        return self.server.call("GET", path_of(self.name, kind) + query, **options)

    def names(self, kind: str, query: str = "") -> list[str]:
        status, body = self.list(kind, query)
        assert status == 200, body
        return [item["metadata"]["name"] for item in body["items"] if item["metadata"]["name"] != "kube-root-ca.crt"]

    def put(self, body: Body, subresource: str = "") -> tuple[int, Body]:
        return self.server.call("PUT", path_of(self.name, body["kind"], body["metadata"]["name"]) + subresource, body)

    def patch(self, kind: str, name: str, body: Any, media: str = MERGE, query: str = "") -> tuple[int, Body]:
        return self.server.call("PATCH", path_of(self.name, kind, name) + query, body, media=media)

    def apply(
        self, body: Body, manager: str = "tester", *, force: bool = False, query: str = "", subresource: str = ""
    ) -> tuple[int, Body]:
        path = path_of(self.name, body["kind"], body["metadata"]["name"])
        return self.server.call("PATCH", f"{path}{subresource}?fieldManager={manager}&force={str(force).lower()}{query}", body, media=APPLY)

    def applied(self, body: Body, manager: str = "tester", *, force: bool = False) -> Body:
        status, result = self.apply(body, manager, force=force)
        assert status in {200, 201}, result
        return result

    def delete(self, kind: str, name: str, options: Body | None = None) -> tuple[int, Body]:
        return self.server.call("DELETE", path_of(self.name, kind, name), options)

    def gone(self, kind: str, name: str) -> None:
        until(lambda: self.get(kind, name)[0] == 404, why=lambda: self.get(kind, name))


def owners_of(body: Body) -> dict[str, Any]:
    """managedFields by manager, subresource and operation left out."""
    return {entry["manager"]: entry["fieldsV1"] for entry in body["metadata"]["managedFields"]}
