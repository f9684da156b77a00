"""One tick from the command line, under the same lock and leases as the loops."""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial
from typing import Any

from kubehenge import wiring
from kubehenge.commands.opening import open_core
from kubehenge.drivers.guard import guarded
from kubehenge.engine.holding import Holding
from kubehenge.engine.tick import Tick
from kubehenge.errors import SettingsError, UsageError
from kubehenge.store.plans import open_plans
from kubehenge.wiring import Core

PAUSE_S = 0.5


def run_pass(*, carry_out_s: float) -> dict[str, Any]:
    """
    Do one pass, or wake whoever runs the loops.

    Shape: `said` in words; `tick` the number, None when nothing changed or another process was woken; `woken` whether it was; `plans`
    the numbers of the plans that are open then.
    """
    with open_core() as core, ExitStack() as stack:
        try:
            stack.enter_context(wiring.engine_lock(core.settings))
        except SettingsError as error:
            return _wake(core, str(error))
        families = wiring.drivers(core)
        reading = wiring.hold(core, "tick")
        if reading.take() is None:
            return _wake(core, "Another replica runs the loops.")
        tick = wiring.make_tick(core, families)
        result = tick.run_pass(reading.take())
        if carry_out_s:
            _carry_out(core, families, tick, reading, time.monotonic() + carry_out_s)
        reading.give_back()
        with core.db.read() as session:
            ids = [row.id for row in open_plans(session, core.site_id)]
        said = f"Tick {result.number}." if result.number else "Nothing changed."
        follow = f" Open plans: {', '.join(map(str, ids))}." if ids else " Nothing is left to do."
        return {"said": said + follow, "tick": result.number, "woken": False, "plans": ids}


def _wake(core: Core, reason: str) -> dict[str, Any]:
    wiring.decisions(core).nudge()
    with core.db.read() as session:
        ids = [row.id for row in open_plans(session, core.site_id)]
    return {
        "said": f"{reason.split(' Stop that one', maxsplit=1)[0]} It was told to read and plan now.",
        "tick": None,
        "woken": True,
        "plans": ids,
    }


def _carry_out(core: Core, families: Any, tick: Tick, reading: Holding, deadline: float) -> None:
    """Carry out what is approved, and plan anew after each run that ended. Errors: UsageError when the time is over."""
    holding = wiring.hold(core, "apply")
    apply = wiring.make_apply(core, families)
    while (lease := holding.take()) is not None:
        with guarded(partial(holding.require, lease)):
            busy = apply.run_pass(lease)
        if apply.ended:
            apply.ended = False
            busy = bool(tick.run_pass(reading.take()).approved) or busy
        if not busy:
            break
        if time.monotonic() > deadline:
            raise UsageError("The time is over and a run is still going on: `kubehenge runs` shows it, and the next start takes it up.")
        time.sleep(PAUSE_S)
    else:
        raise UsageError(
            "Another process carries plans out, or did until just now and its last call may still be on its way. Try again in a minute."
        )
    apply.close()
    holding.give_back()
