"""Logging: events with fields, and the last net for secrets (ACCEPTANCE 1.13, 4.4)."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from pydantic import SecretStr

from kubehenge import log


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers, root.level = handlers, level
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()
    log._kept_out.clear()


def logged(form: str = "json", level: str = "info") -> io.StringIO:
    stream = io.StringIO()
    log.configure(form=form, level=level, stream=stream)
    return stream


def entry(stream: io.StringIO) -> dict[str, Any]:
    (line,) = stream.getvalue().splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


def test_an_event_is_one_json_object_with_its_fields() -> None:
    stream = logged()
    log.get_logger(loop="tick").info("plan_opened", plan=7, resource="proxmox.pool/kubehenge/clusters.prod")
    found = entry(stream)
    assert found.pop("at").endswith("Z")
    assert found == {"event": "plan_opened", "level": "info", "loop": "tick", "plan": 7, "resource": "proxmox.pool/kubehenge/clusters.prod"}


def test_a_pipe_gets_json_and_no_colour() -> None:
    stream = logged("auto")
    log.get_logger().warning("reading_kept_aside", kind="proxmox.vm")
    assert "\x1b" not in stream.getvalue()
    assert entry(stream)["event"] == "reading_kept_aside"


def test_the_console_form_has_no_colour_when_it_is_no_terminal() -> None:
    stream = logged("console")
    try:
        raise ValueError("PVEAPIToken=kubehenge@pve!k=11111111-2222-3333-4444-555555555555")
    except ValueError:
        log.get_logger().exception("pass_failed")
    assert "\x1b" not in stream.getvalue()
    assert "pass_failed" in stream.getvalue()
    assert "Traceback" in stream.getvalue()
    assert "11111111" not in stream.getvalue()


def test_what_is_below_the_level_is_left_out() -> None:
    stream = logged(level="warning")
    log.get_logger().info("plan_opened")
    logging.getLogger("kubehenge.any").info("hello")
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: PVEAPIToken=kubehenge@pve!k={}",
        "PVEAPIToken=root@pam!a={}",
        "GET https://user:{}@git.example.com/fleet.git failed",
        "postgresql://kubehenge:{}@db/state",
        "Authorization: Bearer {}",
        "ticket PVE:ada@pve:6612AB34::{}==",
        "eyJhbGciOiJSUzI1NiJ9.eyJ{}.sig",
        "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_what_looks_like_a_secret_is_taken_out_of_texts(text: str) -> None:
    canary = "C4n4ryC4n4ryC4n4ry"
    stream = logged()
    log.get_logger().error("call_failed", answer=text.format(canary), nested={"deep": [text.format(canary)]})
    assert canary not in stream.getvalue()
    assert "call_failed" in stream.getvalue()


def test_fields_that_are_named_like_secrets_are_taken_out_and_ids_are_kept() -> None:
    stream = logged()
    log.get_logger().info(
        "token_made", token_id="kh-1@pve!k1", token="x" * 20, password="p", kubeconfig="apiVersion: v1", secret=SecretStr("s"), attempts=3
    )
    found = entry(stream)
    assert found["token_id"] == "kh-1@pve!k1"
    assert found["attempts"] == 3
    assert {found[name] for name in ("token", "password", "kubeconfig", "secret")} == {log.REDACTED}


def test_secrets_of_the_process_are_taken_out_wherever_they_stand() -> None:
    stream = logged()
    log.keep_out([SecretStr("correct horse battery"), None, SecretStr("short")])
    log.get_logger().error("call_failed", answer="it said: correct horse battery, in short")
    found = entry(stream)
    assert "horse" not in found["answer"]
    assert "in short" in found["answer"]


def test_other_libraries_are_logged_the_same_way() -> None:
    stream = logged()
    logging.getLogger("some.library").error("sent Bearer %s", "abcdefghijklmnop")
    found = entry(stream)
    assert found["logger"] == "some.library"
    assert "abcdefghijklmnop" not in found["event"]


def test_a_traceback_shows_no_values_of_variables() -> None:
    stream = logged()

    def fail() -> None:
        canary = "C4n4ry" * 3
        raise RuntimeError(len(canary))

    try:
        fail()
    except RuntimeError:
        log.get_logger().exception("pass_failed")
    assert "C4n4ryC4n4ry" not in stream.getvalue()
    assert "RuntimeError: 18" in entry(stream)["exception"]
