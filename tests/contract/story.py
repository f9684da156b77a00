"""The life of one cluster, built and changed and taken down, told once for each side; the checks look at what was told."""

from __future__ import annotations

import copy
import secrets
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kubehenge.lab.plane.binds import free_ports
from kubehenge.lab.proxmox.seed import KUBEADM_VERSIONS
from tests.contract.harness import ManagementCluster
from tests.contract.objects import APPLY, Body, Namespace, path_of
from tests.contract.timeline import Event, Timeline, World
from tests.plane import objects as plane_objects

NAME, POOL = "one", "md-0"
FIRST, SECOND = "small", "second"
VERSIONS = KUBEADM_VERSIONS[0], KUBEADM_VERSIONS[1]
CONTROL_PLANE = "cluster.x-k8s.io/control-plane"
HEALTH = {
    "checks": {
        "nodeStartupTimeoutSeconds": 1200,
        "unhealthyNodeConditions": [
            {"type": "Ready", "status": "Unknown", "timeoutSeconds": 300},
            {"type": "Ready", "status": "False", "timeoutSeconds": 300},
        ],
    }
}
_WITHIN_S = 150


@dataclass(kw_only=True)
class Story:
    """
    One cluster's life, in chapters.

    Shape: a chapter is the moments at which it began and ended; one that went wrong is in `wrong`, and those after it are missing.
    """

    management: ManagementCluster
    namespace: Namespace
    timeline: Timeline
    chapters: dict[str, tuple[int, int]] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)

    def chapter(self, name: str) -> tuple[int, int]:
        """When a chapter began and ended."""
        assert name in self.chapters, "\n".join([f"the story did not come to {name!r}:", *self.wrong.values()])
        return self.chapters[name]

    def after(self, name: str) -> World:
        """What was there when a chapter ended."""
        return self.timeline.world(self.chapter(name)[1])

    def before(self, name: str) -> World:
        return self.timeline.world(self.chapter(name)[0])

    def events(self, name: str) -> list[Event]:
        """What happened in a chapter."""
        return self.timeline.between(*self.chapter(name))

    def tell(self, name: str, work: Callable[[], None]) -> None:
        if self.wrong:
            return
        begun = self.timeline.now()
        try:
            work()
        except Exception:
            self.wrong[name] = f"{name}: {traceback.format_exc()}"
        else:
            self.chapters[name] = (begun, self.timeline.now())

    # ---- doing

    def topology(self, **changed: Any) -> None:
        status, body = self.namespace.patch("Cluster", NAME, {"spec": {"topology": changed}})
        assert status == 200, body

    def pool(self, **changed: Any) -> None:
        self.topology(workers={"machineDeployments": [{"class": "worker", "name": POOL, **changed}]})

    def settles(self, what: str, look: Callable[[World], bool] = lambda world: True) -> None:
        """Wait until something is so and the cluster is quiet."""
        self.timeline.until(lambda world: look(world) and is_quiet(world), within_s=_WITHIN_S, what=what)


def conditions(body: Body) -> dict[str, tuple[str, str]]:
    """Status and reason of an object's conditions, by type."""
    return {one["type"]: (one["status"], one["reason"]) for one in body.get("status", {}).get("conditions") or []}


def message(body: Body, name: str) -> str:
    return next(one.get("message", "") for one in body["status"]["conditions"] if one["type"] == name)


def workers(world: World) -> dict[str, Body]:
    return {name: body for name, body in world["Machine"].items() if CONTROL_PLANE not in body["metadata"]["labels"]}


def control_planes(world: World) -> dict[str, Body]:
    return {name: body for name, body in world["Machine"].items() if CONTROL_PLANE in body["metadata"]["labels"]}


def is_quiet(world: World) -> bool:
    """Whether the cluster and all its parts say that they have what was asked for."""
    cluster = world["Cluster"].get(NAME)
    if cluster is None:
        return False
    found = conditions(cluster)
    going = ("RollingOut", "ScalingUp", "ScalingDown", "Remediating")
    running = all(body.get("status", {}).get("phase") == "Running" for body in world["Machine"].values())
    observed = cluster["status"].get("observedGeneration") == cluster["metadata"]["generation"]
    yes = all(found.get(name, ("",))[0] == "True" for name in ("Available", "TopologyReconciled"))
    return yes and running and observed and not any(found.get(name, ("True",))[0] == "True" for name in going)


def classes(namespace: str, name: str) -> list[Body]:
    """A class under a name, with its templates; the second one also looks after the control plane's health."""
    bodies = copy.deepcopy(plane_objects.kubeadm_class(namespace, VERSIONS[0]))
    for body in bodies:
        body["metadata"]["name"] = name
    spec = bodies[-1]["spec"]
    spec["workers"]["machineDeployments"][0]["healthCheck"] = {**HEALTH, "remediation": {"maxInFlight": 1}}
    parts = [spec["infrastructure"], spec["controlPlane"], spec["controlPlane"]["machineInfrastructure"]]
    parts += [spec["workers"]["machineDeployments"][0][part] for part in ("bootstrap", "infrastructure")]
    for part in parts:
        part["templateRef"]["name"] = name
    if name == SECOND:
        spec["controlPlane"]["healthCheck"] = HEALTH
    return bodies


def _let_templates_roll(management: ManagementCluster) -> None:
    """
    What has to be done to a real capmox once, so that Cluster API's trial runs are not refused for changing a template.

    Source: capmox 0.9.0, issue 735; tried. Real changes are refused as before.
    """
    condition = {
        "name": "not-a-topology-dry-run",
        "expression": "!(has(request.dryRun) && request.dryRun && has(object.metadata.annotations)"
        " && 'topology.cluster.x-k8s.io/dry-run' in object.metadata.annotations)",
    }
    name = "capmox-validating-webhook-configuration"
    path = f"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{name}"
    if management.server.call("GET", path)[0] == 404:
        return
    hook = {"name": "validation.proxmoxmachinetemplate.infrastructure.cluster.x-k8s.io", "matchConditions": [condition]}
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [hook],
    }
    status, answer = management.server.call("PATCH", f"{path}?fieldManager=contract&force=true", body, media=APPLY)
    assert status == 200, answer


# ---- the chapters


def _create(story: Story) -> None:
    lab, namespace = story.management.lab, story.namespace
    token = lab.capmox
    url, ca = next(iter(lab.urls.values())), lab.ca_file.read_text(encoding="ascii")
    secret = plane_objects.credentials(namespace.name, url=url, token=token.id, secret=token.value.get_secret_value(), ca=ca)
    for body in (secret, *classes(namespace.name, FIRST)):
        namespace.applied(body)
    story.timeline.until(
        lambda world: conditions(world["ClusterClass"].get(FIRST, {})).get("VariablesReady", ("",))[0] == "True",
        within_s=30,
        what="the class is not ready",
    )
    number = secrets.randbelow(250) + 1
    body = plane_objects.topology_cluster(
        namespace.name, NAME, version=VERSIONS[0], port=free_ports(1)[0], subnet=f"10.93.{number}", workers=1
    )
    namespace.applied(body)
    story.settles("it is built", lambda world: len(world["Machine"]) == 2)


def _scale(story: Story) -> None:
    story.pool(replicas=2)
    story.settles("it has two workers", lambda world: len(workers(world)) == 2)


def _pause(story: Story) -> None:
    namespace = story.namespace
    namespace.patch("Cluster", NAME, {"spec": {"paused": True}})
    kinds = ("Cluster", "KubeadmControlPlane", "MachineDeployment", "MachineSet", "Machine")  # capmox says nothing of it

    def all_paused(world: World) -> bool:
        told = conditions(world["Cluster"][NAME]).get("TopologyReconciled") == ("False", "Paused")
        return told and all(conditions(body).get("Paused", ("",))[0] == "True" for kind in kinds for body in world[kind].values())

    story.timeline.until(all_paused, within_s=60, what="not all is paused")
    story.pool(replicas=1)
    generation = namespace.read("Cluster", NAME)["metadata"]["generation"]

    def is_seen(world: World) -> bool:
        paused = next(one for one in world["Cluster"][NAME]["status"]["conditions"] if one["type"] == "Paused")
        return bool(paused["observedGeneration"] == generation)

    story.timeline.until(is_seen, within_s=60, what="the change is not seen")
    story.notes["while paused"] = story.timeline.world()
    namespace.patch("Cluster", NAME, {"spec": {"paused": None}})
    story.settles("it goes on, with one worker", lambda world: len(workers(world)) == 1)


def _remediate(story: Story) -> None:
    (name,) = workers(story.timeline.world())
    story.notes["remediated"] = name
    annotation = {"metadata": {"annotations": {"cluster.x-k8s.io/remediate-machine": ""}}}
    assert story.namespace.patch("Machine", name, annotation)[0] == 200
    story.settles("the worker is replaced", lambda world: len(workers(world)) == 1 and name not in workers(world))


def _upgrade(story: Story) -> None:
    story.topology(version=VERSIONS[1])
    status, body = story.namespace.patch("Cluster", NAME, {"spec": {"topology": {"version": "v1.36.7"}}}, query="?dryRun=All")
    story.notes["another version at once"] = (status, body)
    story.settles(
        "all has the new version",
        lambda world: len(world["Machine"]) == 2 and {body["spec"]["version"] for body in world["Machine"].values()} == {VERSIONS[1]},
    )


def _memory(world: World) -> dict[str, int]:
    return {name: world["ProxmoxMachine"][name]["spec"]["memoryMiB"] for name in workers(world) if name in world["ProxmoxMachine"]}


def _template(story: Story) -> None:
    story.pool(replicas=1, variables={"overrides": [{"name": "memoryMiB", "value": 3072}]})
    story.settles("the worker has more memory", lambda world: list(_memory(world).values()) == [3072])


def _rebase(story: Story) -> None:
    for body in classes(story.namespace.name, SECOND):
        story.namespace.applied(body)
    story.topology(classRef={"name": SECOND})
    story.settles("its control plane is looked after", lambda world: len(world["MachineHealthCheck"]) == 2)
    status, body = story.namespace.delete("ClusterClass", FIRST)
    story.notes["old class deleted"] = (status, body)
    templates = ("ProxmoxMachineTemplate", "KubeadmConfigTemplate")
    story.timeline.until(lambda world: not any(FIRST in world[kind] for kind in templates), within_s=60, what="its templates stay")


def _delete(story: Story) -> None:
    status, body = story.namespace.delete("Cluster", NAME)
    assert status == 200, body

    def is_gone(world: World) -> bool:
        kinds = ("Cluster", "Machine", "MachineSet", "MachineDeployment", "KubeadmControlPlane", "ProxmoxCluster", "ProxmoxMachine")
        return not any(world[kind] for kind in kinds)

    story.timeline.until(is_gone, within_s=_WITHIN_S, what="it does not go")
    story.timeline.until(lambda world: not world["MachineHealthCheck"] and not world["Secret"], within_s=60, what="things are left")


CHAPTERS: dict[str, Callable[[Story], None]] = {
    "create": _create,
    "scale": _scale,
    "pause": _pause,
    "remediate": _remediate,
    "upgrade": _upgrade,
    "template": _template,
    "rebase": _rebase,
    "delete": _delete,
}


@contextmanager
def told(management: ManagementCluster) -> Iterator[Story]:
    """The whole story, in a namespace of its own; what went wrong fails the checks that need it, no others."""
    _let_templates_roll(management)
    namespace = Namespace(server=management.server, name=f"story-{secrets.token_hex(4)}")
    namespace.create()
    timeline = Timeline(management.server, namespace.name)
    story = Story(management=management, namespace=namespace, timeline=timeline)
    try:
        for name, work in CHAPTERS.items():
            story.tell(name, lambda work=work: work(story))
        yield story
    finally:
        management.server.call("DELETE", path_of(namespace.name, "Cluster", NAME))
        namespace.remove()
        timeline.close()
