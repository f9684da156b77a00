"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
KEY = sa.String(512).with_variant(sa.String(512, collation="C"), "postgresql")
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
HASH = sa.String(64)
INSTANT = sa.DateTime(timezone=True)


def upgrade() -> None:
    _make_site_tables()
    _make_source_tables()
    _make_cluster_tables()
    _make_plan_tables()


def downgrade() -> None:
    for table in TABLES:
        op.drop_table(table)


def _make_site_tables() -> None:
    """Sites, their settings, ticks, coverage, leases and readings kept aside."""
    op.create_table(
        "site",
        sa.Column("id", ID, nullable=False),
        sa.Column("name", KEY, nullable=False),
        sa.Column("mode", sa.String(24), nullable=False),
        sa.Column("mode_reason", sa.Text(), nullable=False),
        sa.Column("rights", JSON, nullable=False),
        sa.Column("facts", JSON, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_site"),
        sa.UniqueConstraint("name", name="uq_site_name"),
        sa.CheckConstraint("mode IN ('acting', 'observing')", name=op.f("ck_site_sitemode")),
    )
    op.create_table(
        "setting",
        sa.Column("id", ID, nullable=False),
        sa.Column("site_id", ID, nullable=False),
        sa.Column("name", KEY, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("value", JSON, nullable=False),
        sa.Column("origin", sa.String(24), nullable=False),
        sa.Column("revision", HASH, nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("made_at", INSTANT, nullable=False),
        sa.Column("in_force_at", INSTANT, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_setting"),
        sa.ForeignKeyConstraint(["site_id"], ["site.id"], name="fk_setting_site_id_site"),
        sa.UniqueConstraint("site_id", "name", "version", name="uq_setting_site_id_name_version"),
        sa.CheckConstraint("origin IN ('default', 'git', 'page')", name=op.f("ck_setting_settingorigin")),
    )
    op.create_table(
        "tick",
        sa.Column("site_id", ID, nullable=False),
        sa.Column("number", ID, nullable=False, autoincrement=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("seen_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("site_id", "number", name="pk_tick"),
        sa.ForeignKeyConstraint(["site_id"], ["site.id"], name="fk_tick_site_id_site"),
    )
    op.create_index("ix_tick_site_id_at", "tick", ["site_id", "at"])
    op.create_table(
        "coverage",
        sa.Column("id", ID, nullable=False),
        sa.Column("site_id", ID, nullable=False),
        sa.Column("tier", KEY, nullable=False),
        sa.Column("from_tick", ID, nullable=False),
        sa.Column("to_tick", ID, nullable=False),
        sa.Column("state", sa.String(24), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("from_at", INSTANT, nullable=False),
        sa.Column("to_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_coverage"),
        sa.ForeignKeyConstraint(["site_id"], ["site.id"], name="fk_coverage_site_id_site"),
        sa.CheckConstraint("state IN ('ok', 'failed', 'suspect')", name=op.f("ck_coverage_coveragestate")),
        sa.CheckConstraint("to_tick >= from_tick", name=op.f("ck_coverage_rises")),
    )
    op.create_index("ix_coverage_site_id_tier_id", "coverage", ["site_id", "tier", "id"])
    op.create_table(
        "suspicion",
        sa.Column("id", ID, nullable=False),
        sa.Column("site_id", ID, nullable=False),
        sa.Column("kind", KEY, nullable=False),
        sa.Column("missing", JSON, nullable=False),
        sa.Column("readings", JSON, nullable=False),
        sa.Column("opened_at", INSTANT, nullable=False),
        sa.Column("closed_at", INSTANT, nullable=True),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_suspicion"),
        sa.ForeignKeyConstraint(["site_id"], ["site.id"], name="fk_suspicion_site_id_site"),
    )
    op.create_index("ix_suspicion_site_id_kind_closed_at", "suspicion", ["site_id", "kind", "closed_at"])
    op.create_table(
        "lease",
        sa.Column("name", KEY, nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("fence", ID, nullable=False),
        sa.Column("expires_at", INSTANT, nullable=False),
        sa.Column("renewed_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_lease"),
    )
    op.create_table(
        "freeze",
        sa.Column("id", ID, nullable=False),
        sa.Column("site_id", ID, nullable=False),
        sa.Column("scope", KEY, nullable=False),
        sa.Column("duties", sa.Boolean(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("began_at", INSTANT, nullable=False),
        sa.Column("until", INSTANT, nullable=True),
        sa.Column("ended_at", INSTANT, nullable=True),
        sa.Column("ended_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_freeze"),
        sa.ForeignKeyConstraint(["site_id"], ["site.id"], name="fk_freeze_site_id_site"),
    )
    op.create_index("ix_freeze_site_id_ended_at", "freeze", ["site_id", "ended_at"])


def _make_source_tables() -> None:
    """Bodies, sources and documents."""
    op.create_table(
        "body",
        sa.Column("hash", HASH, nullable=False),
        sa.Column("canon", sa.Integer(), nullable=False),
        sa.Column("content", JSON, nullable=False),
        sa.PrimaryKeyConstraint("hash", name="pk_body"),
    )
    op.create_table(
        "source",
        sa.Column("id", ID, nullable=False),
        sa.Column("site_id", ID, nullable=False),
        sa.Column("name", KEY, nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("branch", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("credentials", JSON, nullable=False),
        sa.Column("may_create", JSON, nullable=False),
        sa.Column("state", sa.String(24), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("accepted_sha", HASH, nullable=False),
        sa.Column("accepted_author", sa.Text(), nullable=False),
        sa.Column("accepted_subject", sa.Text(), nullable=False),
        sa.Column("accepted_at", INSTANT, nullable=True),
        sa.Column("seen_sha", HASH, nullable=False),
        sa.Column("lost_commits", JSON, nullable=False),
        sa.Column("polled_at", INSTANT, nullable=True),
        sa.Column("ignored", JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_source"),
        sa.ForeignKeyConstraint(["site_id"], ["site.id"], name="fk_source_site_id_site"),
        sa.UniqueConstraint("site_id", "name", name="uq_source_site_id_name"),
        sa.CheckConstraint("state IN ('new', 'read', 'unreachable', 'rewritten', 'gone', 'empty')", name=op.f("ck_source_sourcestate")),
    )
    op.create_table(
        "document",
        sa.Column("id", ID, nullable=False),
        sa.Column("site_id", ID, nullable=False),
        sa.Column("source_id", ID, nullable=False),
        sa.Column("path", KEY, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("line", sa.Integer(), nullable=False),
        sa.Column("blob_id", HASH, nullable=False),
        sa.Column("revision", HASH, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("namespace", KEY, nullable=False),
        sa.Column("name", KEY, nullable=False),
        sa.Column("verdict", sa.String(24), nullable=False),
        sa.Column("own_verdict", sa.String(24), nullable=False),
        sa.Column("problems", JSON, nullable=False),
        sa.Column("declared_hash", HASH, nullable=True),
        sa.Column("declared_blob", HASH, nullable=False),
        sa.Column("from_tick", ID, nullable=False),
        sa.Column("to_tick", ID, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_document"),
        sa.ForeignKeyConstraint(["site_id"], ["site.id"], name="fk_document_site_id_site"),
        sa.ForeignKeyConstraint(["source_id"], ["source.id"], name="fk_document_source_id_source"),
        sa.ForeignKeyConstraint(["declared_hash"], ["body.hash"], name="fk_document_declared_hash_body"),
        sa.CheckConstraint("verdict IN ('accepted', 'refused', 'skipped')", name=op.f("ck_document_verdict")),
        sa.CheckConstraint("own_verdict IN ('accepted', 'refused', 'skipped')", name=op.f("ck_document_own_verdict")),
    )
    op.create_index("ix_document_in_force", "document", ["source_id", "to_tick", "path"])
    op.create_index("ix_document_site_id_namespace_name", "document", ["site_id", "namespace", "name"])
    op.create_index("ix_document_source_id_path_position_from_tick", "document", ["source_id", "path", "position", "from_tick"])


def _make_cluster_tables() -> None:
    """Clusters, resources and their versions."""
    op.create_table(
        "cluster",
        sa.Column("id", ID, nullable=False),
        sa.Column("site_id", ID, nullable=False),
        sa.Column("namespace", KEY, nullable=False),
        sa.Column("name", KEY, nullable=False),
        sa.Column("incarnation", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(24), nullable=False),
        sa.Column("holder_source_id", ID, nullable=True),
        sa.Column("holder_path", KEY, nullable=False),
        sa.Column("holder_position", sa.Integer(), nullable=False),
        sa.Column("declared_hash", HASH, nullable=True),
        sa.Column("declared_blob", sa.Text(), nullable=False),
        sa.Column("declared_revision", sa.Text(), nullable=False),
        sa.Column("removed_revision", sa.Text(), nullable=False),
        sa.Column("class_name", sa.Text(), nullable=False),
        sa.Column("vm_id_first", sa.Integer(), nullable=True),
        sa.Column("vm_id_last", sa.Integer(), nullable=True),
        sa.Column("fixed", JSON, nullable=False),
        sa.Column("inputs", JSON, nullable=False),
        sa.Column("status", JSON, nullable=False),
        sa.Column("due", sa.Boolean(), nullable=False),
        sa.Column("opened_tick", ID, nullable=False),
        sa.Column("closed_tick", ID, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_cluster"),
        sa.ForeignKeyConstraint(["site_id"], ["site.id"], name="fk_cluster_site_id_site"),
        sa.ForeignKeyConstraint(["holder_source_id"], ["source.id"], name="fk_cluster_holder_source_id_source"),
        sa.ForeignKeyConstraint(["declared_hash"], ["body.hash"], name="fk_cluster_declared_hash_body"),
        sa.UniqueConstraint("site_id", "namespace", "name", "incarnation", name="uq_cluster_site_id_namespace_name_incarnation"),
        sa.CheckConstraint("state IN ('declared', 'foreign', 'leaving', 'gone')", name=op.f("ck_cluster_clusterstate")),
    )
    op.create_index("ix_cluster_due", "cluster", ["site_id"], sqlite_where=sa.text("due"), postgresql_where=sa.text("due"))
    op.create_index(
        "ix_cluster_holder_source_id_holder_path_holder_position", "cluster", ["holder_source_id", "holder_path", "holder_position"]
    )
    op.create_index("ix_cluster_site_id_state", "cluster", ["site_id", "state"])
    op.create_table(
        "resource",
        sa.Column("id", ID, nullable=False),
        sa.Column("site_id", ID, nullable=False),
        sa.Column("cluster_id", ID, nullable=True),
        sa.Column("kind", KEY, nullable=False),
        sa.Column("name", KEY, nullable=False),
        sa.Column("desired_hash", HASH, nullable=True),
        sa.Column("applied_hash", HASH, nullable=True),
        sa.Column("observed_hash", HASH, nullable=True),
        sa.Column("mark", sa.Text(), nullable=True),
        sa.Column("outputs", JSON, nullable=False),
        sa.Column("requires", JSON, nullable=False),
        sa.Column("missing_reads", sa.Integer(), nullable=False),
        sa.Column("touched_at", INSTANT, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_resource"),
        sa.ForeignKeyConstraint(["site_id"], ["site.id"], name="fk_resource_site_id_site"),
        sa.ForeignKeyConstraint(["cluster_id"], ["cluster.id"], name="fk_resource_cluster_id_cluster"),
        sa.ForeignKeyConstraint(["desired_hash"], ["body.hash"], name="fk_resource_desired_hash_body"),
        sa.ForeignKeyConstraint(["applied_hash"], ["body.hash"], name="fk_resource_applied_hash_body"),
        sa.ForeignKeyConstraint(["observed_hash"], ["body.hash"], name="fk_resource_observed_hash_body"),
        sa.UniqueConstraint("site_id", "kind", "name", name="uq_resource_site_id_kind_name"),
    )
    op.create_index("ix_resource_cluster_id_kind", "resource", ["cluster_id", "kind"])
    op.create_index(
        "ix_resource_differs",
        "resource",
        ["site_id", "cluster_id"],
        sqlite_where=sa.text(
            "(desired_hash IS NOT applied_hash OR observed_hash IS NOT applied_hash) AND (desired_hash IS NOT NULL OR applied_hash IS NOT NULL)"
        ),
        postgresql_where=sa.text(
            "(desired_hash IS DISTINCT FROM applied_hash OR observed_hash IS DISTINCT FROM applied_hash) AND (desired_hash IS NOT NULL OR applied_hash IS NOT NULL)"
        ),
    )
    op.create_table(
        "version",
        sa.Column("id", ID, nullable=False),
        sa.Column("resource_id", ID, nullable=False),
        sa.Column("side", sa.String(24), nullable=False),
        sa.Column("body_hash", HASH, nullable=True),
        sa.Column("from_tick", ID, nullable=False),
        sa.Column("to_tick", ID, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_version"),
        sa.ForeignKeyConstraint(["resource_id"], ["resource.id"], name="fk_version_resource_id_resource"),
        sa.ForeignKeyConstraint(["body_hash"], ["body.hash"], name="fk_version_body_hash_body"),
        sa.CheckConstraint("side IN ('desired', 'applied', 'observed')", name=op.f("ck_version_versionside")),
    )
    op.create_index("ix_version_as_of", "version", ["resource_id", "side", "from_tick"])


def _make_plan_tables() -> None:
    """Plans, actions, approvals, runs, the journal, edits and the ledger."""
    op.create_table(
        "plan",
        sa.Column("id", ID, nullable=False),
        sa.Column("site_id", ID, nullable=False),
        sa.Column("cluster_id", ID, nullable=True),
        sa.Column("scope", KEY, nullable=False),
        sa.Column("lane", sa.String(24), nullable=False),
        sa.Column("digest", HASH, nullable=False),
        sa.Column("state", sa.String(24), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("classes", JSON, nullable=False),
        sa.Column("documents", JSON, nullable=False),
        sa.Column("inputs", HASH, nullable=False),
        sa.Column("disruption", JSON, nullable=False),
        sa.Column("revision", HASH, nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("bill", JSON, nullable=False),
        sa.Column("obstacles", JSON, nullable=False),
        sa.Column("checks", JSON, nullable=False),
        sa.Column("held", sa.Text(), nullable=False),
        sa.Column("protected", sa.Boolean(), nullable=False),
        sa.Column("retry_at", INSTANT, nullable=True),
        sa.Column("rules_version", sa.Integer(), nullable=False),
        sa.Column("opened_tick", ID, nullable=False),
        sa.Column("opened_at", INSTANT, nullable=False),
        sa.Column("refreshed_at", INSTANT, nullable=False),
        sa.Column("approved_at", INSTANT, nullable=True),
        sa.Column("closed_tick", ID, nullable=True),
        sa.Column("closed_at", INSTANT, nullable=True),
        sa.Column("closed_reason", sa.Text(), nullable=False),
        sa.Column("replaced_by", ID, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_plan"),
        sa.ForeignKeyConstraint(["site_id"], ["site.id"], name="fk_plan_site_id_site"),
        sa.ForeignKeyConstraint(["cluster_id"], ["cluster.id"], name="fk_plan_cluster_id_cluster"),
        sa.ForeignKeyConstraint(["replaced_by"], ["plan.id"], name="fk_plan_replaced_by_plan"),
        sa.CheckConstraint("lane IN ('asked', 'upkeep')", name=op.f("ck_plan_lane")),
        sa.CheckConstraint(
            "state IN ('open', 'approved', 'running', 'done', 'failed', 'stale', 'superseded', 'interrupted')",
            name=op.f("ck_plan_planstate"),
        ),
    )
    op.create_index("ix_plan_cluster_id_id", "plan", ["cluster_id", "id"])
    op.create_index("ix_plan_digest", "plan", ["digest"])
    op.create_index("ix_plan_site_id_state_id", "plan", ["site_id", "state", "id"])
    op.create_index(
        "uq_plan_one_open",
        "plan",
        ["site_id", "scope", "lane"],
        unique=True,
        sqlite_where=sa.text("closed_tick IS NULL"),
        postgresql_where=sa.text("closed_tick IS NULL"),
    )
    op.create_table(
        "action",
        sa.Column("id", ID, nullable=False),
        sa.Column("plan_id", ID, nullable=False),
        sa.Column("site_id", ID, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("kind", KEY, nullable=False),
        sa.Column("name", KEY, nullable=False),
        sa.Column("verb", sa.String(24), nullable=False),
        sa.Column("change_class", sa.String(24), nullable=False),
        sa.Column("part", sa.String(24), nullable=False),
        sa.Column("before_hash", HASH, nullable=True),
        sa.Column("after_hash", HASH, nullable=True),
        sa.Column("changes", JSON, nullable=False),
        sa.Column("drift", JSON, nullable=False),
        sa.Column("waits_for", JSON, nullable=False),
        sa.Column("requires", JSON, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_action"),
        sa.ForeignKeyConstraint(["plan_id"], ["plan.id"], name="fk_action_plan_id_plan"),
        sa.ForeignKeyConstraint(["site_id"], ["site.id"], name="fk_action_site_id_site"),
        sa.ForeignKeyConstraint(["after_hash"], ["body.hash"], name="fk_action_after_hash_body"),
        sa.UniqueConstraint("plan_id", "position", name="uq_action_plan_id_position"),
        sa.CheckConstraint("verb IN ('create', 'update', 'delete')", name=op.f("ck_action_verb")),
        sa.CheckConstraint(
            "change_class IN ('create', 'change', 'rollout', 'shrink', 'delete', 'trust', 'credential', 'adopt', 'repair', 'duty')",
            name=op.f("ck_action_changeclass"),
        ),
        sa.CheckConstraint("part IN ('asked', 'upkeep')", name=op.f("ck_action_lane")),
    )
    op.create_index("ix_action_site_id_kind_name", "action", ["site_id", "kind", "name"])
    op.create_table(
        "approval",
        sa.Column("id", ID, nullable=False),
        sa.Column("plan_id", ID, nullable=False),
        sa.Column("digest", HASH, nullable=False),
        sa.Column("verdict", sa.String(24), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("rules_version", sa.Integer(), nullable=False),
        sa.Column("typed_name", sa.Text(), nullable=False),
        sa.Column("comment", sa.Text(), nullable=False),
        sa.Column("inherited_from", ID, nullable=True),
        sa.Column("at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_approval"),
        sa.ForeignKeyConstraint(["plan_id"], ["plan.id"], name="fk_approval_plan_id_plan"),
        sa.ForeignKeyConstraint(["inherited_from"], ["approval.id"], name="fk_approval_inherited_from_approval"),
        sa.CheckConstraint("verdict IN ('approve', 'reject', 'withdraw')", name=op.f("ck_approval_approvalverdict")),
    )
    op.create_index("ix_approval_plan_id_id", "approval", ["plan_id", "id"])
    op.create_table(
        "run",
        sa.Column("id", ID, nullable=False),
        sa.Column("site_id", ID, nullable=False),
        sa.Column("plan_id", ID, nullable=False),
        sa.Column("scope", KEY, nullable=False),
        sa.Column("lane", sa.String(24), nullable=False),
        sa.Column("fence", ID, nullable=False),
        sa.Column("started_at", INSTANT, nullable=False),
        sa.Column("ended_at", INSTANT, nullable=True),
        sa.Column("stop_reason", sa.Text(), nullable=False),
        sa.Column("outcome", sa.String(24), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_run"),
        sa.ForeignKeyConstraint(["site_id"], ["site.id"], name="fk_run_site_id_site"),
        sa.ForeignKeyConstraint(["plan_id"], ["plan.id"], name="fk_run_plan_id_plan"),
        sa.UniqueConstraint("plan_id", name="uq_run_plan_id"),
        sa.CheckConstraint("lane IN ('asked', 'upkeep')", name=op.f("ck_run_lane")),
        sa.CheckConstraint(
            "outcome IN ('open', 'approved', 'running', 'done', 'failed', 'stale', 'superseded', 'interrupted')",
            name=op.f("ck_run_planstate"),
        ),
    )
    op.create_index("ix_run_site_id_ended_at_id", "run", ["site_id", "ended_at", "id"])
    op.create_table(
        "step",
        sa.Column("id", ID, nullable=False),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("action_id", ID, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(24), nullable=False),
        sa.Column("handle", JSON, nullable=True),
        sa.Column("waits_on", sa.Text(), nullable=False),
        sa.Column("progress_done", sa.Integer(), nullable=False),
        sa.Column("progress_all", sa.Integer(), nullable=False),
        sa.Column("left_hash", HASH, nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("refused", sa.Boolean(), nullable=False),
        sa.Column("log", JSON, nullable=False),
        sa.Column("intended_at", INSTANT, nullable=True),
        sa.Column("looked_at", INSTANT, nullable=True),
        sa.Column("ended_at", INSTANT, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_step"),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_step_run_id_run"),
        sa.ForeignKeyConstraint(["action_id"], ["action.id"], name="fk_step_action_id_action"),
        sa.UniqueConstraint("run_id", "position", name="uq_step_run_id_position"),
        sa.CheckConstraint(
            "state IN ('not_started', 'intended', 'pending', 'done', 'failed', 'blocked', 'unknown')", name=op.f("ck_step_stepstate")
        ),
    )
    op.create_index("ix_step_state_run_id", "step", ["state", "run_id"])
    op.create_table(
        "edit",
        sa.Column("id", ID, nullable=False),
        sa.Column("site_id", ID, nullable=False),
        sa.Column("source_id", ID, nullable=False),
        sa.Column("cluster_id", ID, nullable=True),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("change", JSON, nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("state", sa.String(24), nullable=False),
        sa.Column("sha", HASH, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("wanted_at", INSTANT, nullable=False),
        sa.Column("ended_at", INSTANT, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_edit"),
        sa.ForeignKeyConstraint(["site_id"], ["site.id"], name="fk_edit_site_id_site"),
        sa.ForeignKeyConstraint(["source_id"], ["source.id"], name="fk_edit_source_id_source"),
        sa.ForeignKeyConstraint(["cluster_id"], ["cluster.id"], name="fk_edit_cluster_id_cluster"),
        sa.CheckConstraint("state IN ('wanted', 'pushed', 'done', 'refused', 'superseded')", name=op.f("ck_edit_editstate")),
    )
    op.create_index("ix_edit_site_id_state", "edit", ["site_id", "state"])
    op.create_table(
        "ledger",
        sa.Column("site_id", ID, nullable=False),
        sa.Column("position", ID, nullable=False, autoincrement=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("tick", ID, nullable=False),
        sa.Column("event", KEY, nullable=False),
        sa.Column("subject", KEY, nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("facts", JSON, nullable=False),
        sa.Column("previous", HASH, nullable=False),
        sa.Column("hash", HASH, nullable=False),
        sa.PrimaryKeyConstraint("site_id", "position", name="pk_ledger"),
        sa.ForeignKeyConstraint(["site_id"], ["site.id"], name="fk_ledger_site_id_site"),
        sa.UniqueConstraint("hash", name="uq_ledger_hash"),
    )
    op.create_index("ix_ledger_site_id_subject_position", "ledger", ["site_id", "subject", "position"])


TABLES = (
    "ledger",
    "edit",
    "step",
    "run",
    "approval",
    "action",
    "plan",
    "version",
    "resource",
    "cluster",
    "document",
    "source",
    "body",
    "freeze",
    "lease",
    "suspicion",
    "coverage",
    "tick",
    "setting",
    "site",
)
