"""
Calls to the API server of the management cluster, by the kubernetes client's transport, with raw JSON both ways.

Reads are tried once more on a fresh connection. A changing call is sent once, but for answers that say that nothing was done: too
many requests, and a sign-in that has been renewed meanwhile. Nothing is ever applied by force.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

import urllib3
from kubernetes.client import ApiClient
from kubernetes.client.exceptions import ApiException
from pydantic import SecretStr

from kubehenge.drivers.deadline import read_body
from kubehenge.drivers.guard import before_change
from kubehenge.drivers.kube import signing_in, unserved
from kubehenge.drivers.kube.errors import (
    ExpiredError,
    KubeRefusedError,
    Refusal,
    TooManyRequestsError,
    WebhookAwayError,
    hide,
    is_unserved,
    judge,
    parse_refusal,
    scrub,
)
from kubehenge.drivers.kube.network import NoAnswerError
from kubehenge.drivers.kube.signing_in import SignIn
from kubehenge.drivers.kube.stream import Stream
from kubehenge.drivers.kube.warnings import parse_warnings
from kubehenge.drivers.politeness import Politeness
from kubehenge.errors import KubehengeError, TransientError, UncertainError

FIELD_MANAGER = "kubehenge"
JSON = "application/json"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"

PAGE = 1000
"""Objects per page of a list: few requests, and no answer of many megabytes."""

CONNECTIONS = 32
"""Kept open at most: eight watches, seven lists at once, and the workers."""

PATIENCE_S = 60.0

SIGN_IN_EVERY_S = 10.0
"""A sign-in that is refused is read anew no more often than this: reading it may run a program."""

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimits:
    """How long a call may take. Units: seconds. Admission webhooks may take ten each."""

    connect_s: float = 5.0
    read_s: float = 20.0
    change_s: float = 30.0

    @property
    def longest_change_s(self) -> float:
        """The longest that a changing call takes (MODEL 26)."""
        return self.connect_s + 2 * self.change_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A whole list, and the version of the world that it shows."""

    items: tuple[Mapping[str, Any], ...]
    version: str
    requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a change left, and what the management cluster warned of."""

    obj: Mapping[str, Any]
    warnings: tuple[str, ...] = ()


class _Response(Protocol):
    """The part of urllib3's response that is used."""

    status: int
    reason: str | None
    headers: Mapping[str, str]


class KubeClient:
    """One sign-in to one API server; safe to use from many threads."""

    def __init__(
        self,
        sign_in: SignIn,
        *,
        secrets: Sequence[SecretStr] = (),
        limits: TimeLimits | None = None,
        politeness: Politeness | None = None,
    ) -> None:
        self._sign_in = sign_in
        self._signing = threading.Lock()
        self._signed_in_at = -math.inf
        self.limits = limits or TimeLimits()
        self.politeness = politeness or Politeness("The management cluster")
        self.secrets = list(secrets)
        self._take(sign_in())

    @classmethod
    def from_kubeconfig(cls, path: Path | str, *, context: str | None = None, **more: Any) -> KubeClient:
        """Sign in with a kubeconfig file; SettingsError when it cannot be used."""
        return cls(signing_in.by_kubeconfig(path, context=context), **more)

    @classmethod
    def with_token(cls, url: str, *, token: SecretStr, ca_file: str | None, **more: Any) -> KubeClient:
        """Sign in with a bearer token."""
        return cls(signing_in.by_token(url, token=token, ca_file=ca_file), **more)

    @classmethod
    def in_cluster(cls, environ: Mapping[str, str], *, folder: Path = signing_in.SERVICE_ACCOUNT, **more: Any) -> KubeClient:
        """Sign in as the pod that this process is; SettingsError when it is none."""
        return cls(signing_in.in_cluster(environ, folder), **more)

    def apart(self) -> KubeClient:
        """Return a client with the same sign-in and a limiter of its own that never rests: for a few calls that somebody waits for."""
        politeness = Politeness("The management cluster", rests=False)
        return KubeClient(self._sign_in, secrets=self.secrets, limits=self.limits, politeness=politeness)

    def _take(self, configuration: Any) -> None:
        configuration.retries = False  # what may be sent again is decided here
        configuration.keep_alive = True  # a dead network ends a watch within minutes
        configuration.connection_pool_maxsize = CONNECTIONS
        api = ApiClient(configuration)
        api.user_agent = FIELD_MANAGER
        self.secrets += [one for one in signing_in.tokens_of(configuration) if one not in self.secrets]
        self.configuration, self._api = configuration, api

    def _sign_in_again(self, used: ApiClient) -> bool:
        """Read the sign-in anew, after a call by `used` was refused for it; tells whether there is another one to try."""
        with self._signing:
            if used is not self._api:
                return True  # another thread was faster
            now = time.monotonic()
            if now - self._signed_in_at < SIGN_IN_EVERY_S:
                return False
            self._signed_in_at = now
            try:
                configuration = self._sign_in()
            except KubehengeError:
                return False  # a file that is just being written; the refusal says enough
            if signing_in.is_same(configuration, self.configuration):
                return False
            self._take(configuration)
            return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<KubeClient at {self.url}>"

    @property
    def url(self) -> str:
        """The address of the API server."""
        return str(self._api.configuration.host)

    def close(self) -> None:
        """Close the idle connections; the client's own `close` leaves that to the garbage collector."""
        pools = self._api.rest_client.pool_manager.pools
        for key in pools.keys():  # noqa: SIM118 - urllib3's container is no mapping to iterate over
            pools[key].close()
        self._api.close()

    # ---- verbs

    def get(self, path: str, *, accept: str = JSON, query: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """Read one object; errors as `errors.judge` says, a missing one is a RefusedError with `is_missing`."""
        return self._call("GET", path, query=query, headers={"Accept": accept}).obj

    def list(self, path: str, *, accept: str = JSON, labels: str = "") -> Listed:
        """Read a whole list, page by page; once more from the start when it took so long that its place was forgotten."""
        try:
            return self._list(path, accept=accept, labels=labels)
        except ExpiredError:
            return self._list(path, accept=accept, labels=labels)

    def _list(self, path: str, *, accept: str, labels: str) -> Listed:
        items: list[Mapping[str, Any]] = []
        token, requests = "", 0
        while True:
            query = {"limit": PAGE, **({"labelSelector": labels} if labels else {}), **({"continue": token} if token else {})}
            page = self.get(path, accept=accept, query=query)
            requests += 1
            items += page.get("items") or ()
            meta = page.get("metadata") or {}
            token = meta.get("continue") or ""
            if not token:
                return Listed(items=tuple(items), version=str(meta.get("resourceVersion", "")), requests=requests)

    def apply(self, path: str, body: Mapping[str, Any], *, dry_run: bool = False, force: bool = False) -> Written:
        """
        Server-side apply by our own field manager; as a dry run everybody judges it and nothing is stored.

        `force` takes over what other managers own of it: only for what is ours as a whole by its name.
        """
        query = {"fieldManager": FIELD_MANAGER, **({"dryRun": "All"} if dry_run else {}), **({"force": "true"} if force else {})}
        return self._change("PATCH", path, body, query=query, content=APPLY)

    def merge(self, path: str, body: Mapping[str, Any]) -> Written:
        """Change some fields, whoever owns them; for annotations that are ours by name."""
        return self._change("PATCH", path, body, query={"fieldManager": FIELD_MANAGER}, content=MERGE)

    def delete(self, path: str, *, uid: str) -> Written:
        """Delete the object with this UID and no other of its name."""
        return self._change("DELETE", path, {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}})

    def ask(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send a review, which changes nothing."""
        return self._call("POST", path, body=body, headers={"Accept": JSON, "Content-Type": JSON}).obj

    def watch(self, path: str, *, version: str, accept: str, labels: str, for_s: float) -> Stream:
        """Follow the changes from a version on, for a while."""
        query = {"watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true", "timeoutSeconds": int(for_s)}
        if labels:
            query["labelSelector"] = labels

        def once() -> Stream:
            response = self._send("GET", path, query=query, body=None, headers={"Accept": accept}, read_s=for_s + self.limits.read_s)
            if response.status >= 300:
                self._refuse(response, self._read(response, f"watch {path}", change=False), "watch", path, change=False)
            return Stream(response, path)

        return self._repeat(once, change=False, reads=False)

    # ---- transport

    def _change(
        self, method: str, path: str, body: Mapping[str, Any], *, query: Mapping[str, Any] | None = None, content: str = JSON
    ) -> Written:
        return self._call(method, path, query=query, body=body, headers={"Accept": JSON, "Content-Type": content}, change=True)

    def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str],
        change: bool = False,
    ) -> Written:
        def once() -> Written:
            return self._once(method, path, query=query, body=body, headers=headers, change=change)

        return self._repeat(once, change=change, reads=not change)

    def _repeat(self, once: Callable[[], Answer], *, change: bool, reads: bool) -> Answer:
        """Send a call, and again where that is certain to be harmless; with `reads` also when its answer was lost."""
        left_s = self.limits.change_s if change else self.limits.read_s
        renewed = False
        while True:
            self.politeness.turn(within_s=PATIENCE_S)
            if change:
                before_change(self.limits.longest_change_s)
            used = self._api
            try:
                return once()
            except NoAnswerError as exc:
                if exc.trouble.certificate and not renewed and self._sign_in_again(used):
                    renewed = True
                elif reads and not exc.slow:
                    reads = False
                else:
                    raise exc.meaning from None
            except TooManyRequestsError:  # nothing was done: it waits its turn, within the call's own limit
                rest_s = self.politeness.resting_s
                if not 0 < rest_s <= left_s:
                    raise
                left_s -= rest_s
            except KubeRefusedError as exc:
                if exc.code != 401 or renewed or not self._sign_in_again(used):
                    raise
                renewed = True

    def _once(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None,
        body: Mapping[str, Any] | None,
        headers: Mapping[str, str],
        change: bool,
    ) -> Written:
        what = f"{method} {path}"
        response = self._send(method, path, query=query, body=body, headers=headers, change=change)
        content = self._read(response, what, change=change)
        if response.status >= 300:
            self._refuse(response, content, method, path, change=change)
        try:
            answer = json.loads(content)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            self.politeness.troubled()
            error = UncertainError if change else TransientError
            raise error(f"{what}: {self.url} answered with {len(content)} bytes that are no JSON object. Is a proxy in between?")
        secrets = [secret.get_secret_value() for secret in self.secrets]
        return Written(obj=answer, warnings=tuple(hide(text, secrets) for text in parse_warnings(response.headers)))

    def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None,
        body: Mapping[str, Any] | None,
        headers: Mapping[str, str],
        change: bool = False,
        read_s: float = 0.0,
    ) -> _Response:
        limit = read_s or (self.limits.change_s if change else self.limits.read_s)
        try:
            request = self._api.param_serialize(
                method,
                path,
                query_params=list((query or {}).items()),
                header_params=dict(headers),
                body=body,
                auth_settings=["BearerToken"],
            )
            response: _Response = self._api.call_api(*request, _request_timeout=(self.limits.connect_s, limit)).response
        except (urllib3.exceptions.HTTPError, OSError, ApiException) as exc:
            self.politeness.troubled()
            raise NoAnswerError(exc, f"{method} {path}", self.url, change=change) from None
        return response

    def _read(self, response: _Response, what: str, *, change: bool) -> bytes:
        limit = self.limits.change_s if change else self.limits.read_s
        try:
            return read_body(response, time.monotonic() + limit)
        except (urllib3.exceptions.HTTPError, OSError) as exc:
            self.politeness.troubled()
            raise NoAnswerError(exc, what, self.url, change=change) from None

    def _refuse(self, response: _Response, content: bytes, method: str, path: str, *, change: bool) -> None:
        retry_after = response.headers.get("Retry-After", "")
        refusal = parse_refusal(response.status, content, phrase=response.reason or "", retry_after=retry_after)
        known = [*self.secrets, *signing_in.tokens_of(self.configuration)]  # an exec program's token changes by itself
        refusal = scrub(refusal, [secret.get_secret_value() for secret in known])
        error = judge(refusal, what=f"{method} {path}", change=change)
        if isinstance(error, KubeRefusedError) and is_unserved(error) and (missing := self.explain_unserved(path)):
            error = KubeRefusedError(f"{method} {path}: {missing}", refusal)
        self._note_trouble(error, refusal)
        raise error

    def explain_unserved(self, path: str) -> str:
        """Say what is missing for a kind's path to be served, and what to install; '' for a path of no kind."""
        wanted = unserved.wanted_by(path)
        return unserved.explain(wanted, self._versions_of(wanted.group)) if wanted else ""

    def _note_trouble(self, error: KubehengeError, refusal: Refusal) -> None:
        """A webhook that is away is no trouble of the API server: what does not need it goes on at full speed."""
        if refusal.code == 429 or (refusal.code >= 500 and not isinstance(error, (KubeRefusedError, WebhookAwayError))):
            self.politeness.troubled(too_many=refusal.code == 429, retry_after_s=refusal.retry_after_s)

    def _versions_of(self, group: str) -> tuple[str, ...]:
        """The versions of a group that are served; none when that cannot be found out."""
        try:
            response = self._send("GET", f"/apis/{group}", query=None, body=None, headers={"Accept": JSON})
            listed = json.loads(self._read(response, f"GET /apis/{group}", change=False))
        except (NoAnswerError, ValueError):
            return ()
        versions = listed.get("versions") if isinstance(listed, dict) else None
        return tuple(str(one.get("version", "")) for one in versions or ())
