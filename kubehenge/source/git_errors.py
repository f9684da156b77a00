"""What can go wrong between Kubehenge and a repository, each as a type and in words for people."""

from __future__ import annotations

import re
from enum import StrEnum

from kubehenge.errors import KubehengeError, RefusedError, TransientError

_SHOWN_CHARS = 300


class GitReason(StrEnum):
    """The reason of a source's condition."""

    UNREACHABLE = "Unreachable"
    UNTRUSTED = "Untrusted"
    CREDENTIALS = "CredentialsRefused"
    NOT_FOUND = "RepositoryNotFound"
    REDIRECTED = "Redirected"
    BRANCH_GONE = "BranchGone"
    TIMED_OUT = "TimedOut"
    TOO_LARGE = "TooLarge"
    BROKE_OFF = "BrokeOff"
    BAD_OBJECTS = "BadObjects"
    SHALLOW = "Shallow"
    STORAGE = "Storage"
    OWNERSHIP = "Ownership"
    UNKNOWN_REVISION = "UnknownRevision"
    GIT = "GitFailed"


class GitError(KubehengeError):
    """A call of git failed; `reason` is for conditions, the text for people."""

    reason = GitReason.GIT


class UnreachableError(GitError, TransientError):
    """The host does not answer, or has no such name."""

    reason = GitReason.UNREACHABLE


class UntrustedServerError(GitError, RefusedError):
    """The server's certificate or host key is not one that the source trusts."""

    reason = GitReason.UNTRUSTED


class CredentialsRefusedError(GitError, RefusedError):
    """The server wants credentials, or other ones."""

    reason = GitReason.CREDENTIALS


class RepositoryNotFoundError(GitError, RefusedError):
    """There is no such repository, or it is hidden from these credentials."""

    reason = GitReason.NOT_FOUND


class RedirectedError(GitError, RefusedError):
    """The server sends git elsewhere; credentials and trust are for the address given, so git does not follow."""

    reason = GitReason.REDIRECTED


class BranchGoneError(GitError, RefusedError):
    """The repository has no branch of that name."""

    reason = GitReason.BRANCH_GONE


class GitTimeoutError(GitError, TransientError):
    """Git was ended since its time was up."""

    reason = GitReason.TIMED_OUT


class TooLargeError(GitError, RefusedError):
    """The repository, the tree or its files are over a limit."""

    reason = GitReason.TOO_LARGE


class BrokeOffError(GitError, TransientError):
    """The connection or the server broke off in the middle."""

    reason = GitReason.BROKE_OFF


class BadObjectsError(GitError, RefusedError):
    """The server sent objects that git's own check refuses."""

    reason = GitReason.BAD_OBJECTS


class ShallowRepositoryError(GitError, RefusedError):
    """The repository has only the end of its history."""

    reason = GitReason.SHALLOW


class StorageError(GitError, TransientError):
    """Kubehenge's own state directory is full, read-only or damaged."""

    reason = GitReason.STORAGE


class DamagedMirrorError(StorageError):
    """Kubehenge's own copy of a repository is damaged; it is only a copy, so it is made anew."""


class OwnershipError(GitError, RefusedError):
    """A repository on this machine belongs to another user, so git does not open it."""

    reason = GitReason.OWNERSHIP


class UnknownRevisionError(GitError, RefusedError):
    """A commit is not in the mirror: never fetched, or dropped with a mirror that was made anew."""

    reason = GitReason.UNKNOWN_REVISION


# The first sign that is found decides, so what names a cause stands before what names a symptom. {at}: the place; {url}; {branch}.
_OWN_SIGNS: tuple[tuple[str, type[GitError], str], ...] = (
    (
        r"No space left on device|Disk quota exceeded|Read-only file system",
        StorageError,
        "The state directory of Kubehenge cannot be written (full or read-only). Make room there; reading {url} goes on by itself.",
    ),
    (
        (
            r"is corrupt|object file \S+ is empty|packfile \S+ (?:cannot|does not|claims|index unavailable)|index file \S+ is too small|inflate: |bad config line"
            r"|unable to read (?:sha1 file|tree|[0-9a-f]{40})|failed to read object|does not match index|index CRC mismatch|not a git repository: '"
        ),
        DamagedMirrorError,
        "Kubehenge's own copy of {url} is damaged. It is made anew when the source is next read.",
    ),
)
_REVISION_SIGNS: tuple[tuple[str, type[GitError], str], ...] = (
    (
        r"[Nn]ot a valid object name|[Nn]ot a valid commit name|[Bb]ad object|unknown revision|Invalid revision range|bad revision|not a tree object|not a commit",
        UnknownRevisionError,
        "That commit is not in Kubehenge's copy of {url}: it was never fetched, or nothing leads to it any more.",
    ),
)
_SIGNS: tuple[tuple[str, type[GitError], str], ...] = (
    (
        r"dubious ownership",
        OwnershipError,
        "The repository {url} belongs to another user of this machine, so git does not open it. Give it to the user that Kubehenge runs as, or read it over ssh.",
    ),
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED",
        UntrustedServerError,
        "{at} shows another host key than the one in the source's known hosts file. If the server was set up anew, put its new key there; else someone stands in between.",
    ),
    (
        r"Host key verification failed",
        UntrustedServerError,
        "The host key of {at} is not in the source's known hosts file. Compare it with the server's own and add it (ssh-keyscan prints it).",
    ),
    (
        r"UNPROTECTED PRIVATE KEY FILE|bad permissions",
        CredentialsRefusedError,
        "ssh does not use the source's key file since others may read it. Set its mode to 600.",
    ),
    (
        r"certificate|unable to get local issuer|CAfile|CApath",
        UntrustedServerError,
        "The certificate of {at} is not one that Kubehenge trusts. If it is signed by a CA of your own, give that CA's file in the source's credentials.",
    ),
    (
        r"Could not resolve host|Could not resolve hostname|Name or service not known",
        UnreachableError,
        "There is no host named {at}, or the name server does not answer. Check the address and the resolver; Kubehenge tries again by itself.",
    ),
    (
        r"Failed to connect|Couldn't connect|Could not connect|Connection refused|[Cc]onnection timed out|Operation timed out|No route to host|Network is unreachable",
        UnreachableError,
        "{at} does not answer. Check that it is up and reachable from here; Kubehenge tries again by itself.",
    ),
    (
        r"unable to update url base from redirection|returned error: 30[1278]|[Mm]aximum \(0\) redirects",
        RedirectedError,
        "{at} sends git to another address for {url}. Give the source the address that it sends to (the repository may have been renamed).",
    ),
    (
        r"Authentication failed|could not read Username|could not read Password|Permission denied \(|returned error: 40[13]\b|Access denied|terminal prompts disabled",
        CredentialsRefusedError,
        "{at} refuses the credentials for {url}. Check that the token or key is there, has not run out, and may read the repository.",
    ),
    (
        r"returned error: 404|[Rr]epository .*not found|[Rr]epository not found|does not appear to be a git repository|does not exist|could not be found|not a git repository",
        RepositoryNotFoundError,
        "There is no repository at {url}, or these credentials may not see it. Check the address and the rights of the credentials.",
    ),
    (
        r"couldn't find remote ref",
        BranchGoneError,
        "{url} has no branch {branch}. Push it again, or give the source another branch.",
    ),
    (
        r"fsck error|fsck-objects|error: object [0-9a-f]{40,64}:",
        BadObjectsError,
        "{url} holds objects that git's own check refuses, so nothing of the new state is read. Run `git fsck` there to see which.",
    ),
    (
        (
            r"early EOF|hung up|unexpected disconnect|RPC failed|bad line length|expected flush|protocol error|invalid index-pack|Empty reply|Connection reset|Connection closed|Broken pipe"
            r"|returned error: 5\d\d|returned error: 429|bad pack header|pack has bad object|not valid: is this a git repository|Operation too slow|handshake|TLS|SSL"
        ),
        BrokeOffError,
        "{at} broke off in the middle of its answer for {url}. Kubehenge tries again by itself; if it stays so, look at the server.",
    ),
)


def explain(stderr: str, *, url: str, place: str, branch: str, outward: bool) -> GitError:
    """
    Return the error that git's own messages (in C locale) mean; `outward`: git spoke with the source, not only with our copy.

    Only what none of the known signs explains repeats git's words, without user parts and control characters.
    """
    for sign, kind, words in (*_OWN_SIGNS, *(_SIGNS if outward else _REVISION_SIGNS)):
        if re.search(sign, stderr):
            return kind(words.format(at=place, url=url, branch=branch))
    said = shown_text(_last_cause(stderr))
    return GitError(
        f"Git failed for {url}: {said or 'it gave no reason'}. Look at the repository and the state directory; Kubehenge tries again by itself."
    )


def shown_text(text: str) -> str:
    """Return foreign text fit for a page or a log: one line, printable, bounded, no user part in an address."""
    text = re.sub(r"://[^/@\s]+@", "://", text)
    text = re.sub(r"[Bb]earer \S+|[Bb]asic \S+", "***", text)
    plain = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return plain if len(plain) <= _SHOWN_CHARS else f"{plain[: _SHOWN_CHARS - 1]}…"


def _last_cause(stderr: str) -> str:
    """Return the line that most likely names the cause: the last fatal one, else the last error, else the last."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    for start in ("fatal:", "error:", ""):
        for line in reversed(lines):
            if line.startswith(start):
                return line.removeprefix("fatal:").removeprefix("error:").strip().rstrip(".")
    return ""
