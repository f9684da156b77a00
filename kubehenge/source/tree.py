"""Judges the files of a source, or of a directory, and remembers verdicts by blob (ACCEPTANCE 2; MODEL 2)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from kubehenge.model.document import JudgedDocument, ProblemKind
from kubehenge.source.judge import judge_file, refuse_unread
from kubehenge.source.yaml_reader import SIZE_LIMIT, describe_oversize

YAML_SUFFIXES = (".yaml", ".yml")


class SourceFile(NamedTuple):
    """
    A file that may hold declarations.

    `content` is None when it could not be had; `unread` then says why, as a sentence, and `unread_kind` in a word. `blob_id` names the
    content, '' where nothing does.
    """

    path: str
    blob_id: str
    content: bytes | None
    unread: str = ""
    unread_kind: ProblemKind = ProblemKind.UNREADABLE


class VerdictCache:
    """
    What documents by themselves were judged to be, by blob id: the same bytes have the same verdict wherever they lie.

    It holds what the last `judge_files` used, so it does not grow with history.
    """

    def __init__(self) -> None:
        self._by_blob: dict[str, tuple[JudgedDocument, ...]] = {}

    def missing(self, blob_ids: Iterable[str]) -> list[str]:
        """Return the blobs whose content `judge_files` needs, each once."""
        return [blob_id for blob_id in dict.fromkeys(blob_ids) if blob_id not in self._by_blob]

    def judge_files(self, files: Iterable[SourceFile]) -> tuple[JudgedDocument, ...]:
        """
        Judge every document of the files, each by itself, in the order of paths.

        A file whose blob is known needs no content. One without content whose blob is not known is refused with its `unread` reason.
        """
        used: dict[str, tuple[JudgedDocument, ...]] = {}
        documents: list[JudgedDocument] = []
        for file in sorted(files, key=lambda file: file.path):
            known = self._by_blob.get(file.blob_id) if file.blob_id else None
            if known is None and file.content is None:
                reason = file.unread or "Its content could not be read."
                documents.append(refuse_unread(file.path, reason, blob_id=file.blob_id, kind=file.unread_kind))
                continue
            if known is None:
                known = judge_file(file.path, file.content or b"", blob_id=file.blob_id)
            if file.blob_id:
                used[file.blob_id] = self._by_blob[file.blob_id] = known
            documents += (_at_path(document, file.path) for document in known)
        self._by_blob = used
        return tuple(documents)


def judge_files(files: Iterable[SourceFile]) -> tuple[JudgedDocument, ...]:
    """Judge every document of the files, each by itself, in the order of paths, remembering nothing."""
    return VerdictCache().judge_files(files)


def _at_path(document: JudgedDocument, path: str) -> JudgedDocument:
    if document.path == path:
        return document
    return replace(document, path=path, problems=tuple(replace(problem, path=path) for problem in document.problems))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored:
    """A path that holds no declarations, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTree:
    """The files of a directory that may hold declarations, and the others."""

    files: tuple[SourceFile, ...]
    ignored: tuple[Ignored, ...]


def read_directory(root: Path) -> LocalTree:
    """
    Read a directory, or one file, from disk; paths are relative to it.

    Hidden files and folders, links and other names than `*.yaml` and `*.yml` are ignored, as from Git. A single file counts whatever its name.
    Errors: OSError when the root itself cannot be read; a file below that cannot be read is refused when it is judged.
    """
    if not root.is_dir():
        with root.open("rb"):
            return LocalTree(files=(_read(root, root.name),), ignored=())
    with os.scandir(root) as entries:  # raises for a directory that may not be read, which walking it would pass over
        next(entries, None)
    files: list[SourceFile] = []
    ignored: list[Ignored] = []
    for path, reason in _walk(root):
        shown = path.relative_to(root).as_posix().encode(errors="backslashreplace").decode()  # names need not be UTF-8
        if reason:
            ignored.append(Ignored(path=shown, reason=reason))
        else:
            files.append(_read(path, shown))
    return LocalTree(files=tuple(files), ignored=tuple(ignored))


def _walk(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield every file and every folder that is not entered, with why it is ignored or ''."""
    for folder, folders, names in os.walk(root):
        here = Path(folder)
        for name in sorted(folders):
            if name.startswith("."):
                yield here / name, "Its name begins with a dot."
            elif (here / name).is_symlink():
                yield here / name, "It is a symbolic link."
        folders[:] = sorted(name for name in folders if not name.startswith(".") and not (here / name).is_symlink())
        for name in sorted(names):
            yield here / name, _why_ignored(here / name)


def _why_ignored(path: Path) -> str:
    if path.name.startswith("."):
        return "Its name begins with a dot."
    if not path.name.endswith(YAML_SUFFIXES):
        return "Its name does not end in .yaml or .yml."
    if path.is_symlink():
        return "It is a symbolic link."
    return "" if path.is_file() else "It is no regular file."


def _read(path: Path, shown: str) -> SourceFile:
    try:
        size = path.stat().st_size
        if size > SIZE_LIMIT:
            return SourceFile(shown, "", None, describe_oversize(size), ProblemKind.SIZE)
        return SourceFile(shown, "", path.read_bytes())
    except OSError as error:
        return SourceFile(shown, "", None, f"It could not be read: {error.strerror or error}.")
