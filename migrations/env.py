"""How Alembic reaches the state database, and how it writes our column types into new migrations: as plain ones."""

from __future__ import annotations

import os
from typing import Any

from alembic import context
from sqlalchemy import BigInteger, Connection, Integer, String

from kubehenge.store.rows import Row
from kubehenge.store.rows.base import Instant


def render_item(kind: str, item: Any, _autogen: Any) -> Any:
    """Write a column type of `kubehenge.store.rows.base` without importing it: a migration outlives the code."""
    if kind != "type":
        return False
    if isinstance(item, Instant):
        return "sa.DateTime(timezone=True)"
    variant = getattr(item, "_variant_mapping", {})
    if isinstance(item, BigInteger) and isinstance(variant.get("sqlite"), Integer):
        return "ID"
    if "postgresql" in variant:
        return "KEY" if isinstance(item, String) else "JSON"
    return False


def migrate(connection: Connection) -> None:
    """Run the migrations on a connection whose transaction is the caller's."""
    context.configure(connection=connection, target_metadata=Row.metadata, render_item=render_item, transaction_per_migration=False)
    with context.begin_transaction():
        context.run_migrations()


if context.is_offline_mode():
    raise SystemExit("Migrations read the database as they go: run them online, with `kubehenge db upgrade`.")

given = context.config.attributes.get("connection")
if given is not None:
    migrate(given)
else:
    from kubehenge.store.database import open_database

    database = open_database(os.environ["KUBEHENGE_DATABASE_URL"], check=False)
    with database.connect() as own:
        migrate(own)
    database.close()
