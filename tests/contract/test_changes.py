"""What changes of a Cluster do: scale, pause, version, template, class; and how machines are replaced that are not well."""

from __future__ import annotations

from tests.contract.story import FIRST, NAME, POOL, SECOND, VERSIONS, Story, conditions, control_planes, message, workers
from tests.contract.timeline import World

ALL = ("RollingOut", "ScalingUp", "ScalingDown", "Remediating")


def set_of(world: World, machine: str) -> str:
    return world["Machine"][machine]["metadata"]["labels"]["cluster.x-k8s.io/set-name"]


# ---- scale


def test_scaling_up_adds_a_machine_to_the_same_set(story: Story) -> None:
    before, after = story.before("scale"), story.after("scale")
    assert workers(before).keys() < workers(after).keys()
    assert len({set_of(after, name) for name in workers(after)}) == 1
    assert control_planes(before).keys() == control_planes(after).keys()
    (found,) = after["MachineSet"].values()
    assert (found["spec"]["replicas"], found["status"]["replicas"]) == (2, 2)


def test_scaling_up_makes_no_template(story: Story) -> None:
    before, after = story.before("scale"), story.after("scale")
    assert before["ProxmoxMachineTemplate"].keys() == after["ProxmoxMachineTemplate"].keys()


def test_cluster_says_that_it_scales(story: Story) -> None:
    said = {event.conditions.get("ScalingUp") for event in story.events("scale") if event.kind == "Cluster"}
    assert ("True", "ScalingUp") in said
    deployments = [event.body for event in story.events("scale") if event.kind == "MachineDeployment"]
    texts = {message(body, "Available") for body in deployments if conditions(body).get("Available") == ("False", "NotAvailable")}
    assert "1 available replicas, at least 2 required (spec.strategy.rollout.maxUnavailable is 0, spec.replicas is 2)" in texts


# ---- pause


def test_nothing_happens_while_paused(story: Story) -> None:
    story.chapter("pause")
    paused: World = story.notes["while paused"]
    assert paused["Machine"].keys() == story.before("pause")["Machine"].keys()
    (deployment,) = paused["MachineDeployment"].values()
    assert deployment["spec"]["replicas"] == 2


def test_paused_cluster_says_so(story: Story) -> None:
    story.chapter("pause")
    found = conditions(story.notes["while paused"]["Cluster"][NAME])
    assert found["Paused"] == ("True", "Paused")
    assert found["TopologyReconciled"] == ("False", "Paused")
    assert found["Available"] == ("True", "Available")


def test_it_goes_on_after_the_pause(story: Story) -> None:
    world = story.after("pause")
    assert len(workers(world)) == 1
    assert conditions(world["Cluster"][NAME])["Paused"] == ("False", "NotPaused")


# ---- remediation


def test_marked_machine_is_replaced_by_another_of_its_set(story: Story) -> None:
    before, after = story.before("remediate"), story.after("remediate")
    (old,), (new,) = workers(before), workers(after)
    assert old == story.notes["remediated"] != new
    assert set_of(before, old) == set_of(after, new)
    assert control_planes(before).keys() == control_planes(after).keys()


def test_marked_machine_says_why_it_goes(story: Story) -> None:
    seen = [event.body for event in story.events("remediate") if event.kind == "Machine" and event.name == story.notes["remediated"]]
    failed = [body for body in seen if conditions(body).get("HealthCheckSucceeded", ("",))[0] == "False"]
    assert conditions(failed[0])["HealthCheckSucceeded"] == ("False", "HasRemediateAnnotation")
    words = "Health check failed: marked for remediation via cluster.x-k8s.io/remediate-machine annotation"
    assert message(failed[0], "HealthCheckSucceeded") == words


def test_old_one_goes_before_the_new_one_comes(story: Story) -> None:
    story.chapter("remediate")
    deleted = next(e.version for e in story.events("remediate") if e.kind == "Machine" and e.body["metadata"].get("deletionTimestamp"))
    added = next(e.version for e in story.events("remediate") if e.kind == "Machine" and e.type == "ADDED")
    assert deleted < added


def test_machine_without_a_health_check_says_nothing_of_one(story: Story) -> None:
    for body in control_planes(story.after("create")).values():
        assert "HealthCheckSucceeded" not in conditions(body)
    for body in workers(story.after("create")).values():
        assert conditions(body)["HealthCheckSucceeded"] == ("True", "HealthCheckSucceeded")


# ---- version


def test_upgrade_replaces_every_machine(story: Story) -> None:
    before, after = story.before("upgrade"), story.after("upgrade")
    assert not before["Machine"].keys() & after["Machine"].keys()
    assert {body["status"]["nodeInfo"]["kubeletVersion"] for body in after["Machine"].values()} == {VERSIONS[1]}


def test_upgrade_makes_a_new_set_and_keeps_the_templates(story: Story) -> None:
    before, after = story.before("upgrade"), story.after("upgrade")
    assert not before["MachineSet"].keys() & after["MachineSet"].keys()
    assert before["ProxmoxMachineTemplate"].keys() == after["ProxmoxMachineTemplate"].keys()


def test_workers_follow_the_control_plane(story: Story) -> None:
    events = story.events("upgrade")
    control = control_planes(story.before("upgrade"))
    gone = next(event.version for event in events if event.kind == "Machine" and event.type == "DELETED" and event.name in control)
    new = workers(story.after("upgrade"))
    assert gone < next(event.version for event in events if event.type == "ADDED" and event.kind == "Machine" and event.name in new)


def test_new_machine_is_there_before_the_old_one_goes(story: Story) -> None:
    events = story.events("upgrade")
    for group in (control_planes, workers):
        old, new = group(story.before("upgrade")), group(story.after("upgrade"))
        ready = next(e.version for e in events if e.kind == "Machine" and e.name in new and e.conditions.get("Ready", ("",))[0] == "True")
        going = next(e.version for e in events if e.kind == "Machine" and e.name in old and e.body["metadata"].get("deletionTimestamp"))
        joined = next(e.version for e in events if e.kind == "Machine" and e.name in new and "nodeRef" in e.body.get("status", {}))
        assert joined < going < max(ready, going) + 1


def test_cluster_says_what_still_waits_for_the_new_version(story: Story) -> None:
    clusters = [event.body for event in story.events("upgrade") if event.kind == "Cluster"]
    texts = [
        message(body, "TopologyReconciled")
        for body in clusters
        if conditions(body).get("TopologyReconciled", ("", ""))[1] == "ClusterUpgrading"
    ]
    deployment = next(iter(story.before("upgrade")["MachineDeployment"]))
    assert (
        f"Cluster is upgrading to {VERSIONS[1]}\n"
        f"  * KubeadmControlPlane upgrading to version {VERSIONS[1]}\n"
        f"  * MachineDeployment {deployment} pending upgrade to version {VERSIONS[1]}"
    ) in texts


def test_old_machine_says_what_it_lacks(story: Story) -> None:
    old = control_planes(story.before("upgrade"))
    seen = [event.body for event in story.events("upgrade") if event.kind == "Machine" and event.name in old]
    texts = {message(body, "UpToDate") for body in seen if conditions(body).get("UpToDate") == ("False", "NotUpToDate")}
    assert f"* Version {VERSIONS[0]}, {VERSIONS[1]} required" in texts


def test_version_cannot_be_changed_again_before_it_has_come_everywhere(story: Story) -> None:
    story.chapter("upgrade")
    status, body = story.notes["another version at once"]
    assert status == 422
    assert 'spec.topology.version: Invalid value: "v1.36.7": version cannot be changed: ' in body["message"]


# ---- template


def test_another_template_replaces_the_workers_only(story: Story) -> None:
    before, after = story.before("template"), story.after("template")
    assert not workers(before).keys() & workers(after).keys()
    assert control_planes(before).keys() == control_planes(after).keys()


def test_template_is_replaced_by_one_with_another_name(story: Story) -> None:
    before, after = story.before("template")["ProxmoxMachineTemplate"], story.after("template")["ProxmoxMachineTemplate"]
    (new,) = after.keys() - before.keys()
    assert new.startswith(f"{NAME}-{POOL}-")
    assert after[new]["spec"]["template"]["spec"]["memoryMiB"] == 3072
    assert len(before.keys() - after.keys()) <= 1


def test_outdated_worker_names_its_template(story: Story) -> None:
    old = workers(story.before("template"))
    seen = [event.body for event in story.events("template") if event.kind == "Machine" and event.name in old]
    texts = {message(body, "UpToDate") for body in seen if conditions(body).get("UpToDate") == ("False", "NotUpToDate")}
    assert "* ProxmoxMachine is not up-to-date" in texts


# ---- class


def test_another_class_with_equal_templates_replaces_nothing(story: Story) -> None:
    before, after = story.before("rebase"), story.after("rebase")
    assert before["Machine"].keys() == after["Machine"].keys()
    own = {name for name in after["ProxmoxMachineTemplate"] if name.startswith(f"{NAME}-")}
    # One of an earlier change may go meanwhile.
    assert own <= {name for name in before["ProxmoxMachineTemplate"] if name.startswith(f"{NAME}-")}


def test_another_class_brings_its_health_check(story: Story) -> None:
    added = story.after("rebase")["MachineHealthCheck"].keys() - story.before("rebase")["MachineHealthCheck"].keys()
    assert added == story.after("rebase")["KubeadmControlPlane"].keys()


def test_class_that_is_no_longer_used_can_be_deleted_with_its_templates(story: Story) -> None:
    world = story.after("rebase")
    assert story.notes["old class deleted"][0] == 200
    assert list(world["ClusterClass"]) == [SECOND]
    for kind in ("ProxmoxMachineTemplate", "KubeadmConfigTemplate"):
        assert FIRST not in world[kind]
        assert SECOND in world[kind]


# ---- over all of it


def test_quiet_cluster_says_so(story: Story) -> None:
    for chapter in ("create", "scale", "pause", "remediate", "upgrade", "template", "rebase"):
        found = conditions(story.after(chapter)["Cluster"][NAME])
        assert {name: found[name][0] for name in ALL} == dict.fromkeys(ALL, "False")
        assert found["Available"] == ("True", "Available")
