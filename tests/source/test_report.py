"""`validate`: exit codes, formats, and what is said not to have been looked at (ACCEPTANCE 2.4)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kubehenge.model.document import ProblemKind
from kubehenge.source.report import ReportFormat, validate
from tests.source.clusters import cluster, text

SITE = {
    "apiVersion": "kubehenge.dev/v1alpha1",
    "kind": "Site",
    "metadata": {"name": "default"},
    "spec": {"storages": ["shared-storage"], "bridges": ["vmbr0"]},
}
OTHER = {"controlPlaneEndpoint": "192.0.2.80", "network__addresses": ["192.0.2.81-192.0.2.99"]}


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(**documents):
        for name, document in documents.items():
            path = tmp_path / "clusters" / f"{name}.yaml"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(document if isinstance(document, bytes) else text(document))
        return "clusters"

    return write


def verdicts(path):
    printed, code = validate(path, ReportFormat.JSON)
    report = json.loads(printed)
    return {entry["path"]: entry["verdict"] for entry in report["documents"]}, code, report


def test_exit_code_is_0_when_nothing_is_refused(write):
    path = write(a=cluster(), b=cluster(metadata__name="other", variables=OTHER), c={"apiVersion": "v1", "kind": "Secret"})
    found, code, report = verdicts(path)
    assert (found, code) == ({"clusters/a.yaml": "accepted", "clusters/b.yaml": "accepted", "clusters/c.yaml": "skipped"}, 0)
    assert report["counts"] == {"accepted": 2, "refused": 0, "skipped": 1}


def test_exit_code_is_1_when_something_is_refused(write):
    found, code, _ = verdicts(write(a=cluster(), b=b"a:\n\tb: 1\n"))
    assert (found, code) == ({"clusters/a.yaml": "accepted", "clusters/b.yaml": "refused"}, 1)


@pytest.mark.parametrize("form", ReportFormat)
def test_exit_code_is_2_when_there_is_nothing_to_read(form, tmp_path):
    printed, code = validate(str(tmp_path / "nowhere"), form)
    assert code == 2
    assert "nowhere cannot be read: No such file or directory" in printed


def test_a_warning_refuses_nothing(write):
    path = write(a=cluster(variables={"network__addresses": ["192.0.2.51-192.0.2.56"]}))
    assert verdicts(path)[1] == 0
    assert "1 warning" in validate(path)[0]


def test_files_are_judged_together_and_the_other_place_is_named(write):
    found, code, report = verdicts(write(a=cluster(), b=cluster(metadata__name="other")))
    assert (found, code) == ({"clusters/a.yaml": "accepted", "clusters/b.yaml": "refused"}, 1)
    problems = report["documents"][1]["problems"]
    assert {problem["field"] for problem in problems} == {"variables.controlPlaneEndpoint", "variables.network.addresses[0]"}
    assert all("clusters/a.yaml, line 2" in problem["message"] and problem["line"] > 10 for problem in problems)


def test_the_one_site_says_what_clusters_may_use(write):
    path = write(site=SITE, a=cluster(variables={"storage": "other-storage"}))
    found, code, report = verdicts(path)
    assert (found["clusters/a.yaml"], code) == ("refused", 1)
    assert [problem["field"] for problem in report["documents"][0]["problems"]] == ["variables.storage"]


def test_without_a_site_the_settings_are_listed_as_not_looked_at(write):
    with_site = verdicts(write(site=SITE, a=cluster()))[2]["notLookedAt"]
    without = verdicts("clusters/a.yaml")[2]["notLookedAt"]
    assert len(without) == len(with_site) + 1
    assert any("Site" in item for item in without)
    assert all(item in validate("clusters/a.yaml")[0] for item in without)


def test_ignored_paths_are_listed(write, tmp_path):
    path = write(a=cluster())
    (tmp_path / "clusters" / "README.md").write_text("x")
    assert verdicts(path)[2]["ignored"] == [{"path": "clusters/README.md", "reason": "Its name does not end in .yaml or .yml."}]
    assert "Ignored  clusters/README.md" in validate(path)[0]


def place_of(document, word):
    lines = text(document).decode().splitlines()
    (line,) = (number for number, line in enumerate(lines, start=1) if word in line)
    return f"line={line},col={lines[line - 1].index(word) + len(word) + 1}"


def test_github_shows_each_problem_beside_its_line(write):
    document = cluster(variables={"upgrades": {"mode": False}, "network__addresses": ["192.0.2.51-192.0.2.56"]})
    first, second = validate(write(a=document), ReportFormat.GITHUB)[0].splitlines()
    place = place_of(document, '"addresses": ')
    assert first.startswith(f"::warning file=clusters/a.yaml,{place},title=variables.network.addresses%3A capacity::6 usable addresses for")
    place = place_of(document, '"mode": ')
    assert (
        second
        == f'::error file=clusters/a.yaml,{place},title=variables.upgrades.mode%3A type::`false` is a boolean in YAML. Write `"off"`, patch or minor.'
    )


def test_github_commands_cannot_be_forged(write):
    path = write(a=cluster(metadata__annotations={"kubehenge.dev/x\n::error file=x,line=1::y": "z"}))
    printed, _ = validate(path, ReportFormat.GITHUB)
    assert len(printed.splitlines()) == 1


def test_gitlab_fingerprints_stay_when_lines_move_and_are_never_equal(write):
    document = cluster(spec__topology__workers={"machineDeployments": [{"class": "worker", "name": "A", "replicas": 1}] * 2})
    path = write(a=document)
    before = json.loads(validate(path, ReportFormat.GITLAB)[0])
    write(a=b"# a line more\n" + text(document))
    after = json.loads(validate(path, ReportFormat.GITLAB)[0])
    fingerprints = [entry["fingerprint"] for entry in before]
    assert fingerprints == [entry["fingerprint"] for entry in after]
    assert len(set(fingerprints)) == len(fingerprints) > 1
    assert [entry["location"]["lines"]["begin"] + 1 for entry in before] == [entry["location"]["lines"]["begin"] for entry in after]
    assert {entry["severity"] for entry in before} == {"major"}


def test_text_names_file_place_field_and_reason(write):
    printed, _ = validate(write(a=cluster(variables={"controlPlaneMachine": {"memoryMiB": 4100}})))
    assert "Refused  clusters/a.yaml  Cluster clusters/prod  1 error" in printed
    assert "variables.controlPlaneMachine.memoryMiB    4100 is not a multiple of 8. Write 4096 or 4104." in printed
    assert "0 accepted, 1 refused, 0 skipped." in printed
    assert "\x1b" not in printed


def test_colour_is_for_terminals():
    assert "\x1b[" in validate(__file__, colour=True)[0]


def test_a_file_cannot_send_escape_sequences_to_the_terminal(write):
    path = write(a=b'apiVersion: kubehenge.dev/v1alpha1\nkind: "\\e[31mSite"\nmetadata: {name: "\\e[2J"}\n')
    assert "\x1b" not in validate(path)[0]


def test_markup_in_a_file_is_shown_as_it_is(write):
    path = write(a=cluster(variables={"storage": "[bold]x[/bold]"}))
    assert "[bold]x[/bold]" in validate(path)[0]


def test_the_same_files_give_the_same_text(write):
    path = write(a=cluster(), b=cluster(metadata__name="other"), site=SITE)
    for form in ReportFormat:
        assert validate(path, form) == validate(path, form)


def test_every_kind_of_problem_is_explained():
    page = (Path(__file__).parents[2] / "docs" / "declarations.md").read_text(encoding="utf-8")
    explained = {kind for line in page.splitlines() if line.startswith("| ") for kind in line.split("|")[1].strip().split(", ")}
    assert {str(kind) for kind in ProblemKind} <= explained
