"""Turns the parser's words for broken YAML into a sentence that says what to mend."""

from __future__ import annotations

import re
from dataclasses import replace

from kubehenge.model.document import ProblemKind
from kubehenge.source.yaml_values import Fault

_TEMPLATE = re.compile(r"\{\{|\{%")
_LEADING_TAB = re.compile(r"[ -]*\t")

_WORDS = {
    "mapping values are not allowed in this context": "A `:` stands where no new key can begin. Put the value in quotes, or mend the indentation of this line or the one before.",
    "could not find expected ':'": "A `:` is missing behind the key that begins here or on the line before.",
    "did not find expected key": "No key stands here. The indentation of this line fits none of the mappings above it.",
    "did not find expected '-' indicator": "No `-` stands here. The indentation of this line fits none of the lists above it.",
    "did not find expected ',' or '}'": "A `,` or `}` is missing in the mapping between braces.",
    "did not find expected ',' or ']'": "A `,` or `]` is missing in the list between brackets.",
    "did not find expected node content": "A value is missing here.",
    "found unexpected end of stream": "A quoted text has no end.",
    "found unexpected document indicator": "A quoted text has no end before the next document.",
    "found character that cannot start any token": "No value can begin with this character. Put it in quotes.",
    "block sequence entries are not allowed in this context": "A list cannot begin here. Begin it on the next line.",
    "did not find expected alphabetic or numeric character": "An anchor or alias has no name.",
    "found unknown escape character": "This escape is unknown in double quotes. Write `\\\\` for a backslash, or use single quotes.",
    "found invalid Unicode character escape code": "This escape names no character. Write the character itself.",
    "did not find expected <document start>": "This belongs to no document. Take it out, or begin a document with a line of `---`.",
    "found undefined tag handle": "This tag is not defined. Leave it out.",
}


def describe_syntax_error(text: str, *, first_line: int, fault: Fault) -> Fault:
    """
    Say what is wrong with a document that could not be read: a template, a tab, or the parser's words in ours.

    Shape: the fault with another message, and its place where a better one is known. Nothing of the text is repeated.
    """
    if fault.kind is not ProblemKind.SYNTAX:
        return fault
    lines = text.splitlines()
    at = min(max(fault.line - first_line, 0), max(len(lines) - 1, 0))
    for index in (at, *range(at)):
        found = _TEMPLATE.search(lines[index]) if lines else None
        if found:
            message = f"`{found[0]}` is left of a template. Render it before it is committed, or put the text in quotes."
            return replace(fault, line=index + first_line, column=found.start() + 1, message=message)
    for index in (at, at - 1):
        found = _LEADING_TAB.match(lines[index]) if 0 <= index < len(lines) else None
        if found:
            message = "A tab stands in the indentation. Write spaces."
            return replace(fault, line=index + first_line, column=found.end(), message=message)
    return replace(fault, message=_WORDS.get(fault.message, f"This is no YAML: {fault.message}."))
