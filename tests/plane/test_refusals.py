"""What the real webhooks refuse, in their words."""

from __future__ import annotations

import pytest

from kubehenge.lab.plane.client import ApiError
from tests.plane import objects
from tests.plane.site import VERSION, PlaneSite


@pytest.fixture
def classed(site: PlaneSite) -> PlaneSite:
    site.apply(*objects.kubeadm_class(site.namespace, VERSION))
    reference = objects.kubeadm_class(site.namespace, VERSION)[-1]
    site.until(reference, VariablesReady="True")
    return site


def refusal(site: PlaneSite, body: objects.Body) -> ApiError:
    with pytest.raises(ApiError) as refused:
        site.api.apply(body, dry_run=True)
    return refused.value


def test_a_cluster_with_a_bad_range_is_refused(site: PlaneSite) -> None:
    body = site.cluster("bad")
    del body["spec"]["topology"]
    body["spec"]["clusterNetwork"]["pods"]["cidrBlocks"] = ["10.244.0.0"]
    error = refusal(site, body)
    assert (error.code, error.reason) == (422, "Invalid")
    assert 'admission webhook "validation.cluster.cluster.x-k8s.io" denied the request' in str(error)
    assert "invalid CIDR address: 10.244.0.0" in str(error)


def test_a_variable_that_the_class_does_not_have_is_refused(classed: PlaneSite) -> None:
    body = classed.cluster("bad")
    body["spec"]["topology"]["variables"].append({"name": "color", "value": "red"})
    error = refusal(classed, body)
    assert (error.code, error.reason) == (422, "Invalid")
    assert 'admission webhook "default.cluster.cluster.x-k8s.io" denied the request' in str(error)
    assert "variable is not defined" in str(error)


def test_a_value_against_the_schema_is_refused(classed: PlaneSite) -> None:
    error = refusal(classed, classed.cluster("bad", memory=512))
    assert error.code == 422
    assert "spec.topology.variables[memoryMiB].value" in str(error)
    assert "should be greater than or equal to 1024" in str(error)


def test_a_machine_template_of_capmox_cannot_be_changed(classed: PlaneSite) -> None:
    body = next(one for one in objects.kubeadm_class(classed.namespace, VERSION) if one["kind"] == "ProxmoxMachineTemplate")
    body["spec"]["template"]["spec"]["memoryMiB"] = 4096
    error = refusal(classed, body)
    assert "ProxmoxMachineTemplate is immutable" in str(error)


def test_a_class_in_use_cannot_be_deleted(classed: PlaneSite) -> None:
    body = classed.cluster("user")
    body["spec"]["paused"] = True
    classed.apply(body)
    with pytest.raises(ApiError) as refused:
        classed.api.delete(f"/apis/{objects.CORE}/namespaces/{classed.namespace}/clusterclasses/{objects.CLASS}")
    assert refused.value.code == 403
    assert f"ClusterClass cannot be deleted because it is used by Cluster(s): {classed.namespace}/user" in str(refused.value)


def test_types_of_rke2_are_served_without_its_controllers(site: PlaneSite) -> None:
    types = ("rke2controlplanes", "rke2controlplanetemplates")
    for name in types:
        assert site.api.get(f"/apis/controlplane.cluster.x-k8s.io/v1beta1/namespaces/{site.namespace}/{name}")["items"] == []
