"""Credentials of a source: files and commands that hold the secret, and how git is handed it without argv, address or environment."""

from __future__ import annotations

import base64
import os
import re
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kubehenge.errors import SettingsError
from kubehenge.source.process import ProcessTimeoutError, ProcessTooMuchError, run_bounded

MAX_TOKEN_BYTES = 16_384
TOKEN_COMMAND_TIMEOUT_S = 15.0

# ssh splits and expands these in its own options, so a path that holds one would name another file than the one meant.
_UNSAFE_IN_SSH_OPTION = re.compile(r"[\s\"'%$~\\]")


class CredentialsError(SettingsError):
    """The credentials of a source cannot be read; the text names the file or command, never what it holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SshKey:
    """A private key without passphrase, and the known_hosts file that pins the server's keys."""

    key_file: Path
    known_hosts_file: Path

    def __post_init__(self) -> None:
        """Refuse paths that ssh would read differently."""
        for path in (self.key_file, self.known_hosts_file):
            if not path.is_absolute() or _UNSAFE_IN_SSH_OPTION.search(str(path)):
                raise CredentialsError(
                    f"{str(path)!r}: give an absolute path without spaces, quotes, %, $ and ~ for SSH keys and known hosts."
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpsToken:
    """
    A token for https, from a file or from a command that prints one (for tokens that live shortly).

    The code hosts accept any user name beside a token; a password needs its own.
    """

    token_file: Path | None = None
    token_command: tuple[str, ...] = ()
    username: str = "git"

    def __post_init__(self) -> None:
        """Hold exactly one place that the token comes from."""
        if (self.token_file is None) == (not self.token_command):
            raise CredentialsError("A token comes either from a file or from a command: give exactly one of the two.")
        if not self.username or not self.username.isprintable():
            raise CredentialsError("The user name beside a token must be printable and not empty.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """How Kubehenge signs in to a repository (`login`) and whose certificates it trusts there (`ca_file`: these alone)."""

    login: SshKey | HttpsToken | None = None
    ca_file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Handed:
    """What one run of git needs for its credentials, and the texts that must never be shown."""

    env: Mapping[str, str]
    config: tuple[tuple[str, str], ...]
    pass_fds: tuple[int, ...]
    secrets: tuple[str, ...]


@contextmanager
def hand_over(credentials: Credentials, *, scope: str, connect_timeout_s: int) -> Iterator[Handed]:
    """
    Prepare the credentials for one run of git; the secret lives in an anonymous file that only git's children can read.

    `scope` is the address (`https://host:port`) that the token is for: git gives it to no other host.
    Errors: CredentialsError when a file or command does not give what it should.
    """
    config: list[tuple[str, str]] = []
    if credentials.ca_file is not None:
        _check_readable(credentials.ca_file, "The CA certificates")
        config.append(("http.sslCAInfo", str(credentials.ca_file)))
    match credentials.login:
        case None:
            yield Handed(env={}, config=tuple(config), pass_fds=(), secrets=())
        case SshKey() as key:
            env = {"GIT_SSH_COMMAND": _ssh_command(key, connect_timeout_s), "GIT_SSH_VARIANT": "ssh"}
            yield Handed(env=env, config=tuple(config), pass_fds=(), secrets=())
        case HttpsToken() as login:
            token = read_token(login)
            with _anonymous_file(f"username={login.username}\npassword={token}\n".encode()) as fd:
                # A helper is told "store" and "erase" too; it answers "get" alone and keeps nothing.
                helper = f'!f() {{ if test "$1" = get; then cat /dev/fd/{fd}; fi; }}; f'
                config.append((f"credential.{scope}.helper", helper))
                yield Handed(env={}, config=tuple(config), pass_fds=(fd,), secrets=_forms(login.username, token))


def read_token(login: HttpsToken) -> str:
    """
    Return the token that the file holds or the command prints.

    Errors: CredentialsError (missing, empty, several lines, command failed or took over 15 s).
    """
    raw = _from_file(login.token_file) if login.token_file is not None else _from_command(login.token_command)
    origin = f"The token file {login.token_file}" if login.token_file is not None else f"The token command {login.token_command[0]}"
    try:
        token = raw.decode("ascii").strip()
    except UnicodeDecodeError:
        raise CredentialsError(f"{origin} gives something else than a token (not ASCII).") from None
    if not token:
        raise CredentialsError(f"{origin} gives nothing. Put the token into it, on one line.")
    if not token.isprintable():
        raise CredentialsError(f"{origin} gives more than one line. Leave the token alone in it.")
    return token


def _from_file(path: Path) -> bytes:
    _check_readable(path, "The token file")
    with path.open("rb") as file:
        raw = file.read(MAX_TOKEN_BYTES + 1)
    if len(raw) > MAX_TOKEN_BYTES:
        raise CredentialsError(f"The token file {path} is larger than {MAX_TOKEN_BYTES} bytes, so it is not a token.")
    return raw


def _from_command(command: tuple[str, ...]) -> bytes:
    env = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    try:
        done = run_bounded(command, env=env, timeout_s=TOKEN_COMMAND_TIMEOUT_S, max_stdout_bytes=MAX_TOKEN_BYTES)
    except ProcessTimeoutError:
        raise CredentialsError(f"The token command {command[0]} did not answer within {TOKEN_COMMAND_TIMEOUT_S:.0f} s.") from None
    except ProcessTooMuchError:
        raise CredentialsError(f"The token command {command[0]} prints more than {MAX_TOKEN_BYTES} bytes, so it is not a token.") from None
    except OSError as exc:
        raise CredentialsError(f"The token command {command[0]} could not be started: {exc.strerror}.") from None
    if done.returncode != 0:
        raise CredentialsError(f"The token command {command[0]} ended with exit status {done.returncode}. Run it by hand to see why.")
    return done.stdout


def _check_readable(path: Path, what: str) -> None:
    try:
        with path.open("rb"):
            pass
    except OSError as exc:
        raise CredentialsError(f"{what} {path} cannot be read: {exc.strerror}.") from None


def _ssh_command(key: SshKey, connect_timeout_s: int) -> str:
    """Return an ssh that reads no other configuration, asks nothing, uses this key alone and trusts the pinned hosts alone."""
    _check_readable(key.key_file, "The SSH key")
    _check_readable(key.known_hosts_file, "The known hosts file")
    options = (
        "BatchMode=yes",
        "IdentitiesOnly=yes",
        "IdentityAgent=none",
        "PreferredAuthentications=publickey",
        "StrictHostKeyChecking=yes",
        f"UserKnownHostsFile={key.known_hosts_file}",
        "GlobalKnownHostsFile=/dev/null",
        "UpdateHostKeys=no",
        "ForwardAgent=no",
        "ForwardX11=no",
        "ClearAllForwardings=yes",
        "PermitLocalCommand=no",
        "ControlMaster=no",
        f"ConnectTimeout={connect_timeout_s}",
        "ServerAliveInterval=10",
        "ServerAliveCountMax=3",
    )
    argv = ["ssh", "-F", "/dev/null", "-i", str(key.key_file)]
    for option in options:
        argv += ["-o", option]
    return shlex.join(argv)


def _forms(username: str, token: str) -> tuple[str, ...]:
    """Return the token and what a server could echo of it: the header of HTTP's basic authentication."""
    return (token, base64.b64encode(f"{username}:{token}".encode()).decode())


@contextmanager
def _anonymous_file(content: bytes) -> Iterator[int]:
    """Yield a descriptor of a file without name that holds `content`, to be read through /dev/fd by children that inherit it."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("credential")
    else:  # elsewhere than on Linux: a file that is unlinked at once
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    try:
        os.write(fd, content)
        os.lseek(fd, 0, os.SEEK_SET)
        yield fd
    finally:
        os.close(fd)
