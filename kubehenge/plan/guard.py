"""The deletion guard: which plans of one commit are held for a typed name, however mild each looks (ACCEPTANCE 1.7)."""

from __future__ import annotations

from dataclasses import dataclass

FLOOR = 1
SHARE = 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitSum:
    """What all plans that one commit opened do together, and what the site held before."""

    machines_before: int
    machines_removed: int
    clusters_before: int = 0
    clusters_after: int = 0
    subpath_vanished: bool = False


def hold_reason(summed: CommitSum) -> str:
    """Return why every deleting plan of the commit is held, '' when none is; a deletion of a cluster is held by its own rule anyway."""
    limit = max(FLOOR, int(summed.machines_before * SHARE))
    if summed.subpath_vanished:
        return "The source's folder is not in the repository any more."
    if summed.clusters_before and summed.clusters_after == 0:
        return "The commit leaves no cluster declared."
    if summed.clusters_before and summed.clusters_after * 2 < summed.clusters_before:
        return f"The commit leaves {summed.clusters_after} of {summed.clusters_before} clusters declared."
    if summed.machines_removed > limit:
        return f"The commit removes {summed.machines_removed} of the site's {summed.machines_before} machines; more than {limit} asks for the name."
    return ""
