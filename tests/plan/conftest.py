from tests.store.conftest import (  # noqa: F401 - fixtures
    database,
    engine,
    migrated_postgres,
    migrated_sqlite,
    migrated_url,
    postgres_server,
)
