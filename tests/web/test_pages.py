"""What the pages say: every state in its words, no dead links, and nothing lost when the fleet is empty or old."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import update

from kubehenge.model.plan import PlanState, StepState
from kubehenge.model.resource import ClusterState
from kubehenge.store.reads.words import ClusterWord, PlanWord
from kubehenge.store.rows import ApprovalVerdict, ClusterRow, CoverageState, PlanRow, SiteMode, SiteRow, StepRow, SuspicionRow
from tests.web.browsing import HTML, Browser, links_of, main_text, parse, text_of
from tests.web.conftest import Site
from tests.web.factories import NOW, Fleet, at, corner


def test_no_page_links_to_what_is_not_there(site: Site, maria: Browser) -> None:
    seen: set[str] = set()
    waiting = ["/clusters"]
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        response = maria.get(path)
        assert response.status_code in {200, 302, 303}, path
        if response.mimetype == "text/html" and response.status_code == 200:
            for link in links_of(response):
                if link.startswith("#"):
                    assert parse(response.text).find(f".//*[@id='{link[1:]}']") is not None, (path, link)
                    continue
                assert link.startswith(("/", "?")), (path, link)
                address = path.partition("?")[0] + link if link.startswith("?") else link.partition("#")[0]
                if "?" not in path or "?" not in address:  # one narrowing at a time: all of them together are without end
                    waiting.append(address)
    assert len(seen) > 100
    for kind in ("/plans/", "/runs/", "/clusters/prod/", "/sources/", "/freezes", "/ledger", "/api/v1/plans/"):
        assert any(path.startswith(kind) for path in seen), kind


def test_every_page_works_for_someone_who_may_only_look(site: Site) -> None:
    tomas = site.browser("tomas@corp")
    for path in ("/clusters", "/clusters/prod/shop", "/plans", "/approvals", "/runs/418", "/sources", "/ledger", "/freezes", "/plans/2"):
        assert tomas.get(path).status_code == 200, path
    page = text_of(tomas.get("/clusters/prod/shop"))
    assert "Approve its plans, freeze it VM.Allocate, which you do not hold" in page


def test_the_list_shows_each_cluster_with_its_word(maria: Browser) -> None:
    rows = {}
    for row in parse(maria.get("/clusters").text).findall(f".//{HTML}section[@id='cluster-table']//{HTML}tbody/{HTML}tr"):
        cells = [" ".join(" ".join(cell.itertext()).split()) for cell in row]
        rows[cells[1].replace(" read only", "")] = cells
    assert {name: cells[0] for name, cells in rows.items()} == {
        "clusters/wiki": "Available",
        "edge/kiosk": "Failed",
        "lab/ml": "Available",
        "lab/scratch": "Available",
        "prod/billing": "Upgrading",
        "prod/media": "Needs a look",
        "prod/search": "Provisioning",
        "prod/shop": "Available",
        "staging/api": "Available",
        "staging/web": "Available",
        "team-data/warehouse": "Available",
        "tools/rancher": "Available",
    }
    assert rows["prod/shop"][2:7] == ["RKE2", "v1.36.5+rke2r1", "3 of 3", "5 of 5", "Waiting for approval rollout change"]
    assert rows["edge/kiosk"][4:7] == ["0 of 3", "0 of 3", "Run failed credential create"]
    assert rows["lab/ml"][6] == "Cannot finish change"
    assert rows["prod/media"][5:7] == ["2 of 3", "Up to date"]
    assert rows["team-data/warehouse"][6:8] == ["made with kubectl", "–"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("q=shop", {"prod/shop"}),
        ("q=192.0.2.50", None),
        ("q=%25", set()),
        ("q=_", set()),
        ("ns=lab", {"lab/ml", "lab/scratch"}),
        ("dist=kubeadm", {"lab/ml", "prod/media", "team-data/warehouse"}),
        ("minor=1.35", {"lab/scratch", "team-data/warehouse"}),
        ("word=Failed", {"edge/kiosk"}),
        ("word=Needs+a+look", {"prod/media"}),
        ("plan=Waiting+for+approval", {"lab/scratch", "prod/shop"}),
        ("plan=Cannot+finish", {"lab/ml"}),
        ("plan=Run+failed", {"edge/kiosk"}),
        ("plan=Running", {"prod/billing", "prod/search"}),
        ("plan=Up+to+date", {"clusters/wiki", "prod/media", "staging/api", "staging/web", "tools/rancher"}),
        ("ns=lab&plan=Cannot+finish", {"lab/ml"}),
        ("word=nonsense&order=nonsense&page=nonsense", None),
        ("page=99", None),
    ],
)
def test_the_list_is_narrowed_by_its_address(maria: Browser, query: str, expected: set[str] | None) -> None:
    table = maria.get(f"/fragments/cluster-table?{query}")
    names = {cell.text for cell in parse(table.text).iter(f"{HTML}strong") if "/" in (cell.text or "")}
    if expected is None:
        assert len(names) >= 11
    else:
        assert names == expected


def test_the_list_is_ordered_both_ways(maria: Browser) -> None:
    def names(order: str) -> list[str]:
        page = parse(maria.get(f"/fragments/cluster-table?order={order}").text)
        return [cell.text or "" for cell in page.iter(f"{HTML}strong") if "/" in (cell.text or "")]

    assert names("name") == sorted(names("name"))
    assert names("-name") == names("name")[::-1]
    assert names("version")[0] in {"lab/scratch", "team-data/warehouse"}


@pytest.mark.parametrize("word", [word for word in ClusterWord if word is not ClusterWord.LOOK])
def test_each_word_of_a_cluster_is_on_its_page(site: Site, maria: Browser, word: ClusterWord) -> None:
    status: dict[ClusterWord, dict[str, Any]] = {
        ClusterWord.PROVISIONING: {"available": False, "phase": "Provisioning"},
        ClusterWord.AVAILABLE: {},
        ClusterWord.UPGRADING: {"rolling": True},
        ClusterWord.RECONCILING: {"rolling": True},
        ClusterWord.DELETING: {"deleting": True},
        ClusterWord.FAILED: {"phase": "Failed", "available": False},
    }
    old = "v1.36.4" if word is ClusterWord.UPGRADING else "v1.36.5"

    def make(fleet: Fleet) -> None:
        fleet.cluster("try/it", class_name="kubehenge-kubeadm", version="v1.36.5", status=status[word])
        fleet.machine("try/it", "it-cp-0", control_plane=True, vmid=1999, node="pve1", version=old)

    site.change(make)
    page = parse(maria.get("/clusters/try/it").text)
    badge = page.find(
        f".//{HTML}span[@class='badge {'good' if word is ClusterWord.AVAILABLE else 'bad' if word is ClusterWord.FAILED else 'info'}']"
    )
    assert badge is not None
    assert "".join(badge.itertext()) == word.value


def test_a_cluster_that_was_made_and_is_not_available_is_worth_a_look(site: Site, maria: Browser) -> None:
    conditions = [
        {
            "type": "Available",
            "status": "False",
            "reason": "NotAvailable",
            "message": "the API does not answer",
            "since": at("14:00").isoformat(),
        }
    ]

    def make(fleet: Fleet) -> None:
        fleet.cluster("try/it", status={"available": False}, conditions=conditions)
        fleet.plan("try/it", "Create try/it", corner("try/it"), digest="abc", opened=at("10:00"), closed=at("10:30"), state=PlanState.DONE)

    site.change(make)
    page = text_of(maria.get("/clusters/try/it"))
    assert "Reconciling Not available: the API does not answer" in page


def test_what_keeps_a_cluster_from_going_on_stands_on_its_page_with_the_next_step(site: Site, maria: Browser) -> None:
    late = {"text": "capmox does not take the cluster up.", "since": (NOW - timedelta(seconds=121)).isoformat(), "after_s": 120}
    early = {"text": "It is said later.", "since": (NOW - timedelta(seconds=119)).isoformat(), "after_s": 120}
    status = {"troubles": [{"text": "Its class gone does not exist. Make <it>."}, late, early]}
    site.change(lambda fleet: fleet.cluster("try/it", status=status))
    page = text_of(maria.get("/clusters/try/it"))
    assert "Cluster API cannot go on by itself. Its class gone does not exist. Make <it>." in page
    assert "capmox does not take the cluster up." in page
    assert "It is said later." not in page
    shown = maria.get("/api/v1/clusters/try/it").json
    assert shown["troubles"][0]["text"].startswith("Its class gone")
    assert "try/it" in text_of(maria.get("/clusters?word=Needs+a+look"))


def test_a_cluster_on_its_way_out_says_that_it_cannot_be_taken_back(site: Site, maria: Browser) -> None:
    site.change(lambda fleet: fleet.cluster("try/it", state=ClusterState.LEAVING))
    page = text_of(maria.get("/clusters/try/it"))
    assert "Deleting" in page
    assert "This cluster is being deleted. It cannot be taken back." in page


def test_a_cluster_that_is_gone_is_still_found_and_not_listed(site: Site, maria: Browser) -> None:
    site.change(lambda fleet: fleet.cluster("try/it", state=ClusterState.GONE))
    assert "This cluster is gone." in text_of(maria.get("/clusters/try/it"))
    assert "try/it" not in maria.get("/clusters").text


def test_the_newest_life_of_a_name_is_shown(site: Site, maria: Browser) -> None:
    def make(fleet: Fleet) -> None:
        fleet.cluster("try/it", state=ClusterState.GONE, seen=False)
        fleet.cluster("try/it", incarnation=2, seen=False)

    site.change(make)
    page = text_of(maria.get("/clusters/try/it"))
    assert "incarnation 2 of this name" in page
    assert "This cluster is gone." not in page


PLAN_STATES: dict[PlanWord, dict[str, Any]] = {
    PlanWord.WAITING: {},
    PlanWord.APPROVED: {"state": PlanState.APPROVED},
    PlanWord.RUNNING: {"state": PlanState.RUNNING},
    PlanWord.DONE: {"state": PlanState.DONE, "closed": NOW},
    PlanWord.FAILED: {"state": PlanState.FAILED, "closed": NOW, "reason": "1 action failed."},
    PlanWord.SUPERSEDED: {"state": PlanState.SUPERSEDED, "closed": NOW},
    PlanWord.STALE: {"state": PlanState.STALE, "closed": NOW},
    PlanWord.INTERRUPTED: {"state": PlanState.INTERRUPTED, "closed": NOW},
}


@pytest.mark.parametrize("word", PLAN_STATES)
def test_each_word_of_a_plan_is_on_its_page_and_in_the_list(site: Site, maria: Browser, word: PlanWord) -> None:
    def make(fleet: Fleet) -> int:
        fleet.cluster("try/it", seen=False)
        return fleet.plan("try/it", "Create try/it", corner("try/it"), digest="abcdef012345", opened=at("10:00"), **PLAN_STATES[word])

    plan = site.change(make)
    page = parse(maria.get(f"/plans/{plan}").text)
    badges = ["".join(one.itertext()) for one in page.iter(f"{HTML}span") if (one.get("class") or "").startswith("badge ")]
    assert word.value in badges
    state = "closed" if "closed" in PLAN_STATES[word] else word.value.replace(" ", "+")
    assert "abcdef012345" in maria.get(f"/plans?state={state}").text


def test_a_rejected_plan_says_so(site: Site, maria: Browser) -> None:
    plan = site.fleet.plans["prod/shop asked"]
    site.change(lambda fleet: fleet.said(plan, "tomas@corp", ApprovalVerdict.REJECT, when=NOW, comment="Not now."))
    assert "Rejected" in text_of(maria.get("/plans?state=Rejected"))
    assert "tomas@corp rejected it" in text_of(maria.get(f"/plans/{plan}"))
    site.change(lambda fleet: fleet.said(plan, "tomas@corp", ApprovalVerdict.WITHDRAW, when=NOW))
    assert "7c1e90b2d4f8" not in maria.get("/plans?state=Rejected").text


@pytest.mark.parametrize("state", list(StepState))
def test_each_state_of_a_step_is_on_the_runs_page(site: Site, maria: Browser, state: StepState) -> None:
    def set_all(fleet: Fleet) -> None:
        fleet.session.execute(update(StepRow).where(StepRow.run_id == 419).values(state=state))

    site.change(set_all)
    words = {"intended": "running", "pending": "running", "not_started": "not started"}.get(state.value, state.value)
    page = text_of(maria.get("/runs/419"))
    assert f"8 {words}" in page
    for always in ("done", "running", "failed", "blocked", "not started"):
        assert f"{8 if always == words else 0} {always}" in page, "all five are shown, zeros too"
    if state is StepState.UNKNOWN:
        assert "someone has to look" in page


def test_a_run_can_be_narrowed_to_what_failed(maria: Browser) -> None:
    page = text_of(maria.get("/runs/417?word=Failed"))
    assert "proxmox.acl" in page
    assert "kube.resource_set" not in page
    assert "Only what depends on it is held up; what is done is kept." in page
    assert "Give Kubehenge's token Pool.Allocate" in page


def test_the_bill_of_the_upgrade_is_in_numbers(site: Site, maria: Browser) -> None:
    page = text_of(maria.get(f"/plans/{site.fleet.plans['prod/shop asked']}"))
    for words in (
        "Spare addresses 2 of 11 free 10 free afterwards.",
        "Memory at the peak +32 GiB 104 GiB now, 136 at the peak, 120 afterwards. 366 GiB are free. Cores: 52, 68, 60.",
        "Nodes replaced 8 and 1 new 3 control planes, then 5 workers. One at a time.",
        "Quorum certificate Kept Through all 6 etcd steps, even if any one Proxmox VE node fails.",
        "spec.topology.version v1.36.5+rke2r1 v1.37.1+rke2r1",
        "Checks 6 of 6 hold",
        "pve4 1 control plane, 2 workers Stay up 4 of 6 workers left 40 GiB",
        "revision 4be7d21 by tomas@corp",
        "replaces a0c7735e1b92",
    ):
        assert words in page, words


def test_a_reference_says_what_it_comes_from_and_no_secret(site: Site, maria: Browser) -> None:
    page = text_of(maria.get(f"/plans/{site.fleet.plans['prod/search asked']}/actions/6"))
    assert "hmac of proxmox.token/kh-3f9a0c7d21be@pve!k1" in page


def test_what_a_newer_plan_does_otherwise_is_listed(site: Site, maria: Browser) -> None:
    page = text_of(maria.get(f"/plans/{site.fleet.plans['shop before']}"))
    assert "What the new plan does differently" in page
    assert "kube.resource_set prod/shop-proxmox" in page


def test_a_document_that_is_refused_names_line_field_and_what_to_write(maria: Browser) -> None:
    page = maria.get("/sources")
    assert "clusters/lab/gpu.yaml Cluster lab/gpu 2 errors. The last good version stays in force; this is not a deletion." in text_of(page)
    assert "21:16 variables.controlPlaneEndpoint" in text_of(page)
    assert "<code>off</code> is a boolean in YAML. Write <code>&#34;off&#34;</code>." in page.text


def test_two_control_planes_on_one_node_are_pointed_out(maria: Browser) -> None:
    page = text_of(maria.get("/clusters/prod/media/machines"))
    assert "pve2 runs 2 of the 3 control-plane VMs. If pve2 fails, etcd keeps 1 of 3 members: the API stops until pve2 is back." in page
    assert "pve2 2 control planes Stops, 1 of 3" in page
    assert "pve1 1 control plane, 1 worker Stays up, 2 of 3 40 GiB" in page


def test_conditions_worth_a_look_come_first_and_alone(maria: Browser) -> None:
    page = text_of(maria.get("/clusters/tools/rancher/conditions"))
    assert "Worth a look 1 All 12" in page
    assert "TopologyReconciled False, look UpgradeHeldBack" in page
    assert "ScalingUp" not in page
    assert "ScalingUp False" in text_of(maria.get("/clusters/tools/rancher/conditions?which=all"))


def test_a_part_that_was_not_read_lately_is_said_on_every_page(site: Site, maria: Browser) -> None:
    """MODEL 9."""
    site.change(lambda fleet: fleet.covered("proxmox", CoverageState.FAILED, reason="pve1 answers 595"))
    for path in ("/clusters", "/plans", "/ledger"):
        assert "Proxmox VE was not read since 14:31 . pve1 answers 595.".replace(" .", ".") in text_of(maria.get(path)).replace(" .", ".")


def test_a_loop_that_stands_still_is_said(site: Site, maria: Browser) -> None:
    assert "not read since" not in text_of(maria.get("/clusters"))
    site.clock.forward(timedelta(minutes=3).total_seconds())
    assert "The management cluster was not read since 14:31." in text_of(maria.get("/clusters"))


def test_a_reading_kept_aside_is_shown_to_who_sees_the_site(site: Site, maria: Browser) -> None:
    """MODEL 20."""
    row = SuspicionRow(
        site_id=1, kind="proxmox.pool", missing=[f"p{n}" for n in range(29)], readings=[{"at": "x", "node": "pve1"}], opened_at=NOW
    )
    site.change(lambda fleet: fleet.add(row))
    assert "29 things of kind proxmox.pool vanished at once; that reading is kept aside." in text_of(maria.get("/clusters"))
    assert "vanished" not in text_of(site.browser("jonas@corp").get("/clusters"))


def test_a_site_that_only_observes_says_so(site: Site, maria: Browser) -> None:
    """MODEL 21."""

    def observe(fleet: Fleet) -> None:
        fleet.session.execute(update(SiteRow).values(mode=SiteMode.OBSERVING, mode_reason="The world is newer than this database."))

    site.change(observe)
    assert "Kubehenge only observes: nothing is carried out. The world is newer than this database." in text_of(maria.get("/plans"))


def test_an_empty_site_says_what_would_be_there(bare: Site) -> None:
    maria = bare.browser("maria@corp")
    assert "No clusters yet" in text_of(maria.get("/clusters"))
    assert "Nothing waits for you" in text_of(maria.get("/approvals"))
    assert "No tasks yet." in text_of(maria.get("/clusters"))
    assert "No open plans" in text_of(maria.get("/plans"))
    assert "No runs yet" in text_of(maria.get("/runs"))
    assert "No sources" in text_of(maria.get("/sources"))
    assert "No entries" in text_of(maria.get("/ledger"))
    assert "Nothing is frozen" in text_of(maria.get("/freezes"))


def test_a_large_fleet_closes_the_branches_that_are_not_in_view(site: Site, maria: Browser) -> None:
    def many(fleet: Fleet) -> None:
        for number in range(60):
            fleet.cluster(f"many/c{number:03}", seen=False)

    site.change(many)
    page = maria.get("/clusters/prod/shop")
    assert 'href="/clusters/many/c001"' not in page.text
    assert 'data-hx-get="/fragments/tree/many"' in page.text
    assert 'href="/clusters?ns=many"' in page.text, "without script the list has them"
    assert 'href="/clusters/prod/media"' in page.text
    assert 'href="/clusters/many/c059"' in maria.get("/fragments/tree/many").text


def test_lists_come_in_pages_of_a_hundred(site: Site, maria: Browser) -> None:
    def many(fleet: Fleet) -> None:
        for number in range(250):
            fleet.cluster(f"many/c{number:03}", seen=False)

    site.change(many)
    first = maria.get("/clusters?ns=many")
    assert "1–100 of 250" in text_of(first)
    assert 'href="?ns=many&amp;page=3"' in first.text
    assert "201–250 of 250" in text_of(maria.get("/clusters?ns=many&page=3"))


def test_a_word_typed_above_leads_to_the_one_thing_that_fits(site: Site, maria: Browser) -> None:
    assert maria.get("/find?q=7c1e90b2d4").headers["Location"] == f"/plans/{site.fleet.plans['prod/shop asked']}"
    assert maria.get("/find?q=scratch").headers["Location"] == "/clusters/lab/scratch"
    assert "media-md-0-tq9fj" in text_of(maria.get("/find?q=192.0.2.116"))
    assert "media-md-0-tq9fj" in text_of(maria.get("/find?q=1127"))
    assert "Nothing found" in text_of(maria.get("/find?q=atlantis"))
    assert "Nothing found" in text_of(site.browser("jonas@corp").get("/find?q=shop"))


def test_a_digest_as_the_command_line_prints_it_is_an_address(site: Site, maria: Browser) -> None:
    assert maria.get("/plans/7c1e90b2d4f8").headers["Location"] == f"/plans/{site.fleet.plans['prod/shop asked']}"


def test_the_ledger_is_narrowed_by_its_address(maria: Browser) -> None:
    assert "1–5 of 5" in text_of(maria.get("/ledger"))
    assert "edge/kiosk" not in main_text(maria.get("/ledger?q=prod%2Fshop"))
    assert "1–1 of 1" in text_of(maria.get("/ledger?event=run_ended"))
    assert "No entries" in text_of(maria.get("/ledger?from=2026-12-01"))
    assert "1–5 of 5" in text_of(maria.get("/ledger?from=2026-11-30&to=2026-11-30"))
    assert maria.get("/ledger?from=nonsense&to=2026-99-99").status_code == 200


def test_only_a_cluster_that_one_sees_is_in_ones_ledger(site: Site) -> None:
    jonas = text_of(site.browser("jonas@corp").get("/ledger"))
    assert "No entries" in jonas


def test_an_open_plan_of_shared_things_is_shown_to_who_sees_the_site(site: Site, maria: Browser) -> None:
    def make(fleet: Fleet) -> int:
        return fleet.plan("site:settings", "Change the approval rules", corner("a/b")[:1], digest="5e77", opened=at("12:00"))

    plan = site.change(make)
    assert "Change the approval rules" in text_of(maria.get("/plans"))
    page = text_of(maria.get(f"/plans/{plan}"))
    assert "VM.Allocate on the workload pool" in page
    assert site.browser("jonas@corp").get(f"/plans/{plan}").status_code == 404


def test_a_cluster_that_lost_its_file_says_how_long_it_can_be_put_back(site: Site, maria: Browser) -> None:
    def remove(fleet: Fleet) -> None:
        fleet.session.execute(
            update(ClusterRow)
            .where(ClusterRow.id == fleet.clusters["lab/scratch"])
            .values(holder_source_id=None, declared_hash=None, removed_revision="88d1e57" + "0" * 33)
        )

    site.change(remove)
    page = text_of(maria.get("/clusters/lab/scratch"))
    assert "Its file is gone. Revision 88d1e57 removed it." in page
    assert maria.get(f"/plans/{site.fleet.plans['lab/scratch asked']}").status_code == 200
    with site.database.read() as session:
        assert session.get_one(PlanRow, site.fleet.plans["lab/scratch asked"]).state is PlanState.OPEN
