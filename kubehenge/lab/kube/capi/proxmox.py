"""Proxmox VE as capmox talks to it: HTTPS with the token of one cluster's Secret, JSON bodies, tasks polled by their UPID."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import aiohttp

from kubehenge.lab.kube.kinds import Obj

_TIMEOUT = aiohttp.ClientTimeout(total=30)
_NOT_AUTHORIZED = "not authorized to access endpoint"


class ProxmoxError(Exception):
    """An answer that is no success, or none at all (`status` 0); the text is what capmox would write into a condition."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What a credentials Secret holds. Certificates are verified when it names a CA or says `insecure: false`; capmox's default is not to."""

    url: str
    token: str
    secret: str
    root_ca: str = ""
    verify: bool = False

    def __repr__(self) -> str:
        return f"Credentials(url={self.url!r}, token={self.token!r})"


def read_credentials(secret: Obj) -> Credentials | None:
    """The credentials in a Secret; None when url, token or secret is missing."""
    data = {name: base64.b64decode(value).decode(errors="replace").strip() for name, value in (secret.get("data") or {}).items()}
    if not all(data.get(name) for name in ("url", "token", "secret")):
        return None
    root_ca = data.get("root_ca", "")
    verify = bool(root_ca) or data.get("insecure", "").lower() in {"false", "0"}
    return Credentials(url=data["url"], token=data["token"], secret=data["secret"], root_ca=root_ca, verify=verify)


class ProxmoxClients:
    """
    The clients in use, one for each set of credentials.

    Shape: `known_urls`, when not empty, are the only servers they talk to: a lab never reaches a real Proxmox VE by mistake.
    """

    def __init__(self, known_urls: Collection[str]) -> None:
        self._known_urls = known_urls
        self._clients: dict[Credentials, Proxmox] = {}

    def get(self, credentials: Credentials) -> Proxmox:
        """The client for these credentials."""
        client = self._clients.get(credentials)
        if client is None:
            client = self._clients[credentials] = Proxmox(credentials, known_urls=self._known_urls)
        return client

    async def close(self) -> None:
        """Close every connection."""
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.close()


class Proxmox:
    """A client for one token."""

    def __init__(self, credentials: Credentials, *, known_urls: Collection[str] = ()) -> None:
        base = credentials.url.rstrip("/").removesuffix("/api2/json")
        self._base = f"{base}/api2/json"
        self._refused = bool(known_urls) and base not in {url.rstrip("/").removesuffix("/api2/json") for url in known_urls}
        context: ssl.SSLContext | bool = ssl.create_default_context(cadata=credentials.root_ca or None) if credentials.verify else False
        headers = {"Authorization": f"PVEAPIToken={credentials.token}={credentials.secret}"}
        self._session = aiohttp.ClientSession(headers=headers, timeout=_TIMEOUT, connector=aiohttp.TCPConnector(ssl=context, limit=4))

    async def close(self) -> None:
        """Close its connections."""
        await self._session.close()

    async def get(self, path: str, **query: str | int) -> Any:
        """
        The data at a path.

        Errors: ProxmoxError.
        """
        return await self._call("GET", path, params={name: str(value) for name, value in query.items()})

    async def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """
        Send a body as JSON; the answer is a task's UPID where the call starts one.

        Errors: ProxmoxError.
        """
        return await self._call("POST", path, json=dict(body or {}))

    async def put(self, path: str, body: Mapping[str, Any]) -> Any:
        """
        As `post`.

        Errors: ProxmoxError.
        """
        return await self._call("PUT", path, json=dict(body))

    async def delete(self, path: str) -> Any:
        """
        Remove what is at a path.

        Errors: ProxmoxError.
        """
        return await self._call("DELETE", path)

    async def upload_iso(self, node: str, storage: str, name: str, content: bytes) -> str:
        """
        Upload an ISO image; the answer is the UPID.

        Errors: ProxmoxError.
        """
        form = aiohttp.FormData()
        form.add_field("content", "iso")
        form.add_field("filename", content, filename=name, content_type="application/octet-stream")
        return str(await self._call("POST", f"/nodes/{node}/storage/{storage}/upload", data=form))

    async def task_result(self, upid: str) -> str | None:
        """
        How a task ended, `OK` or its error; None while it runs.

        Errors: ProxmoxError.
        """
        node = upid.split(":")[1]
        status = await self.get(f"/nodes/{node}/tasks/{quote(upid, safe='')}/status")
        return None if status.get("status") != "stopped" else str(status.get("exitstatus", ""))

    async def _call(self, method: str, path: str, **options: Any) -> Any:
        if self._refused:
            raise ProxmoxError(0, f"{self._base} is no address of the lab's Proxmox VE")
        try:
            async with self._session.request(method, self._base + path, **options) as answer:
                text = await answer.text()
                if answer.status == 200:
                    return json.loads(text).get("data")
                raise ProxmoxError(answer.status, _message(answer.status, answer.reason or "", text))
        except TimeoutError as exc:
            raise ProxmoxError(0, f"{method} {path}: no answer within {_TIMEOUT.total} s") from exc
        except (aiohttp.ClientError, OSError, ValueError) as exc:
            raise ProxmoxError(0, f"{method} {path}: {exc or type(exc).__name__}") from exc


def _message(status: int, reason: str, text: str) -> str:
    """The words of the client that capmox uses: permission errors lose what was missing, the others keep status and reason."""
    if status in {401, 403}:
        return _NOT_AUTHORIZED
    try:
        errors = json.loads(text).get("errors") if text else None
    except (ValueError, AttributeError):
        errors = None
    return f"{status} {reason}" + (f" - {json.dumps(errors)}" if errors else "")
