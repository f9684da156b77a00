"""Files on storages: uploads and downloads of ISO images, container templates and disk images to import."""

from __future__ import annotations

import re
import time
from functools import partial
from typing import Any

from aiohttp import web
from fakepve import FakePve
from fakepve.routing import split_list

from kubehenge.lab.proxmox.call import ApiCall, Route
from kubehenge.lab.proxmox.errors import bad_parameter, failed

_ENDINGS = {"iso": r"\.(?:iso|img)", "vztmpl": r"\.tar\.(?:gz|xz|zst|bz2)", "import": r"\.(?:ova|qcow2|raw|vmdk)"}
_DOWNLOADED_BYTES = 600 * 1024**2


class FileCalls(FakePve):
    """Mixin of the server: what ends up in a storage's `volumes` as "<content>/<file name>"."""

    def _calls_files(self) -> list[Route]:
        one = "/nodes/{node}/storage/{storage}"
        return [("POST", one + "/upload", self._take_upload), ("POST", one + "/download-url", self._fetch_url)]

    def _check_file(self, call: ApiCall, name: str, content: str) -> None:
        store = self._active_store(call["storage"], call["node"])
        if not self.is_file_storage(call["storage"]):
            raise failed(f"can't upload to storage type '{store.get('type')}', not a file based storage!")
        if content not in split_list(store.get("content")):
            raise failed(f"storage '{call['storage']}' is not configured for content-type '{content}'")
        if not re.fullmatch(rf"[A-Za-z0-9._-]+{_ENDINGS[content]}", name):
            raise bad_parameter({"filename": "invalid filename or wrong extension" if content == "import" else "wrong file extension"})

    def _put_file(self, call: ApiCall, name: str, size: int) -> None:
        content = call["content"]
        kind = name.rsplit(".", 1)[-1] if content == "import" else content
        volumes = self.storages[call["storage"]].setdefault("volumes", {})
        volumes[f"{content}/{name}"] = {"content": content, "format": kind, "size": size, "ctime": int(time.time())}

    async def _take_upload(self, call: ApiCall) -> Any:
        self._check_file(call, call["filename"], call["content"])
        part = (await call.request.post()).get("filename") if call.request else None
        if not isinstance(part, web.FileField):
            raise bad_parameter({"filename": "property is missing and it is not optional"})
        size = len(part.file.read())

        async def body() -> None:
            self._put_file(call, call["filename"], size)

        # The task is one of the node that took the request.
        return await self.task(call.local_node, "imgcopy", "", call.auth, body)

    async def _fetch_url(self, call: ApiCall) -> Any:
        self._check_file(call, call["filename"], call["content"])
        body = partial(self._download, call)
        return await self.task(call["node"], "download", call["filename"], call.auth, body, log=[f"downloading {call['url']}"])

    async def _download(self, call: ApiCall) -> None:
        """Nothing is fetched: the lab has no way out. A file of a usual size is there afterwards."""
        self._put_file(call, call["filename"], _DOWNLOADED_BYTES)
