"""The simulator answers as Proxmox VE 9.2 did, but for the differences that are listed with their reasons."""

from __future__ import annotations

import pytest

from tests.lab.proxmox import recorded
from tests.lab.proxmox.recorded_tokens import Tokens
from tests.lab.proxmox.recorded_transcript import SIZE, Transcript
from tests.lab.proxmox.running import running

pytestmark = pytest.mark.lab


def test_one_kind_of_call_after_the_other_is_answered_as_recorded(tmp_path, record_property):
    with running(tmp_path, speed=0, size=SIZE) as proxmox:
        record_property("agreement", recorded.check("transcript", Transcript(proxmox)))


def test_restricted_tokens_are_answered_as_recorded(tmp_path, record_property):
    with running(tmp_path, speed=0, size=SIZE, nodes=("pve1", "pve2")) as proxmox:
        record_property("agreement", recorded.check("tokens", Tokens(proxmox)))
