"""
The one place that starts git: its environment, its limits, and its failures as typed errors (ACCEPTANCE 4.5).

Git is run as a program with explicit arguments rather than through a library's objects, because each run needs the same four
things: an environment that holds nothing of ours or the machine's, a session that can be ended as a whole, a limit on time and
output, and credentials through an inherited descriptor.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from kubehenge.source.git_credentials import Handed, SshKey, hand_over
from kubehenge.source.git_errors import GitError, GitTimeoutError, StorageError, TooLargeError, explain
from kubehenge.source.git_url import SourceSpec, Transport
from kubehenge.source.process import Finished, ProcessTimeoutError, ProcessTooMuchError, run_bounded

MINIMUM_GIT = (2, 36)  # `cat-file --batch-command`
REMOTE = "source"
_MIB = 1024 * 1024
_KEPT_VARIABLES = ("PATH", "TMPDIR", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR")
_NO_HOME = "/nonexistent"
NEUTRAL_FOLDER = Path("/")  # git looks for a repository, and its configuration, where it is started


@dataclass(frozen=True, slots=True, kw_only=True)
class GitLimits:
    """How long and how large; the defaults fit repositories of declarations, by a wide margin."""

    connect_timeout_s: int = 10
    poll_timeout_s: float = 20.0
    fetch_timeout_s: float = 300.0
    push_timeout_s: float = 60.0
    local_timeout_s: float = 60.0
    mirror_max_bytes: int = 1024 * _MIB
    blob_max_bytes: int = _MIB  # ACCEPTANCE 2.2: a document over 1 MiB is refused
    read_max_bytes: int = 256 * _MIB
    output_max_bytes: int = 64 * _MIB
    max_files: int = 50_000


def git_environment(config: Sequence[tuple[str, str]], *, transport: Transport | None) -> dict[str, str]:
    """
    Return all that a run of git sees of the world.

    `transport` is the only protocol it may use, whatever a repository, a redirect or a promise of missing blobs asks for; None: no protocol at all.
    Source: git(1) "Environment Variables", git-config(1), githooks(5), partial-clone.
    """
    env = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    env |= {
        "HOME": _NO_HOME,  # no .netrc, no attributes or excludes of a user
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "",
        "GIT_ALLOW_PROTOCOL": transport.value if transport else "none",
        "GIT_PROTOCOL_FROM_USER": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_DEFAULT_REF_FORMAT": "files",
    }
    pairs = (*_ALWAYS, *config)
    env["GIT_CONFIG_COUNT"] = str(len(pairs))
    for number, (key, value) in enumerate(pairs):
        env[f"GIT_CONFIG_KEY_{number}"] = key
        env[f"GIT_CONFIG_VALUE_{number}"] = value
    return env


_ALWAYS: tuple[tuple[str, str], ...] = (
    ("core.hooksPath", os.devnull),
    ("core.attributesFile", os.devnull),
    ("core.fsmonitor", "false"),
    ("core.bigFileThreshold", "2m"),  # larger blobs are streamed, never held in memory
    ("credential.helper", ""),
    ("fetch.fsckObjects", "true"),
    ("transfer.fsckObjects", "true"),
    ("fetch.fsck.zeroPaddedFilemode", "ignore"),  # old tools wrote these two into many repositories; neither matters without a checkout
    ("fetch.fsck.badTimezone", "ignore"),
    ("transfer.unpackLimit", "1"),
    ("transfer.bundleURI", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("fetch.writeCommitGraph", "false"),
    ("submodule.recurse", "false"),
    ("push.recurseSubmodules", "no"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("http.followRedirects", "false"),  # credentials and trust are for the address that was given
    ("http.sslVerify", "true"),
    ("protocol.version", "2"),
    ("advice.detachedHead", "false"),
)


@dataclass(frozen=True, slots=True)
class GitRunner:
    """Runs git on one bare repository (`git_dir`), alone or towards the repository of `spec`."""

    git_dir: Path
    spec: SourceSpec | None = None
    limits: GitLimits = GitLimits()

    def local(
        self,
        *args: str,
        stdin: bytes = b"",
        config: Sequence[tuple[str, str]] = (),
        env: Mapping[str, str] | None = None,
        accept: Sequence[int] = (0,),
        max_stdout_bytes: int | None = None,
        timeout_s: float | None = None,
    ) -> Finished:
        """Run git without any network; exit statuses in `accept` are answers, others raise GitError."""
        environment = git_environment(config, transport=None) | dict(env or {})
        done = self._run(
            self.argv(*args),
            env=environment,
            stdin=stdin,
            timeout_s=timeout_s or self.limits.local_timeout_s,
            max_stdout_bytes=max_stdout_bytes or self.limits.output_max_bytes,
        )
        if done.returncode in accept:
            return done
        raise self.failure(done, outward=False)

    def remote(
        self,
        *args: str,
        timeout_s: float,
        config: Sequence[tuple[str, str]] = (),
        accept: Sequence[int] = (0,),
        keep_fds: Sequence[int] = (),
        watch: Callable[[], bool] | None = None,
        in_repository: bool = True,
    ) -> Finished:
        """Run git towards the source, which it knows as the remote `source`; without `in_repository` our copy is not even looked at."""
        spec = self._spec()
        with self._credentials(spec) as handed:
            pairs = (*self.remote_config(), *handed.config, *config)
            environment = git_environment(pairs, transport=spec.url.transport) | dict(handed.env)
            done = self._run(
                self.argv(*args) if in_repository else ("git", f"--git-dir={os.devnull}", *args),
                env=environment,
                timeout_s=timeout_s,
                max_stdout_bytes=self.limits.output_max_bytes,
                pass_fds=(*handed.pass_fds, *keep_fds),
                watch=watch,
            )
        said = _without(done, handed.secrets)
        if said.returncode in accept:
            return said
        raise self.failure(said)

    def failure(self, done: Finished, *, outward: bool = True) -> GitError:
        """Return the error that the messages of a finished run mean."""
        place, branch = (self.spec.url.place, self.spec.branch) if self.spec else ("this machine", "")
        stderr = done.stderr.decode("utf-8", "replace")
        return explain(stderr, url=self._name(), place=place, branch=branch, outward=outward)

    def too_large(self) -> TooLargeError:
        """Return the error for a repository over the limit."""
        limit = self.limits.mirror_max_bytes // _MIB
        return TooLargeError(
            f"{self._name()} is larger than Kubehenge reads ({limit} MiB). Keep declarations in a repository of their own."
        )

    def argv(self, *args: str) -> tuple[str, ...]:
        """Return the command line: the repository is named, so nothing is looked for in parent folders."""
        return ("git", f"--git-dir={self.git_dir}", *args)

    def remote_config(self) -> tuple[tuple[str, str], ...]:
        """
        Return the remote `source`, for one run.

        That it may leave out blobs ("promisor") is said here and never written into the repository: a run that reads finds such a blob missing, and
        cannot go out to fetch it.
        """
        spec = self._spec()
        pairs = [
            (f"remote.{REMOTE}.url", spec.url.text),
            (f"remote.{REMOTE}.promisor", "true"),
            (f"remote.{REMOTE}.partialCloneFilter", f"blob:limit={self.limits.blob_max_bytes}"),
            ("http.lowSpeedLimit", "100"),
            ("http.lowSpeedTime", "30"),
        ]
        if spec.url.transport is Transport.FILE:
            # The serving side of a repository on this machine is a git of ours too: it leaves out large blobs without being set up to.
            pairs.append((f"remote.{REMOTE}.uploadpack", "git -c uploadpack.allowFilter=true upload-pack"))
        return tuple(pairs)

    def _spec(self) -> SourceSpec:
        assert self.spec is not None  # noqa: S101  (a repository of Kubehenge's own has no remote, and nobody asks it for one)
        return self.spec

    def _credentials(self, spec: SourceSpec) -> AbstractContextManager[Handed]:
        if spec.url.transport is Transport.SSH and not isinstance(spec.credentials.login, SshKey):
            raise GitError(f"{spec.url} is read over ssh, but the source has no SSH key. Give it a key file and a known hosts file.")
        if spec.url.transport is Transport.FILE:
            return nullcontext(Handed(env={}, config=(), pass_fds=(), secrets=()))
        return hand_over(spec.credentials, scope=spec.url.credential_scope, connect_timeout_s=self.limits.connect_timeout_s)

    def _run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        timeout_s: float,
        max_stdout_bytes: int,
        stdin: bytes = b"",
        pass_fds: Sequence[int] = (),
        watch: Callable[[], bool] | None = None,
    ) -> Finished:
        try:
            return run_bounded(
                argv,
                env=env,
                timeout_s=timeout_s,
                cwd=NEUTRAL_FOLDER,
                stdin=stdin,
                max_stdout_bytes=max_stdout_bytes,
                pass_fds=pass_fds,
                watch=watch,
            )
        except ProcessTimeoutError:
            raise GitTimeoutError(
                f"{self._name()} did not finish within {timeout_s:g} s. Kubehenge tries again by itself; if it stays so, look at the server and the size of the repository."
            ) from None
        except ProcessTooMuchError:
            raise self.too_large() from None
        except FileNotFoundError:
            raise GitError(f"The program git is not installed. Install it ({'.'.join(map(str, MINIMUM_GIT))} or newer).") from None
        except OSError as exc:
            raise StorageError(
                f"git could not be started for {self._name()}: {exc.strerror}. Look at the memory and disk of this machine."
            ) from None

    def _name(self) -> str:
        return str(self.spec.url) if self.spec else str(self.git_dir)


def _without(done: Finished, secrets: tuple[str, ...]) -> Finished:
    """A server may echo what it was sent; no secret leaves this place."""
    stdout, stderr = done.stdout, done.stderr
    for secret in secrets:
        stdout, stderr = stdout.replace(secret.encode(), b"***"), stderr.replace(secret.encode(), b"***")
    return Finished(returncode=done.returncode, stdout=stdout, stderr=stderr)


def installed_git(runner: GitRunner | None = None) -> tuple[int, ...]:
    """Return the version of the git program, for `doctor`: (2, 39, 5). Errors: GitError when there is none."""
    found = re.search(rb"(\d+(?:\.\d+)+)", (runner or GitRunner(NEUTRAL_FOLDER)).local("version").stdout)
    return tuple(int(part) for part in found[1].split(b".")) if found else ()
