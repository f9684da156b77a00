"""Making Kubehenge's database ready for a lab: its tables, its site, and the lab's repository as a source."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import select

from kubehenge.store import migrate
from kubehenge.store.database import open_database
from kubehenge.store.rows import SourceRow
from kubehenge.store.sites import ensure_site


def prepare_database(
    database_url: str, *, site: str, source: str, url: str, branch: str, credentials: Mapping[str, str], now: datetime
) -> None:
    """Bring the database to this version and see that the source is there, with the address it has now. Errors: KubehengeError."""
    database = open_database(database_url, check=False)
    try:
        migrate.upgrade(database)
        with database.write() as session:
            site_id = ensure_site(session, site, now).id
            row = session.scalars(select(SourceRow).where(SourceRow.site_id == site_id, SourceRow.name == source)).first()
            if row is None:
                row = SourceRow(site_id=site_id, name=source)
                session.add(row)
            row.url, row.branch, row.credentials = url, branch, dict(credentials)
    finally:
        database.close()
