"""Planning: for each scope and lane that is not as it should be, the plan that there is now (MODEL 11, 12)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import RowMapping, select
from sqlalchemy.orm import Session

from kubehenge.engine.desired import kept_settings
from kubehenge.engine.opening import Context, Opening
from kubehenge.engine.seen import Seen
from kubehenge.model.canon import digest
from kubehenge.model.facts import ClusterFacts
from kubehenge.model.identity import ANNOTATION_PROTECT, Incarnation
from kubehenge.model.plan import Bill, Obstacle, Plan
from kubehenge.model.resource import ChangeClass, ClusterState, Lane, ResourceState
from kubehenge.plan import words
from kubehenge.plan.bill import make_bill
from kubehenge.plan.obstacles import Question, look_for_obstacles
from kubehenge.plan.obstacles_of_settings import look_at_settings
from kubehenge.plan.placement import play
from kubehenge.plan.planner import Scope, draft, finish, settled
from kubehenge.resources.credentials import token_secret_name
from kubehenge.resources.topology import Topology
from kubehenge.store import journal, plans, resources, sites
from kubehenge.store.bulk import chunks
from kubehenge.store.rows import ClusterRow, FreezeRow, PlanRow, SiteRow

SITE_SCOPES = {
    "site.setting": "site:settings",
    "site.rules": "site:rules",
    "kube.namespace": "site:namespaces",
    "kube.class_template": "site:classes",
    "kube.class": "site:classes",
    "kube.class_alias": "site:class-names",
    "kube.provider_scale": "site:providers",
    "kube.vendor_patch": "site:vendor-patches",
}
"""Each sort of shared thing has lanes of its own, so that none waits for another (MODEL 11)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    """What a scope is about: a cluster, or shared things of one sort, by the scope that they have."""

    cluster: ClusterRow | None
    shared: str = ""

    @property
    def name(self) -> str:
        """The scope's name: `<namespace>/<name>`, or `site:<what>`."""
        return self.shared if self.cluster is None else f"{self.cluster.namespace}/{self.cluster.name}"


@dataclass(slots=True)
class Planner:
    """Plans one site, and remembers what it planned on, so that nothing is planned twice on the same."""

    site: SiteRow
    seen: Seen
    _planned: dict[int | str, str] = field(default_factory=dict)
    _freezes: tuple[FreezeRow, ...] = ()

    def plan_all(self, session: Session, context: Context) -> tuple[int, ...]:
        """Bring the open plans of every scope to what the states ask for now; returns those that rules approved."""
        self._freezes = sites.freezes(session, self.site.id, context.now)
        differing = _by_scope(resources.differing(session, self.site.id))
        busy = plans.scopes_with_open_run(session, self.site.id)
        open_now: dict[int | str, list[PlanRow]] = {}
        for row in plans.open_plans(session, self.site.id):
            open_now.setdefault(row.scope if row.cluster_id is None else row.cluster_id, []).append(row)
        subjects = self._moved(self._subjects(session, {*differing, *open_now}), differing, open_now, busy, context)
        if not subjects:
            return ()
        opening = Opening(self.site, len(self.seen.of("kube.machine")), context)
        states = self._states(session, context, subjects)
        for key, subject in subjects.items():
            for lane in Lane:
                current = next((row for row in open_now.get(key, ()) if row.lane is lane), None)
                run_id = busy.get((subject.name, lane))
                if run_id is not None:
                    self._stop_if_outdated(session, subject, lane, current, run_id)
                    continue
                held = lane is Lane.UPKEEP and self._holds_repairs(subject)
                why_none = "repairs are frozen" if held else "nothing is left to do"
                if opening.put(subject.cluster, self._plan(context, subject, lane, states[key]), current, why_none):
                    self._planned.pop(key, None)  # its run may end before the next tick, and must be planned after
        return opening.write(session)

    def _subjects(self, session: Session, keys: Iterable[int | str]) -> dict[int | str, _Subject]:
        ids = [key for key in keys if isinstance(key, int)]
        found: dict[int | str, _Subject] = {key: _Subject(cluster=None, shared=key) for key in keys if isinstance(key, str)}
        for batch in chunks(ids):
            for row in session.scalars(select(ClusterRow).where(ClusterRow.id.in_(batch), ClusterRow.state != ClusterState.FOREIGN)):
                found[row.id] = _Subject(cluster=row)
        return dict(sorted(found.items(), key=lambda item: str(item[0])))

    def _moved(
        self,
        subjects: Mapping[int | str, _Subject],
        differing: Mapping[int | str, tuple[tuple[Any, ...], ...]],
        open_now: Mapping[int | str, Sequence[PlanRow]],
        busy: Mapping[tuple[str, Lane], int],
        context: Context,
    ) -> dict[int | str, _Subject]:
        """Return the scopes of which anything moved that their plans are made from."""
        moved = {}
        for key, subject in subjects.items():
            signature = self._signature(subject, differing.get(key, ()), open_now.get(key, ()), busy, context)
            if self._planned.get(key) != signature:
                moved[key], self._planned[key] = subject, signature
        return moved

    def _signature(
        self,
        subject: _Subject,
        differing: Sequence[tuple[Any, ...]],
        open_now: Sequence[PlanRow],
        busy: Mapping[tuple[str, Lane], int],
        context: Context,
    ) -> str:
        cluster = subject.cluster
        held = [lane.value for lane in Lane if (subject.name, lane) in busy]
        mine = [] if cluster is None else [cluster.declared_hash, cluster.declared_blob, cluster.inputs, cluster.state.value]
        own = digest_facts(self._facts(cluster, context)) if cluster is not None and open_now else ""
        if subject.shared == SITE_SCOPES["site.setting"]:  # what is against moving the workload pool
            own = digest(sorted(self.seen.of("proxmox.pool")))
        return digest(
            [
                [list(one) for one in differing],
                [[row.id, row.state.value, row.retry_at is not None and row.retry_at > context.now] for row in open_now],
                held,
                mine,
                own,
                self._holds_repairs(subject),
                context.signature,
            ]
        )

    def _holds_repairs(self, subject: _Subject) -> bool:
        return sites.is_frozen(self._freezes, subject.name, duty_only=False)

    def _facts(self, cluster: ClusterRow, context: Context) -> ClusterFacts:
        who = self._who(cluster)
        settings = kept_settings(context.settings, cluster.fixed)
        return self.seen.cluster_facts(who, who.pool(settings.workload_pool), token_secret_name(who.name))

    def _who(self, cluster: ClusterRow) -> Incarnation:
        return Incarnation(site=self.site.name, namespace=cluster.namespace, name=cluster.name, number=cluster.incarnation)

    # -- states

    def _states(self, session: Session, context: Context, subjects: Mapping[int | str, _Subject]) -> dict[int | str, list[ResourceState]]:
        """Return the states of all scopes, after letting our own record follow where only it is behind."""
        rows = self._rows(session, subjects)
        states = self._load(session, rows)
        behind: dict[int | str, list[RowMapping]] = {}
        for key, found in rows.items():
            scope = self._scope(subjects[key], Lane.ASKED)
            for row, state in zip(found, states[key], strict=True):
                if settled(scope, state):
                    behind.setdefault(key, []).append(row)
        if not behind:
            return states
        resources.settle(session, (row for found in behind.values() for row in found), context.draw_tick())
        return states | self._load(session, self._rows(session, {key: subjects[key] for key in behind}))

    def _rows(self, session: Session, subjects: Mapping[int | str, _Subject]) -> dict[int | str, list[RowMapping]]:
        found: dict[int | str, list[RowMapping]] = {key: [] for key in subjects}
        for row in resources.rows_of_clusters(session, (key for key in subjects if isinstance(key, int))):
            found[row["cluster_id"]].append(row)
        if any(isinstance(key, str) for key in subjects):
            for row in resources.rows_of_site(session, self.site.id):
                if SITE_SCOPES[row["kind"]] in found:
                    found[SITE_SCOPES[row["kind"]]].append(row)
        return found

    def _load(self, session: Session, rows: Mapping[int | str, Sequence[RowMapping]]) -> dict[int | str, list[ResourceState]]:
        loaded = iter(resources.states(session, [row for found in rows.values() for row in found]))
        return {key: [next(loaded) for _ in found] for key, found in rows.items()}

    # -- one scope and lane

    def _plan(self, context: Context, subject: _Subject, lane: Lane, states: Sequence[ResourceState]) -> Plan | None:
        """Return the plan that there is now, None when there is nothing to do."""
        scope = self._scope(subject, lane)
        drafted = draft(scope, lane, states, repairs=not self._holds_repairs(subject))
        if not drafted.actions and not drafted.obstacles:
            return None
        change = next((state for state in states if state.ref.kind == "kube.cluster"), None)
        touched = lane is Lane.ASKED and any(action.ref.kind == "kube.cluster" for action in drafted.actions)
        if subject.cluster is None or change is None or not touched:
            text = words.summary(drafted.actions, Bill())
            title = words.title(scope.name, drafted.actions, None, None)
            return finish(scope, lane, drafted, bill=Bill(), obstacles=self._against(states), checks=(), title=title, summary=text)
        before = _running(change)
        after = Topology.of(change.desired) if change.desired else None
        facts = self._facts(subject.cluster, context)
        moments = play(before, after, facts, context.facts)
        bill = make_bill(before, after, moments, context.facts)
        annotations = (change.applied or {}).get("metadata", {}).get("annotations", {})
        obstacles, checks = look_for_obstacles(
            Question(
                before=before,
                after=after,
                facts=facts,
                site=context.facts,
                moments=moments,
                bill=bill,
                protected=annotations.get(ANNOTATION_PROTECT) == "true",
            )
        )
        return finish(
            scope,
            lane,
            drafted,
            bill=bill,
            obstacles=obstacles,
            checks=checks,
            title=words.title(scope.name, drafted.actions, before, after),
            summary=words.summary(drafted.actions, bill),
        )

    def _against(self, states: Sequence[ResourceState]) -> tuple[Obstacle, ...]:
        """What is against a change of settings; nothing is against one of other shared things."""
        setting = next((state for state in states if state.ref.kind == "site.setting"), None)
        return look_at_settings(setting.applied, setting.desired, self.seen.of("proxmox.pool")) if setting else ()

    def _scope(self, subject: _Subject, lane: Lane) -> Scope:
        cluster = subject.cluster
        if cluster is None:
            return Scope(site=self.site.name, name=subject.name, incarnation=0, mark="", documents=(), inputs="")
        return Scope(
            site=self.site.name,
            name=subject.name,
            incarnation=cluster.incarnation,
            mark=self._who(cluster).mark,
            documents=(cluster.declared_blob,) if cluster.declared_blob else (),
            inputs=cluster.inputs.get(lane.value, ""),
            going=cluster.declared_hash is None or cluster.state is ClusterState.LEAVING,
        )

    def _stop_if_outdated(self, session: Session, subject: _Subject, lane: Lane, current: PlanRow | None, run_id: int) -> None:
        """A newer declaration stops a run at its next action boundary; a cluster that leaves cannot be taken back (MODEL 14, 19)."""
        cluster = subject.cluster
        if current is None or cluster is None:
            return
        if lane is Lane.UPKEEP:
            if self._scope(subject, lane).going:
                journal.stop_run(session, run_id, "the cluster goes")
            elif ChangeClass.REPAIR.value in current.classes and self._holds_repairs(subject):
                journal.stop_run(session, run_id, "repairs are frozen; duties go on in a plan of their own")
            return
        if cluster.state is ClusterState.LEAVING:
            return
        if sorted(current.documents) != sorted(self._scope(subject, lane).documents):
            journal.stop_run(session, run_id, f"replaced by revision {(cluster.removed_revision or cluster.declared_revision)[:7]}")


def _by_scope(differing: Mapping[int | str, tuple[tuple[Any, ...], ...]]) -> dict[int | str, tuple[tuple[Any, ...], ...]]:
    """Put what differs of shared things, which is by kind, under the scope that it is planned in."""
    found: dict[int | str, tuple[tuple[Any, ...], ...]] = {}
    for key, rows in differing.items():
        scope = SITE_SCOPES[key] if isinstance(key, str) else key
        found[scope] = (*found.get(scope, ()), *rows)
    return found


def _running(state: ResourceState) -> Topology | None:
    """Return what runs: as it was seen last, where that can be read, else as we left it."""
    for body in (state.observed, state.applied):
        if body:
            with suppress(KeyError, TypeError):
                return Topology.of(body)
    return None


def digest_facts(facts: ClusterFacts) -> str:
    """Return a digest of what a bill is made from."""
    return digest(
        [
            [[one.name, one.vmid, one.ready, one.version] for one in facts.machines],
            [[vm.vmid, vm.node, vm.memory_mib, vm.cores] for vm in facts.vms],
        ]
    )
