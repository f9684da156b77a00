"""Which ClusterClass each cluster runs, and what the plain names stand for (MODEL 31)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
KEY = sa.String(512).with_variant(sa.String(512, collation="C"), "postgresql")

VIEW = r"""
    CREATE VIEW v_class AS
    SELECT site.name AS site, cluster.namespace || '/' || cluster.name AS scope, '' AS alias, pin.class_name AS class
    FROM class_pin AS pin
    JOIN cluster ON cluster.id = pin.cluster_id
    JOIN site ON site.id = cluster.site_id
    WHERE cluster.state <> 'gone'
    UNION ALL
    SELECT site.name AS site, '' AS scope, named.alias, named.class_name AS class
    FROM class_alias AS named
    JOIN site ON site.id = named.site_id"""


def upgrade() -> None:
    op.create_table(
        "class_pin",
        sa.Column("cluster_id", ID, nullable=False, autoincrement=False),
        sa.Column("class_name", KEY, nullable=False),
        sa.PrimaryKeyConstraint("cluster_id", name="pk_class_pin"),
        sa.ForeignKeyConstraint(["cluster_id"], ["cluster.id"], name="fk_class_pin_cluster_id_cluster"),
    )
    op.create_table(
        "class_alias",
        sa.Column("site_id", ID, nullable=False, autoincrement=False),
        sa.Column("alias", KEY, nullable=False),
        sa.Column("class_name", KEY, nullable=False),
        sa.PrimaryKeyConstraint("site_id", "alias", name="pk_class_alias"),
        sa.ForeignKeyConstraint(["site_id"], ["site.id"], name="fk_class_alias_site_id_site"),
    )
    op.execute(VIEW)


def downgrade() -> None:
    op.execute("DROP VIEW v_class")
    op.drop_table("class_alias")
    op.drop_table("class_pin")
