"""Servers: signing in, whom to trust, and what is said when one does not answer as it should."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from git_server import GitServer
from git_upstream import git

from kubehenge.source.git import (
    Credentials,
    CredentialsError,
    Failed,
    GitLimits,
    GitReason,
    HttpsToken,
    Moved,
    Pushed,
    Signer,
    SshKey,
    Unchanged,
    commit_files,
)
from kubehenge.source.git_credentials import read_token
from kubehenge.source.git_files import FETCHED_REF

TOKEN = "canary-token-6fd1"
ADA = Signer(name="Ada", email="ada@example.org")
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def failed(answer: object) -> Failed:
    assert isinstance(answer, Failed), answer
    return answer


def with_token(server: GitServer, folder: Path, token: str = TOKEN) -> Credentials:
    file = folder / "token"
    file.write_text(token + "\n")
    return Credentials(login=HttpsToken(token_file=file), ca_file=server.ca_file)


def test_a_token_from_a_file_signs_in(upstream, mirror_of, git_server, tmp_path):
    git_server.behaviour.token = TOKEN
    head = upstream.push({"a.yaml": "a: 1\n"})
    mirror = mirror_of(git_server.url(upstream.bare), credentials=with_token(git_server, tmp_path))
    assert mirror.poll(None) == Moved(old=None, new=head, descendant=True)
    assert mirror.poll(head) == Unchanged(head=head)


def test_a_token_from_a_command_is_asked_for_each_time(upstream, mirror_of, git_server, tmp_path):
    head = upstream.push({"a.yaml": "a: 1\n"})
    counter = tmp_path / "counter"
    command = ("sh", "-c", f"echo x >> {counter}; printf 'token-%s' $(wc -l < {counter})")
    credentials = Credentials(login=HttpsToken(token_command=command), ca_file=git_server.ca_file)
    mirror = mirror_of(git_server.url(upstream.bare), credentials=credentials)
    for number in (1, 2, 3):
        git_server.behaviour.token = f"token-{number}"
        assert mirror.remote_head() == head


@pytest.mark.parametrize("given", ["none", "wrong"])
def test_refused_credentials_are_said_without_showing_them(upstream, mirror_of, git_server, ca, tmp_path, given):
    git_server.behaviour.token = TOKEN
    git_server.behaviour.echo_authorization = True
    upstream.push({"a.yaml": "a: 1\n"})
    credentials = ca if given == "none" else with_token(git_server, tmp_path, "canary-wrong")
    answer = failed(mirror_of(git_server.url(upstream.bare), credentials=credentials).poll(None))
    assert (answer.reason, answer.retry) == (GitReason.CREDENTIALS, False)
    assert "canary" not in answer.message
    assert "refuses the credentials" in answer.message


def test_a_token_is_in_no_argument_environment_or_file(upstream, mirror_of, git_server, tmp_path, monkeypatch):
    """A git in the middle notes all that it and its children could be seen by; the secret comes through a descriptor alone."""
    git_server.behaviour.token = TOKEN
    upstream.push({"a.yaml": "a: 1\n"})
    spy, seen = tmp_path / "spy", tmp_path / "seen"
    spy.mkdir()
    real = shutil.which("git")
    (spy / "git").write_text(f'#!/bin/sh\n{{ echo "$0 $*"; env; }} >> {seen}\nexec {real} "$@"\n')
    (spy / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{spy}:{os.environ['PATH']}")
    mirror = mirror_of(git_server.url(upstream.bare), credentials=with_token(git_server, tmp_path))
    head = mirror.poll(None).new
    commit_files(mirror, head, {"b.yaml": b"b: 1\n"}, author=ADA, committer=ADA, message="x", at=AT)
    assert "ls-remote" in seen.read_text()
    assert TOKEN not in seen.read_text()
    for path in mirror.path.parent.rglob("*"):
        assert not path.is_file() or TOKEN.encode() not in path.read_bytes(), path


def test_a_token_goes_to_no_other_server(upstream, mirror_of, git_server, tmp_path):
    git_server.behaviour.token = TOKEN
    upstream.push({"a.yaml": "a: 1\n"})
    other = GitServer(git_server.root, tmp_path / "other-tls")
    try:
        git_server.behaviour.redirect_to = other.address
        answer = failed(mirror_of(git_server.url(upstream.bare), credentials=with_token(git_server, tmp_path)).poll(None))
        assert answer.reason is GitReason.REDIRECTED
        assert other.behaviour.requests == []
    finally:
        other.stop()


def test_a_server_that_echoes_the_token_does_not_get_it_into_a_message(upstream, mirror_of, git_server, tmp_path):
    git_server.behaviour.token = TOKEN
    hook = upstream.bare / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\necho 'no {TOKEN} here, ask the platform team' >&2\nexit 1\n")
    hook.chmod(0o755)
    upstream_head = git(upstream.clone, "commit-tree", git(upstream.clone, "write-tree"), "-m", "x")
    git(
        upstream.clone,
        "push",
        "--quiet",
        "--receive-pack=git -c core.hooksPath=/dev/null receive-pack",
        "origin",
        f"{upstream_head}:refs/heads/main",
    )
    git(upstream.bare, "config", "http.receivepack", "true")
    mirror = mirror_of(git_server.url(upstream.bare), credentials=with_token(git_server, tmp_path))
    head = mirror.poll(None).new
    answer = commit_files(mirror, head, {"b.yaml": b"b: 1\n"}, author=ADA, committer=ADA, message="x", at=AT)
    assert "ask the platform team" in answer.message
    assert TOKEN not in answer.message


def test_a_push_over_https_arrives(upstream, mirror_of, git_server, tmp_path):
    git_server.behaviour.token = TOKEN
    git(upstream.bare, "config", "http.receivepack", "true")
    head = upstream.push({"a.yaml": "a: 1\n"})
    mirror = mirror_of(git_server.url(upstream.bare), credentials=with_token(git_server, tmp_path))
    mirror.poll(None)
    answer = commit_files(mirror, head, {"b.yaml": b"b: 1\n"}, author=ADA, committer=ADA, message="Add b", at=AT)
    assert answer == Pushed(revision=upstream.head())


def test_a_certificate_of_an_unknown_ca_is_refused(upstream, mirror_of, git_server):
    upstream.push({"a.yaml": "a: 1\n"})
    answer = failed(mirror_of(git_server.url(upstream.bare)).poll(None))
    assert answer.reason is GitReason.UNTRUSTED
    assert "CA" in answer.message


def test_a_ca_of_its_own_is_trusted_alone(upstream, mirror_of, git_server, tmp_path):
    upstream.push({"a.yaml": "a: 1\n"})
    other = GitServer(git_server.root, tmp_path / "other-tls")
    try:
        answer = failed(mirror_of(other.url(upstream.bare), credentials=Credentials(ca_file=git_server.ca_file)).poll(None))
        assert answer.reason is GitReason.UNTRUSTED
        assert other.behaviour.requests == []
    finally:
        other.stop()


def test_a_repository_that_is_not_there_is_named(upstream, mirror_of, git_server, ca):
    answer = failed(mirror_of(git_server.address + "/team/nothing.git", credentials=ca).poll(None))
    assert answer.reason is GitReason.NOT_FOUND
    assert "/team/nothing.git" in answer.message


@pytest.mark.parametrize(
    ("status", "reason", "retry"),
    [
        (403, GitReason.CREDENTIALS, False),
        (500, GitReason.BROKE_OFF, True),
        (503, GitReason.BROKE_OFF, True),
        (429, GitReason.BROKE_OFF, True),
    ],
)
def test_an_error_status_is_told_apart(upstream, mirror_of, git_server, ca, status, reason, retry):
    upstream.push({"a.yaml": "a: 1\n"})
    git_server.behaviour.status = status
    answer = failed(mirror_of(git_server.url(upstream.bare), credentials=ca).poll(None))
    assert (answer.reason, answer.retry) == (reason, retry)


def test_an_answer_cut_off_changes_nothing_and_passes(upstream, mirror_of, git_server, ca):
    old = upstream.push({"a.yaml": "a: 1\n"})
    mirror = mirror_of(git_server.url(upstream.bare), credentials=ca)
    mirror.poll(None)
    new = upstream.push({f"f{number}.yaml": os.urandom(3000).hex() for number in range(30)})
    git_server.behaviour.cut_after_bytes = 60_000
    # Requests that only list references are small, so the one that brings the pack is cut.
    answer = failed(mirror.poll(old))
    assert answer.retry
    assert mirror.tracked() == old
    assert git(mirror.path, "rev-parse", FETCHED_REF) == old  # so the next fetch asks only for what is new
    git_server.behaviour.cut_after_bytes = None
    assert mirror.poll(old) == Moved(old=old, new=new, descendant=True)


def test_a_dribbling_server_is_left_when_the_time_is_up(upstream, mirror_of, git_server, ca):
    upstream.push({"a.yaml": "a: 1\n"})
    git_server.behaviour.dribble = True
    mirror = mirror_of(git_server.url(upstream.bare), credentials=ca, limits=GitLimits(poll_timeout_s=1.5))
    answer = failed(mirror.poll(None))
    assert (answer.reason, answer.retry) == (GitReason.TIMED_OUT, True)
    assert "1.5 s" in answer.message


def test_a_silent_server_is_left_when_the_time_is_up_with_all_its_processes(mirror_of, tmp_path):
    """A listening socket that never answers: git and its helper are both ended."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        mirror = mirror_of(f"https://127.0.0.1:{silent.getsockname()[1]}/c.git", limits=GitLimits(poll_timeout_s=1.0))
        answer = failed(mirror.poll(None))
        assert answer.reason is GitReason.TIMED_OUT
        port = str(silent.getsockname()[1])
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                assert port.encode() not in process.read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue


def test_a_closed_port_is_said_to_be_unreachable(mirror_of):
    with socket.create_server(("127.0.0.1", 0)) as closing:
        port = closing.getsockname()[1]
    answer = failed(mirror_of(f"https://127.0.0.1:{port}/c.git").poll(None))
    assert (answer.reason, answer.retry) == (GitReason.UNREACHABLE, True)
    assert "127.0.0.1" in answer.message


def test_a_host_without_address_is_said_to_be_unreachable(mirror_of):
    answer = failed(mirror_of("https://no-such-host.invalid/c.git").poll(None))
    assert answer.reason is GitReason.UNREACHABLE
    assert "no-such-host.invalid" in answer.message


def test_two_readers_of_one_mirror_wait_for_each_other(upstream, mirror_of):
    head = upstream.push({f"f{number}.yaml": "x" * 5000 for number in range(200)})
    answers = []

    def read():
        answers.append(mirror_of(upstream).poll(None))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [Moved(old=None, new=head, descendant=True)] * 4


@pytest.mark.parametrize(
    ("login", "words"),
    [
        (lambda folder: HttpsToken(token_file=folder / "missing"), "cannot be read"),
        (lambda folder: HttpsToken(token_file=written(folder, "")), "gives nothing"),
        (lambda folder: HttpsToken(token_file=written(folder, f"{TOKEN}\n{TOKEN}\n")), "more than one line"),
        (lambda folder: HttpsToken(token_file=written(folder, f"{TOKEN}é")), "not ASCII"),
        (lambda folder: HttpsToken(token_file=written(folder, TOKEN * 2000)), "larger"),
        (lambda folder: HttpsToken(token_command=("false",)), "exit status 1"),
        (lambda folder: HttpsToken(token_command=("sh", "-c", f"echo {TOKEN} >&2; exit 3")), "exit status 3"),
        (lambda folder: HttpsToken(token_command=("no-such-command-here",)), "could not be started"),
        (lambda folder: HttpsToken(token_command=("yes", TOKEN)), "prints more"),
    ],
)
def test_a_token_that_cannot_be_had_is_said_without_showing_it(tmp_path, login, words):
    with pytest.raises(CredentialsError) as caught:
        read_token(login(tmp_path))
    assert words in str(caught.value)
    assert TOKEN not in str(caught.value)


def test_a_token_command_that_hangs_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr("kubehenge.source.git_credentials.TOKEN_COMMAND_TIMEOUT_S", 0.5)
    with pytest.raises(CredentialsError, match="did not answer"):
        read_token(HttpsToken(token_command=("sh", "-c", "sleep 60 & sleep 60")))


def test_a_missing_credentials_file_fails_the_source_alone(upstream, mirror_of, git_server, tmp_path):
    credentials = Credentials(login=HttpsToken(token_file=tmp_path / "missing"), ca_file=git_server.ca_file)
    answer = failed(mirror_of(git_server.url(upstream.bare), credentials=credentials).poll(None))
    assert (answer.reason, answer.retry) == (GitReason.CREDENTIALS, False)
    assert str(tmp_path / "missing") in answer.message


def written(folder: Path, text: str) -> Path:
    file = folder / "token"
    file.write_text(text)
    return file


# ssh: a real sshd where one is installed.


@dataclass
class SshServer:
    port: int
    key: Path
    known_hosts: Path
    folder: Path

    def url(self, bare: Path) -> str:
        return f"ssh://{getpass.getuser()}@127.0.0.1:{self.port}{bare}"

    @property
    def credentials(self) -> Credentials:
        return Credentials(login=SshKey(key_file=self.key, known_hosts_file=self.known_hosts))


@pytest.fixture
def ssh_server(tmp_path: Path) -> Iterator[SshServer]:
    sshd = shutil.which("sshd") or shutil.which("/usr/sbin/sshd")
    if sshd is None or shutil.which("ssh-keygen") is None:
        pytest.skip("NOT TESTED: reading over ssh, since no sshd is installed here")
    folder = tmp_path / "ssh"
    folder.mkdir(mode=0o700)
    for name in ("host", "key", "stranger"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    (folder / "authorized").write_text((folder / "key.pub").read_text())
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    (folder / "known").write_text(f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}")
    config = folder / "sshd_config"
    lines = {
        "ListenAddress": f"127.0.0.1:{port}",
        "HostKey": folder / "host",
        "AuthorizedKeysFile": folder / "authorized",
        "PidFile": "none",
        "UsePAM": "no",
        "StrictModes": "no",
        "PasswordAuthentication": "no",
        "PermitRootLogin": "prohibit-password",
        "SetEnv": f"PATH={os.environ['PATH']}",
    }
    config.write_text("".join(f"{name} {value}\n" for name, value in lines.items()))
    with contextlib.suppress(PermissionError):  # only a sshd of root wants it
        Path("/run/sshd").mkdir(exist_ok=True)
    log = folder / "log"
    with log.open("wb") as stderr:
        proc = subprocess.Popen([sshd, "-D", "-e", "-f", str(config)], stderr=stderr, start_new_session=True)
    try:
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if time.monotonic() > deadline or proc.poll() is not None:
                    pytest.skip(f"NOT TESTED: reading over ssh, since sshd does not start here: {log.read_text()[-300:]}")
                time.sleep(0.05)
        yield SshServer(port=port, key=folder / "key", known_hosts=folder / "known", folder=folder)
    finally:
        proc.terminate()
        proc.wait()


def test_a_key_signs_in_over_ssh_to_read_and_push(upstream, mirror_of, ssh_server):
    head = upstream.push({"a.yaml": "a: 1\n"})
    mirror = mirror_of(ssh_server.url(upstream.bare), credentials=ssh_server.credentials)
    assert mirror.poll(None) == Moved(old=None, new=head, descendant=True)
    assert mirror.poll(head) == Unchanged(head=head)
    answer = commit_files(mirror, head, {"b.yaml": b"b: 1\n"}, author=ADA, committer=ADA, message="Add b", at=AT)
    assert answer == Pushed(revision=upstream.head())


def test_a_strange_key_is_refused_over_ssh(upstream, mirror_of, ssh_server):
    upstream.push({"a.yaml": "a: 1\n"})
    stranger = Credentials(login=SshKey(key_file=ssh_server.folder / "stranger", known_hosts_file=ssh_server.known_hosts))
    answer = failed(mirror_of(ssh_server.url(upstream.bare), credentials=stranger).poll(None))
    assert (answer.reason, answer.retry) == (GitReason.CREDENTIALS, False)


def test_a_key_that_others_may_read_is_named(upstream, mirror_of, ssh_server):
    ssh_server.key.chmod(0o644)
    answer = failed(mirror_of(ssh_server.url(upstream.bare), credentials=ssh_server.credentials).poll(None))
    assert answer.reason is GitReason.CREDENTIALS
    assert "600" in answer.message


@pytest.mark.parametrize(("known", "words"), [("", "not in the source's known hosts"), ("stranger", "another host key")])
def test_a_host_key_that_is_not_pinned_is_refused(upstream, mirror_of, ssh_server, known, words):
    pinned = (ssh_server.folder / f"{known}.pub").read_text() if known else ""
    ssh_server.known_hosts.write_text(f"[127.0.0.1]:{ssh_server.port} {pinned}" if known else "")
    answer = failed(mirror_of(ssh_server.url(upstream.bare), credentials=ssh_server.credentials).poll(None))
    assert answer.reason is GitReason.UNTRUSTED
    assert words in answer.message


def test_a_missing_repository_over_ssh_is_named(upstream, mirror_of, ssh_server):
    answer = failed(mirror_of(ssh_server.url(upstream.bare.parent / "nothing.git"), credentials=ssh_server.credentials).poll(None))
    assert answer.reason is GitReason.NOT_FOUND


def test_an_ssh_source_without_a_key_is_named(mirror_of):
    answer = failed(mirror_of("git@127.0.0.1:c.git").poll(None))
    assert "SSH key" in answer.message


def test_the_users_own_ssh_settings_do_not_matter(upstream, mirror_of, ssh_server, tmp_path, monkeypatch):
    """ssh finds a user's settings by the user, whatever HOME says, so what keeps it from them is its command line."""
    spy, seen = tmp_path / "spy", tmp_path / "seen"
    spy.mkdir()
    (spy / "ssh").write_text(f'#!/bin/sh\necho "$*" >> {seen}\nexec {shutil.which("ssh")} "$@"\n')
    (spy / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{spy}:{os.environ['PATH']}")
    monkeypatch.setenv("GIT_SSH", "/bin/false")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/nowhere")
    head = upstream.push({"a.yaml": "a: 1\n"})
    assert mirror_of(ssh_server.url(upstream.bare), credentials=ssh_server.credentials).poll(None).new == head
    for line in seen.read_text().splitlines():
        assert line.startswith(f"-F /dev/null -i {ssh_server.key} ")
        assert "GlobalKnownHostsFile=/dev/null" in line
