"""Several sources: what one of them cannot tell now keeps what it told last, and holds up no other (ACCEPTANCE 1.7, 1.8, 1.9)."""

from __future__ import annotations

import shutil

import pytest
from sqlalchemy import select

from kubehenge.model.plan import PlanState
from kubehenge.store.reads.decision import AnswerKind
from kubehenge.store.rows import SourceRow, SourceState
from tests.engine.harness import ROOT, Repository, Site, cluster


@pytest.fixture
def other(site: Site) -> Repository:
    """A second source beside the site's own; both declare a cluster, and both clusters run."""
    folder = site.folder / "other"
    folder.mkdir()
    repository = Repository(folder)
    with site.db.write() as session:
        session.add(SourceRow(site_id=site.site_id, name="other", url=str(repository.bare), branch="main"))
    site.repo.push({"prod.yaml": cluster()})
    repository.push({"away.yaml": cluster("away", net=30)})
    site.settle()
    return repository


def states(site: Site) -> dict[str, SourceState]:
    with site.db.read() as session:
        return {row.name: row.state for row in session.scalars(select(SourceRow))}


def test_after_a_restart_a_source_that_is_away_declares_what_it_declared_last(site: Site, other: Repository) -> None:
    other.bare.rename(other.bare.with_suffix(".away"))
    site.restart()
    site.repo.push({"prod.yaml": cluster(workers=3)})
    site.settle()
    assert states(site) == {"fleet": SourceState.READ, "other": SourceState.UNREACHABLE}
    assert [plan.title for plan in site.plans("clusters/prod")][-1] == "Scale clusters/prod: 1 worker more"
    assert len(site.plans("clusters/away")) == 1

    other.bare.with_suffix(".away").rename(other.bare)
    other.push({"away.yaml": cluster("away", net=30, workers=3)})
    site.settle()
    assert states(site)["other"] is SourceState.READ
    assert [plan.state for plan in site.plans("clusters/away")] == [PlanState.DONE, PlanState.DONE]


def test_after_a_restart_a_rewritten_source_declares_what_was_accepted_last(site: Site, other: Repository) -> None:
    other.rewrite({"away.yaml": None})
    site.restart()
    site.repo.push({"prod.yaml": cluster(workers=3)})
    site.settle()
    assert states(site) == {"fleet": SourceState.READ, "other": SourceState.REWRITTEN}
    assert len(site.plans("clusters/prod")) == 2
    assert len(site.plans("clusters/away")) == 1


def test_a_source_whose_copy_is_lost_too_deletes_nothing_and_says_what_waits(site: Site, other: Repository) -> None:
    other.bare.rename(other.bare.with_suffix(".away"))
    shutil.rmtree(site.folder / "state")
    (site.folder / "state").mkdir()
    site.restart()
    site.repo.push({"prod.yaml": None})
    site.settle()
    assert all(plan.state is PlanState.DONE for plan in site.plans())

    other.bare.with_suffix(".away").rename(other.bare)
    site.settle()
    plan = site.waiting()
    assert plan.held  # by what the commit did, though it was read long before it could be judged
    assert plan.revision
    assert len(site.plans("clusters/away")) == 1


def test_acceptance_1_9_what_is_accepted_is_the_head_that_was_read(site: Site) -> None:
    site.repo.push({"prod.yaml": cluster()})
    site.repo.push({"note.yaml": "# nothing\n"})
    site.settle()
    seen = site.repo.rewrite({"prod.yaml": cluster(workers=3)})
    site.tick()
    assert site.decide.accept_rewritten(1, seen, ROOT).kind is AnswerKind.ACCEPTED
    site.repo.rewrite({"prod.yaml": None})  # before the next poll
    site.settle()
    assert states(site) == {"fleet": SourceState.REWRITTEN}
    assert site.clusters()["clusters/prod#1"].declared_hash is not None


def test_acceptance_1_9_an_accepted_head_is_read_with_who_made_it(site: Site) -> None:
    site.repo.push({"prod.yaml": cluster()})
    site.repo.push({"note.yaml": "# nothing\n"})
    site.settle()
    seen = site.repo.rewrite({"prod.yaml": cluster(workers=3)})
    site.tick()
    site.decide.accept_rewritten(1, seen, ROOT)
    site.settle()
    with site.db.read() as session:
        source = session.scalars(select(SourceRow)).one()
    assert (source.state, source.accepted_sha, source.accepted_subject) == (SourceState.READ, seen, "rewritten")
    assert len(site.plans("clusters/prod")) == 2
