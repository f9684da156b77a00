"""What keeps a cluster from going on, as a driver tells it and pages show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What keeps something from going on, in whole sentences; one that may pass by itself counts `after_s` seconds after `since`."""

    text: str
    since: str = ""
    after_s: int = 0

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Self:
        """Read the form in which it is stored."""
        return cls(text=str(body.get("text", "")), since=str(body.get("since", "")), after_s=int(body.get("after_s") or 0))

    @property
    def body(self) -> Mapping[str, Any]:
        """The form in which it is stored."""
        return {"text": self.text, **({"since": self.since, "after_s": self.after_s} if self.after_s else {})}

    def counts(self, now: datetime) -> bool:
        """Tell whether it has lasted long enough to be said."""
        return not self.after_s or now >= datetime.fromisoformat(self.since) + timedelta(seconds=self.after_s)
