"""Plans are content-addressed (ACCEPTANCE 1.1; MODEL 12)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kubehenge.model.plan import Bill
from kubehenge.model.resource import Lane, ResourceState
from kubehenge.plan.planner import Scope, draft, finish
from tests.plan.fleets import WHO, bodies, expanded, states

SCOPE = Scope(site="default", name="clusters/prod", incarnation=1, mark=WHO.mark, documents=("blob",), inputs="inputs")


def digest_of(found: list[ResourceState]) -> str:
    drafted = draft(SCOPE, Lane.ASKED, found)
    return finish(SCOPE, Lane.ASKED, drafted, bill=Bill(), obstacles=(), checks=(), title="", summary="").digest


@settings(max_examples=500, deadline=None)
@given(before=bodies(), after=bodies(), order=st.randoms(use_true_random=False), made=st.booleans())
def test_acceptance_1_1_the_same_states_in_any_order_give_the_same_digest(before: dict, after: dict, order: object, made: bool) -> None:
    found = states(expanded(after), expanded(before) if made else None)
    shuffled = list(found)
    order.shuffle(shuffled)
    assert digest_of(found) == digest_of(shuffled)


@settings(max_examples=200, deadline=None)
@given(before=bodies(), after=bodies())
def test_another_target_gives_another_digest_and_none_gives_no_action(before: dict, after: dict) -> None:
    same = draft(SCOPE, Lane.ASKED, states(expanded(before), expanded(before)))
    assert same.actions == ()
    if before != after:
        assert digest_of(states(expanded(after), expanded(before))) != digest_of(states(expanded(before), expanded(before)))


@settings(max_examples=200, deadline=None)
@given(before=bodies(), after=bodies())
def test_a_plan_carried_out_leaves_nothing_to_plan(before: dict, after: dict) -> None:
    drafted = draft(SCOPE, Lane.ASKED, states(expanded(after), expanded(before)))
    assert all(action.after is not None for action in drafted.actions)
    assert draft(SCOPE, Lane.ASKED, states(expanded(after), expanded(after))).actions == ()
