"""The driver of the site's own settings: they are written by an action of the site's plan, and in force only then (DESIGN, Kinds)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kubehenge.clock import Clock
from kubehenge.drivers.base import ActionContext, BulkReading, Done, Outcome
from kubehenge.errors import InvariantError
from kubehenge.model.canon import Body
from kubehenge.model.resource import Observed, ResourceRef
from kubehenge.resources.site import RULES, SETTING
from kubehenge.store.database import Database
from kubehenge.store.rows import SettingOrigin
from kubehenge.store.sites import put_setting, setting_in_force

_NAMES = {SETTING: SETTING.name, RULES: RULES.name}


@dataclass(frozen=True, slots=True)
class SettingsDriver:
    """Reads and writes the settings in force of one site."""

    db: Database
    site_id: int
    clock: Clock

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds that it reads and writes."""
        return frozenset(ref.kind for ref in _NAMES)

    @property
    def endpoints(self) -> tuple[str, ...]:
        """There is one database."""
        return ()

    def read_bulk(self, *, endpoint: str = "") -> BulkReading:  # noqa: ARG002 - there is one database
        """Read both settings."""
        read_at = self.clock.now()
        found = {ref: self.read(ref, None) for ref in _NAMES}
        return BulkReading(items={ref.kind: (item,) if item else () for ref, item in found.items()}, read_at=read_at, endpoint="database")

    def read(self, ref: ResourceRef, body: Body | None) -> Observed | None:  # noqa: ARG002
        """Read one setting; None while the default is in force."""
        with self.db.read() as session:
            found = setting_in_force(session, self.site_id, _NAMES[ref])
        return Observed(ref=ref, body=found.value) if found.version else None

    def create(self, ref: ResourceRef, body: Body, context: ActionContext) -> Outcome:
        """Put a first version in force."""
        return self.update(ref, body, context)

    def update(self, ref: ResourceRef, body: Body, context: ActionContext) -> Outcome:  # noqa: ARG002
        """Put a new version in force."""
        with self.db.write() as session:
            put_setting(
                session,
                self.site_id,
                _NAMES[ref],
                body,
                origin=SettingOrigin.GIT,
                author="git",
                reason="asked for in Git",
                now=self.clock.now(),
                in_force=True,
            )
        return Done(left=Observed(ref=ref, body=body), note="It is in force.")

    def delete(self, ref: ResourceRef, body: Body, context: ActionContext) -> Outcome:  # noqa: ARG002
        """Never: settings that no document asks for stay as they are."""
        raise InvariantError(f"{ref} is never deleted.")

    def look(self, ref: ResourceRef, handle: Mapping[str, Any], context: ActionContext) -> Outcome:  # noqa: ARG002
        """Never: nothing of it is pending."""
        raise InvariantError(f"{ref} is never pending.")
