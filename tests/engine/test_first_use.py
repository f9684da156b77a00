"""A plan is used once, the very first of an empty database too, on either database (ACCEPTANCE 1.3)."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from kubehenge.model.plan import PlanState
from kubehenge.store.reads.decision import Answer, AnswerKind, Person
from kubehenge.store.rows import PlanRow
from tests.engine.harness import Site, cluster
from tests.store.conftest import (  # noqa: F401 - the tests of this module run on both databases
    database,
    engine,
    migrated_postgres,
    migrated_sqlite,
    migrated_url,
    postgres_server,
)

CLIENTS = 20
RULES = """\
apiVersion: kubehenge.dev/v1alpha1
kind: ApprovalRules
metadata: {name: default}
spec:
  rules:
    - {name: all, classes: [create], needs: {approvers: 1}}
"""


def people() -> list[Person]:
    held = frozenset({"VM.Audit", "VM.Allocate", "Sys.Modify"})
    return [Person(userid=f"p{number}@pve", name=f"p{number}", privileges=lambda _: held) for number in range(CLIENTS)]


def approve_at_once(site: Site, plan: PlanRow) -> list[Answer]:
    """Twenty people press the button at the same moment."""
    together = Barrier(CLIENTS)

    def press(person: Person) -> Answer:
        together.wait(60)
        return site.approve(plan, who=person)

    with ThreadPoolExecutor(CLIENTS) as threads:
        return list(threads.map(press, people()))


def require_used_once(site: Site, plan: PlanRow, answers: list[Answer]) -> None:
    assert Counter(answer.kind for answer in answers) == {AnswerKind.ACCEPTED: 1, AnswerKind.ALREADY: CLIENTS - 1}
    site.settle()
    [run] = [run for run in site.runs() if run.plan_id == plan.id]
    late = approve_at_once(site, plan)
    assert {(answer.kind, answer.run_id) for answer in late} == {(AnswerKind.ALREADY, run.id)}
    assert next(row for row in site.plans() if row.id == plan.id).state is PlanState.DONE
    site.settle()
    assert [other.id for other in site.runs() if other.plan_id == plan.id] == [run.id]


def test_acceptance_1_3_the_first_plan_of_an_empty_database_is_used_once_by_twenty_at_once(site: Site) -> None:
    site.repo.push({"rules.yaml": RULES})
    site.tick()
    [first] = site.plans()
    require_used_once(site, first, approve_at_once(site, first))
    site.repo.push({"prod.yaml": cluster()})
    site.settle()
    site.approve(site.waiting("site:namespaces"))
    plan = site.waiting()
    require_used_once(site, plan, approve_at_once(site, plan))
    made = Counter(call for call in site.world.calls if call[0] == "create")
    assert set(made.values()) == {1}
    assert len(made) == len(site.actions(plan)) + 1, "each action, and the namespace"
