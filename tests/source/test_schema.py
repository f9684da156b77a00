"""The JSON Schema for editors agrees with the judge (ACCEPTANCE 2.5)."""

from __future__ import annotations

import json

import pytest

from kubehenge.errors import UsageError
from kubehenge.model.document import Verdict
from kubehenge.source.classify import OurKind
from kubehenge.source.judge import judge_file
from kubehenge.source.schema import schema_of, schema_of_all
from kubehenge.source.yaml_reader import read_documents
from tests.source import test_cluster_rules, test_site_documents
from tests.source.cases import CASES, content
from tests.source.clusters import cluster, judge
from tests.source.json_schema import errors

CLUSTER, SITE, RULES = (schema_of(kind) for kind in OurKind)
BY_RULES_ONLY = {"overlap", "outside", "capacity", "duplicate", "template", "encrypted", "syntax", "aliases", "ignored"}
"""Kinds of problem that no JSON Schema can say, or that keep a file from being read."""
BY_THE_JUDGE_ONLY = {
    'metadata.annotations["kubehenge.dev/protct"]',
    'metadata.labels["kubehenge.dev/protect"]',
    "variables.upgrades.window.timeZone",
    "variables.oidc[0].certificateAuthority",
    "variables.rancher.hostname",
    "variables.workerMachine.cores",
    "variables.controlPlaneMachine.cores",
    "spec.topology.workers.machineDeployments[0].replicas",
    "spec.timeZone",
    "spec.workloadPool",
    "spec.ownerVmIds.last",
}
"""Fields whose rule takes another field, or a list that no editor has."""
ARITHMETIC = ("ends before it starts", "bits set behind its prefix", "which no machine may have", "worker pool with the dash")
"""Words of problems that take sums of addresses or of lengths."""


def is_for_editors(problem):
    """Tell whether a JSON Schema can find a problem."""
    by_rules = str(problem.kind) in BY_RULES_ONLY or problem.field in BY_THE_JUDGE_ONLY
    return not by_rules and not any(words in problem.message for words in ARITHMETIC)


@pytest.mark.parametrize("path", sorted(CASES.glob("*.yaml")), ids=lambda path: path.name)
def test_cases_are_accepted_and_refused_alike(path):
    for document, judged in zip(read_documents(path.read_bytes()), judge_file("x", path.read_bytes()), strict=True):
        if document.value is None or judged.verdict is Verdict.SKIPPED:
            continue
        found = errors(CLUSTER, document.value)
        if judged.verdict is Verdict.ACCEPTED:
            assert found == []
        assert found or not any(map(is_for_editors, judged.errors))


@pytest.mark.parametrize("document", test_cluster_rules.ACCEPTED.values(), ids=test_cluster_rules.ACCEPTED)
def test_what_is_accepted_fits(document):
    assert errors(CLUSTER, document) == []
    assert errors(schema_of_all(), document) == []


def structural(table):
    return [
        pytest.param(document, id=f"{index} {field} {kind}")
        for index, (document, field, kind) in enumerate(table)
        if any(map(is_for_editors, judge(document).errors)) and "autoscaler" not in field and "overrides" not in field
    ]


@pytest.mark.parametrize("document", structural(test_cluster_rules.REFUSED))
def test_what_the_shape_refuses_does_not_fit(document):
    assert errors(CLUSTER, document) != []


@pytest.mark.parametrize("document", structural(test_site_documents.REFUSED))
def test_what_the_shapes_of_sites_and_rules_refuse_does_not_fit(document):
    assert errors(SITE if document["kind"] == "Site" else RULES, document) != []


def test_sites_and_rules_that_are_accepted_fit():
    assert errors(SITE, test_site_documents.SITE) == []
    assert errors(RULES, test_site_documents.RULES) == []


@pytest.mark.parametrize(
    "document", [{"apiVersion": "v1", "kind": "ConfigMap"}, {"replicaCount": 1}, cluster(spec__topology__classRef={"name": "other"})]
)
def test_the_schema_of_all_kinds_lets_others_pass(document):
    assert errors(schema_of_all(), document) == []


def test_the_schema_of_all_kinds_judges_ours():
    assert errors(schema_of_all(), cluster(spec__topology__controlPlane__replicas=2)) != []
    assert errors(schema_of_all(), test_site_documents.SITE | {"spec": {"storage": []}}) != []


def test_every_field_says_what_it_is():
    def undescribed(schema, path):
        for name, field in schema.get("properties", {}).items():
            if "description" not in field and "const" not in field and "enum" not in field:
                yield f"{path}.{name}"

    for schema in (CLUSTER, SITE, RULES):
        names = [name for key, definition in schema["$defs"].items() for name in undescribed(definition, key)]
        assert [*undescribed(schema, "$"), *names] == []


def test_every_reference_leads_somewhere_and_nothing_is_left_over():
    for schema in (CLUSTER, SITE, RULES, schema_of_all()):
        used = set()
        json.dumps(schema, default=str)

        def collect(value, used=used):
            if isinstance(value, dict):
                if "$ref" in value:
                    used.add(value["$ref"].removeprefix("#/$defs/"))
                for item in value.values():
                    collect(item)
            elif isinstance(value, list):
                for item in value:
                    collect(item)

        collect(schema)
        assert used == set(schema["$defs"])


def test_only_our_kinds_have_a_schema():
    with pytest.raises(UsageError, match="Cluster, Site, ApprovalRules"):
        schema_of("ConfigMap")


def test_a_schema_is_made_anew_for_each_caller():
    schema_of("Cluster")["$defs"].clear()
    assert errors(schema_of("Cluster"), read_documents(content("01"))[0].value) == []
