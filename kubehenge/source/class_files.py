"""Finds and reads the files that ClusterClasses are made from: `classes/` of the checkout, or of the installed package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubehenge
from kubehenge.errors import InvariantError
from kubehenge.model.distribution import Distribution
from kubehenge.resources.classes import RenderedClass, render
from kubehenge.source.yaml_reader import read_documents


def load_classes(namespace: str) -> dict[str, RenderedClass]:
    """
    Return the class of each distribution, by the distribution's name.

    Errors: InvariantError when a file is missing or wrong; they are part of Kubehenge.
    """
    parts = read_parts(find_folder())
    return {str(one): render(one, parts, namespace) for one in Distribution}


def find_folder() -> Path:
    """
    Return the folder `classes`: in the installed package, or beside it in a working tree.

    Errors: InvariantError when there is none.
    """
    package = Path(kubehenge.__file__).parent
    for folder in (package / "classes", package.parent / "classes"):
        if folder.is_dir():
            return folder
    raise InvariantError(f"{package / 'classes'} is missing: this installation of Kubehenge is incomplete")


def read_parts(folder: Path) -> dict[str, tuple[Any, ...]]:
    """
    Return the documents of each file, by its path below the folder.

    Errors: InvariantError for a file that cannot be read.
    """
    return {path.relative_to(folder).as_posix(): _read(path) for path in sorted(folder.glob("*/*.yaml"))}


def _read(path: Path) -> tuple[Any, ...]:
    documents = read_documents(path.read_bytes())
    for document in documents:
        for fault in document.faults:
            raise InvariantError(f"{path}, line {fault.line}: {fault.message}")
    return tuple(document.value for document in documents)
