"""Clusters of Kubehenge's own classes: real Cluster API, capmox and k3s controllers, the simulated Proxmox VE, simulated guests."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from kubehenge.lab.plane.client import path_of
from kubehenge.resources.class_objects import alias_resource
from tests.plane.classed import PODS, PROVIDER, SERVICES, Classed, ClassedCluster, every_variable, file_of
from tests.plane.objects import BOOTSTRAP, CORE, INFRASTRUCTURE, Body
from tests.plane.site import VERSION, PlaneSite

AUTHENTICATION = "/etc/kubehenge/authentication.json"
HOSTILE = "{{7*7}}{%raw%}"
"""A client id that the schema lets pass, and that cloud-init's Jinja would carry out."""


@pytest.mark.parametrize("distribution", ["kubeadm", "rke2", "k3s"])
def test_a_class_and_a_cluster_with_every_variable_are_accepted(site: PlaneSite, distribution: str) -> None:
    classed = Classed.made(site, distribution)
    cluster = classed.cluster("full")
    values = every_variable(cluster)
    named = {one["name"] for one in classed.body["spec"]["variables"]}
    assert values.keys() == named
    site.api.apply(cluster.body(**values), dry_run=True)
    for body in (classed.rendered.cluster_class, alias_resource(classed.rendered.alias, classed.rendered.cluster_class).body):
        site.api.apply(dict(body), dry_run=True)  # as they are, without the test's port


@pytest.mark.parametrize("distribution", ["kubeadm", "rke2", "k3s"])
def test_defaults_are_filled_in(site: PlaneSite, distribution: str) -> None:
    cluster = Classed.made(site, distribution).cluster("small", oidc=[PROVIDER])
    found = site.api.apply(cluster.body(), dry_run=True)
    values = {one["name"]: one["value"] for one in found["spec"]["topology"]["variables"]}
    assert values["controlPlaneMachine"] == {"cores": 2, "memoryMiB": 4096, "diskGiB": 30}
    assert values["workerMachine"] == {"cores": 2, "memoryMiB": 4096, "diskGiB": 40}
    assert values["upgrades"] == {"mode": "off"}
    assert values["proxmoxHA"] is True
    assert values["cni"] == {"kubeadm": "cilium", "rke2": "canal", "k3s": "flannel"}[distribution]
    prefixes = {"usernamePrefix": "oidc:", "groupsPrefix": "oidc:"}
    assert values["oidc"] == [{**PROVIDER, **prefixes, "usernameClaim": "email", "groupsClaim": "groups", "scopes": ["email", "profile"]}]


def test_a_cluster_waits_for_its_range_of_vm_ids(site: PlaneSite) -> None:
    cluster = Classed.made(site, "rke2").cluster("early")
    cluster.prepare()
    body = cluster.body(annotations={})
    site.apply(body)
    waiting = site.until(body, TopologyReconciled="False", within_s=60)
    [said] = [one["message"] for one in waiting["status"]["conditions"] if one["type"] == "TopologyReconciled"]
    assert "the annotation kubehenge.dev/vm-id-range of the Cluster is no range of VM ids" in said
    assert cluster.list(INFRASTRUCTURE, "ProxmoxCluster") == []
    site.apply(cluster.body())
    site.until(body, TopologyReconciled="True", within_s=60)


def test_a_kubeadm_cluster_becomes_available_and_follows_its_class(site: PlaneSite) -> None:
    plain = Classed.made(site, "kubeadm").cluster("one")
    network = {**plain.variables["network"], "vlan": 120}
    network["dnsServers"] = network["dnsServers"] * 2
    sizes = {"controlPlaneMachine": {"cores": 3, "memoryMiB": 2560}, "workerMachine": {"memoryMiB": 1536, "diskGiB": 45}}
    cluster = _built(plain, nodes="pve2, pve2", network=network, **sizes)
    _check_vms(cluster, vlan=120, node="pve2", sizes=({"cores": 3, "memory": 2560, "disk": 30}, {"cores": 2, "memory": 1536, "disk": 45}))
    _check_templates(cluster, ["kubehenge", f"kubeadm-{VERSION}"])
    [machine] = cluster.machines(control_plane=True)
    given = cluster.user_data(machine)
    assert {f"podSubnet: {PODS}", f"serviceSubnet: {SERVICES}"} <= {line.strip() for line in str(_kubeadm(given)).splitlines()}
    vip = yaml.safe_load(file_of(given, "/etc/kubernetes/manifests/kube-vip.yaml"))
    assert {"name": "address", "value": "127.0.0.1"} in vip["spec"]["containers"][0]["env"]
    assert AUTHENTICATION not in str(given)

    _placement_rolls_nothing(cluster)
    _providers_roll_control_planes_only(cluster)
    _is_deleted_cleanly(cluster)


def test_a_k3s_cluster_becomes_available_under_its_class(site: PlaneSite) -> None:
    cluster = _built(Classed.made(site, "k3s").cluster("one", oidc=[{**PROVIDER, "clientID": HOSTILE}], cni="cilium"), nodes="pve3")
    _check_vms(cluster, vlan=None, node="pve3", sizes=({"cores": 2, "memory": 4096, "disk": 30}, {"cores": 2, "memory": 4096, "disk": 40}))
    _check_templates(cluster, ["kubehenge", "cloud-image"])
    server = cluster.control_plane()["spec"]["kthreesConfigSpec"]["serverConfig"]
    assert (server["clusterCidr"], server["serviceCidr"]) == (PODS, SERVICES)
    [machine] = cluster.machines(control_plane=True)
    given = cluster.user_data(machine)
    config = yaml.safe_load(file_of(given, "/etc/rancher/k3s/config.yaml"))
    assert (config["cluster-cidr"], config["service-cidr"]) == (PODS, SERVICES)
    assert config["disable"] == ["local-storage"]
    assert config["disable-cloud-controller"] is True
    assert config["node-name"] == machine["metadata"]["name"]
    assert {"provider-id=proxmox://an-id", "cloud-provider=external"} <= set(config["kubelet-arg"])
    assert f"authentication-config={AUTHENTICATION}" in config["kube-apiserver-arg"]
    assert "127.0.0.1" in config["tls-san"]
    off = yaml.safe_load(file_of(given, "/etc/rancher/k3s/config.yaml.d/90-kubehenge.yaml"))
    assert off == {"flannel-backend": "none", "disable-network-policy": True}
    _check_authentication(given, HOSTILE)
    _check_kube_vip(file_of(given, "/var/lib/rancher/k3s/server/manifests/kube-vip.yaml"))
    [worker] = cluster.machines(control_plane=False)
    own = cluster.user_data(worker)
    assert "kube-vip" not in str(own)
    assert AUTHENTICATION not in str(own)
    _is_deleted_cleanly(cluster)


def test_objects_of_an_rke2_cluster_hold_what_its_class_says(site: PlaneSite) -> None:
    """RKE2's controllers cannot be had, so its types and the topology controller judge, and nothing runs."""
    classed = Classed.made(site, "rke2")
    cluster = classed.cluster("one")
    cluster.prepare()
    body = cluster.body(**every_variable(cluster))
    site.apply(body)
    site.until(body, TopologyReconciled="True", within_s=90)
    spec = cluster.control_plane()["spec"]
    assert spec["version"] == f"{VERSION}+rke2r1"
    server = spec["serverConfig"]
    assert server["cni"] == "cilium"
    assert server["cloudProviderName"] == "external"
    assert server["disableComponents"] == {"kubernetesComponents": ["cloudController"]}
    assert server["kubeAPIServer"]["extraArgs"] == [f"authentication-config={AUTHENTICATION}"]
    assert spec["registrationMethod"] == "control-plane-endpoint"
    files = {one["path"]: one for one in spec["files"]}
    _check_kube_vip(files["/var/lib/rancher/rke2/server/manifests/kube-vip.yaml"]["content"].encode())
    _check_authentication({"write_files": spec["files"]}, "kubernetes")
    [pool] = cluster.list(CORE, "MachineDeployment")
    name = pool["spec"]["template"]["spec"]["bootstrap"]["configRef"]["name"]
    worker = site.api.get(f"/apis/{BOOTSTRAP}/namespaces/{site.namespace}/rke2configtemplates/{name}")["spec"]["template"]["spec"]
    assert "provider-id=proxmox://{{ ds.meta_data.instance_id }}" in worker["agentConfig"]["kubelet"]["extraArgs"]
    assert "files" not in worker
    _check_templates(cluster, ["kubehenge", "cloud-image"], bridge={"vlan": 120}, sizes=[(3, 4608, 50), (3, 4608, 60)])
    assert cluster.one(INFRASTRUCTURE, "ProxmoxCluster")["spec"]["allowedNodes"] == ["pve1", "pve2"]
    # The provider reads the ranges from the Cluster itself.
    live = site.api.get(path_of(body))["spec"]["clusterNetwork"]
    assert (live["pods"]["cidrBlocks"], live["services"]["cidrBlocks"]) == ([PODS], [SERVICES])


# ---- steps


def _built(plain: ClassedCluster, *, nodes: str, **variables: Any) -> ClassedCluster:
    """A cluster that is available, on these nodes."""
    cluster = ClassedCluster(
        of=plain.of,
        name=plain.name,
        first_id=plain.first_id,
        variables=plain.variables | variables,
        annotations={"kubehenge.dev/online-nodes": nodes},
    )
    cluster.prepare()
    body = cluster.body()
    cluster.site.apply(body)
    cluster.site.until(body, Available="True", RemoteConnectionProbe="True")
    return cluster


def _check_vms(cluster: ClassedCluster, *, vlan: int | None, node: str, sizes: tuple[Body, Body]) -> None:
    guests = {guest.name: guest for guest in cluster.site.guests()}
    assert len(guests) == 2
    for control_plane, wanted in ((True, sizes[0]), (False, sizes[1])):
        [machine] = cluster.machines(control_plane=control_plane)
        guest = guests[machine["spec"]["infrastructureRef"]["name"]]  # k3s's provider gives a Machine and its VM two names
        config = guest.config
        assert guest.status == "running"
        assert guest.vmid in cluster.ids
        assert guest.pool == cluster.pool
        assert guest.node == node
        found = {"cores": int(config["cores"]), "memory": int(config["memory"]), "disk": int(config["scsi0"].rpartition("size=")[2][:-1])}
        assert found == wanted
        assert config["scsi0"].startswith("shared-storage:")
        options = dict(part.partition("=")[::2] for part in config["net0"].split(","))
        assert options["bridge"] == "vmbr0"
        assert options.get("tag") == (None if vlan is None else str(vlan))
        assert {"kubehenge", f"{cluster.site.namespace}.{cluster.name}"} <= set(config["tags"].split(";"))


def _check_templates(
    cluster: ClassedCluster, tags: list[str], *, bridge: Body | None = None, sizes: list[tuple[int, int, int]] | None = None
) -> None:
    """capmox's objects of the cluster."""
    machines = cluster.list(INFRASTRUCTURE, "ProxmoxMachineTemplate")
    specs = [one["spec"]["template"]["spec"] for one in machines]
    assert len(specs) == 2
    for spec in specs:
        assert spec["templateSelector"] == {"matchTags": tags, "matchPolicy": "uniqueSubset"}
        assert spec["vmIDRange"] == {"start": cluster.ids[0], "end": cluster.ids[-1]}
        assert spec["pool"] == cluster.pool
        assert spec["tags"] == ["kubehenge", f"{cluster.site.namespace}.{cluster.name}"]
        [device] = spec["network"]["networkDevices"]
        assert (bridge or {}).items() <= device.items()
    if sizes:
        assert sorted((one["numCores"], one["memoryMiB"], one["disks"]["bootVolume"]["sizeGb"]) for one in specs) == sizes
    spec = cluster.one(INFRASTRUCTURE, "ProxmoxCluster")["spec"]
    network = cluster.variables["network"]
    assert spec["credentialsRef"]["name"] == f"{cluster.name}-proxmox-credentials"
    assert spec["controlPlaneEndpoint"] == {"host": "127.0.0.1", "port": cluster.variables["testPort"]}
    assert spec["ipv4Config"]["addresses"] == network["addresses"]
    assert spec["dnsServers"] == list(dict.fromkeys(network["dnsServers"]))


def _shape(cluster: ClassedCluster) -> Any:
    """Names, and generations of what machines are made from: whatever rolls nodes shows here."""
    kinds = [(CORE, "Machine"), (CORE, "MachineSet"), (CORE, "MachineDeployment"), (INFRASTRUCTURE, "ProxmoxMachineTemplate")]
    found = {kind: {one["metadata"]["uid"]: one["metadata"]["generation"] for one in cluster.list(api, kind)} for api, kind in kinds}
    control_plane = cluster.control_plane()["metadata"]
    return found, control_plane["uid"], control_plane["generation"]


def _placement_rolls_nothing(cluster: ClassedCluster) -> None:
    before = _shape(cluster)
    changed = cluster.body()
    changed["metadata"]["annotations"]["kubehenge.dev/online-nodes"] = "pve1,pve3"
    cluster.site.apply(changed)

    def nodes() -> Any:
        return cluster.one(INFRASTRUCTURE, "ProxmoxCluster")["spec"].get("allowedNodes")

    cluster.site.plane.until(lambda: nodes() == ["pve1", "pve3"], within_s=60, what=lambda: str(nodes()))
    cluster.site.until(changed, TopologyReconciled="True", RollingOut="False", within_s=60)
    assert _shape(cluster) == before


def _providers_roll_control_planes_only(cluster: ClassedCluster) -> None:
    workers, control_planes = cluster.names(control_plane=False), cluster.names(control_plane=True)
    changed = cluster.body(oidc=[{**PROVIDER, "clientID": HOSTILE}])
    cluster.site.apply(changed)

    def replaced() -> bool:
        now = cluster.machines(control_plane=True)
        return len(now) == 1 and now[0]["metadata"]["name"] not in control_planes and now[0]["status"].get("phase") == "Running"

    cluster.site.plane.until(replaced, within_s=240, what=cluster.status)
    assert cluster.names(control_plane=False) == workers
    [machine] = cluster.machines(control_plane=True)
    _check_authentication(cluster.user_data(machine), HOSTILE)
    arguments = cluster.control_plane()["spec"]["kubeadmConfigSpec"]["clusterConfiguration"]["apiServer"]["extraArgs"]
    assert arguments == [{"name": "authentication-config", "value": AUTHENTICATION}]
    cluster.site.until(changed, Available="True", RollingOut="False")


def _is_deleted_cleanly(cluster: ClassedCluster) -> None:
    site = cluster.site
    ids = {guest.vmid for guest in site.guests()}
    assert ids
    body = cluster.body()
    site.api.delete(path_of(body))
    site.until_gone(body)
    assert cluster.list(CORE, "Machine") == []
    left = site.proxmox.running.within(lambda: {vm.vmid for vm in site.proxmox.running.server.vms})
    assert not set(cluster.ids) & left


def _kubeadm(user_data: Body) -> str:
    return file_of(user_data, "/run/kubeadm/kubeadm.yaml").decode()


def _check_authentication(user_data: Body, client: str) -> None:
    found = json.loads(file_of(user_data, AUTHENTICATION))
    assert (found["apiVersion"], found["kind"]) == ("apiserver.config.k8s.io/v1", "AuthenticationConfiguration")
    [provider] = found["jwt"]
    assert provider["issuer"] == {"url": PROVIDER["issuerURL"], "audiences": [client]}
    assert provider["claimMappings"]["username"] == {"claim": "email", "prefix": "oidc:"}
    assert set(provider["claimMappings"]["groups"]) == {"claim", "prefix"}


def _check_kube_vip(manifest: bytes) -> None:
    *_, daemon_set = yaml.safe_load_all(manifest)
    assert daemon_set["kind"] == "DaemonSet"
    [container] = daemon_set["spec"]["template"]["spec"]["containers"]
    assert {"name": "address", "value": "127.0.0.1"} in container["env"]
