"""What a source is and where it lies: addresses, branches and sub-paths, judged before git sees any of them (ACCEPTANCE 4.5)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv6Address
from pathlib import PurePosixPath
from urllib.parse import SplitResult, unquote, urlsplit

from kubehenge.errors import SettingsError
from kubehenge.source.git_credentials import Credentials, HttpsToken, SshKey

MAX_URL_CHARS = 2_000
MAX_PATH_CHARS = 1_000
MAX_BRANCH_CHARS = 200

_HOST = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?:\.(?!-)[A-Za-z0-9-]{1,63})*\.?")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://|:)")
_SCP = re.compile(r"(?:(?P<user>[^@/:]+)@)?(?P<host>\[[^\]]*\]|[^@/:\[\]]+):(?P<path>.+)")
_SOURCE_ID = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_REVISION = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_ACCEPTED = "Give https://host/path, ssh://user@host/path, user@host:path or an absolute path on this machine"


class SourceUrlError(SettingsError):
    """An address, branch, sub-path or id of a source that Kubehenge does not accept; the text says why and what to write."""


class Transport(StrEnum):
    """How a repository is reached, in git's words for its protocols."""

    HTTPS = "https"
    SSH = "ssh"
    FILE = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceUrl:
    """One accepted address; it never holds a password, so it may be shown and logged as it is."""

    transport: Transport
    text: str
    host: str = ""
    port: int | None = None
    user: str = ""
    path: str

    def __str__(self) -> str:
        """The address as git gets it."""
        return self.text

    @property
    def place(self) -> str:
        """The host, or "this machine", for messages."""
        return self.host or "this machine"

    @property
    def credential_scope(self) -> str:
        """`https://host[:port]`: the only place that a token of this source is given to."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"https://{host}:{self.port}" if self.port else f"https://{host}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSpec:
    """One repository, branch and sub-path that is read, with the credentials for it (files and commands, never secrets)."""

    id: str
    url: SourceUrl
    branch: str = "main"
    path: str = ""
    credentials: Credentials = field(default_factory=Credentials)

    def __post_init__(self) -> None:
        """Refuse what git could take for an option or another place, however the value came here."""
        if not _SOURCE_ID.fullmatch(self.id):
            raise SourceUrlError(f"Source id {_quoted(self.id)}: write 1 to 63 of a-z, 0-9 and -, with a letter or digit at both ends.")
        check_branch(self.branch)
        if parse_sub_path(self.path) != self.path:
            raise SourceUrlError(
                f"Source {self.id}: sub-path {_quoted(self.path)} is not in its plain form; write it without slashes at its ends."
            )
        match self.credentials.login:
            case SshKey() if self.url.transport is not Transport.SSH:
                raise SourceUrlError(f"Source {self.id}: an SSH key is of no use for {self.url}; give an ssh address or a token.")
            case HttpsToken() if self.url.transport is not Transport.HTTPS:
                raise SourceUrlError(f"Source {self.id}: a token is of no use for {self.url}; give an https address or an SSH key.")
            case _:
                pass

    @property
    def ref(self) -> str:
        """The full name of the branch in the repository."""
        return f"refs/heads/{self.branch}"


def parse_source_url(text: str) -> SourceUrl:
    """
    Return the address of a repository: https, ssh (both forms) or an absolute path on this machine.

    Errors: SourceUrlError, which never repeats what may be a password.
    Source: gitglossary and git-clone(1), "GIT URLS"; git's own remote helpers (`ext::`) and `file://` are refused.
    """
    if not text:
        raise SourceUrlError(f"The address of the repository is empty. {_ACCEPTED}.")
    if len(text) > MAX_URL_CHARS:
        raise SourceUrlError(f"The address of the repository has {len(text)} characters; at most {MAX_URL_CHARS} are accepted.")
    if not text.isprintable() or "\\" in text:
        raise SourceUrlError("The address of the repository holds a control character or a backslash. Copy it again from the code host.")
    if text.startswith("-"):
        raise SourceUrlError(f"The address {_quoted(text)} begins with a dash, so git would take it for an option. {_ACCEPTED}.")
    if text.startswith("/"):
        return _local(text)
    if " " in text:
        raise SourceUrlError("The address of the repository holds a space. In an https or ssh address write it as %20.")
    scheme = _SCHEME.match(text)
    if scheme is None:
        return _scp(text)
    match scheme[0].lower():
        case "https://":
            return _https(text)
        case "ssh://":
            return _ssh(text)
        case "file://":
            raise SourceUrlError("file:// addresses are not accepted. For a repository on this machine write its absolute path.")
        case "http://":
            raise SourceUrlError("http:// is not accepted, since anyone on the way could change what it brings. Use https:// or ssh://.")
        case other:
            raise SourceUrlError(f"{_quoted(other)} is not a protocol that Kubehenge reads from. {_ACCEPTED}.")


def check_branch(name: str) -> None:
    """
    Accept exactly the names that git accepts for a branch, without `refs/heads/`.

    Errors: SourceUrlError. Source: git-check-ref-format(1).
    """
    if name.startswith("-"):
        raise SourceUrlError(f"Branch {_quoted(name)} begins with a dash, so git would take it for an option.")
    if name.startswith("refs/"):
        raise SourceUrlError(f"Branch {_quoted(name)}: write the branch's own name, such as main, without refs/heads/.")
    bad = (
        not name
        or len(name) > MAX_BRANCH_CHARS
        or name in {"@", "HEAD"}
        or not name.isprintable()
        or any(char in name for char in " ~^:?*[\\")
        or any(part in name for part in ("..", "@{", "//"))
        or name.startswith("/")
        or name.endswith(("/", "."))
        or any(part.startswith(".") or part.endswith(".lock") for part in name.split("/"))
    )
    if bad:
        raise SourceUrlError(f"{_quoted(name)} is not a name that git accepts for a branch.")


def parse_sub_path(text: str) -> str:
    """
    Return a sub-path in its plain form: no slash at either end, empty for the whole tree.

    Errors: SourceUrlError for absolute paths, `.`, `..`, control characters and what git could take for an option.
    """
    plain = text.removesuffix("/")
    if not plain:
        if text == "/":
            raise SourceUrlError("Sub-path /: leave it empty to read the whole repository.")
        return ""
    if len(plain) > MAX_PATH_CHARS or not plain.isprintable() or "\\" in plain:
        raise SourceUrlError(f"Sub-path {_quoted(plain)}: write a folder's path inside the repository, such as clusters/prod.")
    if plain.startswith(("/", "-", ":")):
        raise SourceUrlError(f"Sub-path {_quoted(plain)}: begin with the name of a folder in the repository, such as clusters/prod.")
    if any(part in {"", ".", ".."} or part.lower() == ".git" for part in plain.split("/")):
        raise SourceUrlError(f"Sub-path {_quoted(plain)}: ., .., .git and empty parts are not accepted.")
    return plain


def check_revision(revision: str) -> str:
    """Return a full commit or object id unchanged; anything else is our own mistake or an attack, never passed to git."""
    if not _REVISION.fullmatch(revision):
        raise SourceUrlError(f"{_quoted(revision)} is not a full commit id (40 or 64 of 0-9 and a-f).")
    return revision


def repository_key(url: str) -> str | None:
    """
    Return `host/path` in a form in which the https and ssh address of one repository are equal, or None for what is neither.

    User, port, a closing `.git` and letter case are left out: it answers "may be the same repository", never "is".
    """
    # Code hosts inside a private network name themselves http:// in their webhooks though they are read over https or ssh.
    try:
        parsed = parse_source_url(re.sub(r"(?i)^http://", "https://", url))
    except SourceUrlError:
        return None
    return None if parsed.transport is Transport.FILE else _key(parsed.host, parsed.path)


def _key(host: str, path: str) -> str:
    return f"{host.rstrip('.')}/{unquote(path).strip('/').removesuffix('.git')}".lower()


def _local(text: str) -> SourceUrl:
    if text.startswith("//"):
        raise SourceUrlError(f"The path {_quoted(text)} begins with two slashes; write one.")
    if ".." in PurePosixPath(text).parts:
        raise SourceUrlError(f"The path {_quoted(text)} holds .. ; write the absolute path without it.")
    path = str(PurePosixPath(text))
    return SourceUrl(transport=Transport.FILE, text=path, path=path)


def _https(text: str) -> SourceUrl:
    split, host, port = _split(text)
    if "@" in split.netloc:
        raise SourceUrlError(
            f"The address of the repository on {host} holds a user or password. Take it out and give the token as the source's credentials (a file or a command)."
        )
    return SourceUrl(transport=Transport.HTTPS, text=_joined("https", host, port, split.path), host=host, port=port, path=split.path)


def _ssh(text: str) -> SourceUrl:
    split, host, port = _split(text)
    user, at, rest = split.netloc.rpartition("@")
    if ":" in user or (at and not rest):
        raise SourceUrlError(
            f"The address of the repository on {host} holds a password. Take it out and give an SSH key as the source's credentials."
        )
    _check_user(user, given=bool(at))
    authority = f"{user}@" if user else ""
    return SourceUrl(
        transport=Transport.SSH,
        text=_joined("ssh", host, port, split.path, authority=authority),
        host=host,
        port=port,
        user=user,
        path=split.path,
    )


def _scp(text: str) -> SourceUrl:
    found = _SCP.fullmatch(text)
    if found is None:
        if "@" in text.partition("/")[0]:
            raise SourceUrlError(f"The address of the repository could not be read, and it may hold a password. {_ACCEPTED}.")
        raise SourceUrlError(f"{_quoted(text)} is not an address of a repository. {_ACCEPTED}.")
    user, path = found["user"] or "", found["path"]
    host = _host(found["host"].strip("[]"))
    _check_user(user, given="@" in text.partition(":")[0])
    if path.startswith(("-", ":")) or "@" in path.partition("/")[0]:
        raise SourceUrlError(f"The path after {host}: begins with a dash or colon, or holds a password. {_ACCEPTED}.")
    _check_url_path(path)
    shown_host = f"[{host}]" if ":" in host else host
    prefix = f"{user}@" if user else ""
    return SourceUrl(transport=Transport.SSH, text=f"{prefix}{shown_host}:{path}", host=host, user=user, path=path)


def _split(text: str) -> tuple[SplitResult, str, int | None]:
    try:
        split = urlsplit(text)
        port = split.port
    except ValueError as exc:
        raise SourceUrlError("The host or port in the address of the repository could not be read.") from exc
    host = _host(split.hostname or "")
    if port == 0:
        raise SourceUrlError("The port in the address of the repository is 0.")
    if split.query or split.fragment or "?" in text or "#" in text:
        raise SourceUrlError(f"The address of the repository on {host} holds a ? or # ; write it without what follows it.")
    if not split.path.strip("/"):
        raise SourceUrlError(f"The address names the host {host} but no repository on it.")
    _check_url_path(split.path)
    return split, host, port


def _host(text: str) -> str:
    if ":" in text:
        try:
            return str(IPv6Address(text))
        except ValueError:
            raise SourceUrlError("The host in the address of the repository is not an IPv6 address.") from None
    if not _HOST.fullmatch(text) or len(text) > 253:
        raise SourceUrlError("The host in the address of the repository is not a host name or an IP address.")
    return text.lower()


def _check_user(user: str, *, given: bool) -> None:
    if given and not _USER.fullmatch(user):
        raise SourceUrlError("The user in the address of the repository may hold letters, digits, dots, dashes and underscores only.")


def _check_url_path(path: str) -> None:
    decoded = unquote(path)
    if not decoded.isprintable() or "\\" in decoded or ".." in decoded.split("/"):
        raise SourceUrlError("The path in the address of the repository holds .. , a backslash or an encoded control character.")


def _joined(scheme: str, host: str, port: int | None, path: str, *, authority: str = "") -> str:
    shown_host = f"[{host}]" if ":" in host else host
    return f"{scheme}://{authority}{shown_host}{f':{port}' if port else ''}{path.rstrip('/')}"


def _quoted(text: str) -> str:
    """Show a refused value with its control characters made visible and its length bounded."""
    return repr(text if len(text) <= 100 else f"{text[:100]}…")
