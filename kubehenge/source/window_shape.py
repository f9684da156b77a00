"""The shape of a window, in a Cluster and in an approval rule (reference: kubehenge-upgrading, Automatically inside a window)."""

from __future__ import annotations

from datetime import time
from typing import Annotated

from pydantic import Field

from kubehenge.model.window import UpgradeWindow, Weekday
from kubehenge.source.forms import TimeZone
from kubehenge.source.shape import Form, Shape, Whole

_StartTime = Annotated[str, Form(pattern=r"([01]\d|2[0-3]):[0-5]\d", wants="a time from 00:00 to 23:59", example="02:00")]


class WindowShape(Shape):
    """`window` of `upgrades`, and of an approval rule."""

    weekdays: list[Annotated[Weekday, Field(strict=False)]] = Field(default=[], description="Days of the week that it opens on.")
    month_days: list[Annotated[int, Whole(minimum=1, maximum=31, both_ends=True)]] = Field(
        default=[], alias="monthDays", description="Days of the month; a day in either list counts, every day when both are empty."
    )
    start: _StartTime = Field(default="02:00", description="When it opens, HH:MM.")
    duration_minutes: Annotated[int, Whole(minimum=30, maximum=1440, step=30, unit="minutes")] = Field(
        default=240, alias="durationMinutes", description="How long it stays open: 30 to 1440 minutes, in half hours."
    )
    time_zone: TimeZone = Field(default="UTC", alias="timeZone", description="An IANA time zone.")

    def declare(self) -> UpgradeWindow:
        """Return the window as a model value."""
        hour, minute = self.start.split(":")
        return UpgradeWindow(
            weekdays=frozenset(self.weekdays),
            month_days=frozenset(self.month_days),
            start=time(int(hour), int(minute)),
            duration_minutes=self.duration_minutes,
            time_zone=self.time_zone,
        )
