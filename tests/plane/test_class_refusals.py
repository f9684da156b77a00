"""What the real webhooks refuse of a Cluster of Kubehenge's classes, in their words."""

from __future__ import annotations

from typing import Any

import pytest

from kubehenge.lab.plane.client import ApiError
from tests.plane.classed import PROVIDER, Classed
from tests.plane.site import PlaneSite

LEAST = "should be greater than or equal to {}"
MATCH = "should match '"

CASES: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "no-endpoint": ("rke2", {"controlPlaneEndpoint": None}, ('required variable "controlPlaneEndpoint" must be set',)),
    "no-storage": ("rke2", {"storage": None}, ('required variable "storage" must be set',)),
    "no-network": ("rke2", {"network": None}, ('required variable "network" must be set',)),
    "kubeadm-without-cni": ("kubeadm", {"cni": None}, ('required variable "cni" must be set',)),
    "endpoint-is-a-name": ("rke2", {"controlPlaneEndpoint": "api.example.com"}, ("must be of type ipv4",)),
    "endpoint-of-ipv6": ("rke2", {"controlPlaneEndpoint": "2001:db8::1"}, ("must be of type ipv4",)),
    "an-unknown-variable": ("k3s", {"color": "red"}, ("variable is not defined",)),
    "cni-of-another-distribution": ("kubeadm", {"cni": "canal"}, ('supported values: "cilium", "calico"',)),
    "rke2-flannel": ("rke2", {"cni": "flannel"}, ('supported values: "canal", "calico", "cilium"',)),
    "k3s-canal": ("k3s", {"cni": "canal"}, ('supported values: "flannel", "cilium", "calico"',)),
    "vlan-0": ("rke2", {"network__vlan": 0}, ("[network].value.vlan", LEAST.format(1))),
    "vlan-4095": ("rke2", {"network__vlan": 4095}, ("[network].value.vlan", "should be less than or equal to 4094")),
    "prefix-33": ("rke2", {"network__prefix": 33}, ("[network].value.prefix", "should be less than or equal to 32")),
    "no-addresses": ("rke2", {"network__addresses": []}, ("[network].value.addresses", "should have at least 1 items")),
    "addresses-are-words": ("rke2", {"network__addresses": ["all"]}, ("[network].value.addresses[0]", MATCH)),
    "no-gateway": ("rke2", {"network__gateway": None}, ("[network].value.gateway: Required value",)),
    "no-dns": ("rke2", {"network__dnsServers": []}, ("[network].value.dnsServers", "should have at least 1 items")),
    "bridge-with-options": ("rke2", {"network__bridge": "vmbr0,tag=1"}, ("[network].value.bridge", MATCH)),
    "a-field-too-many": (
        "rke2",
        {"network__mtu": 1500},
        ('"mtu" field(s) are not specified in the variable schema of variable "network"',),
    ),
    "storage-with-a-path": ("rke2", {"storage": "a/b"}, ("[storage].value", MATCH)),
    "no-node-at-all": ("rke2", {"allowedNodes": []}, ("[allowedNodes].value", "should have at least 1 items")),
    "node-with-a-comma": ("rke2", {"allowedNodes": ["pve1,pve2"]}, ("[allowedNodes].value.[0]", MATCH)),
    "ha-in-words": ("rke2", {"proxmoxHA": "yes"}, ("must be of type boolean",)),
    "no-cores": ("rke2", {"workerMachine": {"cores": 0}}, ("[workerMachine].value.cores", LEAST.format(1))),
    "worker-memory": ("rke2", {"workerMachine": {"memoryMiB": 1016}}, ("[workerMachine].value.memoryMiB", LEAST.format(1024))),
    "memory-between-steps": ("rke2", {"workerMachine": {"memoryMiB": 4100}}, ("memory comes in steps of 8 MiB",)),
    "small-disk": ("rke2", {"workerMachine": {"diskGiB": 19}}, ("[workerMachine].value.diskGiB", LEAST.format(20))),
    "kubeadm-memory": ("kubeadm", {"controlPlaneMachine": {"memoryMiB": 2040}}, (LEAST.format(2048),)),
    "rke2-memory": ("rke2", {"controlPlaneMachine": {"memoryMiB": 2048}}, (LEAST.format(3072),)),
    "k3s-memory": ("k3s", {"controlPlaneMachine": {"memoryMiB": 2040}}, (LEAST.format(2048),)),
    "control-plane-memory-step": ("k3s", {"controlPlaneMachine": {"memoryMiB": 2049}}, ("memory comes in steps of 8 MiB",)),
    "headlamp-at-an-address": ("k3s", {"headlamp": {"hostname": "192.0.2.1"}}, ('"hostname" must not validate the schema (not)')),
    "headlamp-in-capitals": ("k3s", {"headlamp": {"hostname": "App.Example.com"}}, ("[headlamp].value.hostname", MATCH)),
    "rancher-without-a-name": ("k3s", {"rancher": {"install": True}}, ("installing Rancher needs a host name",)),
    "nine-providers": ("k3s", {"oidc": [PROVIDER] * 9}, ("[oidc].value", "must have at most 8 items")),
    "issuer-by-http": ("k3s", {"oidc": [{**PROVIDER, "issuerURL": "http://login.example.com"}]}, ("[oidc].value.[0].issuerURL", MATCH)),
    "no-client": ("k3s", {"oidc": [{"issuerURL": PROVIDER["issuerURL"]}]}, ("[oidc].value.[0].clientID: Required value",)),
    "prefix-of-the-system": (
        "k3s",
        {"oidc": [{**PROVIDER, "groupsPrefix": "system:"}]},
        ('"[0].groupsPrefix" must not validate the schema (not)'),
    ),
    "no-prefix": ("k3s", {"oidc": [{**PROVIDER, "usernamePrefix": ""}]}, ("should be at least 1 chars long",)),
    "ca-that-is-none": ("k3s", {"oidc": [{**PROVIDER, "certificateAuthority": "pki"}]}, (MATCH,)),
    "upgrades-always": ("rke2", {"upgrades": {"mode": "always"}}, ('supported values: "off", "patch", "minor"',)),
    "window-at-25": ("rke2", {"upgrades": {"window": {"start": "25:00"}}}, ("[upgrades].value.window.start", MATCH)),
    "window-on-a-holiday": ("rke2", {"upgrades": {"window": {"weekdays": ["Holiday"]}}}, ("supported values",)),
    "window-on-the-32nd": ("rke2", {"upgrades": {"window": {"monthDays": [32]}}}, ("should be less than or equal to 31",)),
    "window-of-40-minutes": ("rke2", {"upgrades": {"window": {"durationMinutes": 40}}}, ("a window is open for whole half hours",)),
}
CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "another-endpoint": ({"controlPlaneEndpoint": "127.0.0.2"}, "the API address is chosen at creation and stays"),
    "another-cni": ({"cni": "cilium"}, "the pod network is chosen at creation and stays"),
    "smaller-worker-disks": ({"workerMachine": {"diskGiB": 39}}, "a disk only grows"),
    "smaller-control-plane-disks": ({"controlPlaneMachine": {"diskGiB": 29}}, "a disk only grows"),
}


@pytest.mark.parametrize("distribution", ["kubeadm", "rke2", "k3s"])
def test_a_bad_value_is_refused(site: PlaneSite, distribution: str) -> None:
    """One test for each class, since making one takes longer than all its refusals."""
    cluster = Classed.made(site, distribution).cluster("bad")
    site.api.apply(cluster.body(), dry_run=True)  # what is changed below is all that is wrong
    missing = {}
    for name, (where, variables, words) in CASES.items():
        if where != distribution:
            continue
        values = {key: value for key, value in variables.items() if "__" not in key}
        for key, value in variables.items():
            variable, _, inner = key.partition("__")
            if inner:
                changed = {**cluster.variables[variable], inner: value}
                values[variable] = {one: given for one, given in changed.items() if given is not None}
        try:
            site.api.apply(cluster.body(**values), dry_run=True)
        except ApiError as error:
            if error.code != 422 or "default.cluster.cluster.x-k8s.io" not in str(error) or not all(one in str(error) for one in words):
                missing[name] = str(error)
        else:
            missing[name] = "accepted"
    assert not missing, "\n".join(f"{name}: {said}" for name, said in missing.items())


def test_what_is_chosen_at_creation_stays(site: PlaneSite) -> None:
    cluster = Classed.made(site, "rke2").cluster("one")
    body = cluster.body()
    body["spec"]["paused"] = True
    site.apply(body)
    for variables, words in CHANGES.values():
        changed = cluster.body(**variables)
        changed["spec"]["paused"] = True
        with pytest.raises(ApiError, match=words) as refused:
            site.api.apply(changed, dry_run=True)
        assert refused.value.code == 422
    larger = cluster.body(workerMachine={"diskGiB": 41}, controlPlaneMachine={"diskGiB": 31, "memoryMiB": 8192})
    larger["spec"]["paused"] = True
    site.api.apply(larger, dry_run=True)
