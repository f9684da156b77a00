"""The lab's Git repository: filled from an example, served over https, and telling the page of each push."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from aiohttp import web

from kubehenge.errors import KubehengeError
from kubehenge.lab import git_hook
from kubehenge.lab.places import REPOSITORY, SOURCE, Places, write_json
from kubehenge.source.git import GitMirror, Moved, Pushed, Signer, SourceSpec, Tree, commit_files, init_own_repository, parse_source_url

BRANCH = "main"
LAB = Signer(name="Kubehenge lab", email="lab@localhost")
_SERVICES = {"git-upload-pack": "upload-pack", "git-receive-pack": "receive-pack"}
_TIMEOUT_S = 120.0
_NO_CACHE = {"Cache-Control": "no-cache, max-age=0, must-revalidate"}


# ---- the repository


def make_repository(places: Places, example: Path | None, *, now: datetime) -> None:
    """Make the repository with the files of `example`, at once or not at all; one that is there stays as it is."""
    if places.repository.exists():
        return
    making = places.git / "making"
    shutil.rmtree(making, ignore_errors=True)
    bare = init_own_repository(making, at=now, branch=BRANCH)
    files = (
        {}
        if example is None
        else {str(path.relative_to(example)): path.read_bytes() for path in sorted(example.rglob("*")) if path.is_file()}
    )
    if files:
        Editor(bare, making).commit(files, "Add the clusters of the lab", now=now)
    _allow_rewriting(bare)
    bare.rename(places.repository)
    shutil.rmtree(making)


def _allow_rewriting(bare: Path) -> None:
    """Let people try what Kubehenge makes of a rewritten history: the repository that it keeps for itself would refuse it."""
    config = bare / "config"
    config.write_text(
        config.read_text(encoding="utf-8").replace("denyNonFastForwards = true", "denyNonFastForwards = false"), encoding="utf-8"
    )


@dataclass(frozen=True, slots=True)
class Editor:
    """Reads the repository's head and pushes commits, as a person would; its mirror lies in `directory`."""

    repository: Path
    directory: Path

    def _mirror(self) -> GitMirror:
        return GitMirror(self.directory, SourceSpec(id=SOURCE, url=parse_source_url(str(self.repository)), branch=BRANCH))

    def read(self, path: str) -> str | None:
        """Return a file's text at the head, None when there is no such file. Errors: KubehengeError."""
        mirror = self._mirror()
        tree = mirror.tree(_head(mirror))
        found = next((file for file in tree.files if file.path == path), None) if isinstance(tree, Tree) else None
        content = mirror.read_blobs([found.blob]).get(found.blob) if found else None
        return content.decode() if isinstance(content, bytes) else None

    def commit(self, files: Mapping[str, bytes | None], message: str, *, now: datetime) -> None:
        """Push a commit on the head. Errors: KubehengeError when the branch moved meanwhile, or does not take it."""
        mirror = self._mirror()
        pushed = commit_files(mirror, _head(mirror), files, author=LAB, committer=LAB, message=message, at=now)
        if not isinstance(pushed, Pushed):
            raise KubehengeError(f"The lab's commit {message!r} was not pushed: {pushed}")


def _head(mirror: GitMirror) -> str:
    polled = mirror.poll(mirror.tracked())
    if isinstance(polled, Moved):
        return polled.new
    head = getattr(polled, "head", None)
    if head is None:
        raise KubehengeError(f"The lab's repository cannot be read: {polled}")
    return str(head)


def install_hook(places: Places, *, page_url: str, clone_url: str, secret: str) -> None:
    """Write the hook that tells the page of pushes; anew at each start, since paths and ports may be others."""
    config = places.repository / "kubehenge-hook.json"
    webhook_url = f"{page_url}/hooks/git/{SOURCE}"
    ca_file = str(places.tls / "ca.crt")
    write_json(config, {"page_url": page_url, "webhook_url": webhook_url, "clone_url": clone_url, "ca_file": ca_file, "secret": secret})
    program = [sys.executable, "-I", str(Path(git_hook.__file__).absolute()), str(config)]
    hook = places.repository / "hooks" / "post-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\nexec {shlex.join(program)}\n", encoding="utf-8")
    hook.chmod(0o700)


# ---- https


class GitHttp:
    """
    Git's smart HTTP protocol for the one repository, for whoever has the token as the password.

    Source: git's own documentation, http-protocol: /info/refs?service=… and one POST per service, each carried out by git itself.
    """

    def __init__(self, repository: Path, token: str) -> None:
        self._repository = repository
        self._token = token

    def add_routes(self, app: web.Application) -> None:
        """Add the three routes."""
        app.router.add_get(f"/{REPOSITORY}/info/refs", self._refs)
        for service in _SERVICES:
            app.router.add_post(f"/{REPOSITORY}/{service}", self._call)

    async def _refs(self, request: web.Request) -> web.StreamResponse:
        service = request.query.get("service", "")
        if service not in _SERVICES:
            raise web.HTTPForbidden(text="This server speaks Git's smart protocol only.\n")
        refused = self._refuse(request)
        if refused is not None:
            return refused
        announced = b""
        if not (service == "git-upload-pack" and "version=2" in request.headers.get("Git-Protocol", "")):
            line = f"# service={service}\n"
            announced = f"{len(line) + 4:04x}{line}0000".encode()
        answer = await self._start(request, f"application/x-{service}-advertisement")
        await answer.write(announced)
        await self._git(request, answer, _SERVICES[service], "--advertise-refs")
        return answer

    async def _call(self, request: web.Request) -> web.StreamResponse:
        refused = self._refuse(request)
        if refused is not None:
            return refused
        service = request.path.rpartition("/")[2]
        answer = await self._start(request, f"application/x-{service}-result")
        await self._git(request, answer, _SERVICES[service])
        return answer

    def _refuse(self, request: web.Request) -> web.Response | None:
        if _password(request) is not None and hmac.compare_digest((_password(request) or "").encode(), self._token.encode()):
            return None
        return web.Response(
            status=401, headers={"WWW-Authenticate": 'Basic realm="lab"'}, text="Give the lab's Git token as the password.\n"
        )

    @staticmethod
    async def _start(request: web.Request, content_type: str) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": content_type, **_NO_CACHE})
        await answer.prepare(request)
        return answer

    async def _git(self, request: web.Request, answer: web.StreamResponse, *arguments: str) -> None:
        process = await asyncio.create_subprocess_exec(
            "git",
            arguments[0],
            "--stateless-rpc",
            *arguments[1:],
            str(self._repository),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=_environment(request),
        )
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                await asyncio.gather(_feed(request, process), _pass_on(process, answer))
                await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        await answer.write_eof()


async def _feed(request: web.Request, process: asyncio.subprocess.Process) -> None:
    stdin = process.stdin
    assert stdin is not None  # noqa: S101 - asked for above
    with suppress(ConnectionError):  # git has read all it wants
        async for chunk in request.content.iter_chunked(65_536):
            stdin.write(chunk)
            await stdin.drain()
        stdin.close()
        await stdin.wait_closed()


async def _pass_on(process: asyncio.subprocess.Process, answer: web.StreamResponse) -> None:
    stdout = process.stdout
    assert stdout is not None  # noqa: S101
    while chunk := await stdout.read(65_536):
        await answer.write(chunk)


def _environment(request: web.Request) -> dict[str, str]:
    given = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"}
    settings = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_PROTOCOL": request.headers.get("Git-Protocol", "")}
    return {**given, **settings, "REMOTE_USER": _user(request)}


def _basic(request: web.Request) -> tuple[str, str] | None:
    scheme, _, value = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, _, password = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return user, password


def _password(request: web.Request) -> str | None:
    given = _basic(request)
    return given[1] if given else None


def _user(request: web.Request) -> str:
    given = _basic(request)
    return given[0] if given else ""


def now() -> datetime:
    """Return the instant of a commit."""
    return datetime.now(UTC)
