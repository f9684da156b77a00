"""Builds plain values from the events of one YAML document, with the limits that keep hostile ones small."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from kubehenge.model.document import ProblemKind, Severity
from kubehenge.source.scalars import TAG_MERGE, Scalar, ScalarError, key_text, resolve_plain, resolve_tagged


class PythonParser(yaml.reader.Reader, yaml.scanner.Scanner, yaml.parser.Parser):
    """PyYAML's own parser: the same events as libyaml's, an order of magnitude slower."""

    def __init__(self, text: str) -> None:
        yaml.reader.Reader.__init__(self, text)
        yaml.scanner.Scanner.__init__(self)
        yaml.parser.Parser.__init__(self)


_Parser: Any = getattr(yaml.cyaml, "CParser", PythonParser) if yaml.__with_libyaml__ else PythonParser

DEPTH_LIMIT = 50
"""Mappings and lists inside one another; a Cluster needs 9."""
ALIAS_LIMIT = 10_000
"""Values that aliases may repeat in one document; a file of anchors for 100 worker pools needs some hundreds."""
FAULT_LIMIT = 100
"""Faults that are kept of one document: more than anyone reads, few enough for a hostile file."""

Path = tuple[str | int, ...]
"""Keys and list positions from the root of a document to a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What is wrong with the text of a document; lines and columns count from 1 within the file. `path` is where it is, if anywhere."""

    line: int
    column: int
    kind: ProblemKind
    message: str
    path: Path = ()
    severity: Severity = Severity.ERROR


class FaultError(Exception):
    """A fault that leaves no value to go on with."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Where a value and its key stand, and how an unquoted scalar is written ('' for anything else)."""

    line: int
    column: int
    key_line: int
    key_column: int
    written: str = ""


Marks = Mapping[Path, Mark]
"""Marks by path; the whole document, (), is always there."""


def whole_document(line: int) -> Marks:
    """Return the marks of a document of which nothing is known but its first line."""
    return {(): Mark(line=line, column=1, key_line=line, key_column=1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """The value of a document, the faults that leave it readable, and the marks where they were asked for."""

    value: Any
    faults: tuple[Fault, ...]
    marks: Marks = field(default_factory=dict)


def build(text: str, *, first_line: int, with_marks: bool = False) -> Built:
    """
    Build the value of one document; None where it holds nothing.

    Units: `first_line` is the file's line that the text starts on.
    Errors: FaultError where the text is no YAML, or too deep, or its aliases repeat too much.
    """
    return _Builder(text, first_line, with_marks=with_marks).run()


_NO_KEY: Any = object()
_MERGE: Any = object()
_OPEN: Any = object()


class _Frame:
    """
    A mapping or list that is being built.

    `key` is what the next value belongs to, _NO_KEY when a key comes next, None in lists. `keys` holds the events of the keys that are
    written in a mapping itself, not merged into it.
    """

    __slots__ = ("anchor", "height", "key", "keys", "start", "value", "values_before")

    def __init__(self, value: dict[str, Any] | list[Any], event: Any, values_before: int) -> None:
        self.value: Any = value
        self.key: Any = None if type(value) is list else _NO_KEY
        self.keys: dict[str, Any] = {}
        self.start = event.start_mark if event else None
        self.anchor: str | None = event.anchor if event else None
        self.height = 1
        self.values_before = values_before


@dataclass(frozen=True, slots=True)
class _Anchored:
    """What an alias stands for: the value, how many values it holds in all, and how deep it is."""

    value: Any
    size: int
    height: int


class _Builder:
    def __init__(self, text: str, first_line: int, *, with_marks: bool) -> None:
        self.text = text
        self.first_line = first_line
        self.tags = "!" in text
        self.root: list[Any] = []
        self.stack = [_Frame(self.root, None, 0)]
        self.anchors: dict[str, Any] = {}
        self.values = 0
        self.repeated = 0
        self.faults: list[Fault] = []
        self.marks: dict[Path, Mark] | None = {} if with_marks else None

    def run(self) -> Built:
        handlers: dict[type, Callable[[Any], None]] = {
            yaml.ScalarEvent: self.scalar,
            yaml.MappingStartEvent: self.start_mapping,
            yaml.SequenceStartEvent: self.start_list,
            yaml.MappingEndEvent: self.end,
            yaml.SequenceEndEvent: self.end,
            yaml.AliasEvent: self.alias,
            yaml.DocumentStartEvent: self.document,
        }
        try:
            parser = _Parser(self.text)
            while (event := parser.get_event()) is not None:
                handler = handlers.get(type(event))
                if handler:
                    handler(event)
        except yaml.YAMLError as error:
            raise FaultError(self.syntax_fault(error)) from None
        if self.marks is not None:
            self.marks.setdefault((), Mark(line=self.first_line, column=1, key_line=self.first_line, key_column=1))
        return Built(value=self.root[0] if self.root else None, faults=tuple(self.faults), marks=self.marks or {})

    # Events

    def document(self, event: Any) -> None:
        """Begin the one document; the reader splits at lines of `---`, so a second one is what `kubectl` would silently drop."""
        if self.values:
            message = "What follows `...` is never read. Begin the next document with a line of `---`."
            raise self.error(event.start_mark, ProblemKind.SYNTAX, message)

    def scalar(self, event: Any) -> None:
        frame = self.stack[-1]
        key = frame.key
        if key is _NO_KEY and event.value == "<<" and (event.implicit[0] or event.tag == TAG_MERGE):
            frame.key = _MERGE
            return
        value = self.meaning(event)
        if event.anchor:
            self.anchors[event.anchor] = _Anchored(value, 1, 0)
        if key is _NO_KEY:
            self.take_key(frame, value, event)
        elif key is None or self.marks is not None or key is _MERGE:
            self.mark(event, event.value if event.implicit[0] else "")
            self.store(value, event)
        else:  # what store() does, without the call, for nearly half of all events
            self.values += 1
            frame.value[key] = value
            frame.key = _NO_KEY

    def start_mapping(self, event: Any) -> None:
        self.start({}, event)

    def start_list(self, event: Any) -> None:
        self.start([], event)

    def start(self, value: dict[str, Any] | list[Any], event: Any) -> None:
        if event.anchor:
            self.anchors[event.anchor] = _OPEN
        self.refuse_as_key(event)
        if len(self.stack) > DEPTH_LIMIT:
            self.too_deep(event)
        self.mark(event, "")
        self.stack.append(_Frame(value, event, self.values))

    def end(self, _event: Any) -> None:
        frame = self.stack.pop()
        if frame.anchor:
            self.anchors[frame.anchor] = _Anchored(frame.value, self.values - frame.values_before + 1, frame.height)
        outer = self.stack[-1]
        if outer.height <= frame.height:
            outer.height = frame.height + 1
        self.store(frame.value, frame)

    def alias(self, event: Any) -> None:
        anchored = self.anchors.get(event.anchor)
        if anchored is None:
            raise self.error(event.start_mark, ProblemKind.SYNTAX, f"No anchor &{event.anchor} stands before the alias *{event.anchor}.")
        if anchored is _OPEN:
            raise self.error(event.start_mark, ProblemKind.ALIASES, f"The anchor &{event.anchor} holds itself. Take the alias out.")
        self.values += anchored.size - 1
        self.repeated += anchored.size
        if self.repeated > ALIAS_LIMIT:
            message = f"Aliases repeat more than {ALIAS_LIMIT:,} values in this document. Write them out, or leave some out."
            raise self.error(event.start_mark, ProblemKind.ALIASES, message)
        if len(self.stack) + anchored.height > DEPTH_LIMIT + 1:
            self.too_deep(event)
        frame = self.stack[-1]
        if frame.height <= anchored.height:
            frame.height = anchored.height + 1
        if frame.key is _NO_KEY and not isinstance(anchored.value, dict | list):
            self.take_key(frame, anchored.value, event)
            return
        self.refuse_as_key(event)
        self.mark(event, "")
        self.store(anchored.value, event)

    # Values

    def meaning(self, event: Any) -> Scalar:
        """Return what a scalar means by its tag, quotes and text."""
        text: str = event.value
        if self.tags:
            if event.tag is not None:
                return self.by_tag(event)
            if event.implicit[0] and self.has_bare_tag(event):
                return text
        if not event.implicit[0]:
            return text
        value = resolve_plain(text)
        if type(value) is float and not math.isfinite(value):
            self.fault(event.start_mark, ProblemKind.TYPE, f"`{text}` is no number that JSON knows. Write a number, or text in quotes.")
            return None
        return value

    def by_tag(self, event: Any) -> Scalar:
        try:
            value = resolve_tagged(event.tag, event.value)
        except ScalarError as error:
            self.fault(event.start_mark, ProblemKind.TYPE, str(error))
            return None
        if type(value) is float and not math.isfinite(value):
            self.fault(event.start_mark, ProblemKind.TYPE, "JSON knows neither infinity nor NaN. Write a number, or text in quotes.")
            return None
        return value

    def has_bare_tag(self, event: Any) -> bool:
        """Tell whether a scalar stands behind a lone `!`, which makes it text; libyaml's events do not say so."""
        written = self.text[event.start_mark.index : event.end_mark.index]
        if written.startswith("&"):
            written = written.partition(" ")[2].lstrip()
        return written == "!" or written.startswith(("! ", "!\t", "!\n"))

    def take_key(self, frame: _Frame, value: Any, event: Any) -> None:
        """Take a scalar as the next key of a mapping."""
        try:
            key = value if type(value) is str else key_text(value)
        except ScalarError as error:
            raise self.error(event.start_mark, ProblemKind.SYNTAX, str(error)) from None
        frame.key = key
        if key in frame.keys:
            first = frame.keys[key].start_mark.line + self.first_line
            message = f"`{_short(key)}` is set twice; the first is on line {first}. Keep one."
            self.fault(event.start_mark, ProblemKind.DUPLICATE, message)
        frame.keys[key] = event

    def store(self, value: Any, started: Any) -> None:
        """Put a finished value where it belongs; `started` is its event or frame."""
        self.values += 1
        frame = self.stack[-1]
        if frame.key is None:
            frame.value.append(value)
            return
        if frame.key is _MERGE:
            self.merge(frame, value, started.start if isinstance(started, _Frame) else started.start_mark)
        else:
            frame.value[frame.key] = value
        frame.key = _NO_KEY

    def merge(self, frame: _Frame, value: Any, at: Any) -> None:
        """
        Merge mappings as go-yaml 2 does: where the `<<` stands, over what was set before it.

        YAML's own rule is that a key written in the mapping wins wherever it stands; where the two differ, a warning says so.
        """
        sources = list(reversed(value)) if type(value) is list else [value]
        if not all(type(source) is dict for source in sources):
            raise self.error(at, ProblemKind.SYNTAX, "`<<` takes a mapping, or a list of mappings.")
        for source in sources:
            for key in source.keys() & frame.keys.keys():
                message = (
                    f"`<<` stands below `{_short(key)}` and sets it anew, as kubectl reads it. Put `<<` first to keep what is written here."
                )
                self.fault(at, ProblemKind.IGNORED, message, key=key, severity=Severity.WARNING)
            frame.value.update(source)

    # Places and faults

    def path(self) -> Path:
        steps = (len(frame.value) if frame.key is None else frame.key for frame in self.stack[1:])
        return tuple(step for step in steps if step is not _MERGE and step is not _NO_KEY)

    def mark(self, event: Any, written: str) -> None:
        if self.marks is None:
            return
        at, frame = event.start_mark, self.stack[-1]
        key = frame.keys.get(frame.key)
        key_at = at if key is None else key.start_mark
        self.marks[self.path()] = Mark(
            line=at.line + self.first_line,
            column=at.column + 1,
            key_line=key_at.line + self.first_line,
            key_column=key_at.column + 1,
            written=written,
        )

    def refuse_as_key(self, event: Any) -> None:
        if self.stack[-1].key is _NO_KEY:
            raise self.error(event.start_mark, ProblemKind.SYNTAX, "A mapping or list stands where a key belongs. Keys are text.")

    def too_deep(self, event: Any) -> None:
        message = f"Mappings and lists stand more than {DEPTH_LIMIT} deep in one another here."
        raise self.error(event.start_mark, ProblemKind.DEPTH, message)

    def fault(self, at: Any, kind: ProblemKind, message: str, *, key: str | None = None, severity: Severity = Severity.ERROR) -> None:
        if len(self.faults) == FAULT_LIMIT:
            return
        path = self.path() if key is None else (*self.path(), key)
        line, column = at.line + self.first_line, at.column + 1
        self.faults.append(Fault(line=line, column=column, kind=kind, message=message, path=path, severity=severity))

    def error(self, at: Any, kind: ProblemKind, message: str) -> FaultError:
        return FaultError(Fault(line=at.line + self.first_line, column=at.column + 1, kind=kind, message=message))

    def syntax_fault(self, error: yaml.YAMLError) -> Fault:
        """Return the parser's own words and place; `describe_syntax_error` makes them fit for people."""
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None) or getattr(error, "reason", None)
        line, column = (mark.line + self.first_line, mark.column + 1) if mark else (self.first_line, 1)
        return Fault(line=line, column=column, kind=ProblemKind.SYNTAX, message=str(problem or "this is no YAML"))


def _short(key: str) -> str:
    """Return a key for a message, fit to be shown; a very long one is cut."""
    key = "".join(mark if mark.isprintable() else "\N{REPLACEMENT CHARACTER}" for mark in key[:61])
    return key if len(key) <= 60 else f"{key[:60]}…"
