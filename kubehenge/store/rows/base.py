"""Types and conventions that all tables share, the same on SQLite and PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, DateTime, Dialect, Enum, Integer, MetaData, String, TypeDecorator
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase

CONVENTION = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

Id = BigInteger().with_variant(Integer, "sqlite")
"""A key drawn by the database."""

JsonValue = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")

Key = String(512).with_variant(String(512, collation="C"), "postgresql")
"""Text that orders the input of plans: compared as bytes on both databases (MODEL 27)."""

Hash = String(64)


class Instant(TypeDecorator[datetime]):
    """An instant in UTC; always aware in Python, on SQLite too."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("an instant needs its time zone")
        utc = value.astimezone(UTC)
        return utc.replace(tzinfo=None) if dialect.name == "sqlite" else utc

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def words(enum: type[Any], length: int = 24) -> Enum:
    """A closed set, kept by its values as text with a check."""
    return Enum(
        enum,
        native_enum=False,
        length=length,
        validate_strings=True,
        create_constraint=True,
        name=enum.__name__.lower(),
        values_callable=lambda members: [member.value for member in members],
    )


class Row(DeclarativeBase):
    """Base of all tables."""

    metadata = MetaData(naming_convention=CONVENTION)
