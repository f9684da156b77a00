"""What Proxmox VE's refusals mean, on answers recorded from 9.2 (ACCEPTANCE 3.1, 3.5)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kubehenge.drivers.proxmox.errors import (
    NotSignedInError,
    ProxmoxRefusedError,
    Reply,
    Sort,
    is_denied,
    is_existing,
    is_missing,
    judge,
    judge_words,
    scrubbed,
)
from kubehenge.errors import RefusedError, TransientError, UncertainError

LINES = (Path(__file__).parent / "data" / "proxmox_refusals.jsonl").read_text(encoding="utf-8").splitlines()
ROWS: list[dict[str, Any]] = [json.loads(line) for line in LINES]
ERRORS = {"ProxmoxRefusedError": ProxmoxRefusedError, "NotSignedInError": NotSignedInError, "TransientError": TransientError}


def named(row: dict[str, Any]) -> str:
    text = row.get("task") or row.get("text") or row["reason"]
    return " ".join(text.split())[:70]


@pytest.mark.parametrize("row", ROWS, ids=named)
def test_a_recorded_refusal_is_taken_for_what_it_is(row: dict[str, Any]) -> None:
    if "task" in row:
        error = judge_words(row["task"], what="Task qmcreate")
    else:
        reply = Reply(sort=Sort.ANSWERED, status=row["status"], text=row.get("text", row["reason"]), errors=row.get("errors", {}))
        error = judge(reply, what="PUT /x", endpoint="https://pve1:8006", change=True)
    assert type(error) is ERRORS[row["error"]], error
    assert isinstance(error, (RefusedError, TransientError))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("Permission check failed (/pool/kubehenge/n2, Pool.Allocate)", "Give Kubehenge's token Pool.Allocate on /pool/kubehenge/n2"),
        (
            "Permission check failed (/storage/s, Permissions.Modify|Datastore.Allocate)",
            "Permissions.Modify or Datastore.Allocate on /storage/s",
        ),
        ("unable to create VM 5003 - 403 Permission check failed (/vms/5003, VM.Config.Options)", "VM.Config.Options on /vms/5003"),
        ("Permission check failed", "names no privilege"),
    ],
)
def test_a_denial_names_privilege_and_path_as_proxmox_ve_does(words: str, told: str) -> None:
    error = judge_words(words, what="POST /pools", status=403)
    assert isinstance(error, RefusedError)
    assert words in str(error)
    assert told in str(error)


def test_a_refused_parameter_is_named_with_its_reason() -> None:
    reply = Reply(
        sort=Sort.ANSWERED,
        status=400,
        text="Parameter verification failed.\n",
        errors={"name": "invalid format - value does not look like a valid DNS name\n", "vmid": "too small"},
    )
    text = str(judge(reply, what="POST /nodes/pve1/qemu", endpoint="https://pve1:8006", change=True))
    assert "name: invalid format - value does not look like a valid DNS name" in text
    assert "vmid: too small" in text


@pytest.mark.parametrize(
    ("status", "change", "error"),
    [
        (595, False, TransientError),
        (595, True, TransientError),
        (596, True, UncertainError),
        (599, True, UncertainError),
        (596, False, TransientError),
    ],
)
def test_a_node_that_is_away_may_come_back(status: int, change: bool, error: type[Exception]) -> None:
    reply = Reply(sort=Sort.ANSWERED, status=status, text="No route to host")
    assert type(judge(reply, what="POST /nodes/pve2/qemu", endpoint="https://pve1:8006", change=change)) is error


@pytest.mark.parametrize("change", [False, True])
@pytest.mark.parametrize("sort", [Sort.LOST, Sort.GARBLED])
def test_only_a_change_without_an_answer_is_uncertain(sort: Sort, change: bool) -> None:
    error = judge(Reply(sort=sort, text="cut"), what="POST /pools", endpoint="https://pve1:8006", change=change)
    assert type(error) is (UncertainError if change else TransientError)


def test_what_was_not_sent_is_not_uncertain() -> None:
    error = judge(Reply(sort=Sort.UNREACHED, text="Connection refused"), what="POST /pools", endpoint="https://pve1:8006", change=True)
    assert type(error) is TransientError
    assert "Nothing was sent" in str(error)


@pytest.mark.parametrize(
    ("words", "missing", "existing", "denied"),
    [
        ("no such user ('kh-0@pve')", True, False, False),
        ("no such token 'k1' for user 'kh-0@pve'", True, False, False),
        ("delete pool failed: pool 'kubehenge/x' does not exist", True, False, False),
        ("Configuration file 'nodes/pve1/qemu-server/9.conf' does not exist", True, False, False),
        ("ACL update failed: user 'kh-0@pve' does not exist", True, False, False),
        ("ACL update failed: role 'KubehengeCluster' does not exist", False, False, False),
        ("create pool failed: pool 'kubehenge' already exists", False, True, False),
        ("Parameter verification failed.; tokenid: Token already exists", False, True, False),
        ("Parameter verification failed.; vmid: VM 100 already exists", False, True, False),
        ("Permission check failed (/vms/9, VM.Audit)", False, False, True),
    ],
)
def test_verbs_know_what_is_missing_existing_or_denied(words: str, missing: bool, existing: bool, denied: bool) -> None:
    error = judge_words(words, what="GET /x", status=500)
    assert isinstance(error, RefusedError)
    assert (is_missing(error), is_existing(error), is_denied(error)) == (missing, existing, denied)


def test_no_error_that_is_not_proxmox_ves_counts_as_missing() -> None:
    error = RefusedError("no such user ('x')")
    assert not any(asked(error) for asked in (is_missing, is_existing, is_denied))


def test_a_scrubbed_text_holds_no_secret() -> None:
    assert scrubbed("token abc and abc, not empty", ["abc", ""]) == "token *** and ***, not empty"
