"""Views with stable names, for reports in SQL (docs/reports.md)."""

# ruff: noqa: S608 - this file writes SQL
from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


class Sqlite:
    """What SQLite writes in its own way. A path such as `topology.version` leads into a JSON column."""

    def text(self, column: str, path: str) -> str:
        return f"json_extract({column}, '$.{path}')"

    number = boolean = text

    def first(self, column: str, key: str) -> str:
        return f"json_extract({column}, '$[0].{key}')"

    def length(self, column: str) -> str:
        return f"json_array_length({column})"

    def joined(self, column: str, path: str = "") -> str:
        rest = f", '$.{path}'" if path else ""
        return f"(SELECT coalesce(group_concat(value, ', '), '') FROM json_each({column}{rest}))"

    def differ(self, one: str, other: str) -> str:
        return f"({one} IS NOT {other})"

    def unindexed(self, column: str) -> str:
        """Keep an index on the column out of the query plan: a moment fits half of all ticks, a resource few versions."""
        return f"+{column}"

    def seconds(self, start: str, end: str) -> str:
        return f"CAST(round((julianday({end}) - julianday({start})) * 86400) AS INTEGER)"


class Postgresql:
    """What PostgreSQL writes in its own way."""

    def text(self, column: str, path: str) -> str:
        return f"({column} #>> '{{{path.replace('.', ',')}}}')"

    def number(self, column: str, path: str) -> str:
        return f"CAST(CAST({self.text(column, path)} AS NUMERIC) AS BIGINT)"

    def boolean(self, column: str, path: str) -> str:
        return f"CAST({self.text(column, path)} AS BOOLEAN)"

    def first(self, column: str, key: str) -> str:
        return self.text(column, f"0.{key}")

    def length(self, column: str) -> str:
        return f"jsonb_array_length({column})"

    def joined(self, column: str, path: str = "") -> str:
        inner = f"({column} #> '{{{path}}}')" if path else column
        listed = f"CASE jsonb_typeof({inner}) WHEN 'array' THEN {inner} ELSE '[]'::jsonb END"
        return f"(SELECT coalesce(string_agg(value, ', '), '') FROM jsonb_array_elements_text({listed}) AS value)"

    def differ(self, one: str, other: str) -> str:
        return f"({one} IS DISTINCT FROM {other})"

    def unindexed(self, column: str) -> str:
        return column

    def seconds(self, start: str, end: str) -> str:
        return f"CAST(round(EXTRACT(EPOCH FROM {end} - {start})) AS BIGINT)"


def views(sql: Sqlite | Postgresql) -> dict[str, str]:
    """Return each view's query, in an order in which they can be made."""
    return {**_clusters(sql), **_plans(sql), **_runs(sql), **_resources(sql), **_world(sql), **_records(sql)}


def upgrade() -> None:
    for name, query in views(Sqlite() if op.get_bind().dialect.name == "sqlite" else Postgresql()).items():
        op.execute(f"CREATE VIEW {name} AS {query}".replace(":", r"\:"))


def downgrade() -> None:
    for name in reversed(views(Sqlite())):
        op.execute(f"DROP VIEW {name}")


SCOPE = "cluster.namespace || '/' || cluster.name"


def _clusters(sql: Sqlite | Postgresql) -> dict[str, str]:
    status = {
        name: sql.number("said.content", f"{path}.{count}")
        for path in ("control_plane", "workers")
        for name, count in ((f"{path}_desired", "desired"), (f"{path}_ready", "ready"))
    }
    declared = sql.text("body.content", "spec.topology.version")
    return {
        "v_cluster": f"""
            SELECT site.name AS site, {SCOPE} AS scope, cluster.namespace, cluster.name, cluster.incarnation, cluster.state,
                cluster.class_name AS class, {declared} AS declared_version, {sql.text("said.content", "version")} AS version,
                {sql.text("said.content", "phase")} AS phase, {sql.boolean("said.content", "available")} AS available,
                {sql.boolean("said.content", "rolling")} AS rolling,
                {status["control_plane_desired"]} AS control_planes, {status["control_plane_ready"]} AS control_planes_ready,
                {status["workers_desired"]} AS workers, {status["workers_ready"]} AS workers_ready,
                {sql.text("said.content", "endpoint")} AS endpoint, source.name AS source, cluster.holder_path AS path,
                cluster.declared_revision AS revision, cluster.vm_id_first, cluster.vm_id_last,
                opened.at AS opened_at, closed.at AS closed_at
            FROM cluster
            JOIN site ON site.id = cluster.site_id
            LEFT JOIN source ON source.id = cluster.holder_source_id
            LEFT JOIN body ON body.hash = cluster.declared_hash
            LEFT JOIN resource AS status ON status.cluster_id = cluster.id AND status.kind = 'kube.cluster_status'
            LEFT JOIN body AS said ON said.hash = status.observed_hash
            LEFT JOIN tick AS opened ON opened.site_id = cluster.site_id AND opened.number = cluster.opened_tick
            LEFT JOIN tick AS closed ON closed.site_id = cluster.site_id AND closed.number = cluster.closed_tick""",
        "v_document": f"""
            SELECT site.name AS site, source.name AS source, document.path, document.position, document.line, document.kind,
                document.namespace, document.name, document.verdict, {sql.length("document.problems")} AS problems,
                {sql.first("document.problems", "message")} AS first_problem,
                document.blob_id AS blob, document.revision, document.to_tick IS NULL AS in_force,
                began.at AS from_at, ended.at AS to_at
            FROM document
            JOIN site ON site.id = document.site_id
            JOIN source ON source.id = document.source_id
            LEFT JOIN tick AS began ON began.site_id = document.site_id AND began.number = document.from_tick
            LEFT JOIN tick AS ended ON ended.site_id = document.site_id AND ended.number = document.to_tick""",
        "v_source": """
            SELECT site.name AS site, source.name AS source, source.url, source.branch, source.path, source.state, source.reason,
                source.accepted_sha AS accepted, source.accepted_author AS author, source.accepted_at, source.seen_sha AS seen,
                source.polled_at
            FROM source JOIN site ON site.id = source.site_id""",
    }


def _plans(sql: Sqlite | Postgresql) -> dict[str, str]:
    bill = {
        name: sql.number("plan.bill", name)
        for name in ("addresses_needed", "addresses_free", "memory_peak_mib", "memory_free_mib", "cores_peak")
    }
    return {
        "v_plan": f"""
            SELECT site.name AS site, plan.id AS plan, plan.scope, plan.lane, plan.state, plan.title, plan.summary,
                {sql.joined("plan.classes")} AS classes,
                (SELECT count(*) FROM action WHERE action.plan_id = plan.id) AS actions,
                {sql.length("plan.obstacles")} = 0 AS can_finish, plan.held, plan.protected,
                {sql.number("plan.disruption", "nodes_replaced")} AS nodes_replaced,
                {sql.joined("plan.disruption", "objects_destroyed")} AS objects_destroyed,
                {sql.text("plan.disruption", "quorum")} AS quorum,
                {", ".join(f"{query} AS {name}" for name, query in bill.items())},
                plan.digest, plan.revision, plan.author, plan.opened_at, plan.approved_at, plan.closed_at, plan.closed_reason,
                plan.replaced_by
            FROM plan JOIN site ON site.id = plan.site_id""",
        "v_action": f"""
            SELECT site.name AS site, action.plan_id AS plan, plan.scope, action.position, action.kind, action.name, action.verb,
                action.change_class, {sql.length("action.changes")} AS fields_changed, {sql.length("action.drift")} AS fields_drifted,
                {sql.joined("action.waits_for")} AS waits_for, {sql.joined("action.requires")} AS requires, action.reason
            FROM action
            JOIN site ON site.id = action.site_id
            JOIN plan ON plan.id = action.plan_id""",
        "v_approval": """
            SELECT site.name AS site, approval.plan_id AS plan, plan.scope, approval.verdict, approval.who, approval.comment,
                approval.typed_name <> '' AS name_typed, approval.inherited_from IS NOT NULL AS inherited, approval.rules_version,
                approval.digest, approval.at
            FROM approval
            JOIN plan ON plan.id = approval.plan_id
            JOIN site ON site.id = plan.site_id""",
    }


def _runs(sql: Sqlite | Postgresql) -> dict[str, str]:
    count = "(SELECT count(*) FROM step WHERE step.run_id = run.id{})"
    return {
        "v_run": f"""
            SELECT site.name AS site, run.id AS run, run.plan_id AS plan, run.scope, run.lane, coalesce(run.outcome, 'running') AS state,
                {count.format("")} AS steps, {count.format(" AND step.state = 'done'")} AS steps_done,
                {count.format(" AND step.state IN ('failed', 'blocked', 'unknown')")} AS steps_failed,
                run.stop_reason, run.started_at, run.ended_at, {sql.seconds("run.started_at", "run.ended_at")} AS seconds
            FROM run JOIN site ON site.id = run.site_id""",
        "v_step": f"""
            SELECT site.name AS site, step.run_id AS run, run.plan_id AS plan, run.scope, step.position, action.kind, action.name,
                action.verb, step.state, step.waits_on, step.progress_done, step.progress_all, step.attempts, step.error,
                step.intended_at, step.ended_at, {sql.seconds("step.intended_at", "step.ended_at")} AS seconds
            FROM step
            JOIN run ON run.id = step.run_id
            JOIN site ON site.id = run.site_id
            JOIN action ON action.id = step.action_id""",
    }


def _resources(sql: Sqlite | Postgresql) -> dict[str, str]:
    change = sql.differ("resource.desired_hash", "resource.applied_hash")
    drift = sql.differ("resource.observed_hash", "resource.applied_hash")
    owner = f"CASE WHEN cluster.id IS NULL THEN 'site' ELSE {SCOPE} END"
    return {
        "v_resource": f"""
            SELECT site.name AS site, {owner} AS scope, resource.kind, resource.name,
                CASE
                    WHEN resource.desired_hash IS NULL AND resource.applied_hash IS NULL THEN 'seen'
                    WHEN resource.applied_hash IS NOT NULL AND resource.observed_hash IS NULL THEN 'lost'
                    WHEN {change} AND {drift} THEN 'change and drift'
                    WHEN {change} THEN 'change'
                    WHEN {drift} THEN 'drift'
                    ELSE 'settled'
                END AS state,
                resource.mark, desired.content AS desired, applied.content AS applied, observed.content AS observed
            FROM resource
            JOIN site ON site.id = resource.site_id
            LEFT JOIN cluster ON cluster.id = resource.cluster_id
            LEFT JOIN body AS desired ON desired.hash = resource.desired_hash
            LEFT JOIN body AS applied ON applied.hash = resource.applied_hash
            LEFT JOIN body AS observed ON observed.hash = resource.observed_hash
            WHERE resource.desired_hash IS NOT NULL OR resource.applied_hash IS NOT NULL OR resource.observed_hash IS NOT NULL""",
        "v_drift": f"""
            SELECT site.name AS site, {owner} AS scope, resource.kind, resource.name, applied.content AS applied,
                observed.content AS observed, tick.at AS since
            FROM resource
            JOIN site ON site.id = resource.site_id
            JOIN body AS applied ON applied.hash = resource.applied_hash
            LEFT JOIN body AS observed ON observed.hash = resource.observed_hash
            LEFT JOIN cluster ON cluster.id = resource.cluster_id
            LEFT JOIN version ON version.resource_id = resource.id AND version.side = 'observed' AND version.to_tick IS NULL
            LEFT JOIN tick ON tick.site_id = resource.site_id AND tick.number = version.from_tick
            WHERE {drift}""",
        "v_version_as_of": f"""
            SELECT site.name AS site, {owner} AS scope, resource.kind, resource.name, version.side, body.content AS body,
                version.body_hash AS hash, {sql.unindexed("began.at")} AS from_at, ended.at AS to_at, version.from_tick, version.to_tick
            FROM version
            JOIN resource ON resource.id = version.resource_id
            JOIN site ON site.id = resource.site_id
            JOIN tick AS began ON began.site_id = resource.site_id AND began.number = version.from_tick
            LEFT JOIN tick AS ended ON ended.site_id = resource.site_id AND ended.number = version.to_tick
            LEFT JOIN cluster ON cluster.id = resource.cluster_id
            LEFT JOIN body ON body.hash = version.body_hash""",
    }


def _world(sql: Sqlite | Postgresql) -> dict[str, str]:
    body = "body.content"
    vmid = f"CAST({sql.number(body, 'vmid')} AS TEXT)"
    return {
        "v_vm": f"""
            SELECT site.name AS site, CAST(resource.name AS INTEGER) AS vmid, {sql.text(body, "name")} AS name,
                {sql.text(body, "node")} AS node, {sql.text(body, "pool")} AS pool, {sql.number(body, "cores")} AS cores,
                {sql.number(body, "memory_mib")} AS memory_mib, {sql.boolean(body, "running")} AS running,
                {sql.boolean(body, "template")} AS template, {sql.joined(body, "tags")} AS tags
            FROM resource
            JOIN site ON site.id = resource.site_id
            JOIN body ON body.hash = resource.observed_hash
            WHERE resource.kind = 'proxmox.vm'""",
        "v_machine": f"""
            SELECT site.name AS site, {sql.text(body, "cluster")} AS scope, resource.name AS machine,
                CASE WHEN {sql.boolean(body, "control_plane")} THEN 'control plane' ELSE 'worker' END AS role,
                {sql.text(body, "deployment")} AS deployment, {sql.text(body, "version")} AS version, {sql.text(body, "phase")} AS phase,
                {sql.boolean(body, "ready")} AS ready, {sql.boolean(body, "deleting")} AS deleting,
                {sql.number(body, "vmid")} AS vmid, {sql.text("vm_body.content", "node")} AS node,
                {sql.text(body, "node_name")} AS kubernetes_node, {sql.joined(body, "addresses")} AS addresses,
                {sql.text(body, "created_at")} AS created_at
            FROM resource
            JOIN site ON site.id = resource.site_id
            JOIN body ON body.hash = resource.observed_hash
            LEFT JOIN resource AS vm ON vm.site_id = resource.site_id AND vm.kind = 'proxmox.vm' AND vm.name = {vmid}
            LEFT JOIN body AS vm_body ON vm_body.hash = vm.observed_hash
            WHERE resource.kind = 'kube.machine'""",
        "v_node": f"""
            SELECT site.name AS site, resource.name AS node, {sql.boolean(body, "online")} AS online, {sql.number(body, "cores")} AS cores,
                {sql.number(body, "memory_mib")} AS memory_mib,
                (SELECT count(*) FROM v_vm WHERE v_vm.site = site.name AND v_vm.node = resource.name AND NOT v_vm.template) AS vms,
                (SELECT coalesce(sum(v_vm.memory_mib), 0) FROM v_vm
                    WHERE v_vm.site = site.name AND v_vm.node = resource.name AND v_vm.running) AS memory_taken_mib
            FROM resource
            JOIN site ON site.id = resource.site_id
            JOIN body ON body.hash = resource.observed_hash
            WHERE resource.kind = 'proxmox.node'""",
    }


def _records(sql: Sqlite | Postgresql) -> dict[str, str]:
    return {
        "v_ledger": """
            SELECT site.name AS site, ledger.position, ledger.at, ledger.tick, ledger.event, ledger.subject, ledger.who, ledger.facts,
                ledger.hash
            FROM ledger JOIN site ON site.id = ledger.site_id""",
        "v_coverage": f"""
            SELECT site.name AS site, coverage.tier, coverage.state, coverage.reason, coverage.from_at, coverage.to_at,
                {sql.seconds("coverage.from_at", "coverage.to_at")} AS seconds, coverage.from_tick, coverage.to_tick
            FROM coverage JOIN site ON site.id = coverage.site_id""",
        "v_setting": """
            SELECT site.name AS site, setting.name, setting.version, setting.value, setting.origin, setting.author, setting.reason,
                setting.revision, setting.path, setting.made_at, setting.in_force_at
            FROM setting JOIN site ON site.id = setting.site_id""",
        "v_freeze": """
            SELECT site.name AS site, CASE WHEN held.scope = '' THEN 'site' ELSE held.scope END AS scope, held.duties, held.who,
                held.reason, held.began_at, held.until, held.ended_at, held.ended_by
            FROM "freeze" AS held JOIN site ON site.id = held.site_id""",
    }
