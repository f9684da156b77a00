"""Every case of `tests/cases`, with its verdict, fields and kinds (ACCEPTANCE 2.1, 2.2)."""

from __future__ import annotations

import pytest

from kubehenge.model.cluster import MachineSize, UpgradeMode
from kubehenge.model.distribution import Cni
from kubehenge.model.document import Verdict
from kubehenge.model.window import Weekday
from kubehenge.source import yaml_values
from kubehenge.source.judge import judge_file
from tests.source.cases import CASES, content

REFUSED = {
    "04": [("variables.upgrades.mode", "type")],
    "09": [("metadata.name", "length")],
    "10": [("spec.topology.controlPlane.replicas", "not allowed")],
    "11": [("variables.cni", "required")],
    "12": [("variables.cni", "not allowed")],
    "13": [("spec.topology.version", "form")],
    "14": [("spec.topology.version", "type")],
    "15": [
        ("variables.controlPlaneMachine.memoryMiB", "minimum"),
        ("variables.workerMachine.memoryMiB", "step"),
        ("variables.workerMachine.diskGiB", "minimum"),
    ],
    "16": [("variables.controlPlaneEndpoint", "overlap")],
    "17": [("variables.network.addresses[0]", "outside")],
    "18": [("spec.clusterNetwork.services", "overlap")],
    "19": [("spec.clusterNetwork.pods", "overlap")],
    "20": [("variables.controlPlaneMachine.cores", "minimum"), ("variables.rancher.hostname", "required")],
    "21": [("variables.oidc[1].issuerURL", "form"), ("variables.oidc[1].groupsPrefix", "not allowed")],
    "22": [
        ("variables.upgrades.window.monthDays[1]", "range"),
        ("variables.upgrades.window.start", "form"),
        ("variables.upgrades.window.durationMinutes", "minimum"),
        ("variables.upgrades.window.timeZone", "unknown"),
    ],
    "23": [("spec.topology.controlPlane", "duplicate")],
    "24": [("variables.storage", "duplicate")],
    "25": [("", "syntax")],
    "26": [("", "syntax")],
    "27": [("sops", "encrypted")],
    "29": [("variables.storage", "required"), ("variables.network.gateway", "required")],
    "30": [("variables.network.addresses[0]", "form")],
}
ACCEPTED = ["01", "02", "03", "05", "06", "07", "08"]
SAYS = {
    "04": ((29, 17), ['`off` is a boolean in YAML. Write `"off"`.']),
    "12": ((27, 16), ["canal, calico or cilium"]),
    "13": ((11, 14), ["+k3s and a number"]),
    "14": ((12, 14), ["`1.30` is a number", '"v1.36.5"']),
    "16": ((17, 16), ["192.0.2.79", "addresses[0]"]),
    "17": ((21, 23), ["192.0.2.63"]),
    "18": ((7, 1), ["default", "10.96.0.0/12", "10.100.3.0/24"]),
    "19": ((9, 11), ["spec.clusterNetwork.pods", "spec.clusterNetwork.services"]),
    "20": ((20, 5), ["2, the default,", "at least 4"]),
    "23": ((32, 5), ["line 13"]),
    "24": ((27, 15), ["`storage`"]),
    "25": ((12, 1), ["tab"]),
    "26": ((14, 17), ["template"]),
    "27": ((18, 1), ["encrypted"]),
    "30": ((20, 23), ["ends before it starts"]),
}


@pytest.fixture(params=["libyaml", "pure Python"], autouse=True)
def parser(request, monkeypatch):
    if request.param == "pure Python":
        monkeypatch.setattr(yaml_values, "_Parser", yaml_values.PythonParser)
    return request.param


def judge(name):
    return judge_file(f"{name}.yaml", content(name))


def test_every_case_is_in_a_table():
    assert len(list(CASES.glob("*.yaml"))) == 30
    assert {path.name[:2] for path in CASES.glob("*.yaml")} == {*REFUSED, *ACCEPTED, "28"}


@pytest.mark.parametrize("name", ACCEPTED)
def test_case_is_accepted(name):
    (document,) = judge(name)
    assert document.verdict is Verdict.ACCEPTED
    assert document.errors == ()
    assert document.declaration is not None
    assert [(problem.field, problem.kind) for problem in document.warnings] == (
        [("variables.network.addresses", "capacity")] if name == "08" else []
    )


@pytest.mark.parametrize("name", REFUSED)
def test_case_is_refused_with_all_its_fields_and_kinds(name):
    (document,) = judge(name)
    assert document.verdict is Verdict.REFUSED
    assert [(problem.field, problem.kind) for problem in document.errors] == REFUSED[name]
    assert document.warnings == ()
    assert document.body is None
    assert document.declaration is None


@pytest.mark.parametrize("name", SAYS)
def test_first_error_of_a_case_stands_where_and_says_what(name):
    (document,) = judge(name)
    place, words = SAYS[name]
    problem = document.errors[0]
    assert (problem.line, problem.column) == place
    assert problem.path == f"{name}.yaml"
    for word in words:
        assert word in problem.message


def test_smallest_has_every_default():
    (document,) = judge("01")
    cluster = document.declaration
    assert (cluster.scope, cluster.control_plane_replicas, cluster.pools) == ("clusters/lab", 1, ())
    assert cluster.control_plane_machine == MachineSize(cores=2, memory_mib=4096, disk_gib=30)
    assert cluster.worker_machine == MachineSize(cores=2, memory_mib=4096, disk_gib=40)
    assert cluster.cni is Cni.FLANNEL
    assert cluster.upgrades.mode is UpgradeMode.OFF
    assert (str(cluster.pods.block), cluster.pods.default) == ("10.42.0.0/16", True)
    assert (cluster.oidc, cluster.allowed_nodes, cluster.proxmox_ha, cluster.protect) == (None, None, True, False)
    assert (cluster.rancher.install, cluster.rancher.register, cluster.headlamp.enabled) == (False, True, False)


def test_merge_key_takes_over_what_the_anchor_holds():
    (document,) = judge("02")
    size = MachineSize(cores=4, memory_mib=16384, disk_gib=60)
    assert document.declaration.worker_machine == size
    assert [(pool.name, pool.replicas, pool.machine) for pool in document.declaration.pools] == [("general", 2, size), ("batch", 1, size)]
    assert [str(block) for block in document.declaration.network.blocks] == [
        "198.51.100.11-198.51.100.20",
        "198.51.100.32/28",
        "198.51.100.60",
    ]


def test_no_carriage_return_is_left_of_windows_line_ends():
    (document,) = judge("03")
    assert "\\r" not in str(document.body)
    assert document.body["metadata"] == {"name": "windows-made", "namespace": "clusters"}


def test_plain_2200_opens_the_window_at_22_oclock():
    (document,) = judge("05")
    window = document.declaration.upgrades.window
    assert (window.start.hour, window.start.minute, window.weekdays, window.time_zone) == (22, 0, {Weekday.SAT}, "Europe/Berlin")


def test_ciphertext_is_not_repeated():
    (document,) = judge("27")
    assert "ENC[" not in str(document)
    assert "bm90LXJlYWw" not in str(document)


def test_documents_of_a_file_are_judged_apart():
    first, second, third = judge("28")
    assert (first.verdict, first.scope, first.line) == ("accepted", "clusters/first", 1)
    assert (second.verdict, second.kind, second.reason, second.line) == ("skipped", "ConfigMap", "kind not kept by Kubehenge", 28)
    assert (third.verdict, third.scope, third.line) == ("refused", "clusters/third", 36)
    assert [(problem.document, problem.line, problem.field, problem.kind) for problem in third.problems] == [
        (3, 48, "spec.topology.controlPlane.replicas", "not allowed")
    ]
