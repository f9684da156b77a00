"""The contract of the verbs on the management cluster, over HTTPS against the simulated one (MODEL 4, 8, 21, 26, 36)."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import yaml
from pydantic import SecretStr

from kubehenge.drivers.base import Done, Pending, Vault
from kubehenge.drivers.fingerprint import secret_hmac
from kubehenge.drivers.kube import applying, kinds
from kubehenge.drivers.kube.applying import TAKEN
from kubehenge.errors import InvariantError, KubehengeError, RefusedError, TransientError, UncertainError
from kubehenge.lab.faults import FaultAction
from kubehenge.model.identity import mark_annotations
from kubehenge.model.resource import DesiredResource, ResourceRef
from tests.drivers.kube_resources import KINDS, MARKED, contains, resource, written
from tests.drivers.servers import SITE_KEY, KubeSite, incarnation

pytestmark = pytest.mark.lab

WHO = incarnation()
NEXT = incarnation(number=2)
OTHER = incarnation("staging")
NAMES = ("default", "kube-system")


def path_of(it: DesiredResource) -> str:
    served, namespace, name = kinds.find_place(it.ref)
    return served.one(namespace, name)


def raw(kube: KubeSite, it: DesiredResource) -> dict[str, Any]:
    return dict(kube.admin.get(path_of(it)))


def there(kube: KubeSite, it: DesiredResource) -> bool:
    try:
        return bool(raw(kube, it))
    except RefusedError:
        return False


def made(kube: KubeSite, kind: str) -> DesiredResource:
    it = resource(kube, kind, WHO)
    kube.driver.create(it.ref, it.body, kube.context(WHO))
    return it


def edit(kube: KubeSite, path: str, body: dict[str, Any]) -> None:
    """Change an object as somebody else does."""
    kube.admin._change("PATCH", path, body, query={"fieldManager": "kubectl-edit"}, content="application/merge-patch+json")


def by_hand(kube: KubeSite, it: DesiredResource, annotations: dict[str, str]) -> None:
    """Have somebody else make an object of the same name."""
    body = written(kube, it, WHO)
    meta = {**body["metadata"], "annotations": annotations}
    served, namespace, _ = kinds.find_place(it.ref)
    listing = served.within(namespace) if served.namespaced else served.all
    kube.admin._change("POST", listing, {**body, "metadata": meta}, query={"fieldManager": "kubectl-create"})


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_made_reads_as_its_body(kube: KubeSite, kind: str) -> None:
    it = resource(kube, kind, WHO)
    assert kube.driver.read(it.ref, it.body) is None
    outcome = kube.driver.create(it.ref, it.body, kube.context(WHO))
    alone = kube.driver.read(it.ref, it.body)
    assert outcome.left is not None
    assert alone is not None
    assert contains(alone.body, written(kube, it, WHO))
    assert outcome.left.body == alone.body
    assert alone.mark == outcome.left.mark == (WHO.mark if kind in MARKED else None)
    assert not {"managedFields", "uid", "resourceVersion", "generation", "creationTimestamp"} & alone.body["metadata"].keys()
    assert "status" not in alone.body


@pytest.mark.parametrize("kind", KINDS)
def test_the_bulk_reading_shows_what_reading_one_shows(kube: KubeSite, kind: str) -> None:
    it = made(kube, kind)
    alone = kube.driver.read(it.ref, it.body)
    found = next(found for found in kube.driver.read_bulk().items[it.ref.kind] if found.ref == it.ref)
    assert alone is not None
    assert (found.body, found.mark, found.outputs) == (alone.body, alone.mark, alone.outputs)


@pytest.mark.parametrize("kind", KINDS)
def test_making_and_updating_it_again_changes_nothing(kube: KubeSite, kind: str) -> None:
    it = made(kube, kind)
    before = raw(kube, it)
    for _ in range(2):
        kube.restart()
        kube.driver.create(it.ref, it.body, kube.context(WHO))
        kube.driver.update(it.ref, it.body, kube.context(WHO))
    assert raw(kube, it)["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


@pytest.mark.parametrize("kind", MARKED)
def test_an_update_puts_back_what_somebody_changed(kube: KubeSite, kind: str) -> None:
    it = made(kube, kind)
    path, annotations = path_of(it), {"kubehenge.dev/incarnation": None, "theirs": "stays"}
    edit(kube, path, {"metadata": {"annotations": annotations}})
    changed = kube.driver.read(it.ref, it.body)
    assert changed is not None
    assert changed.mark is None
    kube.driver.update(it.ref, it.body, kube.context(WHO))
    after = kube.driver.read(it.ref, it.body)
    assert after is not None
    assert after.mark == WHO.mark
    assert after.body["metadata"]["annotations"]["theirs"] == "stays"


@pytest.mark.parametrize("kind", MARKED)
def test_deleting_it_twice_is_done(kube: KubeSite, kind: str) -> None:
    it = made(kube, kind)
    for _ in range(2):
        outcome = kube.driver.delete(it.ref, it.body, kube.context(WHO))
        assert outcome == Done(left=None)
    assert not there(kube, it)


def test_a_namespace_is_taken_as_it_is_and_never_deleted(kube: KubeSite) -> None:
    it = resource(kube, "kube.namespace", WHO)
    by_hand(kube, it, {})
    assert isinstance(kube.driver.create(it.ref, it.body, kube.context(WHO)), Done)
    with pytest.raises(RefusedError, match="Delete it by hand"):
        kube.driver.delete(it.ref, it.body, kube.context(WHO))
    assert there(kube, it)


@pytest.mark.parametrize("kind", MARKED)
@pytest.mark.parametrize(
    "marks", [{}, mark_annotations(NEXT), mark_annotations(OTHER)], ids=["unmarked", "next incarnation", "other cluster"]
)
def test_what_is_not_marked_as_ours_is_neither_taken_nor_deleted(kube: KubeSite, kind: str, marks: dict[str, str]) -> None:
    it = resource(kube, kind, WHO)
    by_hand(kube, it, marks)
    before = kube.calls.last_n
    for verb in ("create", "delete"):
        with pytest.raises(RefusedError, match="bears"):
            getattr(kube.driver, verb)(it.ref, it.body, kube.context(WHO))
    if marks:
        with pytest.raises(RefusedError, match="bears the mark"):
            kube.driver.update(it.ref, it.body, kube.context(WHO))
    assert there(kube, it)
    assert kube.writes_since(before) == []


@pytest.mark.parametrize("kind", MARKED)
def test_what_somebody_made_in_the_place_of_ours_is_not_brought_to_our_body(kube: KubeSite, kind: str) -> None:
    it = made(kube, kind)
    kube.driver.delete(it.ref, it.body, kube.context(WHO))
    by_hand(kube, it, {})
    before = raw(kube, it)
    with pytest.raises(RefusedError, match="bears no mark of Kubehenge"):
        kube.driver.update(it.ref, it.body, kube.context(WHO))
    assert raw(kube, it)["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


@pytest.mark.parametrize("kind", MARKED)
def test_what_vanished_is_not_updated(kube: KubeSite, kind: str) -> None:
    it = resource(kube, kind, WHO)
    with pytest.raises(RefusedError, match="The next plan"):
        kube.driver.update(it.ref, it.body, kube.context(WHO))
    assert not there(kube, it)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("action", [FaultAction.LOSE_ANSWER, FaultAction.CUT, FaultAction.HTML])
def test_a_lost_answer_is_uncertain_and_trying_again_is_harmless(kube: KubeSite, kind: str, action: FaultAction) -> None:
    it = resource(kube, kind, WHO)
    kube.fault(action, method="PATCH", status=502)
    with pytest.raises(UncertainError):
        kube.driver.create(it.ref, it.body, kube.context(WHO))
    kube.restart()
    kube.driver.create(it.ref, it.body, kube.context(WHO))
    found = kube.driver.read(it.ref, it.body)
    assert found is not None
    assert contains(found.body, written(kube, it, WHO))


@pytest.mark.parametrize("kind", MARKED)
@pytest.mark.parametrize("action", [FaultAction.LOSE_ANSWER, FaultAction.CUT, FaultAction.REFUSE, FaultAction.STATUS])
def test_a_deletion_in_trouble_is_done_when_tried_again(kube: KubeSite, kind: str, action: FaultAction) -> None:
    it = made(kube, kind)
    kube.fault(action, method="DELETE", status=503)
    with pytest.raises(TransientError):
        kube.driver.delete(it.ref, it.body, kube.context(WHO))
    kube.restart()
    assert kube.driver.delete(it.ref, it.body, kube.context(WHO)) == Done(left=None)


def test_a_deletion_that_something_holds_is_waited_for(kube: KubeSite) -> None:
    it = made(kube, "kube.cluster")
    edit(kube, path_of(it), {"metadata": {"finalizers": ["cluster.cluster.x-k8s.io"]}})
    outcome = kube.driver.delete(it.ref, it.body, kube.context(WHO))
    assert isinstance(outcome, Pending)
    assert "cluster.cluster.x-k8s.io" in outcome.waits_on
    again = kube.driver.delete(it.ref, it.body, kube.context(WHO))
    assert isinstance(again, Pending)
    assert again.handle == outcome.handle
    kube.restart()
    assert isinstance(kube.driver.look(it.ref, outcome.handle, kube.context(WHO)), Pending)
    with pytest.raises(RefusedError, match="is being deleted"):
        kube.driver.create(it.ref, it.body, kube.context(WHO))
    edit(kube, path_of(it), {"metadata": {"finalizers": None}})
    assert kube.driver.look(it.ref, outcome.handle, kube.context(WHO)) == Done(left=None)


def test_a_new_object_of_the_same_name_is_not_the_one_that_was_deleted(kube: KubeSite) -> None:
    it = made(kube, "kube.cluster")
    outcome = kube.driver.look(it.ref, {"want": "gone", "uid": "another"}, kube.context(WHO))
    assert isinstance(outcome, Done)
    assert outcome.left is None
    assert "another object" in outcome.note
    with pytest.raises(RefusedError, match="another object by now"):
        kube.driver.client.delete(path_of(it), uid="another")
    assert there(kube, it)


# ---- field managers


def test_a_field_of_another_manager_is_refused_with_its_name(kube: KubeSite) -> None:
    it = made(kube, "kube.cluster")
    body = {"apiVersion": it.body["apiVersion"], "kind": "Cluster", "metadata": {"name": "prod", "namespace": "clusters"}}
    topology = {"classRef": it.body["spec"]["topology"]["classRef"], "version": "v1.36.5+k3s1", "controlPlane": {"replicas": 3}}
    kube.admin._change(
        "PATCH",
        path_of(it),
        {**body, "spec": {"topology": topology}},
        query={"fieldManager": "gitops-tool", "force": "true"},
        content="application/apply-patch+yaml",
    )
    before = raw(kube, it)
    with pytest.raises(RefusedError) as refused:
        kube.driver.update(it.ref, it.body, kube.context(WHO))
    assert '"gitops-tool" owns .spec.topology.controlPlane.replicas' in str(refused.value)
    assert "never takes fields by force" in str(refused.value)
    assert raw(kube, it)["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert not any("force" in call.path for call in kube.since(0) if call.who == "kubehenge")


def test_an_annotation_that_is_ours_by_name_is_taken_back(kube: KubeSite) -> None:
    it = made(kube, "kube.cluster")
    edit(kube, path_of(it), {"metadata": {"annotations": {"kubehenge.dev/online-nodes": "pve9"}}})
    kube.driver.update(it.ref, it.body, kube.context(WHO))
    assert raw(kube, it)["metadata"]["annotations"]["kubehenge.dev/online-nodes"] == "pve1,pve2"
    kube.driver.update(it.ref, it.body, kube.context(WHO))


def test_protection_is_not_taken_back(kube: KubeSite) -> None:
    it = resource(kube, "kube.cluster", WHO)
    annotations = {**it.body["metadata"]["annotations"], "kubehenge.dev/protect": "false"}
    body = {**it.body, "metadata": {**it.body["metadata"], "annotations": annotations}}
    kube.driver.create(it.ref, body, kube.context(WHO))
    edit(kube, path_of(it), {"metadata": {"annotations": {"kubehenge.dev/protect": "true"}}})
    with pytest.raises(RefusedError, match=r"owns \.metadata\.annotations\.kubehenge\.dev/protect"):
        kube.driver.update(it.ref, body, kube.context(WHO))
    assert not any("protect" in field for field in TAKEN)


def test_what_we_no_longer_ask_for_goes_and_what_others_set_stays(kube: KubeSite) -> None:
    it = resource(kube, "kube.cluster", WHO)
    labels = {**it.body["metadata"]["labels"], "tier": "gold"}
    kube.driver.create(it.ref, {**it.body, "metadata": {**it.body["metadata"], "labels": labels}}, kube.context(WHO))
    edit(kube, path_of(it), {"metadata": {"labels": {"theirs": "yes"}}})
    kube.driver.update(it.ref, it.body, kube.context(WHO))
    assert raw(kube, it)["metadata"]["labels"] == {"kubehenge.dev/cluster-name": "prod", "theirs": "yes"}


def test_an_object_that_changes_at_the_same_moment_is_tried_again(kube: KubeSite) -> None:
    it = made(kube, "kube.cluster")
    kube.fault(
        FaultAction.STATUS, method="PATCH", status=409, reason="Operation cannot be fulfilled: the object has been modified", times=3
    )
    kube.driver.update(it.ref, it.body, kube.context(WHO))
    kube.fault(
        FaultAction.STATUS, method="PATCH", status=409, reason="Operation cannot be fulfilled: the object has been modified", times=None
    )
    with pytest.raises(TransientError, match="at the same moment"):
        kube.driver.update(it.ref, it.body, kube.context(WHO))


def test_what_changes_between_the_look_and_the_write_is_looked_at_again(kube: KubeSite) -> None:
    it = made(kube, "kube.cluster")
    marks = iter([mark_annotations(WHO), mark_annotations(NEXT)])

    def compose() -> Any:
        edit(kube, path_of(it), {"metadata": {"annotations": {**next(marks), "theirs": "new"}}})
        return it.body

    before = kube.calls.last_n
    with pytest.raises(RefusedError, match="incarnation=2"):
        applying.apply(kube.driver.client, it.ref, compose, kube.context(WHO), create=False)
    ours = [call.status for call in kube.since(before) if call.method == "PATCH" and call.who == "kubehenge"]
    assert ours
    assert set(ours) == {409}


def test_what_somebody_makes_between_the_look_and_the_creation_is_not_taken(kube: KubeSite) -> None:
    it = resource(kube, "kube.cluster", WHO)

    def compose() -> Any:
        if not there(kube, it):
            by_hand(kube, it, mark_annotations(NEXT))
        return it.body

    with pytest.raises(RefusedError, match="incarnation=2"):
        applying.apply(kube.driver.client, it.ref, compose, kube.context(WHO), create=True)
    assert raw(kube, it)["metadata"]["annotations"]["kubehenge.dev/incarnation"] == "2"


def test_a_late_apply_is_refused_by_the_version_that_it_was_meant_for(kube: KubeSite) -> None:
    it = made(kube, "kube.cluster")
    body = {**it.body, "metadata": {**it.body["metadata"], "resourceVersion": raw(kube, it)["metadata"]["resourceVersion"]}}
    edit(kube, path_of(it), {"metadata": {"labels": {"theirs": "yes"}}})
    with pytest.raises(TransientError, match="somebody changed it"):
        kube.driver.client.apply(path_of(it), body)


# ---- secrets


def manifests(kube: KubeSite, it: DesiredResource) -> list[dict[str, Any]]:
    data = raw(kube, it)["data"]
    assert data.keys() == {"cloud.yaml"}
    return list(yaml.safe_load_all(base64.b64decode(data["cloud.yaml"])))


def test_the_clusters_secret_holds_what_both_programs_sign_in_with(kube: KubeSite) -> None:
    it = made(kube, "token")
    ccm, csi = manifests(kube, it)
    assert [(one["kind"], one["metadata"]) for one in (ccm, csi)] == [
        ("Secret", {"name": "proxmox-cloud-config", "namespace": "kube-system"}),
        ("Secret", {"name": "proxmox-csi-plugin", "namespace": "kube-system"}),
    ]
    for one in (ccm, csi):
        plain = one["stringData"]
        assert plain["url"] == "https://pve1:8006/api2/json"
        assert plain["token_id"] == f"{WHO.user}!k1"
        assert plain["token_secret"] == kube.token.get_secret_value()
        assert plain["region"] == "lab"
        assert plain["volume_owner"] == "9000001"
        assert plain["ca.crt"].startswith("-----BEGIN CERTIFICATE-----")
        where = yaml.safe_load(plain["config.yaml"])["clusters"][0]
        assert where == {
            "url": plain["url"],
            "insecure": False,
            "token_id": plain["token_id"],
            "token_secret": plain["token_secret"],
            "region": "lab",
        }
    assert yaml.safe_load(csi["stringData"]["config.yaml"])["features"]["controllerVmID"] == 9_000_001
    assert raw(kube, it)["type"] == "addons.cluster.x-k8s.io/resource-set"


def test_capmoxs_secret_holds_its_token_and_the_ca(kube: KubeSite) -> None:
    it = made(kube, "credentials")
    data = {name: base64.b64decode(value).decode() for name, value in raw(kube, it)["data"].items()}
    assert data == {
        "url": "https://pve1:8006",
        "token": "capmox@pve!capmox",
        "secret": kube.capmox.get_secret_value(),
        "root_ca": "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
        "insecure": "false",
    }


def test_a_successor_without_the_vault_keeps_the_token_that_the_secret_holds(kube: KubeSite) -> None:
    it = made(kube, "token")
    edit(kube, path_of(it), {"metadata": {"labels": {"cluster.x-k8s.io/cluster-name": "gone"}}})
    edit(kube, path_of(it), {"metadata": {"annotations": {"kubehenge.dev/volume-owner": "1"}}})
    before = manifests(kube, it)
    kube.restart()
    with pytest.raises(RefusedError, match=r'"kubectl-edit" owns \.metadata\.labels\.cluster\.x-k8s\.io/cluster-name, with other'):
        kube.driver.update(it.ref, it.body, kube.context(WHO, secret=False))
    edit(kube, path_of(it), {"metadata": {"labels": {"cluster.x-k8s.io/cluster-name": "prod"}}})
    outcome = kube.driver.update(it.ref, it.body, kube.context(WHO, secret=False))
    assert isinstance(outcome, Done)
    assert manifests(kube, it) == before
    assert raw(kube, it)["metadata"]["annotations"]["kubehenge.dev/volume-owner"] == "9000001"


@pytest.mark.parametrize("data", [None, {"cloud.yaml": "YTogWw=="}, {"cloud.yaml": "YTogMQ=="}, {"cloud.yaml": "/w=="}, {"other": "YQ=="}])
def test_a_secret_that_holds_no_such_token_is_lost(kube: KubeSite, data: dict[str, str] | None) -> None:
    it = resource(kube, "token", WHO)
    body = {**written(kube, it, WHO), **({"data": data} if data else {})}
    kube.admin._change("POST", "/api/v1/namespaces/clusters/secrets", body, query={"fieldManager": "x"})
    with pytest.raises(RefusedError, match="is lost"):
        kube.driver.update(it.ref, it.body, kube.context(WHO, secret=False))


def test_a_secret_of_another_token_is_not_written(kube: KubeSite) -> None:
    it = resource(kube, "token", WHO)
    ctx = kube.context(WHO, secret=False)
    ctx.vault.keep(f"{WHO.user}!k1", SecretStr("another"))
    with pytest.raises(RefusedError, match="is not the one that was planned with"):
        kube.driver.create(it.ref, it.body, ctx)
    with pytest.raises(RefusedError, match="is lost"):
        kube.driver.create(it.ref, it.body, kube.context(WHO, secret=False))
    assert not there(kube, it)


def test_an_unresolved_reference_writes_nothing(kube: KubeSite) -> None:
    it = resource(kube, "token", WHO)
    ctx = kube.context(WHO)
    ctx = type(ctx)(mark=ctx.mark, vault=Vault(), outputs={})
    before = kube.calls.last_n
    with pytest.raises(RefusedError, match="is not known"):
        kube.driver.create(it.ref, it.body, ctx)
    assert kube.since(before) == ()


def test_capmoxs_secret_is_not_written_with_another_token_than_was_planned(kube: KubeSite) -> None:
    it = resource(kube, "credentials", WHO)
    kube.capmox = SecretStr("rotated")
    kube.restart()
    with pytest.raises(RefusedError, match="another token of capmox"):
        kube.driver.create(it.ref, it.body, kube.context(WHO))
    assert secret_hmac(SITE_KEY, kube.capmox) not in str(it.body)


def test_after_capmoxs_secret_its_clusters_are_touched(kube: KubeSite) -> None:
    body = {
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha2",
        "kind": "ProxmoxCluster",
        "metadata": {"name": "prod-abcde", "namespace": "clusters", "labels": {kinds.CLUSTER_LABEL: "prod"}},
        "spec": {"dnsServers": ["192.0.2.1"], "ipv4Config": {"addresses": ["192.0.2.11"], "prefix": 24, "gateway": "192.0.2.1"}},
    }
    path = kinds.PROXMOX_CLUSTERS.within("clusters")
    kube.admin._change("POST", path, body, query={"fieldManager": "x"})
    kube.admin._change(
        "POST",
        path,
        {**body, "metadata": {**body["metadata"], "name": "other", "labels": {kinds.CLUSTER_LABEL: "other"}}},
        query={"fieldManager": "x"},
    )
    made(kube, "credentials")

    def touched(name: str) -> str | None:
        meta = kube.admin.get(kinds.PROXMOX_CLUSTERS.one("clusters", name))["metadata"]
        value: str | None = (meta.get("annotations") or {}).get("kubehenge.dev/credentials-checked")
        return value

    first = touched("prod-abcde")
    assert first
    assert touched("other") is None
    it = resource(kube, "credentials", WHO)
    kube.driver.update(it.ref, it.body, kube.context(WHO))
    assert touched("prod-abcde") != first
    made(kube, "token")
    assert touched("other") is None


def test_secrets_are_never_read_with_their_contents_but_to_write_them_again(kube: KubeSite) -> None:
    for kind in ("token", "credentials"):
        made(kube, kind)
    before = kube.calls.last_n
    reading = kube.driver.read_bulk()
    it = resource(kube, "token", WHO)
    alone = kube.driver.read(it.ref, it.body)
    shown = f"{reading} {alone}"
    assert len(kube.since(before)) == 18
    for secret in (kube.token, kube.capmox):
        assert secret.get_secret_value() not in shown
        assert base64.b64encode(secret.get_secret_value().encode()).decode() not in shown


# ---- errors


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"version": "1.36"}, "version"),
        ({"variables": [{"name": "storage", "value": 7}]}, "spec.topology.variables"),
        ({"nonsense": True}, "field not declared in schema"),
    ],
)
def test_a_refused_cluster_names_its_fields(kube: KubeSite, change: dict[str, Any], told: str) -> None:
    it = resource(kube, "kube.cluster", WHO)
    topology = {**it.body["spec"]["topology"], **change}
    with pytest.raises(RefusedError) as refused:
        kube.driver.create(it.ref, {**it.body, "spec": {"topology": topology}}, kube.context(WHO))
    assert told in str(refused.value)


def test_a_namespace_that_is_not_there_is_named(kube: KubeSite) -> None:
    it = resource(kube, "token", WHO)
    body = {**it.body, "metadata": {**it.body["metadata"], "namespace": "nowhere"}}
    with pytest.raises(RefusedError, match='"nowhere" not found'):
        kube.driver.create(ResourceRef(kind="kube.secret", name="nowhere/prod-proxmox-token"), body, kube.context(WHO))


@pytest.mark.parametrize("kind", KINDS)
def test_no_verb_ends_in_an_error_that_is_not_ours(kube: KubeSite, kind: str) -> None:
    it = resource(kube, kind, WHO)
    kube.fault(FaultAction.STATUS, times=None, status=500, reason="etcdserver: leader changed")
    for verb in ("create", "update", "delete"):
        with pytest.raises(KubehengeError, match="leader changed"):
            getattr(kube.driver, verb)(it.ref, it.body, kube.context(WHO))
    with pytest.raises(TransientError, match="leader changed"):
        kube.driver.read(it.ref, it.body)
    with pytest.raises(TransientError, match="leader changed"):
        kube.driver.read_bulk()


def test_a_kind_that_is_only_looked_at_is_not_written(kube: KubeSite) -> None:
    ref = ResourceRef(kind="kube.machine", name="clusters/x")
    with pytest.raises(InvariantError):
        kube.driver.create(ref, {}, kube.context(WHO))
    with pytest.raises(InvariantError):
        kube.driver.read(ref, {})
