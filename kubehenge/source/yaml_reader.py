"""
Reads the bytes of a file into plain values, exactly as `kubectl` does, and says where they stand (ACCEPTANCE 2.1, 2.2).

Documents are read apart, so a broken one leaves its neighbours alone. Values are built from the parser's events in one pass;
positions of fields are looked up in a second one, only for documents that have a problem.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kubehenge.model.document import ProblemKind
from kubehenge.source.syntax import describe_syntax_error
from kubehenge.source.yaml_values import Fault, FaultError, Marks, build, whole_document

SIZE_LIMIT = 1024 * 1024
"""Bytes of the largest file that is read: 1 MiB, 500 times a typical Cluster, and what Git sources fetch."""

_SEPARATOR = "---"
_NOT_PRINTABLE = re.compile("[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x84\\x86-\\x9f\\ufffe\\uffff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlDocument:
    """
    One document of a file.

    `number` counts from 1, leaving out documents that hold nothing; `line` is the file's line that its text starts on. `value` is
    plain JSON; it is None exactly when a fault kept it from being read. Faults that leave a value, such as a duplicate key, stand
    beside it. Faults count lines within the file.
    """

    number: int
    line: int
    text: str
    value: Any
    faults: tuple[Fault, ...] = ()

    def find_marks(self) -> Marks:
        """Return where each of its fields stands; only the whole document when its text is no YAML (JSON may not be)."""
        try:
            return build(self.text, first_line=self.line, with_marks=True).marks
        except FaultError:
            return whole_document(self.line)


def read_documents(content: bytes) -> tuple[YamlDocument, ...]:
    """
    Read every document of a file.

    Errors: none. A file that cannot be read at all (too big, no UTF-8) is one document with a fault.
    """
    if len(content) > SIZE_LIMIT:
        return (_unread(Fault(line=1, column=1, kind=ProblemKind.SIZE, message=describe_oversize(len(content)))),)
    text = _decode(content)
    if isinstance(text, Fault):
        return (_unread(text),)
    documents = _read_json(text) if text.lstrip().startswith("{") else _read_yaml(text)
    return tuple(documents)


def describe_oversize(size: int) -> str:
    """Say that a file of so many bytes is not read."""
    return f"The file has {size / SIZE_LIMIT:.1f} MiB; files of up to {SIZE_LIMIT // 1024 // 1024} MiB are read. Write one file for each cluster."


def _unread(fault: Fault) -> YamlDocument:
    return YamlDocument(number=1, line=fault.line, text="", value=None, faults=(fault,))


def _decode(content: bytes) -> str | Fault:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _encoding_fault(1, 1, "The file is UTF-16. Save it as UTF-8.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line, column = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
        return _encoding_fault(line, column, f"Byte 0x{content[error.start]:02x} is no UTF-8. Save the file as UTF-8 text.")
    found = _NOT_PRINTABLE.search(text)
    if found:
        line, column = text.count("\n", 0, found.start()) + 1, found.start() - text.rfind("\n", 0, found.start())
        return _encoding_fault(
            line,
            column,
            f"The control character U+{ord(found[0]):04X} may not stand in YAML. Take it out, or write it as an escape in quotes.",
        )
    return text


def _encoding_fault(line: int, column: int, message: str) -> Fault:
    return Fault(line=line, column=column, kind=ProblemKind.ENCODING, message=message)


def _read_yaml(text: str) -> Iterator[YamlDocument]:
    number = 1
    for line, chunk, separator_fault in _split(text):
        if separator_fault:
            document = YamlDocument(number=number, line=line, text=chunk, value=None, faults=(separator_fault,))
        else:
            document = _read_chunk(number, line, chunk)
        if document.value is not None or document.faults:
            yield document
            number += 1


def _read_chunk(number: int, line: int, text: str) -> YamlDocument:
    try:
        built = build(text, first_line=line)
    except FaultError as error:
        fault = describe_syntax_error(text, first_line=line, fault=error.fault)
        return YamlDocument(number=number, line=line, text=text, value=None, faults=(fault,))
    return YamlDocument(number=number, line=line, text=text, value=built.value, faults=built.faults)


def _split(text: str) -> Iterator[tuple[int, str, Fault | None]]:
    """
    Split at the lines that `kubectl` splits at, before any YAML is read: `---`, alone or with a comment.

    Yields each document's first line, its text, and the fault of the separator before it: what stands behind `---` on the same
    line `kubectl` refuses.
    """
    if not text.endswith("\n"):
        text += "\n"  # as kubectl does, line by line: it ends a block of text that the file ends in
    if not text.startswith(_SEPARATOR) and f"\n{_SEPARATOR}" not in text:
        yield 1, text, None
        return
    start, fault, lines = 1, None, text.split("\n")
    for index, line in enumerate(lines, start=1):
        if not line.startswith(_SEPARATOR):
            continue
        if index > start or fault:
            yield start, _chunk(lines[start - 1 : index - 1]), fault
        rest = line.removeprefix(_SEPARATOR).strip()
        message = "Only a comment may follow `---` on its line. Begin the document on the next one."
        refused = rest and not rest.startswith("#")
        fault = Fault(line=index, column=len(_SEPARATOR) + 1, kind=ProblemKind.SYNTAX, message=message) if refused else None
        start = index + 1
    yield start, _chunk(lines[start - 1 : -1]), fault


def _chunk(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines).removeprefix("\ufeff")


def _read_json(text: str) -> Iterator[YamlDocument]:
    """
    Read a file that begins with `{`: to `kubectl` that is JSON, one object after the other.

    What is JSON means the same as YAML, so it is only held against JSON's rules here and then read as any document.
    """
    decoder = json.JSONDecoder()
    number, start = 1, len(text) - len(text.lstrip())
    while start < len(text):
        line = text.count("\n", 0, start) + 1
        try:
            _, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            at = error.pos if isinstance(error, json.JSONDecodeError) else start
            message = "A file that begins with `{` is JSON, and this is none. Write JSON, or begin the file with `---` for YAML."
            fault = Fault(line=text.count("\n", 0, at) + 1, column=at - text.rfind("\n", 0, at), kind=ProblemKind.SYNTAX, message=message)
            yield YamlDocument(number=number, line=line, text=text[start:], value=None, faults=(fault,))
            return
        yield _read_chunk(number, line, text[start:end])
        number, start = number + 1, end + len(text[end:]) - len(text[end:].lstrip())
