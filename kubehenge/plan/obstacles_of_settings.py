"""What keeps a change of the site's settings from being carried out (MODEL 18)."""

from __future__ import annotations

from collections.abc import Iterable

from kubehenge.model.canon import Body
from kubehenge.model.plan import Obstacle, Remedy
from kubehenge.model.site import SiteSettings


def look_at_settings(before: Body | None, after: Body | None, pools: Iterable[str]) -> tuple[Obstacle, ...]:
    """
    Return what is against a change of a `Site` document; `pools` are all pools that there are.

    People's rights lie on the clusters' pools, below the workload pool: while clusters are there it stays where it is.
    """
    default = SiteSettings().workload_pool
    old, new = ((body or {}).get("spec", {}).get("workloadPool", default) for body in (before, after))
    if old == new:
        return ()
    there = sorted(pool for pool in pools if pool.startswith(f"{old}/"))
    if not there:
        return ()
    return (
        Obstacle(
            what="workload pool",
            asked=f"the workload pool {new}",
            there_is=f"{len(there)} {'pool' if len(there) == 1 else 'pools'} of clusters in {old}, such as {there[0]}",
            remedies=(Remedy(text=f"Leave workloadPool at {old}, or delete the clusters in it first."),),
        ),
    )
