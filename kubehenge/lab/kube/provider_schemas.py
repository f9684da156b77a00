"""
The fields of the providers' kinds: capmox's infrastructure, and control planes as far as anybody here reads them.

Source: capmox 0.9's CRDs (v1alpha2), Cluster API 1.14's contract for control planes.
"""

from __future__ import annotations

from kubehenge.lab.kube.schema import ANY, BOOLEAN, INTEGER, STRING, Schema, list_of, number, obj, optional, text
from kubehenge.lab.kube.schemas import CONDITIONS, ENDPOINT, MACHINE_ADDRESSES, META, OLD_STYLE, REPLICAS, VERSION

_IP_CONFIG = obj(
    {
        "addresses!": list_of(STRING, unique=True),
        "prefix!": number(1, 128),
        "gateway!": text(least=1),
        "metric": number(0),
    }
)
_NODES = list_of(STRING, unique=True)
_DNS_SERVERS = list_of(STRING, unique=True, least=1)
_LOCATIONS = list_of(obj({"machine!": obj({"name": STRING}, atomic=True), "node!": text(least=1), "zone": STRING}))
_PROVISIONED = obj({"provisioned": BOOLEAN}, least=1)
_CLUSTER_SPEC = obj(
    {
        "allowedNodes": _NODES,
        "controlPlaneEndpoint": ENDPOINT,
        "credentialsRef": obj({"name": STRING, "namespace": STRING}, atomic=True),
        "dnsServers!": _DNS_SERVERS,
        "externalManagedControlPlane": BOOLEAN,
        "ipv4Config": _IP_CONFIG,
        "ipv6Config": _IP_CONFIG,
        "schedulerHints": obj({"memoryAdjustment": number(0)}),
        "zoneConfig": list_of(
            obj({"zone!": STRING, "dnsServers!": _DNS_SERVERS, "ipv4Config": _IP_CONFIG, "ipv6Config": _IP_CONFIG}), keys=("zone",)
        ),
    }
)
PROXMOX_CLUSTER = {
    "spec": _CLUSTER_SPEC,
    "status": obj(
        {
            "conditions": CONDITIONS,
            "initialization": _PROVISIONED,
            "inClusterIPPoolRef": list_of(obj({"name": STRING}, atomic=True)),
            "nodeLocations": obj({"controlPlane": _LOCATIONS, "workers": _LOCATIONS}),
            "deprecated": OLD_STYLE,
        }
    ),
}
_TAG = text(pattern=r"(?i)^[a-z0-9_][a-z0-9_\-+.]*$")
_NETWORK = obj(
    {
        "networkDevices!": list_of(
            obj(
                {
                    "name": text(least=4, pattern="^net[0-9]+$"),
                    "bridge": text(least=1),
                    "model": text(enum=("e1000", "virtio", "rtl8139", "vmxnet3")),
                    "vlan": number(1, 4094),
                    "mtu": INTEGER,
                    "linkMtu": INTEGER,
                    "queues": number(1, 65535),
                    "defaultIPv4": BOOLEAN,
                    "defaultIPv6": BOOLEAN,
                    "dnsServers": _DNS_SERVERS,
                    "ipPoolRef": list_of(ANY),
                    "routes": list_of(ANY),
                    "routingPolicy": list_of(ANY),
                }
            ),
            keys=("name",),
        ),
        "vrfs": list_of(ANY),
        "zone": STRING,
    }
)
_MACHINE_FIELDS: dict[str, Schema] = {
    "allowedNodes": _NODES,
    "checks": obj({"skipCloudInitStatus": BOOLEAN, "skipQemuGuestAgent": BOOLEAN}),
    "description": STRING,
    "disks": obj({"bootVolume": obj({"disk!": text(least=1), "sizeGb!": number(5)})}),
    "format": text(enum=("raw", "qcow2", "vmdk")),
    "full": BOOLEAN,
    "memoryMiB": number(0),
    "metadataSettings": obj({"providerIDInjection!": BOOLEAN}),
    "network!": _NETWORK,
    "numCores": number(1),
    "numSockets": number(1),
    "pool": STRING,
    "providerID": text(pattern="^proxmox://[a-fA-F0-9]{8}(-[a-fA-F0-9]{4}){3}-[a-fA-F0-9]{12}$"),
    "snapName": STRING,
    "sourceNode": text(least=1),
    "storage": STRING,
    "tags": list_of(_TAG, unique=True, least=1),
    "templateID": INTEGER,
    "templateSelector": obj(
        {"matchTags!": list_of(_TAG, unique=True, least=1), "matchPolicy": text(enum=("exact", "uniqueSubset", "bestSubset"))}
    ),
    "virtualMachineID": INTEGER,
    "vmIDRange": obj({"start!": number(100, 999_999_999), "end!": number(100, 999_999_999)}),
}
_MACHINE_SPEC = obj(_MACHINE_FIELDS)
PROXMOX_MACHINE = {
    "spec": _MACHINE_SPEC,
    "status": obj(
        {
            "conditions": CONDITIONS,
            "addresses": MACHINE_ADDRESSES,
            "bootstrapDataProvided": BOOLEAN,
            "initialization": _PROVISIONED,
            "ipAddresses": list_of(
                obj({"net!": text(least=4), "ipv4": list_of(STRING, unique=True), "ipv6": list_of(STRING, unique=True)}), keys=("net",)
            ),
            "network": list_of(ANY),
            "proxmoxNode": STRING,
            "retryAfter": STRING,
            "taskRef": STRING,
            "vmStatus": STRING,
            "deprecated": OLD_STYLE,
        }
    ),
}


def template_of(spec: Schema) -> dict[str, Schema]:
    """The fields of a template kind around the spec of what it is a template for."""
    return {"spec": obj({"template!": obj({"metadata": META, "spec!": spec})})}


PROXMOX_CLUSTER_TEMPLATE = template_of(_CLUSTER_SPEC)
PROXMOX_MACHINE_TEMPLATE = template_of(_MACHINE_SPEC)

# What Cluster API's contract asks of a control plane; the distribution's own settings are taken as they come.
_CONTROL_PLANE_FIELDS: dict[str, Schema] = {
    "replicas": REPLICAS,
    "version!": VERSION,
    "machineTemplate": ANY,
    "machineNaming": obj({"template": VERSION}, least=1),
    "rollout": ANY,
    "remediation": ANY,
}
_OWN_FIELDS: dict[str, dict[str, Schema]] = {
    "KubeadmControlPlane": {"kubeadmConfigSpec": ANY},
    "RKE2ControlPlane": {
        "serverConfig": ANY,
        "agentConfig": ANY,
        "files": ANY,
        "preRKE2Commands": ANY,
        "postRKE2Commands": ANY,
        "registrationMethod": STRING,
        "registrationAddress": STRING,
        "rolloutStrategy": ANY,
        "remediationStrategy": ANY,
        "privateRegistriesConfig": ANY,
        "manifestsConfigMapReference": ANY,
        "gzipUserData": BOOLEAN,
    },
    "KThreesControlPlane": {"kthreesConfigSpec": ANY, "rolloutAfter": STRING, "remediationStrategy": ANY},
}
_CONTROL_PLANE_STATUS = obj(
    {
        "conditions": CONDITIONS,
        "observedGeneration": number(1),
        "initialization": obj({"controlPlaneInitialized": BOOLEAN}, least=1),
        "replicas": INTEGER,
        "readyReplicas": INTEGER,
        "availableReplicas": INTEGER,
        "upToDateReplicas": INTEGER,
        "version": VERSION,
        "selector": STRING,
        "lastRemediation": ANY,
        "deprecated": OLD_STYLE,
    }
)


def control_plane(kind: str) -> dict[str, Schema]:
    """The fields of one distribution's control plane."""
    return {"spec": obj({**_CONTROL_PLANE_FIELDS, **_OWN_FIELDS[kind]}), "status": _CONTROL_PLANE_STATUS}


def control_plane_template(kind: str) -> dict[str, Schema]:
    """The fields of a control plane's template kind: the same, nothing required."""
    return template_of(optional(obj({**_CONTROL_PLANE_FIELDS, **_OWN_FIELDS[kind]})))


FREE_TEMPLATE = template_of(ANY)
