"""Who sees which clusters, as a condition that SQL can use (reference: kubehenge-clusters, Who may do what)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, and_, false, not_, or_, true

SITE = "site"
"""The scope of what clusters share; one sort of shared thing is `site:<what>`, which no cluster can be named."""


def is_shared(scope: str) -> bool:
    """Tell whether a scope is what clusters share, or one sort of it."""
    return scope.partition(":")[0] == SITE


@dataclass(frozen=True, slots=True, kw_only=True)
class Visible:
    """
    What someone sees: all clusters but the `exceptions`, or none but those, each written `<namespace>/<name>`.

    `site` says whether they see what clusters share: its plans, settings, sources and the entries of the ledger about it.
    """

    all_clusters: bool
    exceptions: frozenset[str] = frozenset()
    site: bool = False

    def sees(self, scope: str) -> bool:
        """Tell whether they see a cluster, or what clusters share."""
        if is_shared(scope):
            return self.site
        return self.all_clusters != (scope in self.exceptions)

    def clusters(self, scope: ColumnElement[str] | Any) -> ColumnElement[bool]:
        """Return the condition that a column or expression names a cluster that they see."""
        if self.all_clusters:
            return scope.not_in(sorted(self.exceptions)) if self.exceptions else true()
        return scope.in_(sorted(self.exceptions)) if self.exceptions else false()

    def scopes(self, scope: ColumnElement[str] | Any) -> ColumnElement[bool]:
        """Return the same for a column that may also say `site` or `site:<what>`."""
        shared = or_(scope == SITE, scope.startswith(f"{SITE}:", autoescape=True))
        clusters = and_(not_(shared), self.clusters(scope))
        return or_(clusters, shared) if self.site else clusters


EVERYTHING = Visible(all_clusters=True, site=True)
"""What the command line on the appliance itself sees."""
