"""A small client of the plane's API server: objects in, objects out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import requests
from requests.adapters import HTTPAdapter

Body = dict[str, Any]
FIELD_MANAGER = "plane"
_TIMEOUT_S = 60
_PROBE_S = 2
_TRIES, _BUSY_S = 20, 0.5
_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"


class ApiError(Exception):
    """The API server refused; `code`, `reason` and the text are those of its answer."""

    def __init__(self, status: int, body: Mapping[str, Any]) -> None:
        self.code = status
        self.reason = str(body.get("reason", ""))
        super().__init__(str(body.get("message", "")) or f"status {status}")


class Api:
    """
    An API server at `url`, for whoever holds `token`. Threads may share it.

    Errors: ApiError when the server refuses, requests.RequestException when there is no answer.
    """

    def __init__(self, url: str, ca_file: Path, token: str) -> None:
        self.url = url
        self._session = session = requests.Session()
        session.trust_env = False
        session.verify = str(ca_file)
        session.headers["Authorization"] = f"Bearer {token}"
        session.mount("https://", HTTPAdapter(pool_maxsize=32))

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def get(self, path: str, **query: Any) -> Body:
        """GET a path."""
        return self._call("GET", path, query)

    def apply(self, body: Mapping[str, Any], *, manager: str = FIELD_MANAGER, dry_run: bool = False) -> Body:
        """Apply an object by server-side apply, and take over what others set."""
        query = {"fieldManager": manager, "force": "true"} | ({"dryRun": "All"} if dry_run else {})
        return self._call("PATCH", path_of(body), query, body, _APPLY)

    def create(self, body: Mapping[str, Any]) -> Body:
        """Create an object."""
        metadata = body["metadata"]
        path = collection(body["apiVersion"], body["kind"], metadata.get("namespace"))
        return self._call("POST", path, {"fieldManager": FIELD_MANAGER}, body)

    def patch(self, path: str, body: Mapping[str, Any]) -> Body:
        """Change fields by a merge patch."""
        return self._call("PATCH", path, {"fieldManager": FIELD_MANAGER}, body, _MERGE)

    def post(self, path: str, body: Mapping[str, Any]) -> Body:
        """POST to a path."""
        return self._call("POST", path, {}, body)

    def delete(self, path: str) -> Body:
        """DELETE an object, in the background."""
        return self._call("DELETE", path, {"propagationPolicy": "Background"})

    def token(self, namespace: str, account: str, *, seconds: int) -> str:
        """Return a token of a service account, by TokenRequest."""
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": seconds}}
        return str(self.post(f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token", request)["status"]["token"])

    def _call(
        self, method: str, path: str, query: Mapping[str, Any], body: Mapping[str, Any] | None = None, content_type: str = ""
    ) -> Body:
        headers = {"Content-Type": content_type} if content_type else None  # JSON is YAML
        for _ in range(_TRIES):
            answer = self._session.request(method, self.url + path, params=query, json=body, headers=headers, timeout=_TIMEOUT_S)
            if answer.status_code != requests.codes.too_many_requests:
                break
            time.sleep(_BUSY_S)  # the first read of a type whose storage is only now set up is answered so
        found: Any = answer.json() if "json" in answer.headers.get("Content-Type", "") else {"message": answer.text}
        if answer.status_code >= requests.codes.bad_request:
            raise ApiError(answer.status_code, found)
        return dict(found)


def ask(url: str, ca_file: Path | None = None) -> int | None:
    """GET an address of this machine; return the status, None when nobody answers."""
    with requests.Session() as session:
        session.trust_env = False
        try:
            return session.get(url, verify=str(ca_file) if ca_file else True, timeout=_PROBE_S).status_code
        except requests.RequestException:
            return None


def path_of(body: Mapping[str, Any]) -> str:
    """Return the path of an object."""
    metadata = body["metadata"]
    return f"{collection(body['apiVersion'], body['kind'], metadata.get('namespace'))}/{metadata['name']}"


def collection(api_version: str, kind: str, namespace: str | None = None) -> str:
    """Return the path of all objects of a kind, in a namespace if it has one."""
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{within}/{_plural(kind)}"


def _plural(kind: str) -> str:
    word = kind.lower()
    if word.endswith("s"):
        return f"{word}es"
    return f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
