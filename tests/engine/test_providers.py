"""A distribution's controllers run while a cluster uses it, and its templates come once they serve (MODEL 6, 36, 37)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kubehenge.model.distribution import CLASS_NAMESPACE
from kubehenge.model.resource import ResourceRef
from kubehenge.resources.providers import CAPMOX_735, scale_ref
from tests.engine.harness import Site, cluster
from tests.engine.test_classes import FIRST, release

RKE2 = scale_ref("rke2")


def installed(site: Site, name: str, *, runs: bool, serving: bool | None = None) -> None:
    outputs = {"serving": runs if serving is None else serving}
    site.world.put(scale_ref(name), {"runs": runs}, outputs=outputs)


def runs(site: Site, name: str) -> bool:
    return bool(site.world.all("kube.provider_scale")[name].body["runs"])


def templates(site: Site) -> set[str]:
    return {name.partition("/")[0] for name in site.world.names("kube.class_template")}


@pytest.fixture
def bare(site: Site) -> Site:
    installed(site, "rke2", runs=False)
    release(site, FIRST)
    return site


def test_a_first_cluster_has_the_controllers_started_then_the_templates_made_then_itself(bare: Site) -> None:
    bare.settle()
    assert templates(bare) == {"ProxmoxClusterTemplate", "ProxmoxMachineTemplate"}
    assert bare.world.names("kube.class") == [f"{CLASS_NAMESPACE}/{FIRST.name}"]  # the class is always there
    bare.repo.push({"prod.yaml": cluster()})
    with pytest.raises(AssertionError, match="not settled"):
        bare.settle(passes=6)
    assert runs(bare, "rke2")
    assert "RKE2ControlPlaneTemplate" not in templates(bare)  # they run, and do not serve yet
    assert bare.world.names("kube.cluster") == []
    installed(bare, "rke2", runs=True)
    bare.settle()
    assert {"RKE2ControlPlaneTemplate", "RKE2ConfigTemplate"} <= templates(bare)
    assert bare.world.names("kube.cluster") == ["clusters/prod"]
    calls = [name for _, name in bare.world.calls]
    assert calls.index(str(RKE2)) < calls.index("kube.cluster/clusters/prod")


def test_controllers_rest_a_minute_after_the_last_cluster_is_gone(bare: Site) -> None:
    bare.repo.push({"prod.yaml": cluster()})
    installed(bare, "rke2", runs=True)
    bare.settle()
    bare.repo.push({"prod.yaml": None})
    bare.settle()
    assert runs(bare, "rke2")
    plan = bare.waiting()
    bare.approve(plan, typed_name="clusters/prod")
    while bare.world.names("kube.cluster"):
        bare.tick()
        bare.apply()
    assert runs(bare, "rke2")  # they have what the last cluster leaves to finish
    bare.settle()
    bare.clock.forward(timedelta(minutes=2).total_seconds())
    bare.settle()
    assert not runs(bare, "rke2")
    assert templates(bare) >= {"RKE2ControlPlaneTemplate"}


def test_controllers_that_a_cluster_made_elsewhere_uses_are_left_running(bare: Site) -> None:
    installed(bare, "kubeadm", runs=True)
    status = {"phase": "Provisioned", "available": True, "rolling": False, "class": "theirs", "control_plane_kind": "KubeadmControlPlane"}
    counts = {"desired": 1, "replicas": 1, "ready": 1, "up_to_date": 1}
    more = {"control_plane": counts, "workers": counts, "conditions": [], "endpoint": "", "version": "v1.36.5"}
    rest = {"paused": False, "deleting": False, "observed_generation": 1, "generation": 1}
    theirs = ResourceRef(kind="kube.cluster_status", name="theirs/one")
    bare.world.put(theirs, {**status, **more, **rest})
    bare.settle()
    bare.clock.forward(300)
    bare.settle()
    assert runs(bare, "kubeadm")
    bare.world.remove(theirs)
    for _ in range(3):
        bare.settle()
        bare.clock.forward(300)
    bare.settle()
    assert not runs(bare, "kubeadm")


def test_controllers_that_somebody_stops_while_they_are_used_are_started_again(bare: Site) -> None:
    bare.repo.push({"prod.yaml": cluster()})
    installed(bare, "rke2", runs=True)
    bare.settle()
    installed(bare, "rke2", runs=False)
    bare.settle()
    assert runs(bare, "rke2")


def test_a_provider_that_is_not_installed_is_waited_for_by_name(bare: Site) -> None:
    bare.world.remove(RKE2)
    bare.repo.push({"prod.yaml": cluster()})
    with pytest.raises(AssertionError, match="not settled"):
        bare.settle(passes=6)
    assert bare.world.names("kube.cluster") == []
    assert [run.plan_id for run in bare.runs() if run.ended_at is None]


def test_idle_ticks_write_nothing_while_controllers_rest(bare: Site) -> None:
    bare.settle()
    bare.clock.forward(300)
    bare.settle()
    before = bare.counts()
    for _ in range(3):
        assert bare.tick().number is None
    assert bare.counts() == before


def test_a_vendors_object_gets_what_its_release_needs_and_gets_it_again_after_an_upgrade(bare: Site) -> None:
    ref = ResourceRef(kind="kube.vendor_patch", name=CAPMOX_735.name)
    theirs = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": ref.name},
        "webhooks": [{"name": "validation.proxmoxmachinetemplate.infrastructure.cluster.x-k8s.io", "failurePolicy": "Fail"}],
    }
    bare.settle()
    assert not bare.plans("site:vendor-patches")  # without capmox nothing is asked for
    bare.world.put(ref, theirs)
    bare.settle()
    assert bare.world.all(ref.kind)[ref.name].body["webhooks"][0]["matchConditions"]
    bare.world.put(ref, theirs)
    bare.settle()
    assert bare.world.all(ref.kind)[ref.name].body["webhooks"][0]["matchConditions"]
    assert len(bare.plans("site:vendor-patches")) == 2
