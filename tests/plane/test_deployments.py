"""A manager's process follows its Deployment's scale, as its Pod would."""

from __future__ import annotations

from tests.fakes.plane import RunningPlane
from tests.plane.objects import Body

# Nothing else in these tests needs this one.
PATH = "/apis/apps/v1/namespaces/caaph-system/deployments/caaph-controller-manager"


def test_a_manager_is_stopped_and_started_by_the_scale_of_its_deployment(plane: RunningPlane) -> None:
    assert plane.api.get(PATH)["status"]["availableReplicas"] == 1
    before = _starts(plane)
    scale(plane, 0)
    assert status(plane, 0)["conditions"][0]["status"] == "False"
    scale(plane, 1)
    assert status(plane, 1)["conditions"][0]["status"] == "True"
    assert _starts(plane) == before + 1


def scale(plane: RunningPlane, replicas: int) -> None:
    plane.api.patch(f"{PATH}/scale", {"spec": {"replicas": replicas}})


def status(plane: RunningPlane, available: int) -> Body:
    def look() -> Body | None:
        found = plane.api.get(PATH)
        status: Body = found["status"]
        is_seen = status.get("observedGeneration") == found["metadata"]["generation"]
        return status if is_seen and status.get("availableReplicas", 0) == available else None

    return plane.until(look, within_s=90, what="the Deployment is not played")


def _starts(plane: RunningPlane) -> int:
    return plane.log("helm").count("starting manager")
