"""The ClusterClasses as their files make them, without a management cluster."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kubehenge
from kubehenge.errors import InvariantError
from kubehenge.lab.kube.capi import classes as lab_classes
from kubehenge.lab.kube.capi.desired import credentials_secret
from kubehenge.model import identity
from kubehenge.model.distribution import CLASS_NAMESPACE, FACTS, Distribution, class_alias, find_distribution, is_content_name, machines_of
from kubehenge.resources.class_objects import alias_resource
from kubehenge.resources.classes import render
from kubehenge.source import cluster_variables
from kubehenge.source.class_files import find_folder, load_classes, read_parts
from kubehenge.source.shape import json_schema
from tests.resources.class_facts import DEFAULTS, NAMESPACE, NO_DEFAULT, PARTS, REQUIRED, copied, made, patch, schemas, template, walk

distributions = pytest.mark.parametrize("distribution", [str(one) for one in Distribution])

# ---- variables


@distributions
def test_every_variable_of_the_reference_is_there_with_its_default(distribution: str) -> None:
    facts = FACTS[Distribution(distribution)]
    found = schemas(made(distribution))
    default_cni = {} if facts.default_cni is None else {"cni": str(facts.default_cni)}
    assert {path: one["default"] for path, one in found.items() if "default" in one} == DEFAULTS | default_cni
    assert found.keys() == DEFAULTS.keys() | NO_DEFAULT | {"cni"}
    required = {one["name"] for one in made(distribution).cluster_class["spec"]["variables"] if one["required"]}
    assert required == REQUIRED | ({"cni"} if facts.default_cni is None else set())


@distributions
def test_what_differs_between_distributions_is_as_the_model_has_it(distribution: str) -> None:
    facts, found = FACTS[Distribution(distribution)], schemas(made(distribution))
    assert found["cni"]["enum"] == [str(cni) for cni in facts.cnis]
    assert found["controlPlaneMachine.memoryMiB"]["minimum"] == facts.control_plane_memory_mib


@distributions
def test_the_lab_stands_in_for_the_same_variables(distribution: str) -> None:
    [known] = [one for one in lab_classes.DISTRIBUTIONS if one.name == distribution]
    ours = {one["name"]: one for one in made(distribution).cluster_class["spec"]["variables"]}
    theirs = {one["name"]: one for one in lab_classes.variables(known)}
    assert ours.keys() == theirs.keys()
    found = schemas(made(distribution))
    for name, variable in theirs.items():
        assert ours[name]["required"] == variable["required"]
        for path, schema in walk(variable["schema"]["openAPIV3Schema"], name):
            for key in ("type", "default", "minimum", "maximum", "minItems", "maxItems", "enum", "format", "required"):
                if key in schema:
                    assert found[path].get(key) == schema[key], (path, key)
            for rule in schema.get("x-kubernetes-validations", ()):
                assert rule in found[path]["x-kubernetes-validations"]


@distributions
def test_files_are_judged_by_the_same_limits(distribution: str) -> None:
    whole = json_schema(cluster_variables.Variables)
    judged = {path: one for name, schema in whole["properties"].items() for path, one in walk(_resolved(schema, whole), name)}
    found = schemas(made(distribution))
    assert judged.keys() == found.keys()
    for path, schema in judged.items():
        if path == "cni":
            continue  # which one depends on the distribution; see above
        for key in ("type", "minimum", "maximum", "minItems", "maxItems", "enum"):
            least = FACTS[Distribution(distribution)].control_plane_memory_mib
            wanted = least if (path, key) == ("controlPlaneMachine.memoryMiB", "minimum") else schema.get(key)
            if wanted is not None:
                assert found[path].get(key) == wanted, (path, key)
        if "default" in schema and found[path].get("type") != "object" and "default" in found[path]:
            assert found[path]["default"] == schema["default"], path
        if step := schema.get("multipleOf"):
            assert {"rule": f"self % {step} == 0"}.items() <= found[path]["x-kubernetes-validations"][0].items()


def _resolved(schema: Any, whole: Any) -> Any:
    """A schema without references, optional ones as what they are when they are there."""
    if isinstance(schema, list):
        return [_resolved(one, whole) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        target = whole["$defs"][schema["$ref"].removeprefix("#/$defs/")]
        return _resolved({**target, **{key: value for key, value in schema.items() if key != "$ref"}}, whole)
    return {key: _resolved(value, whole) for key, value in schema.items() if key != "$defs"}


# ---- names


@distributions
def test_a_class_is_named_by_its_content(distribution: str) -> None:
    rendered = made(distribution)
    assert find_distribution(rendered.name) == distribution
    assert is_content_name(rendered.name)
    assert rendered.cluster_class["metadata"] == {"name": rendered.name, "namespace": NAMESPACE}
    assert rendered.alias == class_alias(Distribution(distribution))
    assert made(distribution, copied()) == rendered
    assert render(distribution, PARTS, "elsewhere").name == rendered.name
    assert load_classes(CLASS_NAMESPACE)[distribution] == rendered


@distributions
def test_an_alias_has_the_same_spec_under_the_plain_name(distribution: str) -> None:
    rendered = made(distribution)
    alias = alias_resource(rendered.alias, rendered.cluster_class).body
    assert alias["metadata"] == {"name": f"kubehenge-{distribution}", "namespace": NAMESPACE}
    assert alias["spec"] == rendered.cluster_class["spec"]


@distributions
def test_the_class_refers_to_its_templates_and_comes_last(distribution: str) -> None:
    rendered = made(distribution)
    *before, last = rendered.objects
    assert last is rendered.cluster_class
    there = {(one["apiVersion"], one["kind"], one["metadata"]["name"]) for one in before}
    spec = last["spec"]
    worker = spec["workers"]["machineDeployments"][0]
    places = (spec["infrastructure"], spec["controlPlane"], spec["controlPlane"]["machineInfrastructure"], worker["bootstrap"])
    named = {tuple(place["templateRef"].values()) for place in (*places, worker["infrastructure"])}
    assert named == there
    assert {one["kind"] for one in rendered.templates} == {"ProxmoxClusterTemplate", "ProxmoxMachineTemplate"}
    assert len(rendered.provider_templates) == 2
    assert all("infrastructure" not in one["apiVersion"] for one in rendered.provider_templates)
    assert all(len(one["metadata"]["name"]) <= 63 for one in rendered.objects)


def test_the_order_of_patches_is_part_of_the_name() -> None:
    parts = copied()
    parts["shared/patches.yaml"][0].reverse()
    assert made("rke2", parts).name != made("rke2").name


def _variable(parts: dict[str, Any], file: str, name: str) -> Any:
    return next(one for one in parts[file][0] if one["name"] == name)["schema"]["openAPIV3Schema"]


def _describe(parts: dict[str, Any]) -> None:
    _variable(parts, "shared/variables.yaml", "storage")["description"] = "Another text."


def _limit(parts: dict[str, Any]) -> None:
    _variable(parts, "shared/variables.yaml", "network")["properties"]["addresses"]["maxItems"] = 2000


def _default(parts: dict[str, Any]) -> None:
    _variable(parts, "shared/variables.yaml", "workerMachine")["properties"]["cores"]["default"] = 3


def _health(parts: dict[str, Any]) -> None:
    parts["shared/class.yaml"][0]["spec"]["controlPlane"]["healthCheck"]["checks"]["nodeStartupTimeoutSeconds"] = 900


def _of_kind(parts: dict[str, Any], file: str, kind: str) -> Any:
    return next(one for one in parts[file] if one["kind"] == kind)["spec"]["template"]["spec"]


def _cluster_template(parts: dict[str, Any]) -> None:
    _of_kind(parts, "shared/templates.yaml", "ProxmoxClusterTemplate")["schedulerHints"] = {"memoryAdjustment": 100}


def _machine_template(parts: dict[str, Any]) -> None:
    _of_kind(parts, "shared/templates.yaml", "ProxmoxMachineTemplate")["numSockets"] = 2


def _control_plane_template(parts: dict[str, Any]) -> None:
    _of_kind(parts, "rke2/templates.yaml", "RKE2ControlPlaneTemplate")["serverConfig"]["clusterDomain"] = "example.com"


def _worker_template(parts: dict[str, Any]) -> None:
    _of_kind(parts, "rke2/templates.yaml", "RKE2ConfigTemplate")["preRKE2Commands"] = ["true"]


def _patch(parts: dict[str, Any], name: str) -> Any:
    return next(one for file in ("shared", "rke2") for one in parts[f"{file}/patches.yaml"][0] if one["name"] == name)


def _cluster_patch(parts: dict[str, Any]) -> None:
    _patch(parts, "onlineNodes")["enabledIf"] = "false"


def _new_cluster_patch(parts: dict[str, Any]) -> None:
    parts["shared/patches.yaml"][0].append({**_patch(parts, "credentials"), "name": "again"})


def _machine_patch(parts: dict[str, Any]) -> None:
    _patch(parts, "workerSize")["definitions"][0]["jsonPatches"].pop()


def _machine_patch_switch(parts: dict[str, Any]) -> None:
    _patch(parts, "workerSize")["enabledIf"] = "true"


def _text(parts: dict[str, Any]) -> None:
    parts["shared/texts.yaml"][0]["kube-vip"] += "\n"


@pytest.mark.parametrize(
    ("edit", "keeps_templates", "rolls"),
    [
        pytest.param(lambda _: None, True, False, id="nothing"),
        pytest.param(_describe, True, False, id="a-description"),
        pytest.param(_limit, True, False, id="a-limit-of-a-variable"),
        pytest.param(_health, True, False, id="a-health-check"),
        pytest.param(_cluster_patch, True, False, id="a-patch-of-the-proxmox-cluster"),
        pytest.param(_new_cluster_patch, True, False, id="one-more-patch-of-the-proxmox-cluster"),
        pytest.param(_cluster_template, False, False, id="the-template-of-the-proxmox-cluster"),
        pytest.param(_default, True, True, id="a-default"),
        pytest.param(_machine_template, False, True, id="the-machine-template"),
        pytest.param(_control_plane_template, False, True, id="the-control-plane-template"),
        pytest.param(_worker_template, False, True, id="the-bootstrap-template"),
        pytest.param(_machine_patch, True, True, id="a-patch-of-machines"),
        pytest.param(_machine_patch_switch, True, True, id="when-a-patch-of-machines-is-on"),
        pytest.param(_text, True, True, id="a-file-on-control-planes"),
    ],
)
def test_a_move_rolls_when_what_nodes_are_made_from_differs(
    edit: Callable[[dict[str, Any]], None], keeps_templates: bool, rolls: bool
) -> None:
    parts, old = copied(), made("rke2")
    edit(parts)
    new = made("rke2", parts)
    assert (new.name == old.name) is (parts == copied())
    names = [{one["metadata"]["name"] for one in (*rendered.templates, *rendered.provider_templates)} for rendered in (old, new)]
    assert (names[0] == names[1]) is keeps_templates
    assert len(names[0] - names[1]) <= 1
    assert (machines_of(old.name) != machines_of(new.name)) is rolls


# ---- content


@distributions
def test_health_checks_are_those_of_the_reference(distribution: str) -> None:
    spec = made(distribution).cluster_class["spec"]
    [worker] = spec["workers"]["machineDeployments"]
    checks = {
        "nodeStartupTimeoutSeconds": 1200,
        "unhealthyNodeConditions": [{"type": "Ready", "status": status, "timeoutSeconds": 300} for status in ("Unknown", "False")],
    }
    assert spec["controlPlane"]["healthCheck"] == {"checks": checks}
    assert worker["healthCheck"] == {"checks": checks, "remediation": {"maxInFlight": 1}}
    assert worker["class"] == lab_classes.WORKER_CLASS


@distributions
def test_annotations_and_secrets_have_the_names_that_kubehenge_gives_them(distribution: str) -> None:
    rendered = made(distribution)
    text = str(rendered.cluster_class)
    used = set(re.findall(r"kubehenge\.dev/[a-z-]+", text))
    assert used == {identity.ANNOTATION_ONLINE_NODES, identity.ANNOTATION_VM_ID_RANGE, identity.ANNOTATION_POOL}
    secret = patch(rendered, "credentials")["definitions"][0]["jsonPatches"][0]["valueFrom"]["template"]
    assert secret.replace("{{ .builtin.cluster.name }}", "prod") == credentials_secret("prod")


@distributions
def test_no_node_is_tainted_by_its_class(distribution: str) -> None:
    assert not re.search(r"'(nodeTaints|taints)': \[[^]]", str(made(distribution).objects))


@distributions
def test_workers_hold_no_identity_providers_and_no_kube_vip(distribution: str) -> None:
    rendered = made(distribution)
    for one in rendered.cluster_class["spec"]["patches"]:
        for definition in one["definitions"]:
            if "kube-vip" in str(definition) or "authentication" in str(definition):
                assert definition["selector"]["matchResources"] == {"controlPlane": True}
    worker = next(one for one in rendered.provider_templates if one["metadata"]["name"].startswith(f"kubehenge-{distribution}-worker"))
    assert "files" not in str(worker)


_ACTION = re.compile(r"{{-?\s*(.*?)\s*-?}}", re.DOTALL)
_SILENT = re.compile(r"(\$\w+ :?= |if |else|end|with |range |fail )")
_NUMBERS = {".network.prefix", ".network.vlan"}


@distributions
def test_what_people_write_goes_into_templates_as_json_or_base64(distribution: str) -> None:
    """User data is a Jinja template on the machine, so a value that is written out as it is could run code there."""
    seen = 0
    for one in made(distribution).cluster_class["spec"]["patches"]:
        for definition in one["definitions"]:
            for change in definition["jsonPatches"]:
                for action in _ACTION.findall(change.get("valueFrom", {}).get("template", "")):
                    if _SILENT.match(action) or action in _NUMBERS or "splitList" in action or action.startswith(".builtin.cluster.name"):
                        continue
                    assert action.endswith(("toJson", "b64enc")), (one["name"], action)
                    seen += 1
    assert seen > 5


def test_all_distributions_run_the_same_kube_vip() -> None:
    images = {re.search(r"image: (\S+kube-vip:v[\d.]+)", str(patch(made(one), "kubeVip")))[1] for one in Distribution}  # type: ignore[index]
    assert len(images) == 1


def test_k3s_keeps_its_ingress_controller_and_leaves_volumes_and_nodes_to_proxmox_ve() -> None:
    spec = template(made("k3s"), "KThreesControlPlaneTemplate")["spec"]["template"]["spec"]["kthreesConfigSpec"]
    assert spec["serverConfig"] == {"disableComponents": ["local-storage"], "disableCloudController": True, "cloudProviderName": "external"}


# ---- files


def test_classes_are_found_in_an_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = tmp_path / "kubehenge" / "classes"
    inside.mkdir(parents=True)
    monkeypatch.setattr(kubehenge, "__file__", str(tmp_path / "kubehenge" / "__init__.py"))
    assert find_folder() == inside
    inside.rmdir()
    with pytest.raises(InvariantError, match="incomplete"):
        find_folder()


def test_a_file_that_is_no_yaml_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "class.yaml").write_text("a: 1\nb: [\n")
    with pytest.raises(InvariantError, match=r"class\.yaml, line \d"):
        read_parts(tmp_path)


@pytest.mark.parametrize(
    ("file", "document", "words"),
    [
        ("shared/class.yaml", {"apiVersion": "v1", "kind": "X", "spec": {"a": {"$template": "gone"}}}, "no template gone"),
        ("rke2/patches.yaml", [{"$text": "gone"}], "no text gone"),
        ("rke2/patches.yaml", [{"$text": "authentication", "manifests": "/x"}], "has no @manifests@"),
    ],
)
def test_marks_without_their_target_are_mistakes(file: str, document: Any, words: str) -> None:
    with pytest.raises(InvariantError, match=words):
        made("rke2", copied() | {file: [document]})


def test_files_without_a_class_are_a_mistake() -> None:
    with pytest.raises(InvariantError, match=r"class\.yaml is missing"):
        made("rke2", {name: one for name, one in PARTS.items() if name != "shared/class.yaml"})
