"""Every rule of a Cluster: what is accepted at its edge, what is refused behind it, and in which words."""

from __future__ import annotations

import pytest

from kubehenge.model.cluster import AutoscalerSizes, MachineSize
from kubehenge.model.document import Verdict
from kubehenge.source.judge import declare
from tests.source.clusters import GONE, cluster, findings, judge

CERTIFICATE_LIKE = "-----BEGIN CERTIFICATE-----\nnot base64\n-----END CERTIFICATE-----\n"
AUTOSCALER = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-{}-size"
PROVIDER = {"issuerURL": "https://login.example.com/realms/staff", "clientID": "kubernetes"}


def pool(**fields):
    return {"class": "worker", "name": "md-0", "replicas": 1} | fields


def pools(*items):
    return {"spec__topology__workers": {"machineDeployments": list(items)}}


def scaled(least, most, **fields):
    annotations = {AUTOSCALER.format("min"): least, AUTOSCALER.format("max"): most}
    return {key: value for key, value in pool(**fields).items() if key != "replicas" or "replicas" in fields} | {
        "metadata": {"annotations": {name: size for name, size in annotations.items() if size is not None}}
    }


ACCEPTED = {
    "as it is": cluster(),
    "kubeadm": cluster("kubeadm"),
    "k3s": cluster("k3s"),
    "a class by its content name": cluster(spec__topology__classRef__name="kubehenge-rke2-0123456789"),
    "no workers": cluster(spec__topology__workers=GONE),
    "a pool without workers": cluster(**pools(pool(replicas=0))),
    "seven control planes": cluster(spec__topology__controlPlane__replicas=7),
    "a hundred workers": cluster(
        variables={
            "network__addresses": ["10.9.0.0/16"],
            "network__gateway": "10.9.0.1",
            "network__prefix": 16,
            "controlPlaneEndpoint": "10.9.0.9",
        }
        | {"network__addresses": ["10.9.1.0-10.9.9.255"], "network__dnsServers": ["10.9.0.1"]},
        **pools(pool(replicas=100)),
    ),
    "protected": cluster(metadata__annotations={"kubehenge.dev/protect": "true"}),
    "labels and other annotations": cluster(
        metadata__labels={"tier": "gold", "kubehenge.dev/canary": "yes"}, metadata__annotations={"example.com/owner": "platform"}
    ),
    "ranges of its own": cluster(
        spec__clusterNetwork={"pods": {"cidrBlocks": ["10.200.0.0/16"]}, "services": {"cidrBlocks": ["10.201.0.0/16"]}}
    ),
    "VLAN 4094": cluster(variables={"network__vlan": 4094}),
    "allowed nodes": cluster(variables={"allowedNodes": ["pve2", "pve1"]}),
    "RKE2's least memory": cluster(variables={"controlPlaneMachine": {"memoryMiB": 3072}}),
    "k3s's least memory": cluster("k3s", variables={"controlPlaneMachine": {"memoryMiB": 2048}}),
    "a worker's least memory and disk": cluster(variables={"workerMachine": {"memoryMiB": 1024, "diskGiB": 20, "cores": 1}}),
    "the longest name with the longest pool": cluster(metadata__name="n" * 40, **pools(pool(name="p" * 9))),
    "no providers at all": cluster(variables={"oidc": []}),
    "eight providers": cluster(variables={"oidc": [PROVIDER | {"issuerURL": f"https://{n}.example.com"} for n in range(8)]}),
    "the shortest window": cluster(
        variables={"upgrades": {"mode": "minor", "window": {"durationMinutes": 30, "start": "00:00", "monthDays": [1, 31]}}}
    ),
    "the longest window": cluster(
        variables={"upgrades": {"mode": "off", "window": {"durationMinutes": 1440, "start": "23:59", "weekdays": ["Mon", "Sun"]}}}
    ),
    "Rancher on large nodes": cluster(
        variables={
            "rancher": {"install": True, "hostname": "rancher.example.com"},
            "controlPlaneMachine": {"cores": 4},
            "workerMachine": {"cores": 4},
        }
    ),
    "Rancher without workers asks nothing of workers": cluster(
        variables={"rancher": {"install": True, "hostname": "rancher.example.com"}, "controlPlaneMachine": {"cores": 4}},
        spec__topology__workers=GONE,
    ),
    "Rancher left alone": cluster(variables={"rancher": {"register": False}}),
    "Headlamp with a certificate": cluster(
        variables={"headlamp": {"enabled": True, "hostname": "headlamp.example.com", "tlsSecret": "headlamp-tls"}}
    ),
    "the autoscaler's sizes": cluster(**pools(scaled("1", "5"))),
    "what Cluster API judges": cluster(
        spec__paused=False,
        spec__topology__controlPlane__healthCheck={"enabled": True},
        **pools(pool(rollout={"after": "2026-09-01T00:00:00Z"}, deletion={"order": "Oldest"}, minReadySeconds=5)),
    ),
    "a size for one pool": cluster(**pools(pool(variables={"overrides": [{"name": "workerMachine", "value": {"cores": 8}}]}))),
}


@pytest.mark.parametrize("document", ACCEPTED.values(), ids=ACCEPTED)
def test_accepted_without_a_word(document):
    judged = judge(document)
    assert judged.problems == ()
    assert judged.verdict is Verdict.ACCEPTED
    assert judged.body == document
    assert declare(judged.body) == judged.declaration


NETWORK = "variables.network"
RANGES = "spec.clusterNetwork"
POOL = "spec.topology.workers.machineDeployments[0]"
REFUSED = [
    # names
    (cluster(metadata__name="n" * 41), "metadata.name", "length"),
    (cluster(metadata__name="Prod"), "metadata.name", "form"),
    (cluster(metadata__name="1prod"), "metadata.name", "form"),
    (cluster(metadata__name="prod-"), "metadata.name", "form"),
    (cluster(metadata__name="prod.eu"), "metadata.name", "form"),
    (cluster(metadata__name=""), "metadata.name", "form"),
    (cluster(metadata__name="prod\n"), "metadata.name", "form"),
    (cluster(metadata__name=GONE), "metadata.name", "required"),
    (cluster(metadata__namespace=GONE), "metadata.namespace", "required"),
    (cluster(metadata__namespace="A"), "metadata.namespace", "form"),
    (cluster(metadata__generateName="x"), "metadata.generateName", "unknown"),
    (cluster(metadata__labels={"a": "b c"}), "metadata.labels.a", "form"),
    (cluster(metadata__labels={"a": 1}), "metadata.labels.a", "type"),
    (cluster(metadata__annotations={"kubehenge.dev/protect": True}), 'metadata.annotations["kubehenge.dev/protect"]', "type"),
    (cluster(metadata__annotations={"kubehenge.dev/protect": "yes"}), 'metadata.annotations["kubehenge.dev/protect"]', "not allowed"),
    (cluster(metadata__annotations={"kubehenge.dev/protct": "true"}), 'metadata.annotations["kubehenge.dev/protct"]', "unknown"),
    (cluster(metadata__labels={"kubehenge.dev/protect": "true"}), 'metadata.labels["kubehenge.dev/protect"]', "unknown"),
    # class and version
    (cluster(spec__topology__classRef__name="kubehenge-rke"), "spec.topology.classRef.name", "unknown"),
    (cluster(spec__topology__classRef__name="kubehenge-rke2-xyz"), "spec.topology.classRef.name", "unknown"),
    (cluster(spec__topology__classRef__namespace="clusters"), "spec.topology.classRef.namespace", "not allowed"),
    (cluster(spec__topology__classRef__namespace=GONE), "spec.topology.classRef.namespace", "required"),
    (cluster(spec__topology__version="1.36.5+rke2r1"), "spec.topology.version", "form"),
    (cluster(spec__topology__version="v1.36.5"), "spec.topology.version", "form"),
    (cluster(spec__topology__version="v1.36.5-rc1+rke2r1"), "spec.topology.version", "form"),
    (cluster(spec__topology__version="latest"), "spec.topology.version", "form"),
    (cluster(spec__topology__version=1.3), "spec.topology.version", "type"),
    (cluster("kubeadm", spec__topology__version="v1.36.5+k3s1"), "spec.topology.version", "form"),
    (cluster(apiVersion="cluster.x-k8s.io/v1beta1"), "apiVersion", "not allowed"),
    # numbers of nodes
    *(
        (cluster(spec__topology__controlPlane__replicas=number), "spec.topology.controlPlane.replicas", "not allowed")
        for number in (0, 2, 4, 9, -1)
    ),
    (cluster(spec__topology__controlPlane__replicas=True), "spec.topology.controlPlane.replicas", "type"),
    (cluster(spec__topology__controlPlane__replicas="3"), "spec.topology.controlPlane.replicas", "type"),
    (cluster(spec__topology__controlPlane__replicas=1.5), "spec.topology.controlPlane.replicas", "type"),
    (cluster(spec__topology__controlPlane__replicas=GONE), "spec.topology.controlPlane.replicas", "required"),
    (cluster(**pools(pool(replicas=101))), f"{POOL}.replicas", "range"),
    (cluster(**pools(pool(replicas=-1))), f"{POOL}.replicas", "range"),
    (cluster(**pools({"class": "worker", "name": "md-0"})), f"{POOL}.replicas", "required"),
    (cluster(**pools(pool(**{"class": "gpu"}))), f"{POOL}.class", "not allowed"),
    (cluster(**pools(pool(name="MD"))), f"{POOL}.name", "form"),
    (cluster(**pools(pool(), pool())), "spec.topology.workers.machineDeployments[1].name", "duplicate"),
    (cluster(metadata__name="n" * 40, **pools(pool(name="p" * 10))), f"{POOL}.name", "length"),
    (cluster(**pools(scaled("5", "1"))), f'{POOL}.metadata.annotations["{AUTOSCALER.format("min")}"]', "range"),
    (cluster(**pools(scaled("1", "101"))), f'{POOL}.metadata.annotations["{AUTOSCALER.format("max")}"]', "range"),
    (cluster(**pools(scaled("one", "5"))), f'{POOL}.metadata.annotations["{AUTOSCALER.format("min")}"]', "range"),
    (cluster(**pools(scaled("1", None))), f'{POOL}.metadata.annotations["{AUTOSCALER.format("max")}"]', "required"),
    (cluster(spec__topology__workers={"machinePools": []}), "spec.topology.workers.machinePools", "unknown"),
    # network
    (cluster(variables={"network__bridge": "vm br0"}), f"{NETWORK}.bridge", "form"),
    (cluster(variables={"network__vlan": 0}), f"{NETWORK}.vlan", "range"),
    (cluster(variables={"network__vlan": 4095}), f"{NETWORK}.vlan", "range"),
    (cluster(variables={"network__prefix": 0}), f"{NETWORK}.prefix", "range"),
    (cluster(variables={"network__prefix": 33}), f"{NETWORK}.prefix", "range"),
    (cluster(variables={"network__gateway": "192.0.2"}), f"{NETWORK}.gateway", "form"),
    (cluster(variables={"network__gateway": GONE}), f"{NETWORK}.gateway", "required"),
    (cluster(variables={"network__dnsServers": ["dns.example.com"]}), f"{NETWORK}.dnsServers[0]", "form"),
    (cluster(variables={"network__dnsServers": []}), f"{NETWORK}.dnsServers", "length"),
    (cluster(variables={"network__addresses": []}), f"{NETWORK}.addresses", "length"),
    (cluster(variables={"network__addresses": "192.0.2.51"}), f"{NETWORK}.addresses", "type"),
    (cluster(variables={"network__addresses": ["192.0.2.69-192.0.2.51"]}), f"{NETWORK}.addresses[0]", "form"),
    (cluster(variables={"network__addresses": ["192.0.2.51/28"]}), f"{NETWORK}.addresses[0]", "form"),
    (cluster(variables={"network__addresses": ["192.0.2.51-192.0.2.69", "198.51.100.1"]}), f"{NETWORK}.addresses[1]", "outside"),
    (cluster(variables={"network__mtu": 9000}), f"{NETWORK}.mtu", "unknown"),
    (cluster(variables={"controlPlaneEndpoint": "192.0.2.51"}), "variables.controlPlaneEndpoint", "overlap"),
    (cluster(variables={"controlPlaneEndpoint": "192.0.2.1"}), "variables.controlPlaneEndpoint", "overlap"),
    (cluster(variables={"controlPlaneEndpoint": "198.51.100.1"}), "variables.controlPlaneEndpoint", "outside"),
    (cluster(variables={"controlPlaneEndpoint": "192.0.2.255"}), "variables.controlPlaneEndpoint", "not allowed"),
    (cluster(variables={"controlPlaneEndpoint": "api.example.com"}), "variables.controlPlaneEndpoint", "form"),
    (cluster(variables={"controlPlaneEndpoint": GONE}), "variables.controlPlaneEndpoint", "required"),
    (cluster(spec__clusterNetwork={"pods": {"cidrBlocks": ["192.0.2.0/25"]}}), f"{RANGES}.pods", "overlap"),
    (cluster(spec__clusterNetwork={"services": {"cidrBlocks": ["10.42.0.0/24"]}}), f"{RANGES}.services", "overlap"),
    (cluster(spec__clusterNetwork={"pods": {"cidrBlocks": []}}), f"{RANGES}.pods.cidrBlocks", "length"),
    (cluster(spec__clusterNetwork={"pods": {"cidrBlocks": ["10.1.0.0/16", "10.2.0.0/16"]}}), f"{RANGES}.pods.cidrBlocks", "length"),
    (cluster(spec__clusterNetwork={"pods": {"cidrBlocks": ["fd00::/56"]}}), f"{RANGES}.pods.cidrBlocks[0]", "form"),
    (cluster(spec__clusterNetwork={"pod": {}}), f"{RANGES}.pod", "unknown"),
    # machines
    (cluster(variables={"storage": GONE}), "variables.storage", "required"),
    (cluster(variables={"storage": "a b"}), "variables.storage", "form"),
    (cluster(variables={"controlPlaneMachine": {"memoryMiB": 3064}}), "variables.controlPlaneMachine.memoryMiB", "minimum"),
    (cluster("k3s", variables={"controlPlaneMachine": {"memoryMiB": 2040}}), "variables.controlPlaneMachine.memoryMiB", "minimum"),
    (cluster("kubeadm", variables={"controlPlaneMachine": {"memoryMiB": 2040}}), "variables.controlPlaneMachine.memoryMiB", "minimum"),
    (cluster(variables={"controlPlaneMachine": {"memoryMiB": 4100}}), "variables.controlPlaneMachine.memoryMiB", "step"),
    (cluster(variables={"controlPlaneMachine": {"diskGiB": 19}}), "variables.controlPlaneMachine.diskGiB", "minimum"),
    (cluster(variables={"workerMachine": {"memoryMiB": 1016}}), "variables.workerMachine.memoryMiB", "minimum"),
    (cluster(variables={"workerMachine": {"cores": 0}}), "variables.workerMachine.cores", "minimum"),
    (cluster(variables={"workerMachine": {"cpu": 4}}), "variables.workerMachine.cpu", "unknown"),
    (cluster(variables={"allowedNodes": []}), "variables.allowedNodes", "length"),
    (cluster(variables={"allowedNodes": ["pve 1"]}), "variables.allowedNodes[0]", "form"),
    (cluster(variables={"proxmoxHA": "yes"}), "variables.proxmoxHA", "type"),
    (
        cluster(**pools(pool(variables={"overrides": [{"name": "workerMachine", "value": {"diskGiB": 19}}]}))),
        f"{POOL}.variables.overrides.workerMachine.diskGiB",
        "minimum",
    ),
    (cluster(**pools(pool(variables={"overrides": [{"name": "cni", "value": "calico"}]}))), f"{POOL}.variables.overrides.cni", "unknown"),
    # pod network
    (cluster("kubeadm", variables={"cni": GONE}), "variables.cni", "required"),
    (cluster("kubeadm", variables={"cni": "canal"}), "variables.cni", "not allowed"),
    (cluster("rke2", variables={"cni": "flannel"}), "variables.cni", "not allowed"),
    (cluster("k3s", variables={"cni": "canal"}), "variables.cni", "not allowed"),
    (cluster("k3s", variables={"cni": "Cilium"}), "variables.cni", "not allowed"),
    (cluster("k3s", variables={"cni": True}), "variables.cni", "type"),
    # add-ons
    (cluster(variables={"headlamp": {"enable": True}}), "variables.headlamp.enable", "unknown"),
    (cluster(variables={"headlamp": {"hostname": "https://x.example.com"}}), "variables.headlamp.hostname", "form"),
    (cluster(variables={"headlamp": {"hostname": "192.0.2.50"}}), "variables.headlamp.hostname", "form"),
    (
        cluster(variables={"rancher": {"install": True}, "controlPlaneMachine": {"cores": 4}, "workerMachine": {"cores": 4}}),
        "variables.rancher.hostname",
        "required",
    ),
    (
        cluster(variables={"rancher": {"install": True, "hostname": "r.example.com"}, "controlPlaneMachine": {"cores": 4}}),
        "variables.workerMachine.cores",
        "minimum",
    ),
    (
        cluster(
            variables={
                "rancher": {"install": True, "hostname": "r.example.com"},
                "controlPlaneMachine": {"cores": 4},
                "workerMachine": {"cores": 4},
            },
            **pools(pool(variables={"overrides": [{"name": "workerMachine", "value": {"cores": 3}}]})),
        ),
        f"{POOL}.variables.overrides.workerMachine.cores",
        "minimum",
    ),
    # identity providers
    (cluster(variables={"oidc": [PROVIDER | {"issuerURL": f"https://{n}.example.com"} for n in range(9)]}), "variables.oidc", "length"),
    (cluster(variables={"oidc": [PROVIDER, PROVIDER]}), "variables.oidc[1].issuerURL", "duplicate"),
    (cluster(variables={"oidc": [PROVIDER | {"issuerURL": "http://login.example.com"}]}), "variables.oidc[0].issuerURL", "form"),
    (cluster(variables={"oidc": [PROVIDER | {"issuerURL": "https://"}]}), "variables.oidc[0].issuerURL", "form"),
    (cluster(variables={"oidc": [PROVIDER | {"issuerURL": "https://a@b/?c#d"}]}), "variables.oidc[0].issuerURL", "form"),
    (cluster(variables={"oidc": [{"clientID": "x"}]}), "variables.oidc[0].issuerURL", "required"),
    (cluster(variables={"oidc": [PROVIDER | {"clientID": ""}]}), "variables.oidc[0].clientID", "form"),
    (cluster(variables={"oidc": [PROVIDER | {"usernamePrefix": "system:x"}]}), "variables.oidc[0].usernamePrefix", "not allowed"),
    (cluster(variables={"oidc": [PROVIDER | {"groupsPrefix": ""}]}), "variables.oidc[0].groupsPrefix", "length"),
    (
        cluster(variables={"oidc": [PROVIDER | {"certificateAuthority": CERTIFICATE_LIKE}]}),
        "variables.oidc[0].certificateAuthority",
        "form",
    ),
    (cluster(variables={"oidc": {"issuerURL": "https://a"}}), "variables.oidc", "type"),
    # automatic upgrades
    (cluster(variables={"upgrades": {"mode": False}}), "variables.upgrades.mode", "type"),
    (cluster(variables={"upgrades": {"mode": "major"}}), "variables.upgrades.mode", "not allowed"),
    (cluster(variables={"upgrades": {"window": {"weekdays": ["Saturday"]}}}), "variables.upgrades.window.weekdays[0]", "not allowed"),
    (cluster(variables={"upgrades": {"window": {"monthDays": [0]}}}), "variables.upgrades.window.monthDays[0]", "range"),
    (cluster(variables={"upgrades": {"window": {"start": "2:00"}}}), "variables.upgrades.window.start", "form"),
    (cluster(variables={"upgrades": {"window": {"start": 120}}}), "variables.upgrades.window.start", "type"),
    (cluster(variables={"upgrades": {"window": {"durationMinutes": 45}}}), "variables.upgrades.window.durationMinutes", "step"),
    (cluster(variables={"upgrades": {"window": {"durationMinutes": 1470}}}), "variables.upgrades.window.durationMinutes", "maximum"),
    (cluster(variables={"upgrades": {"window": {"timeZone": "Europe/Berln"}}}), "variables.upgrades.window.timeZone", "unknown"),
    (cluster(variables={"upgrades": {"window": {"timeZone": "../etc/passwd"}}}), "variables.upgrades.window.timeZone", "unknown"),
    # the rest of the document
    (cluster(spec__topology__variables=[{"name": "storage"}]), "spec.topology.variables[0].value", "required"),
    (cluster(spec__topology__rolloutAfter="x"), "spec.topology.rolloutAfter", "unknown"),
    (cluster(spec__controlPlaneEndpoint={"host": "x"}), "spec.controlPlaneEndpoint", "unknown"),
    (cluster(variables={"sotrage": "x"}), "variables.sotrage", "unknown"),
    (cluster(variables={"cni": None}), "variables.cni", "type"),
    (cluster(metadata__annotations={"note": "${OWNER}"}), "metadata.annotations.note", "template"),
    (cluster(variables={"storage": "{{ .Values.storage }}"}), "variables.storage", "template"),
    (cluster(data={}), "data", "unknown"),
]


@pytest.mark.parametrize(
    ("document", "field", "kind"), REFUSED, ids=[f"{index} {field} {kind}" for index, (_, field, kind) in enumerate(REFUSED)]
)
def test_refused_for_this_field_and_kind(document, field, kind):
    judged = judge(document)
    assert judged.verdict is Verdict.REFUSED
    errors = [(problem.field, str(problem.kind)) for problem in judged.errors]
    assert (field, kind) in errors
    if document["spec"]["topology"]["variables"] and len(document["spec"]["topology"]["variables"]) > 1:
        assert len(errors) == 1
    problem = next(problem for problem in judged.errors if problem.field == field)
    assert problem.message.endswith((".", "?", "`"))
    assert problem.line > 1


WARNED = [
    (cluster(variables={"network__addresses": ["192.0.2.51-192.0.2.56"]}), "variables.network.addresses", "capacity"),
    (cluster(variables={"network__addresses": ["192.0.2.51-192.0.2.53"]}), "variables.network.addresses", "capacity"),
    (
        cluster(variables={"network__addresses": ["192.0.2.51-192.0.2.60", "192.0.2.60-192.0.2.62"]}),
        "variables.network.addresses[1]",
        "overlap",
    ),
    (cluster(variables={"network__dnsServers": ["192.0.2.55"]}), "variables.network.dnsServers[0]", "overlap"),
    (cluster(**pools(scaled("1", "5", replicas=2))), f"{POOL}.replicas", "ignored"),
    (cluster(variables={"headlamp": {"tlsSecret": "x"}}), "variables.headlamp.tlsSecret", "ignored"),
    (
        cluster(
            "kubeadm",
            variables={
                "rancher": {"install": True, "hostname": "r.example.com"},
                "controlPlaneMachine": {"cores": 4},
                "workerMachine": {"cores": 4},
            },
        ),
        "variables.rancher.install",
        "not allowed",
    ),
    (cluster(status={"phase": "Provisioned"}), "status", "ignored"),
    (cluster(metadata__resourceVersion="1"), "metadata.resourceVersion", "ignored"),
    (
        cluster(metadata__annotations={"kubehenge.dev/online-nodes": "pve1"}),
        'metadata.annotations["kubehenge.dev/online-nodes"]',
        "ignored",
    ),
    (
        cluster(metadata__annotations={"kubectl.kubernetes.io/last-applied-configuration": "{}"}),
        'metadata.annotations["kubectl.kubernetes.io/last-applied-configuration"]',
        "ignored",
    ),
]


@pytest.mark.parametrize(("document", "field", "kind"), WARNED, ids=[field for _, field, _ in WARNED])
def test_accepted_with_a_warning(document, field, kind):
    judged = judge(document)
    assert judged.verdict is Verdict.ACCEPTED
    assert [(problem.field, str(problem.kind)) for problem in judged.warnings] == [(field, kind)]


def test_capacity_counts_neither_gateway_nor_the_networks_first_and_last_address():
    network = {"network__addresses": ["192.0.2.0-192.0.2.7", "192.0.2.9-192.0.2.15"], "network__prefix": 28}
    document = cluster(variables=network | {"controlPlaneEndpoint": "192.0.2.8"}, **pools(pool(replicas=9)))
    (capacity,) = judge(document).warnings
    assert "12 usable addresses for 12 nodes" in capacity.message


def test_capacity_counts_what_the_autoscaler_may_ask_for():
    document = cluster(variables={"network__addresses": ["192.0.2.51-192.0.2.58"]}, **pools(scaled("0", "5")))
    (capacity,) = judge(document).warnings
    assert "8 usable addresses for 8 nodes" in capacity.message


def test_an_unknown_name_is_answered_with_the_nearest():
    (problem,) = judge(cluster(variables={"workerMachine": {"memoryMIB": 4096}})).problems
    assert "`memoryMiB`" in problem.message
    problems = judge(cluster(variables={"controlplaneMachine": {}})).problems
    assert "`controlPlaneMachine`" in problems[0].message
    (problem,) = judge(cluster(spec__topology__classRef__name="kubehenge-k3")).problems
    assert "kubehenge-k3s" in problem.message
    (problem,) = judge(cluster(variables={"upgrades": {"window": {"timeZone": "Europe/Berln"}}})).problems
    assert "Europe/Berlin" in problem.message


def test_what_others_fill_in_is_not_in_the_body():
    document = cluster(
        status={},
        metadata__uid="x",
        metadata__creationTimestamp="2026-01-01T00:00:00Z",
        metadata__annotations={"kubehenge.dev/site": "default", "example.com/a": "b"},
        metadata__labels={"kubehenge.dev/cluster-name": "prod"},
    )
    judged = judge(document)
    assert judged.body == cluster(metadata__annotations={"example.com/a": "b"}, metadata__labels={})
    assert judged.declaration.annotations == (("example.com/a", "b"),)


def test_a_pool_of_its_own_size_and_one_of_the_common_size():
    document = cluster(
        variables={"workerMachine": {"cores": 4}},
        **pools(pool(variables={"overrides": [{"name": "workerMachine", "value": {"cores": 8, "memoryMiB": 16384}}]}), pool(name="small")),
    )
    first, second = judge(document).declaration.pools
    assert first.machine == MachineSize(cores=8, memory_mib=16384, disk_gib=40)
    assert second.machine == MachineSize(cores=4, memory_mib=4096, disk_gib=40)


def test_the_autoscaler_owns_the_number_of_workers():
    (scaled_pool,) = judge(cluster(**pools(scaled("1", "5")))).declaration.pools
    assert (scaled_pool.replicas, scaled_pool.autoscaler) == (None, AutoscalerSizes(minimum=1, maximum=5))


def test_all_errors_come_at_once_also_where_the_shape_is_broken():
    document = cluster(
        "kubeadm",
        metadata__name="X",
        spec__topology__controlPlane__replicas="three",
        spec__topology__version="v1",
        variables={
            "controlPlaneEndpoint": "192.0.2.55",
            "cni": GONE,
            "network__prefix": "24",
            "controlPlaneMachine": {"memoryMiB": 1024},
            "extra": 1,
        },
    )
    assert sorted(findings(document)) == sorted(
        [
            ("metadata.name", "form"),
            ("spec.topology.version", "form"),
            ("spec.topology.controlPlane.replicas", "type"),
            ("variables.controlPlaneEndpoint", "overlap"),
            ("variables.network.prefix", "type"),
            ("variables.controlPlaneMachine.memoryMiB", "minimum"),
            ("variables.cni", "required"),
            ("variables.extra", "unknown"),
        ]
    )


@pytest.mark.parametrize(
    "part", ["metadata", "spec", "spec__topology", "spec__topology__classRef", "spec__topology__controlPlane", "spec__topology__workers"]
)
@pytest.mark.parametrize("value", [None, 1, "x", [], True, [1], {"a": 1}])
def test_a_part_of_another_type_is_refused_and_never_breaks_the_judge(part, value):
    assert judge(cluster(**{part: value})).verdict in {Verdict.REFUSED, Verdict.SKIPPED}


@pytest.mark.parametrize(
    "name", ["network", "controlPlaneMachine", "oidc", "upgrades", "rancher", "headlamp", "allowedNodes", "controlPlaneEndpoint"]
)
@pytest.mark.parametrize("value", [None, 1, "x", [], True, [1], {"a": 1}, [[]], [{}], 1.5])
def test_a_variable_of_another_type_is_refused_and_never_breaks_the_judge(name, value):
    judged = judge(cluster(variables={name: value}))
    assert judged.verdict is (Verdict.ACCEPTED if (name, value) in [("oidc", []), ("allowedNodes", ["x"])] else Verdict.REFUSED)
