"""The objects that the tests of the plane send: a ClusterClass on capmox, Clusters of it, and a k3s cluster by hand."""

from __future__ import annotations

import base64
from typing import Any

Body = dict[str, Any]

CORE = "cluster.x-k8s.io/v1beta2"
INFRASTRUCTURE = "infrastructure.cluster.x-k8s.io/v1alpha2"
BOOTSTRAP = "bootstrap.cluster.x-k8s.io/v1beta2"
CONTROL_PLANE = "controlplane.cluster.x-k8s.io/v1beta2"
CREDENTIALS = "proxmox"
CLASS = "small"
PROVIDER_ID = {"name": "provider-id", "value": "proxmox://'{{ ds.meta_data.instance_id }}'"}


def credentials(namespace: str, *, url: str, token: str, secret: str, ca: str) -> Body:
    values = {"url": url, "token": token, "secret": secret, "root_ca": ca, "insecure": "false"}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": CREDENTIALS, "namespace": namespace},
        "data": {name: base64.b64encode(value.encode()).decode() for name, value in values.items()},
    }


def _template(api_version: str, kind: str, namespace: str, spec: Body) -> Body:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": CLASS, "namespace": namespace},
        "spec": {"template": {"spec": spec}},
    }


def _reference(api_version: str, kind: str) -> Body:
    return {"templateRef": {"apiVersion": api_version, "kind": kind, "name": CLASS}}


def proxmox_cluster(port: int, subnet: str) -> Body:
    return {
        "controlPlaneEndpoint": {"host": "127.0.0.1", "port": port},
        "credentialsRef": {"name": CREDENTIALS},
        "dnsServers": [f"{subnet}.1"],
        "ipv4Config": {"addresses": [f"{subnet}.10-{subnet}.50"], "prefix": 24, "gateway": f"{subnet}.1"},
    }


def proxmox_machine(tag: str) -> Body:
    return {
        "templateSelector": {"matchTags": ["kubehenge", "template", tag]},
        "full": True,
        "storage": "shared-storage",
        "pool": "kubehenge",
        "numSockets": 1,
        "numCores": 2,
        "memoryMiB": 2048,
        "disks": {"bootVolume": {"disk": "scsi0", "sizeGb": 20}},
        "network": {"networkDevices": [{"name": "net0", "bridge": "vmbr0", "model": "virtio"}]},
    }


def kubeadm_class(namespace: str, version: str) -> list[Body]:
    """A class with the cluster's endpoint, addresses and memory as variables, and its templates, which have to be there first."""
    node = {"nodeRegistration": {"kubeletExtraArgs": [PROVIDER_ID]}}
    both = {"controlPlane": True, "machineDeploymentClass": {"names": ["worker"]}}
    return [
        _template(INFRASTRUCTURE, "ProxmoxClusterTemplate", namespace, proxmox_cluster(6443, "192.0.2")),
        _template(INFRASTRUCTURE, "ProxmoxMachineTemplate", namespace, proxmox_machine(f"kubeadm-{version}")),
        _template(CONTROL_PLANE, "KubeadmControlPlaneTemplate", namespace, {"kubeadmConfigSpec": {"initConfiguration": node}}),
        _template(BOOTSTRAP, "KubeadmConfigTemplate", namespace, {"joinConfiguration": node}),
        {
            "apiVersion": CORE,
            "kind": "ClusterClass",
            "metadata": {"name": CLASS, "namespace": namespace},
            "spec": {
                "infrastructure": _reference(INFRASTRUCTURE, "ProxmoxClusterTemplate"),
                "controlPlane": {
                    **_reference(CONTROL_PLANE, "KubeadmControlPlaneTemplate"),
                    "machineInfrastructure": _reference(INFRASTRUCTURE, "ProxmoxMachineTemplate"),
                },
                "workers": {
                    "machineDeployments": [
                        {
                            "class": "worker",
                            "bootstrap": _reference(BOOTSTRAP, "KubeadmConfigTemplate"),
                            "infrastructure": _reference(INFRASTRUCTURE, "ProxmoxMachineTemplate"),
                        }
                    ]
                },
                "variables": [
                    _variable("port", {"type": "integer"}, required=True),
                    _variable("addresses", {"type": "array", "items": {"type": "string"}}, required=True),
                    _variable("memoryMiB", {"type": "integer", "minimum": 1024, "default": 2048}, required=False),
                ],
                "patches": [
                    _patch("port", "ProxmoxClusterTemplate", {"infrastructureCluster": True}, "controlPlaneEndpoint/port"),
                    _patch("addresses", "ProxmoxClusterTemplate", {"infrastructureCluster": True}, "ipv4Config/addresses"),
                    _patch("memoryMiB", "ProxmoxMachineTemplate", both, "memoryMiB"),
                ],
            },
        },
    ]


def _variable(name: str, schema: Body, *, required: bool) -> Body:
    return {"name": name, "required": required, "schema": {"openAPIV3Schema": schema}}


def _patch(variable: str, kind: str, where: Body, path: str) -> Body:
    selector = {"apiVersion": INFRASTRUCTURE, "kind": kind, "matchResources": where}
    change = {"op": "replace", "path": f"/spec/template/spec/{path}", "valueFrom": {"variable": variable}}
    return {"name": variable, "definitions": [{"selector": selector, "jsonPatches": [change]}]}


def topology_cluster(namespace: str, name: str, *, version: str, port: int, subnet: str, **counts: int) -> Body:
    """A Cluster of the class; `counts` may give control_planes, workers and memory."""
    return {
        "apiVersion": CORE,
        "kind": "Cluster",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "clusterNetwork": {"pods": {"cidrBlocks": ["10.244.0.0/16"]}},
            "topology": {
                "classRef": {"name": CLASS},
                "version": version,
                "controlPlane": {"replicas": counts.get("control_planes", 1)},
                "workers": {"machineDeployments": [{"class": "worker", "name": "md-0", "replicas": counts.get("workers", 1)}]},
                "variables": [
                    {"name": "port", "value": port},
                    {"name": "addresses", "value": [f"{subnet}.10-{subnet}.50"]},
                    {"name": "memoryMiB", "value": counts.get("memory", 2048)},
                ],
            },
        },
    }


def k3s_cluster(namespace: str, name: str, *, version: str, port: int, subnet: str) -> list[Body]:
    """A k3s cluster of one machine, without a class."""

    def one(api_version: str, kind: str, spec: Body) -> Body:
        return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}

    machine = {"apiVersion": INFRASTRUCTURE, "kind": "ProxmoxMachineTemplate", "name": name, "namespace": namespace}
    return [
        one(INFRASTRUCTURE, "ProxmoxCluster", proxmox_cluster(port, subnet)),
        one(INFRASTRUCTURE, "ProxmoxMachineTemplate", {"template": {"spec": proxmox_machine("cloud-image")}}),
        one(
            CONTROL_PLANE,
            "KThreesControlPlane",
            {
                "replicas": 1,
                "version": version,
                "machineTemplate": {"infrastructureRef": machine},
                "kthreesConfigSpec": {
                    "serverConfig": {"tlsSan": ["127.0.0.1"]},
                    "agentConfig": {"kubeletArgs": ["provider-id=proxmox://{{ ds.meta_data.instance_id }}"]},
                },
            },
        ),
        one(
            CORE,
            "Cluster",
            {
                "clusterNetwork": {"pods": {"cidrBlocks": ["10.244.0.0/16"]}},
                "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "ProxmoxCluster", "name": name},
                "controlPlaneRef": {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KThreesControlPlane", "name": name},
            },
        ),
    ]
