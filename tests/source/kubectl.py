"""`kubectl` as the oracle of what YAML means: it reads a file and prints it as JSON, without a cluster."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from typing import Any

import pytest

KUBECTL = shutil.which("kubectl")
needs_kubectl = [
    pytest.mark.kubectl,
    pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed: our reading of YAML is not compared with its own"),
]
HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"


@dataclass(frozen=True)
class Reading:
    """The `data` of each document, or why the file was refused."""

    data: list[Any]
    refused: str = ""


def read(text: str) -> Reading:
    """Let kubectl read a file of ConfigMaps."""
    command = [str(KUBECTL), "label", "--local", "-o", "json", "--dry-run=client", "-f", "-", "x=y"]
    done = subprocess.run(command, input=text.encode(), capture_output=True, timeout=60, check=False)
    if done.returncode:
        return Reading(data=[], refused=done.stderr.decode())
    decoder, printed, position, data = json.JSONDecoder(), done.stdout.decode(), 0, []
    while position < len(printed):
        document, position = decoder.raw_decode(printed, position)
        data.append(document.get("data"))
        while position < len(printed) and printed[position].isspace():
            position += 1
    return Reading(data=data)


def same(ours: Any, theirs: Any) -> bool:
    """Compare values as JSON does: `kubectl` prints large floats as whole numbers."""
    if isinstance(ours, bool) or isinstance(theirs, bool):
        return ours is theirs
    if isinstance(ours, float) or isinstance(theirs, float):
        return isinstance(ours, int | float) and isinstance(theirs, int | float) and float(ours) == float(theirs)
    if type(ours) is not type(theirs):
        return False
    if isinstance(ours, dict):
        return ours.keys() == theirs.keys() and all(same(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return ours == theirs or (isinstance(ours, int) and float(ours) == float(theirs))
