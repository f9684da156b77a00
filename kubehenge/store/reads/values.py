"""What plans keep as JSON, read back into the values of `kubehenge.model`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kubehenge.model.canon import MISSING, FieldChange
from kubehenge.model.plan import Bill, Check, NodeLoad, NodeLoss, Obstacle, QuorumStep, QuorumVerdict, Remedy


def bill_of(stored: Mapping[str, Any]) -> Bill:
    """Read a plan's bill; {} is the bill of a plan that needs nothing."""
    nested: dict[str, Any] = {
        "nodes": tuple(NodeLoad(**one) for one in stored.get("nodes", ())),
        "quorum": QuorumVerdict(stored.get("quorum", QuorumVerdict.NOT_TOUCHED)),
        "quorum_steps": tuple(QuorumStep(**{**one, "members_on": tuple(one["members_on"])}) for one in stored.get("quorum_steps", ())),
        "losses": tuple(NodeLoss(**one) for one in stored.get("losses", ())),
    }
    return Bill(**{**stored, **nested})


def obstacles_of(stored: Sequence[Mapping[str, Any]]) -> tuple[Obstacle, ...]:
    """Read why a plan cannot finish."""
    return tuple(
        Obstacle(
            what=one["what"],
            asked=one["asked"],
            there_is=one["there_is"],
            short_by=one.get("short_by", ""),
            remedies=tuple(
                Remedy(text=remedy["text"], changes=field_changes(remedy.get("changes", ())), cost=remedy.get("cost", ""))
                for remedy in one.get("remedies", ())
            ),
        )
        for one in stored
    )


def checks_of(stored: Sequence[Mapping[str, Any]]) -> tuple[Check, ...]:
    """Read the rules that a plan was held against."""
    return tuple(Check(text=one["text"], holds=bool(one["holds"]), note=one.get("note", "")) for one in stored)


def field_changes(stored: Sequence[Mapping[str, Any]]) -> tuple[FieldChange, ...]:
    """Read fields that differ; a side that is not named had no such field."""
    return tuple(FieldChange(path=one["path"], before=one.get("before", MISSING), after=one.get("after", MISSING)) for one in stored)
