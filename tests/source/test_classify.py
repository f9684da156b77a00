"""Which documents are Kubehenge's, which are skipped, and what may not be skipped silently."""

from __future__ import annotations

import pytest

from kubehenge.model.document import Verdict
from kubehenge.source.judge import judge_file
from tests.source.clusters import GONE, RKE2, cluster, judge, text

SITE = {"apiVersion": "kubehenge.dev/v1alpha1", "kind": "Site", "metadata": {"name": "default"}, "spec": {}}

SKIPPED = {
    "another kind": ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}, "kind not kept"),
    "another kind of Cluster API": ({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment"}, "kind not kept"),
    "another group's Cluster": ({"apiVersion": "postgresql.cnpg.io/v1", "kind": "Cluster"}, "kind not kept"),
    "another group's Site": ({"apiVersion": "example.com/v1", "kind": "Site"}, "kind not kept"),
    "a Cluster of another class": (cluster(spec__topology__classRef={"name": "quick-start"}), "`quick-start`, is none of Kubehenge's"),
    "an older Cluster of another class": (
        {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "spec": {"topology": {"class": "quick-start"}}},
        "none of Kubehenge's",
    ),
    "a Cluster without a topology": (cluster(spec={"infrastructureRef": {}}), "without a topology"),
    "no Kubernetes object": ({"replicaCount": 1}, "no Kubernetes object"),
    "a list": ([1, 2], "no Kubernetes object"),
    "a text": ("hello", "no Kubernetes object"),
    "a List of other kinds": ({"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Secret"}]}, "kind not kept"),
    "an encrypted Secret": ({"apiVersion": "v1", "kind": "Secret", "sops": {"mac": "x"}}, "kind not kept"),
}


@pytest.mark.parametrize(("document", "reason"), SKIPPED.values(), ids=SKIPPED)
def test_skipped_with_the_reason(document, reason):
    judged = judge(document)
    assert judged.verdict is Verdict.SKIPPED
    assert reason in judged.reason
    assert judged.problems == ()


def test_a_skipped_document_is_not_judged_by_our_limits():
    (judged,) = judge_file("a.yaml", b"apiVersion: v1\nkind: ConfigMap\ndata:\n  a: 1\n  a: 2\n  b: '{{ x }}'\n  c:\n")
    assert judged.verdict is Verdict.SKIPPED


REFUSED = {
    "a List that holds a Cluster": ({"apiVersion": "v1", "kind": "List", "items": [RKE2]}, "kind", "not allowed"),
    "a Cluster whose kind is missing": (cluster(kind=GONE), "kind", "required"),
    "a Cluster whose apiVersion is missing": (cluster(apiVersion=GONE), "apiVersion", "required"),
    "a Cluster in lower case": (cluster(kind="cluster"), "kind", "unknown"),
    "an older Cluster of our class": (cluster(apiVersion="cluster.x-k8s.io/v1beta1"), "apiVersion", "not allowed"),
    "a Cluster of a class like ours": (cluster(spec__topology__classRef__name="kubehenge_rke2"), "spec.topology.classRef.name", "unknown"),
    "a class of ours without its namespace": (
        cluster(spec__topology__classRef={"name": "kubehenge-rke2"}),
        "spec.topology.classRef.namespace",
        "required",
    ),
    "an unknown class in our namespace": (cluster(spec__topology__classRef__name="rke2"), "spec.topology.classRef.name", "unknown"),
    "a Cluster whose topology is no mapping": (cluster(spec__topology=[]), "spec.topology", "type"),
    "a Cluster without spec": (cluster(spec=GONE), "spec", "required"),
    "an unknown kind of our group": (SITE | {"kind": "Sites"}, "kind", "unknown"),
    "an unknown version of our group": (SITE | {"apiVersion": "kubehenge.dev/v2"}, "apiVersion", "not allowed"),
    "a Site without apiVersion": ({key: value for key, value in SITE.items() if key != "apiVersion"}, "apiVersion", "required"),
    "an encrypted Cluster": (cluster(sops={"mac": "ENC[x]"}), "sops", "encrypted"),
    "a file encrypted as a whole": ({"apiVersion": "ENC[a]", "kind": "ENC[b]", "sops": {"mac": "ENC[c]"}}, "sops", "encrypted"),
}


@pytest.mark.parametrize(("document", "field", "kind"), REFUSED.values(), ids=REFUSED)
def test_what_may_be_ours_is_refused_and_never_skipped(document, field, kind):
    judged = judge(document)
    assert judged.verdict is Verdict.REFUSED
    assert [(problem.field, str(problem.kind)) for problem in judged.problems] == [(field, kind)]


def test_what_heads_a_document_is_known_also_when_it_is_refused_or_skipped():
    refused, skipped = judge(cluster(spec=GONE)), judge({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "b"}})
    assert (refused.kind, refused.scope, refused.api_version) == ("Cluster", "clusters/prod", "cluster.x-k8s.io/v1beta2")
    assert (skipped.kind, skipped.scope) == ("Secret", "b/a")


def test_ciphertext_heads_nothing():
    judged = judge({"apiVersion": "ENC[a]", "kind": "ENC[b]", "metadata": {"name": "ENC[d]"}, "sops": {}})
    assert (judged.api_version, judged.kind, judged.name) == ("", "", "")


@pytest.mark.parametrize("secret", ["ENC[AES256_GCM,data:Y2FuYXJ5LXZhbHVl]", "hunter2-canary-value"])
def test_no_value_of_an_unknown_or_skipped_field_is_repeated(secret):
    documents = [
        {"apiVersion": "v1", "kind": "Secret", "stringData": {"password": secret}},
        cluster(variables={"password": secret}),
        cluster(spec__topology__password=secret),
        cluster(metadata__annotations={"kubehenge.dev/password": secret}),
    ]
    for document in documents:
        judged = judge(document)
        assert secret not in f"{judged.reason}{judged.problems}"
    (broken,) = judge_file("a.yaml", b"apiVersion: v1\nkind: Secret\nstringData: {password: %s\n" % secret.encode())
    assert secret not in f"{broken.problems}"
    (twice,) = judge_file("a.yaml", text(cluster()).replace(b'"apiVersion"', b'"apiVersion": "%s", "apiVersion"' % secret.encode(), 1))
    assert secret not in f"{twice.problems}"
    assert twice.verdict is Verdict.REFUSED
