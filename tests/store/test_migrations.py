"""The migrations lead to the tables that the code uses, both ways, on both databases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import CheckConstraint, Connection, create_engine, inspect, text
from sqlalchemy.dialects.postgresql import dialect as postgresql_dialect

from kubehenge.errors import UsageError
from kubehenge.store import migrate, versions
from kubehenge.store.database import Database, open_database
from kubehenge.store.rows import Row
from kubehenge.store.trouble import DatabaseError


def tables_of(database: Database) -> set[str]:
    with database.connect() as connection:
        return set(inspect(connection).get_table_names()) - {"alembic_version"}


def shape_of(connection: Connection) -> dict[str, Any]:
    """Return all that a database knows of our tables, names of checks aside."""
    seen = inspect(connection)
    return {
        name: {
            "columns": [(c["name"], str(c["type"]), c["nullable"], c["default"]) for c in seen.get_columns(name)],
            "key": seen.get_pk_constraint(name),
            "references": sorted(map(str, seen.get_foreign_keys(name))),
            "unique": sorted((str(u["name"]), tuple(u["column_names"])) for u in seen.get_unique_constraints(name)),
            "indexes": sorted(
                (
                    str(i["name"]),
                    tuple(i["column_names"]),
                    i["unique"],
                    str(i.get("dialect_options", {}).get("sqlite_where", "")).replace(f"{name}.", ""),
                )
                for i in seen.get_indexes(name)
            ),
            "checks": sorted(c["sqltext"] for c in seen.get_check_constraints(name)),
        }
        for name in seen.get_table_names()
        if name != "alembic_version"
    }


def test_there_is_one_head_and_it_is_the_newest_file() -> None:
    config = Config()
    config.set_main_option("script_location", str(versions.migrations_dir()))
    script = ScriptDirectory.from_config(config)
    assert script.get_heads() == [versions.head()]
    assert [revision.revision for revision in script.walk_revisions()] == list(reversed(versions.known()))


def test_migrations_import_nothing_from_the_package() -> None:
    for path in (versions.migrations_dir() / "versions").glob("*.py"):
        assert "kubehenge" not in path.read_text(encoding="utf-8"), path


def test_an_empty_database_migrates_to_exactly_the_tables_of_the_code(database: Database) -> None:
    assert tables_of(database) == set(Row.metadata.tables)
    assert migrate.check(database) == ()
    assert migrate.current(database) == versions.head()


def test_the_migrated_sqlite_schema_is_what_the_code_would_make(sqlite_url: str, tmp_path: Path) -> None:
    migrated = open_database(sqlite_url, check=False)
    migrate.upgrade(migrated)
    made = create_engine(f"sqlite:///{tmp_path}/made.db")
    Row.metadata.create_all(made)
    with made.connect() as ours, migrated.connect() as theirs:
        assert shape_of(theirs) == shape_of(ours)
    made.dispose()
    migrated.close()


@pytest.mark.postgres
def test_every_column_on_postgresql_has_the_type_and_collation_of_the_code(postgres_url: str) -> None:
    database = open_database(postgres_url, check=False)
    migrate.upgrade(database)
    with database.connect() as connection:
        seen = inspect(connection)
        for table in Row.metadata.sorted_tables:
            found = {c["name"]: c["type"].compile(postgresql_dialect()) for c in seen.get_columns(table.name)}
            asked = {c.name: c.type.compile(postgresql_dialect()) for c in table.columns}
            assert found == asked
            asked_checks = [c for c in table.constraints if isinstance(c, CheckConstraint)]
            assert len(seen.get_check_constraints(table.name)) == len(asked_checks)
    database.close()


def test_down_to_nothing_and_up_again(database: Database) -> None:
    assert migrate.downgrade(database, "base") == "empty"
    assert tables_of(database) == set()
    assert migrate.current(database) is None
    migrate.upgrade(database)
    assert migrate.check(database) == ()


def test_each_version_is_reached_one_step_down_and_up(database: Database) -> None:
    for version in (*reversed(versions.known()[:-1]), "base"):
        migrate.downgrade(database, version)
    for version in versions.known():
        assert migrate.upgrade(database, version) == version
        if version != versions.known()[0]:
            migrate.downgrade(database, versions.known()[versions.known().index(version) - 1])
            migrate.upgrade(database, version)
    assert migrate.check(database) == ()


def test_upgrading_twice_changes_nothing(database: Database) -> None:
    assert migrate.upgrade(database) == versions.head()


def test_a_difference_is_told_in_words(database: Database) -> None:
    with database.connect() as connection:
        connection.execute(text("DROP INDEX ix_tick_site_id_at"))
    assert any("ix_tick_site_id_at" in line for line in migrate.check(database))


def test_a_database_of_a_newer_release_is_refused_and_left_alone(database: Database, migrated_url: str) -> None:
    with database.connect() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    for attempt in (lambda: open_database(migrated_url), lambda: migrate.upgrade(database), lambda: migrate.downgrade(database, "base")):
        with pytest.raises(DatabaseError, match=r"version 9999, which a newer Kubehenge made"):
            attempt()
    assert tables_of(database) == set(Row.metadata.tables)


def test_a_database_without_tables_is_refused_with_the_command_that_makes_them(empty_database: Database, url: str) -> None:
    assert empty_database.where
    with pytest.raises(DatabaseError, match="kubehenge db upgrade"):
        open_database(url)


def test_versions_that_do_not_exist_are_refused(database: Database) -> None:
    with pytest.raises(UsageError, match="no version that this Kubehenge knows"):
        migrate.upgrade(database, "7777")


def test_taking_down_an_empty_database_is_refused(empty_database: Database) -> None:
    with pytest.raises(UsageError, match="empty"):
        migrate.downgrade(empty_database, "base")


def test_a_failed_migration_leaves_the_database_as_it_was(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The migrations run in one transaction: also SQLite's DDL is undone."""
    folder = tmp_path / "migrations"
    (folder / "versions").mkdir(parents=True)
    real = versions.migrations_dir()
    for path in (*real.glob("*.py"), *real.glob("*.mako"), *(real / "versions").glob("*.py")):
        (folder / path.relative_to(real)).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "versions" / "9998_broken.py").write_text(
        f"import sqlalchemy as sa\nfrom alembic import op\nrevision = '9998'\ndown_revision = '{versions.head()}'\n"
        "def upgrade():\n    op.create_table('half', sa.Column('id', sa.Integer()))\n    raise RuntimeError('no')\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(versions, "migrations_dir", lambda: folder)
    with pytest.raises(RuntimeError, match="no"):
        migrate.upgrade(database)
    assert "half" not in tables_of(database)
