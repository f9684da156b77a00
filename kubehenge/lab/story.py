"""What happens in a new lab by itself: once its clusters run, a commit asks for a new version of one of them, and its plan waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from kubehenge.errors import KubehengeError
from kubehenge.lab.git_host import Editor, now

PATH = "clusters/staging.yaml"
FROM_VERSION = "v1.36.5+rke2r1"
TO_VERSION = "v1.37.1+rke2r1"
_LOOK_EVERY_S = 0.5
_TRY_AGAIN_S = 5.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """
    One commit, pushed once.

    Shape: `clusters_run` tells whether every cluster of the repository runs; `done` is called when there is nothing more to tell.
    """

    editor: Editor
    clusters_run: Callable[[], bool]
    done: Callable[[], None]

    async def tell(self) -> None:
        """Wait until the clusters run, and push. A file that people have changed meanwhile is left as it is."""
        while not self.clusters_run():
            await asyncio.sleep(_LOOK_EVERY_S)
        while True:
            try:
                await asyncio.to_thread(self._push)
                break
            except KubehengeError as error:  # someone pushes at the same time
                log.warning("lab_commit_not_pushed", path=PATH, reason=str(error))
                await asyncio.sleep(_TRY_AGAIN_S)
        self.done()

    def _push(self) -> None:
        text = self.editor.read(PATH)
        if text is None or text.count(f"version: {FROM_VERSION}\n") != 1:
            return
        changed = text.replace(f"version: {FROM_VERSION}\n", f"version: {TO_VERSION}\n")
        self.editor.commit(
            {PATH: changed.encode()}, f"Upgrade staging to {TO_VERSION}\n\nprod follows when staging has run it for a week.", now=now()
        )
        log.info("lab_commit_pushed", path=PATH, version=TO_VERSION)
