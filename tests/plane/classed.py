"""Clusters of Kubehenge's own classes on the plane: the class with a port of the test's own, and what a Cluster of it needs beforehand."""

from __future__ import annotations

import base64
import itertools
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import jinja2
import yaml

from kubehenge.lab.plane.binds import free_ports
from kubehenge.lab.plane.client import path_of
from kubehenge.resources.classes import RenderedClass
from kubehenge.source.class_files import load_classes
from tests.plane import objects
from tests.plane.objects import Body
from tests.plane.site import VERSION, PlaneSite

VERSIONS = {"kubeadm": VERSION, "rke2": f"{VERSION}+rke2r1", "k3s": f"{VERSION}+k3s1"}
CONTROL_PLANES = {"kubeadm": "KubeadmControlPlane", "rke2": "RKE2ControlPlane", "k3s": "KThreesControlPlane"}
PODS, SERVICES = "10.180.0.0/16", "10.181.0.0/16"
PROVIDER: Body = {"issuerURL": "https://login.example.com/realms/staff", "clientID": "kubernetes"}
_MORE = {
    "allowedNodes": ["pve1", "pve2"],
    "proxmoxHA": False,
    "headlamp": {"enabled": True, "hostname": "headlamp.example.com", "tlsSecret": "headlamp-tls"},
    "rancher": {"install": False, "hostname": "rancher.example.com", "register": False},
    "oidc": [{**PROVIDER, "groupsClaim": "roles", "groupsPrefix": "staff:", "scopes": ["email"]}],
    "upgrades": {
        "mode": "patch",
        "window": {"weekdays": ["Sat"], "monthDays": [1], "start": "23:30", "durationMinutes": 90, "timeZone": "Europe/Berlin"},
    },
}
_numbers = itertools.count(1)


def with_port(rendered: RenderedClass) -> Body:
    """
    The class with one variable more, `testPort`.

    The guests' API servers are all on 127.0.0.1, and tell clusters apart by their ports; the class itself has 6443 alone.
    """
    body = deepcopy(dict(rendered.cluster_class))
    body["spec"]["variables"].append({"name": "testPort", "required": True, "schema": {"openAPIV3Schema": {"type": "integer"}}})
    selector = {
        "apiVersion": objects.INFRASTRUCTURE,
        "kind": "ProxmoxClusterTemplate",
        "matchResources": {"infrastructureCluster": True},
    }
    change = {"op": "replace", "path": "/spec/template/spec/controlPlaneEndpoint/port", "valueFrom": {"variable": "testPort"}}
    body["spec"]["patches"].append({"name": "testPort", "definitions": [{"selector": selector, "jsonPatches": [change]}]})
    return body


@dataclass(frozen=True, slots=True, kw_only=True)
class Classed:
    """One of the classes in a site's namespace, and clusters of it."""

    site: PlaneSite
    rendered: RenderedClass
    body: Body

    @classmethod
    def made(cls, site: PlaneSite, distribution: str) -> Classed:
        """Apply a class with its templates, and wait until Cluster API knows its variables."""
        rendered = load_classes(site.namespace)[distribution]
        made = cls(site=site, rendered=rendered, body=with_port(rendered))
        site.apply(*(dict(one) for one in (*rendered.templates, *rendered.provider_templates)), made.body)
        site.until(made.body, VariablesReady="True")
        return made

    @property
    def distribution(self) -> str:
        return self.rendered.distribution

    def cluster(self, name: str, **variables: Any) -> ClassedCluster:
        """A Cluster of 1+1 with what Kubehenge prepares for one; nothing of it is applied yet."""
        number = next(_numbers)
        subnet = f"10.{100 + number // 250}.{number % 250}"
        own = {
            "controlPlaneEndpoint": "127.0.0.1",
            "testPort": free_ports(1)[0],
            "network": {
                "bridge": "vmbr0",
                "addresses": [f"{subnet}.10-{subnet}.30", f"{subnet}.40"],
                "prefix": 24,
                "gateway": f"{subnet}.1",
                "dnsServers": [f"{subnet}.1"],
            },
            "storage": "shared-storage",
        } | ({"cni": "cilium"} if self.distribution == "kubeadm" else {})
        return ClassedCluster(of=self, name=name, first_id=20_000 + 100 * number, variables=own | variables)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassedCluster:
    of: Classed
    name: str
    first_id: int
    variables: dict[str, Any]
    annotations: dict[str, str] = field(default_factory=dict)

    @property
    def site(self) -> PlaneSite:
        return self.of.site

    @property
    def pool(self) -> str:
        return f"kubehenge/{self.site.namespace}.{self.name}"

    @property
    def ids(self) -> range:
        return range(self.first_id, self.first_id + 100)

    def body(self, *, annotations: dict[str, str] | None = None, **variables: Any) -> Body:
        """The Cluster, with these in place of its own variables; None takes one out."""
        values = {name: value for name, value in (self.variables | variables).items() if value is not None}
        prepared = {"kubehenge.dev/vm-id-range": f"{self.ids[0]}-{self.ids[-1]}", "kubehenge.dev/pool": self.pool}
        return {
            "apiVersion": objects.CORE,
            "kind": "Cluster",
            "metadata": {
                "name": self.name,
                "namespace": self.site.namespace,
                "annotations": prepared | self.annotations if annotations is None else annotations,
            },
            "spec": {
                "clusterNetwork": {"pods": {"cidrBlocks": [PODS]}, "services": {"cidrBlocks": [SERVICES]}},
                "topology": {
                    "classRef": {"name": self.of.rendered.name},
                    "version": VERSIONS[self.of.distribution],
                    "controlPlane": {"replicas": 1},
                    "workers": {"machineDeployments": [{"class": "worker", "name": "md-0", "replicas": 1}]},
                    "variables": [{"name": name, "value": value} for name, value in values.items()],
                },
            },
        }

    def prepare(self) -> None:
        """Make the pool and capmox's Secret."""
        given, proxmox = self.site.proxmox.credentials, self.site.proxmox.running
        assert proxmox.call("POST", "/pools", poolid=self.pool).status == 200
        secret = objects.credentials(
            self.site.namespace,
            url=next(iter(given.urls.values())),
            token=given.capmox.id,
            secret=given.capmox.value.get_secret_value(),
            ca=given.ca_file.read_text(encoding="ascii"),
        )
        secret["metadata"]["name"] = f"{self.name}-proxmox-credentials"
        self.site.apply(secret)

    def list(self, api_version: str, kind: str) -> list[Body]:
        """The objects of a kind that belong to it."""
        found = self.site.list(api_version, kind)
        return [one for one in found if one["metadata"].get("labels", {}).get("cluster.x-k8s.io/cluster-name") == self.name]

    def one(self, api_version: str, kind: str) -> Body:
        """The only one, as soon as it is there."""
        found = self.site.plane.until(lambda: self.list(api_version, kind), within_s=90, what=self.status)
        assert len(found) == 1, [one["metadata"]["name"] for one in found]
        return found[0]

    def control_plane(self) -> Body:
        return self.one(objects.CONTROL_PLANE, CONTROL_PLANES[self.of.distribution])

    def status(self) -> str:
        """What Cluster API says of it."""
        conditions = self.site.api.get(path_of(self.body())).get("status", {}).get("conditions", [])
        return str([(one["type"], one["status"], one.get("message", "")) for one in conditions if one["status"] != "True"])

    def machines(self, *, control_plane: bool) -> list[Body]:
        label = "cluster.x-k8s.io/control-plane"
        return [one for one in self.list(objects.CORE, "Machine") if (label in one["metadata"]["labels"]) is control_plane]

    def names(self, *, control_plane: bool) -> set[str]:
        return {one["metadata"]["name"] for one in self.machines(control_plane=control_plane)}

    def user_data(self, machine: Body, **metadata: str) -> Body:
        """A machine's user data as cloud-init reads it: filled in from capmox's metadata, then parsed."""
        name = machine["spec"]["bootstrap"]["dataSecretName"]
        secret = self.site.api.get(f"/api/v1/namespaces/{self.site.namespace}/secrets/{name}")
        text = base64.b64decode(secret["data"]["value"]).decode()
        assert text.startswith("## template: jinja\n")
        ds = {"meta_data": {"instance_id": "an-id", "local_hostname": machine["metadata"]["name"], **metadata}}
        found: Body = yaml.safe_load(jinja2.Template(text, undefined=jinja2.StrictUndefined).render(ds=ds))
        return found


def every_variable(cluster: ClassedCluster) -> dict[str, Any]:
    """A value for each variable of the class."""
    network = cluster.variables["network"]
    size = {"cores": 3, "memoryMiB": 4608, "diskGiB": 50}
    cni = {"kubeadm": "calico", "rke2": "cilium", "k3s": "calico"}[cluster.of.distribution]
    return {
        **cluster.variables,
        **_MORE,
        "network": {**network, "vlan": 120},
        "cni": cni,
        "controlPlaneMachine": size,
        "workerMachine": {**size, "diskGiB": 60},
    }


def file_of(user_data: Body, path: str) -> bytes:
    """The content of a file that user data writes."""
    [found] = [one for one in user_data["write_files"] if one["path"] == path]
    content = str(found["content"])
    return base64.b64decode(content) if found.get("encoding") in {"base64", "b64"} else content.encode()
