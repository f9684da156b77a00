"""Waking a loop from another process (MODEL 23)."""

from __future__ import annotations

from pathlib import Path

from kubehenge.engine.wake import Bell, Doorbell, wake


def test_a_state_directory_may_lie_deeper_than_a_socket_s_address_is_long(tmp_path: Path) -> None:
    state = tmp_path / ("deep" * 30)
    state.mkdir()
    bell = Bell()
    doorbell = Doorbell(state, bell)
    wake(state, "tick")
    assert bell.rung("tick", 30)
    doorbell.close()
    wake(state, "tick")  # nobody listens any more: silent
