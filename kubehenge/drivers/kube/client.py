"""
Calls to the API server of the management cluster, by the kubernetes client's transport, with raw JSON both ways.

Reads are tried once more on a fresh connection; a changing call is sent once. Nothing is ever applied by force.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

import urllib3
import yaml
from kubernetes import config
from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException
from pydantic import SecretStr

from kubehenge.drivers.deadline import read_body
from kubehenge.drivers.guard import before_change
from kubehenge.drivers.kube.errors import KubeRefusedError, judge, parse_refusal, scrub
from kubehenge.drivers.politeness import Politeness
from kubehenge.errors import KubehengeError, SettingsError, TransientError, UncertainError

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


class _Response(Protocol):
    """The part of urllib3's response that is used."""

    status: int
    reason: str | None
    headers: Mapping[str, str]


class KubeClient:
    """One sign-in to one API server; safe to use from many threads."""

    def __init__(
        self,
        configuration: Any,
        *,
        secrets: Sequence[SecretStr] = (),
        limits: TimeLimits | None = None,
        politeness: Politeness | None = None,
    ) -> None:
        self._configuration = configuration
        configuration.retries = False  # what may be sent again is decided here
        configuration.keep_alive = True  # a dead network ends a watch within minutes
        configuration.connection_pool_maxsize = CONNECTIONS
        self._api = ApiClient(configuration)
        self._api.user_agent = FIELD_MANAGER
        self.limits = limits or TimeLimits()
        self.politeness = politeness or Politeness("The management cluster")
        self.secrets = list(secrets)

    @classmethod
    def from_kubeconfig(cls, path: Path | str, *, context: str | None = None, **more: Any) -> KubeClient:
        """Sign in with a kubeconfig file; SettingsError when it cannot be read."""
        configuration = Configuration()
        try:
            config.load_kube_config(config_file=str(path), context=context, client_configuration=configuration, persist_config=False)
        except (config.ConfigException, yaml.YAMLError, OSError, ValueError, TypeError, KeyError, AttributeError) as exc:
            raise SettingsError(
                f"{path} is no kubeconfig that can be used ({type(exc).__name__}). Name the management cluster's."
            ) from None
        tokens = [SecretStr(text.removeprefix("Bearer ")) for text in configuration.api_key.values()]
        return cls(configuration, secrets=tokens, **more)

    @classmethod
    def with_token(cls, url: str, *, token: SecretStr, ca_file: str | None, **more: Any) -> KubeClient:
        """Sign in with a bearer token."""
        configuration = Configuration(
            host=url.rstrip("/"), ssl_ca_cert=ca_file, api_key={"BearerToken": f"Bearer {token.get_secret_value()}"}
        )
        return cls(configuration, secrets=(token,), **more)

    def apart(self) -> KubeClient:
        """Return a client with the same sign-in and a limiter of its own that never rests: for a few calls that somebody waits for."""
        politeness = Politeness("The management cluster", rests=False)
        return KubeClient(self._configuration, secrets=self.secrets, limits=self.limits, politeness=politeness)

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
        return self._call("GET", path, query=query, headers={"Accept": accept})

    def list(self, path: str, *, accept: str = JSON, labels: str = "") -> Listed:
        """Read a whole list, page by page."""
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

    def apply(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Server-side apply by our own field manager, without force."""
        return self._change("PATCH", path, body, query={"fieldManager": FIELD_MANAGER}, content=APPLY)

    def merge(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Change some fields, whoever owns them; for annotations that are ours by name."""
        return self._change("PATCH", path, body, query={"fieldManager": FIELD_MANAGER}, content=MERGE)

    def delete(self, path: str, *, uid: str) -> Mapping[str, Any]:
        """Delete the object with this UID and no other of its name."""
        return self._change("DELETE", path, {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}})

    def ask(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send a review, which changes nothing."""
        return self._call("POST", path, body=body, headers={"Accept": JSON, "Content-Type": JSON})

    def watch(self, path: str, *, version: str, accept: str, labels: str, for_s: float) -> Stream:
        """Follow the changes from a version on, for a while."""
        query = {"watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true", "timeoutSeconds": int(for_s)}
        if labels:
            query["labelSelector"] = labels
        self.politeness.turn(within_s=PATIENCE_S)
        try:
            response = self._send("GET", path, query=query, body=None, headers={"Accept": accept}, read_s=for_s + self.limits.read_s)
            if response.status >= 300:
                self._refuse(response, self._read(response, f"watch {path}", change=False), f"watch {path}", change=False)
        except _NoAnswerError as exc:
            raise exc.meaning from None
        return Stream(response, path)

    # ---- transport

    def _change(
        self, method: str, path: str, body: Mapping[str, Any], *, query: Mapping[str, Any] | None = None, content: str = JSON
    ) -> Mapping[str, Any]:
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
    ) -> Mapping[str, Any]:
        for again in (not change, False):
            self.politeness.turn(within_s=PATIENCE_S)
            if change:
                before_change(self.limits.longest_change_s)
            try:
                return self._once(method, path, query=query, body=body, headers=headers, change=change)
            except _NoAnswerError as exc:
                if not again or exc.slow:
                    raise exc.meaning from None
        raise AssertionError  # pragma: no cover

    def _once(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None,
        body: Mapping[str, Any] | None,
        headers: Mapping[str, str],
        change: bool,
    ) -> Mapping[str, Any]:
        what = f"{method} {path}"
        response = self._send(method, path, query=query, body=body, headers=headers, change=change)
        content = self._read(response, what, change=change)
        if response.status >= 300:
            self._refuse(response, content, what, change=change)
        try:
            answer = json.loads(content)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            self.politeness.troubled()
            error = UncertainError if change else TransientError
            raise error(f"{what}: {self.url} answered with {len(content)} bytes that are no JSON object. Is a proxy in between?")
        return answer

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
            raise _NoAnswerError(exc, f"{method} {path}", self.url, change=change) from None
        return response

    def _read(self, response: _Response, what: str, *, change: bool) -> bytes:
        limit = self.limits.change_s if change else self.limits.read_s
        try:
            return read_body(response, time.monotonic() + limit)
        except (urllib3.exceptions.HTTPError, OSError) as exc:
            self.politeness.troubled()
            raise _NoAnswerError(exc, what, self.url, change=change) from None

    def _refuse(self, response: _Response, content: bytes, what: str, *, change: bool) -> None:
        retry_after = response.headers.get("Retry-After", "")
        refusal = parse_refusal(response.status, content, phrase=response.reason or "", retry_after=retry_after)
        refusal = scrub(refusal, (secret.get_secret_value() for secret in self.secrets))
        error = judge(refusal, what=what, change=change)
        if refusal.code == 429 or (refusal.code >= 500 and not isinstance(error, KubeRefusedError)):
            self.politeness.troubled(too_many=refusal.code == 429, retry_after_s=refusal.retry_after_s)
        raise error


class Stream:
    """An open watch: yields events until its time is over; `close` ends it from another thread."""

    def __init__(self, response: Any, path: str) -> None:
        self._response = response
        self._path = path

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        """Yield events; TransientError when the connection fails or what comes is no event."""
        rest = b""
        try:
            while part := self._response.read1(1 << 16, decode_content=True):
                *lines, rest = (rest + part).split(b"\n")
                yield from (json.loads(line) for line in lines if line.strip())
        except (urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError) as exc:
            raise TransientError(f"The watch of {self._path} broke off ({type(exc).__name__}). It begins anew.") from None
        finally:
            self._response.close()

    def close(self) -> None:
        """End the stream under whoever reads it."""
        connection = getattr(self._response, "connection", None)
        sock = getattr(connection, "sock", None)
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


class _NoAnswerError(Exception):
    """No whole answer came; `meaning` is the error to raise when it is not tried again, `slow` says that it took its time."""

    def __init__(self, exc: Exception, what: str, url: str, *, change: bool) -> None:
        super().__init__()
        self.meaning = _meaning(exc, what, url, change=change)
        self.slow = isinstance(exc, (urllib3.exceptions.TimeoutError, TimeoutError))


def _meaning(exc: Exception, what: str, url: str, *, change: bool) -> KubehengeError:
    words = _network_words(exc)
    unsent = isinstance(exc, (urllib3.exceptions.ConnectTimeoutError, urllib3.exceptions.NewConnectionError)) or "certificate" in words
    if change and not unsent:
        return UncertainError(
            f"{what}: {url} was sent this and its answer is lost ({words}). What is there is looked at before it is sent again."
        )
    return TransientError(f"{what}: {url} did not answer ({words}). It is tried again.")


def _network_words(exc: Exception) -> str:
    text = str(exc)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return "its certificate is not signed by the kubeconfig's CA, or for another name"
    if isinstance(exc, urllib3.exceptions.NewConnectionError):
        return text.rpartition(": ")[2] or text
    if isinstance(exc, urllib3.exceptions.ConnectTimeoutError):
        return "no connection within the time limit"
    if isinstance(exc, (urllib3.exceptions.TimeoutError, TimeoutError)):
        return "no answer within the time limit"
    return "the connection was closed in between"
