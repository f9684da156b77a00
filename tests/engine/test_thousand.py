"""A thousand files of which ten are broken, in ten ways, among clusters that run (ACCEPTANCE 1.8)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from sqlalchemy import select

from kubehenge.drivers.base import ActionContext, Vault
from kubehenge.model.identity import Incarnation
from kubehenge.model.plan import PlanState
from kubehenge.model.resource import ResourceRef
from kubehenge.store.bodies import get_bodies
from kubehenge.store.rows import ClusterRow, DocumentRow
from kubehenge.store.rows import Verdict as RowVerdict
from tests.engine.harness import Site, cluster
from tests.fakes.world import WorldDriver

FILES = 1000
RUNNING = 30
"""So many run already, the broken ones among them; the others are new, and as many are made at once as the site lets be."""


def text(number: int, workers: int = 0) -> str:
    declared = cluster(f"c{number}", control_planes=1, workers=workers)
    return declared.replace("10.20.0.", f"10.{100 + number // 250}.{number % 250}.")


def bomb(_good: str) -> str:
    return "a: &a [x, x]\n" + "".join(f"{chr(n)}: &{chr(n)} [{', '.join([f'*{chr(n - 1)}'] * 9)}]\n" for n in range(98, 110))


WAYS: dict[str, tuple[Callable[[str], str], str, str]] = {
    "a tab": (lambda good: good.replace("  topology:", "\ttopology:"), "", "syntax"),
    "a key twice": (lambda good: good.replace("kind: Cluster\n", "kind: Cluster\nkind: Cluster\n"), "kind", "duplicate"),
    "an anchor bomb": (bomb, "", "aliases"),
    "a wrong type": (
        lambda good: good.replace("controlPlane: {replicas: 1}", 'controlPlane: {replicas: "1"}'),
        "spec.topology.controlPlane.replicas",
        "type",
    ),
    "an unknown class": (
        lambda good: good.replace("name: kubehenge-rke2,", "name: kubehenge-rke3,"),
        "spec.topology.classRef.name",
        "unknown",
    ),
    "overlapping addresses": (lambda good: good.replace("10.100.5.", "10.100.20."), "variables.network.addresses[0]", "overlap"),
    "too deep": (lambda good: f"{good}x: {'[' * 60}{']' * 60}\n", "", "depth"),
    "a template": (lambda good: good.replace("name: c7\n", "name: ${NAME}\n"), "metadata.name", "template"),
    "encrypted": (lambda good: f'{good}sops: {{mac: "ENC[x]"}}\n', "sops", "encrypted"),
    "an even number": (lambda good: good.replace("{replicas: 1}", "{replicas: 2}"), "spec.topology.controlPlane.replicas", "not allowed"),
}


def make_all_at_once(site: Site) -> None:
    """
    Have the world hold what every open plan would make, as after a rebuild of the database: the marks say whose it is.

    Proxmox VE's part is read first, since the management cluster's refers to it.
    """
    drivers = {kind: driver for family in ("proxmox", "kube") for driver in (WorldDriver(site.world, family),) for kind in driver.kinds}
    made = [(plan.scope, action) for plan in site.plans() for action in site.actions(plan)]
    with site.db.read() as session:
        bodies = get_bodies(session, (action.after_hash for _, action in made))
    outputs: dict[str, dict[str, Any]] = defaultdict(dict)
    vault = Vault()
    for family in ("proxmox.", "kube."):
        for scope, action in made:
            if action.kind.startswith(family):
                namespace, _, name = scope.partition("/")
                mark = Incarnation(site="default", namespace=namespace, name=name, number=1).mark
                ref = ResourceRef(kind=action.kind, name=action.name)
                context = ActionContext(mark=mark, vault=vault, outputs=outputs[scope])
                drivers[ref.kind].create(ref, bodies[action.after_hash or ""], context)
                outputs[scope][str(ref)] = site.world.all(ref.kind)[ref.name].outputs
        site.world.build()
        site.tick()
    site.world.calls.clear()


def test_acceptance_1_8_ten_files_broken_in_ten_ways_leave_the_other_990_to_be_planned_and_carried_out(site: Site) -> None:
    site.repo.push({f"c{number}.yaml": text(number) for number in range(RUNNING)})
    site.tick()
    make_all_at_once(site)
    site.tick()
    left = [plan for plan in site.plans() if plan.closed_tick is None]
    assert not left, [(action.kind, action.changes) for action in site.actions(left[0])]
    declared = {key: row.declared_hash for key, row in site.clusters().items()}

    files: dict[str, str | None] = {f"c{number}.yaml": text(number, workers=1) for number in range(FILES)}
    files |= {f"c{number}.yaml": breaking(text(number, workers=1)) for number, (breaking, _, _) in enumerate(WAYS.values())}
    last = site.plans()[-1].id
    site.repo.push(files)
    site.tick()
    opened = [plan for plan in site.plans() if plan.id > last]
    assert {plan.scope for plan in opened} == {f"clusters/c{number}" for number in range(len(WAYS), FILES)}
    assert {(plan.state, tuple(plan.classes)) for plan in opened} == {(PlanState.APPROVED, (change,)) for change in ("change", "create")}
    assert not [plan for plan in opened if plan.obstacles], "nothing keeps any of them from being carried out"
    for _ in range(4):
        site.apply()
        site.world.build()
    done = {plan.scope for plan in site.plans() if plan.state is PlanState.DONE}
    assert {f"clusters/c{number}" for number in range(len(WAYS), RUNNING)} < done, "all that changed, and some that were made"
    assert {verb for verb, _ in site.world.calls} == {"update", "create"}
    assert {f"clusters/c{number}" for number in range(RUNNING)} < set(site.world.names("kube.cluster"))
    require_told(site, declared)


def require_told(site: Site, declared: dict[str, str | None]) -> None:
    """Each broken file keeps what it declared last, and says where and what is wrong with it."""
    with site.db.read() as session:
        rows = session.scalars(select(DocumentRow).where(DocumentRow.to_tick.is_(None), DocumentRow.verdict == RowVerdict.REFUSED)).all()
        kept = {row.name: row.declared_hash for row in session.scalars(select(ClusterRow))}
    refused = {row.path: row.problems for row in rows}
    assert set(refused) == {f"c{number}.yaml" for number in range(len(WAYS))}
    for number, (way, (_, field, kind)) in enumerate(WAYS.items()):
        problems = refused[f"c{number}.yaml"]
        assert (field, kind) in {(one["field"], one["kind"]) for one in problems}, (way, problems)
        assert all(one["path"] == f"c{number}.yaml" and one["line"] >= 1 and one["message"] for one in problems), way
        assert kept[f"c{number}"] == declared[f"clusters/c{number}#1"], way
    assert all(kept[f"c{number}"] != declared[f"clusters/c{number}#1"] for number in range(len(WAYS), RUNNING))
