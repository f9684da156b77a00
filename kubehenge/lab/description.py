"""`lab.json`: what scripts, tests and commands need to know of a lab, written by the lab's process and read by everybody else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from kubehenge.errors import TransientError, UsageError
from kubehenge.lab.places import Places, holder_of

_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Description:
    """
    The content of `lab.json`.

    Shape: `page.url`; `ca_file`; `sign_ins.administrator` and `.viewer`, each with `username`, `realm` and `password`; `git.url`, `.path`,
    `.branch`, `.source`, `.token_file`; `proxmox.endpoints` by node, `.engine` and `.capmox` with `token_id` and `token_file`; `kube.url`,
    `.kubeconfig`, `.admin_kubeconfig`; `control.url` and `.key`; `settings_file`; `speed`; `pid`.
    """

    value: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        """Return a part of it."""
        return self.value[name]


def read_description(directory: Path) -> Description:
    """Return the description of a lab that was started at least once. Errors: UsageError."""
    path = Places.of(directory).description
    try:
        return Description(json.loads(path.read_text(encoding="utf-8")))
    except OSError:
        raise UsageError(f"There is no lab in {path.parent}. Start one with `kubehenge lab up --dir {directory}`.") from None
    except ValueError:
        raise UsageError(f"{path} cannot be read. Start the lab again: it writes the file anew.") from None


class ControlClient:
    """Talks to the control of a lab that runs. Errors: UsageError in the lab's own words, TransientError when it does not answer."""

    def __init__(self, directory: Path) -> None:
        places = Places.of(directory)
        description = read_description(directory)
        if holder_of(places.lock) is None:
            raise UsageError(f"The lab in {places.root} does not run. Start it with `kubehenge lab up --dir {directory}`.")
        self._url = str(description["control"]["url"])
        self._session = requests.Session()
        self._session.trust_env = False  # it is on this machine, whatever proxy there is
        self._session.headers["Authorization"] = f"Bearer {description['control']['key']}"

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Make one call and return its answer."""
        try:
            answer = self._session.request(method, self._url + path, json=body, timeout=_TIMEOUT_S)
            content: dict[str, Any] = answer.json()
        except requests.RequestException as error:
            raise TransientError(f"The lab does not answer at {self._url}: {type(error).__name__}.") from None
        if answer.status_code >= 400:
            raise UsageError(f"The lab refused: {content.get('error', answer.reason)}")
        return content
