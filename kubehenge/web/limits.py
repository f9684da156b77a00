"""Limits on sign-ins that fail: per user and per address (ACCEPTANCE 4.2). Proxmox VE has none of its own for passwords."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from flask import Flask, request
from flask_limiter import Limiter
from limits import RateLimitItemPerSecond

from kubehenge.web.services import WebSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Tries:
    """What is left for a user and an address, and in how many seconds tries come back when nothing is."""

    left: int
    wait_s: int

    @property
    def over(self) -> bool:
        """Whether no try is left."""
        return self.left < 0


class SignInLimits:
    """
    Counts tries before they are made, and gives back those that succeed, so that tries at the same moment all count.

    Kept in this process: with several replicas each counts for itself.
    """

    def __init__(self, app: Flask, settings: WebSettings) -> None:
        self._limiter: Any = Limiter(key_func=_address, app=app, storage_uri="memory://", strategy="fixed-window", default_limits=[])
        seconds = int(settings.tries_within.total_seconds())
        self._items = {
            "user": RateLimitItemPerSecond(settings.tries_per_user, seconds, "sign-in"),
            "address": RateLimitItemPerSecond(settings.tries_per_address, seconds, "sign-in"),
        }

    def begin(self, user: str) -> Tries:
        """Count one try; `over` when it may not be made."""
        return self._count(user, 1)

    def succeeded(self, user: str) -> None:
        """Give a try back."""
        self._count(user, -1)

    def _count(self, user: str, amount: int) -> Tries:
        storage = self._limiter.storage
        left, wait_s = [], []
        for kind, key in (("user", user.lower()), ("address", _address())):
            item = self._items[kind]
            name = item.key_for(kind, key)
            left.append(item.amount - storage.incr(name, item.get_expiry(), amount))
            wait_s.append(max(1, int(storage.get_expiry(name) - time.time())))
        worst = min(range(2), key=lambda index: left[index])
        return Tries(left=left[worst], wait_s=wait_s[worst])


def _address() -> str:
    return request.remote_addr or "unknown"
