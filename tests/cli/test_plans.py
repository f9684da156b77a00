"""Plans as text, JSON and Markdown, and the exit codes of `plan`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy.orm import Session

from kubehenge.commands.plan_markdown import as_markdown, code, escaped, fenced
from kubehenge.commands.plan_view import find
from kubehenge.model.resource import ChangeClass, Lane, Verb
from kubehenge.store.database import Database
from kubehenge.store.rows import ActionRow, PlanRow
from tests.cli.conftest import Ended
from tests.store.world import keep

Kh = Callable[..., Ended]
HOSTILE = "`</summary>` ```\n@ada #1 [x](http://evil) <script>alert(1)</script> | a & b"


@pytest.fixture
def detailed(filled: Database) -> Database:
    """Plan 2 gets actions of each verb, many fields, an obstacle and a check."""
    with filled.write() as session:
        _add_actions(session)
        plan = session.get_one(PlanRow, 2)
        remedy = {"text": "Add an address", "cost": "1 address", "changes": [{"path": "spec.addresses", "before": 1, "after": 2}]}
        plan.obstacles = [{"what": "addresses", "asked": "6", "there_is": "5", "short_by": "1 address", "remedies": [remedy]}]
        plan.checks = [
            {"text": "one minor version at a time", "holds": True},
            {"text": "machines have room", "holds": False, "note": "pve1"},
        ]
        plan.bill = {**plan.bill, "quorum": "at risk", "control_planes_replaced": 3}
    return filled


def _add_actions(session: Session) -> None:
    same: dict[str, Any] = {"plan_id": 2, "site_id": 1, "part": Lane.ASKED}
    fields = [{"path": f"spec.field{number:02}", "before": number, "after": number + 1} for number in range(12)]
    made = keep(session, {"name": "x", "size": 3})
    session.add_all(
        [
            ActionRow(
                **same,
                position=1,
                kind="proxmox.pool",
                name="kubehenge/new",
                verb=Verb.CREATE,
                change_class=ChangeClass.CREATE,
                after_hash=made,
            ),
            ActionRow(
                **same,
                position=2,
                kind="kube.cluster",
                name="clusters/prod",
                verb=Verb.UPDATE,
                change_class=ChangeClass.ROLLOUT,
                changes=[*fields, {"path": "spec.gone", "before": "x" * 200}, {"path": "spec.ref", "after": {"$ref": "a/b#c"}}],
                drift=[{"path": "spec.stray", "before": "theirs", "after": "ours"}],
                waits_for=[1],
                reason="the version changed",
            ),
            ActionRow(**same, position=3, kind="proxmox.user", name="old@pve", verb=Verb.DELETE, change_class=ChangeClass.DELETE),
        ]
    )


def test_text_is_folded_and_ends_with_a_tally(kh: Kh, detailed: Database) -> None:
    ended = kh("plan")
    assert ended.code == 2
    lines = ended.out.splitlines()
    assert lines[0] == "Upgrade clusters/prod to v1.36.1+rke2r1"
    assert "  + proxmox.pool kubehenge/new  create" in lines
    assert "      (2 fields: --full shows them)" in lines
    assert "  ~ kube.cluster clusters/prod  rollout  the version changed" in lines
    assert "      spec.field00: 0 → 1" in lines
    assert "      (6 more fields: --full shows them)" in lines
    assert '      spec.stray: "theirs" → "ours"  (changed by someone else)' in lines
    assert "  - proxmox.user old@pve  delete" in lines
    assert "Cannot finish: addresses" in lines
    assert "  could be: Add an address (1 address)" in lines
    assert "Addresses: 1 spare needed, 4 free." in lines
    assert "Quorum of etcd: kept only while no Proxmox VE node fails." in lines
    assert "Does not hold: machines have room (pve1)" in lines
    assert lines[-1] == "Plan: 1 to create, 1 to change, 1 to delete."


def test_full_text_hides_nothing(kh: Kh, detailed: Database) -> None:
    ended = kh("show", "2", "--full")
    assert ended.code == 0
    assert "--full shows" not in ended.out
    assert f'spec.gone: "{"x" * 200}" → taken away' in ended.out
    assert "spec.ref: known later (a/b#c)" in ended.out
    assert "      size: 3" in ended.out


def test_json_holds_all_of_it(kh: Kh, detailed: Database) -> None:
    (plan,) = json.loads(kh("plan", "-o", "json").out)
    assert (plan["plan"], plan["digest"], plan["can_finish"], plan["word"]) == (2, "2" * 64, False, "Cannot finish")
    assert [(one["verb"], one["class"]) for one in plan["actions"]] == [("create", "create"), ("update", "rollout"), ("delete", "delete")]
    assert plan["actions"][1]["fields"][0] == {"path": "spec.field00", "before": 0, "after": 1}
    assert plan["actions"][1]["fields"][12] == {"path": "spec.gone", "before": "x" * 200}
    assert plan["actions"][1]["waits_for"] == [1]
    assert plan["bill"]["quorum"] == "at risk"


def test_plan_ends_with_2_when_there_is_something_to_do_and_0_when_not(kh: Kh, filled: Database) -> None:
    assert kh("plan").code == 2
    assert kh("plan", "prod").code == 2
    ended = kh("plan", "site", "clusters/other")
    assert (ended.code, ended.out) == (0, "Nothing to do: everything is as it is declared.\n")
    assert kh("plan", "site", "-o", "json").out == "[]\n"
    assert "Nothing to do" in kh("plan", "site", "-o", "markdown").out


def test_plans_of_the_site_are_named_together_and_by_themselves(kh: Kh, filled: Database) -> None:
    with filled.write() as session:
        session.get_one(PlanRow, 2).scope = "site:settings"
    assert [kh("plan", name).code for name in ("site", "site:settings", "site:rules", "prod")] == [2, 2, 0, 0]


def test_plans_are_narrowed_to_open_closed_or_all(kh: Kh, filled: Database) -> None:
    def numbers(*more: str) -> list[int]:
        return [row["plan"] for row in json.loads(kh("plans", *more, "-o", "json").out)]

    assert (numbers(), numbers("--closed"), numbers("--all"), numbers("--all", "--limit", "1")) == ([2], [1], [2, 1], [2])


def test_markdown_is_a_comment_with_a_folded_diff(kh: Kh, detailed: Database) -> None:
    text = kh("plan", "-o", "markdown").out
    assert text.startswith("### Kubehenge\n")
    assert "<details><summary>Plan: 1 to create, 1 to change, 1 to delete\\.</summary>" in text
    assert "```diff\n+ proxmox.pool kubehenge/new  create\n! kube.cluster clusters/prod  rollout\n    spec.field00: 0 → 1\n" in text
    assert "**Cannot finish**: addresses" in text


def test_what_comes_from_files_cannot_break_out_of_markdown(filled: Database) -> None:
    with filled.write() as session:
        plan = session.get_one(PlanRow, 2)
        plan.title = plan.summary = plan.held = HOSTILE
        session.add(
            ActionRow(
                plan_id=2,
                site_id=1,
                part=Lane.ASKED,
                position=1,
                kind="kube.cluster",
                name=HOSTILE,
                verb=Verb.UPDATE,
                change_class=ChangeClass.CHANGE,
                changes=[{"path": HOSTILE, "before": HOSTILE, "after": "```\n</details>"}],
            )
        )
        session.flush()
        text = as_markdown((find(session, 1, "2"),))
    outside = re.sub(r"^(`{3,})diff\n.*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert outside != text
    assert "<script" not in outside
    assert outside.count("</summary>") == 1
    assert outside.count("</details>") == 1
    assert not re.search(r"(?<!\\)[\[@#](?!## )(?=\w)", outside.replace("### ", "").replace("#### ", ""))
    assert text.splitlines().count("````diff") == 1


@pytest.mark.parametrize("text", ["", "`", "``x`", "a|b", "x\ny"])
def test_inline_code_holds_any_text(text: str) -> None:
    found = code(text)
    run = re.match(r"`+", found)
    assert run
    assert found.endswith(run[0])
    assert f"{run[0]}`" not in found.removesuffix(run[0]).removeprefix(run[0])
    assert "\n" not in found


def test_escaping_leaves_plain_words_alone() -> None:
    assert escaped("Upgrade of 3 nodes") == "Upgrade of 3 nodes"
    assert escaped("<b> & @ada") == "&lt;b\\> &amp; @\u200bada"
    assert fenced("````", "x").startswith("`````x\n")
