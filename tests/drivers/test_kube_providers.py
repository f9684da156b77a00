"""The controllers of a distribution, run by their scale alone, and what a release needs to work (MODEL 6, 36, 37)."""

from __future__ import annotations

from typing import Any

import pytest

from kubehenge.drivers.base import Done
from kubehenge.drivers.kube import kinds
from kubehenge.drivers.kube.providers import controller, scales
from kubehenge.errors import RefusedError
from kubehenge.model.canon import project
from kubehenge.resources.class_objects import CLASS, class_ref, class_resources, provider_templates
from kubehenge.resources.classes import RenderedClass
from kubehenge.resources.providers import CAPMOX_735, SERVING, scale, scale_ref, vendor_patch
from kubehenge.source.class_files import load_classes
from tests.drivers.servers import KubeSite, incarnation

RKE2: RenderedClass = load_classes("kubehenge-system")["rke2"]
CONTEXT_OF = incarnation()


def deployment(provider: str, *, replicas: int = 1, available: int = 1, generation: int = 3, seen: int = 3) -> dict[str, Any]:
    labels = {"cluster.x-k8s.io/provider": provider}
    return {
        "metadata": {"name": f"{provider}-manager", "namespace": f"{provider}-system", "labels": labels, "generation": generation},
        "spec": {"replicas": replicas},
        "status": {"observedGeneration": seen, "availableReplicas": available},
    }


@pytest.mark.parametrize(
    ("deployments", "runs", "serving"),
    [
        ([deployment("bootstrap-k3s"), deployment("control-plane-k3s")], True, True),
        ([deployment("bootstrap-k3s"), deployment("control-plane-k3s", available=0)], True, False),
        ([deployment("bootstrap-k3s"), deployment("control-plane-k3s", seen=2)], True, False),
        ([deployment("bootstrap-k3s", replicas=0, available=0), deployment("control-plane-k3s")], "partly", False),
        ([deployment("bootstrap-k3s", replicas=2), deployment("control-plane-k3s", replicas=3)], True, True),
    ],
    ids=["serving", "one that has not started", "a change not seen yet", "one at none", "more than one of each"],
)
def test_a_distribution_runs_and_serves_when_both_its_controllers_do(deployments: list[Any], runs: bool | str, serving: bool) -> None:
    [found] = scales(map(controller, deployments))
    assert (found.ref, found.body, found.outputs) == (scale_ref("k3s"), {"runs": runs}, {SERVING: serving})


def test_a_distribution_of_which_a_part_is_missing_is_not_there() -> None:
    assert scales(map(controller, [deployment("control-plane-k3s"), deployment("infrastructure-proxmox")])) == ()


@pytest.mark.lab
def test_controllers_are_stopped_and_started_by_their_scale_and_nothing_else_of_them_is_written(kube: KubeSite) -> None:
    it = scale("rke2", runs=True)
    before = kube.calls.last_n
    assert isinstance(kube.driver.update(it.ref, it.body, kube.context(CONTEXT_OF)), Done)
    writes = kube.writes_since(before)
    assert len(writes) == 2
    assert all(write.startswith("PATCH ") and write.endswith("/scale") for write in writes)
    found = {one.ref.name: one for one in kube.driver.read_bulk().items["kube.provider_scale"]}
    assert found.keys() == {"k3s", "kubeadm", "rke2"}
    assert (found["rke2"].body, found["rke2"].outputs) == ({"runs": True}, {SERVING: True})
    assert found["k3s"].body == {"runs": False}
    again = scale("rke2", runs=False)
    assert isinstance(kube.driver.update(again.ref, again.body, kube.context(CONTEXT_OF)), Done)
    read = kube.driver.read(again.ref, again.body)
    assert read is not None
    assert (read.body, read.outputs) == ({"runs": False}, {SERVING: False})


@pytest.mark.lab
def test_controllers_that_are_not_installed_are_a_refusal_that_says_what_to_install(kube: KubeSite) -> None:
    it = scale("talos", runs=True)
    with pytest.raises(RefusedError, match=r"controllers of talos are not installed.*control-plane-talos"):
        kube.driver.create(it.ref, it.body, kube.context(CONTEXT_OF))
    assert kube.driver.read(it.ref, it.body) is None


@pytest.mark.lab
def test_a_class_is_made_with_its_templates_and_woken_when_a_template_comes_after_it(kube: KubeSite) -> None:
    wanted = [*class_resources(RKE2.cluster_class, RKE2.templates), *provider_templates("rke2", RKE2.provider_templates)]
    for it in wanted:
        kube.driver.create(it.ref, it.body, kube.context(CONTEXT_OF))
    reading = kube.driver.read_bulk()
    found = {one.ref: one for kind in ("kube.class", "kube.class_template") for one in reading.items[kind]}
    for it in wanted:
        assert project(found[it.ref].body, it.body, it.body) == it.body
    name = class_ref(RKE2.name)
    assert name.kind == CLASS
    alone = kube.driver.read(name, None)
    assert alone is not None
    assert "kubehenge.dev/templates-made" in alone.body["metadata"]["annotations"]
    assert {one.ref.name for one in reading.items["kube.class_alias"]} == {
        f"kubehenge-system/kubehenge-{one}" for one in ("kubeadm", "rke2", "k3s")
    }


@pytest.mark.lab
def test_capmoxs_webhook_gets_its_condition_and_keeps_all_else(kube: KubeSite) -> None:
    it = vendor_patch(CAPMOX_735)
    before = kube.admin.get(kinds.WEBHOOKS.one("", it.ref.name))
    kube.driver.create(it.ref, it.body, kube.context(CONTEXT_OF))
    after = kube.admin.get(kinds.WEBHOOKS.one("", it.ref.name))
    [old], [new] = before["webhooks"], after["webhooks"]
    assert {key: value for key, value in new.items() if key != "matchConditions"} == old
    assert [one["name"] for one in new["matchConditions"]] == ["not-a-topology-dry-run"]
    [found] = kube.driver.read_bulk().items["kube.vendor_patch"]
    assert project(found.body, it.body, it.body) == it.body
