"""
What a YAML scalar means to `kubectl`, which reads YAML by go-yaml 2 and carries it on as JSON (ACCEPTANCE 2.1).

Every rule here was tried against `kubectl label --local -o json --dry-run=client` (1.32); a property test compares the two.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from decimal import Decimal
from functools import lru_cache

Scalar = str | int | float | bool | None

_TAG = "tag:yaml.org,2002:"
TAG_MERGE = f"{_TAG}merge"

_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_MAY_BE_SPECIAL = frozenset("+-0123456789.yYnNtTfFoO~")
"""First characters of everything that is not text; go-yaml looks no further at scalars that start otherwise."""

_INTEGER = re.compile(r"([+-]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_DECIMAL = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_POINT_FIRST = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?")
_TIMESTAMP = re.compile(r"\d{4}-\d{1,2}-\d{1,2}(?:(?:[Tt]| +)\d{1,2}:\d{1,2}:\d{1,2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})?)?", re.ASCII)

_INT64 = range(-(2**63), 2**63)
_UINT64 = range(2**64)


class ScalarError(ValueError):
    """A scalar that `kubectl` refuses; the text is a sentence for people and does not hold the value."""


_REMEMBERED_LENGTH = 64
"""Characters of the longest scalar whose meaning is remembered; files of one fleet repeat keys and values, and a hostile one is not kept."""


def resolve_plain(text: str) -> Scalar:
    """Return what an unquoted scalar without a tag means; infinities and NaN come back as such, though JSON has none."""
    return _remembered(text) if len(text) <= _REMEMBERED_LENGTH else _resolve(text)


@lru_cache(maxsize=8192)
def _remembered(text: str) -> Scalar:
    return _resolve(text)


def _resolve(text: str) -> Scalar:
    if text and text[0] not in _MAY_BE_SPECIAL:
        return text
    if text in _WORDS:
        return _WORDS[text]
    return text if text[0].isalpha() or text[0] == "~" else _number(text)[1]


def _number(text: str) -> tuple[str, Scalar]:
    """Return the kind that go-yaml gives a text that may be a number (`int`, `float` or `str`), and its value."""
    if text[0] == ".":
        return _float(text) if _POINT_FIRST.fullmatch(text) else ("str", text)
    digits = text.replace("_", "")
    found = _INTEGER.fullmatch(digits)
    if found:
        number = _integer(found)
        if number in _INT64:
            return "int", number
        if number in _UINT64 and not found[1]:
            return "int", float(number)  # above int64 JSON readers of Kubernetes go on with a float
    kind, value = _float(digits) if _DECIMAL.fullmatch(digits) else ("str", text)
    return kind, text if kind == "str" else value


def _integer(found: re.Match[str]) -> int:
    sign, hexadecimal, binary, octal, decimal = found.groups()
    if hexadecimal:
        number = int(hexadecimal, 16)
    elif binary:
        number = int(binary, 2)
    elif octal:
        number = int(octal, 8)
    else:
        number = int(decimal) if len(decimal) <= len(str(2**64)) else 2**64
    return -number if sign == "-" else number


def _float(text: str) -> tuple[str, Scalar]:
    number = float(text.replace("_", ""))
    return ("str", text) if math.isinf(number) else ("float", as_json_number(number))


def as_json_number(number: float) -> int | float:
    """Return the number that a float becomes by way of JSON: Go writes whole ones without a point, so they come back as integers."""
    if not number.is_integer() or abs(number) >= 1e21:
        return number
    whole = int(Decimal(repr(number)))  # the shortest digits, as Go writes them, not the exact value
    return whole if whole in _INT64 else number


def resolve_tagged(tag: str, text: str) -> Scalar:
    """
    Return what a scalar with a tag means, quoted or not. A tag that YAML does not define leaves the text as it is.

    Errors: ScalarError where the text is none of that type.
    """
    kind = tag.removeprefix(_TAG)
    if tag == kind or kind not in {"bool", "int", "float", "null", "timestamp", "binary"}:
        return text
    if kind == "binary":
        return _decode(text)
    if kind == "timestamp":
        if not _TIMESTAMP.fullmatch(text):
            raise ScalarError("A value tagged !!timestamp is no date. Leave the tag out.")
        return text
    found, value = _kind_of(text)
    if kind == "float" and found == "int" and type(value) is int:
        return as_json_number(float(value))
    if found != kind:
        raise ScalarError(f"A value tagged !!{kind} is none. Leave the tag out, or write a value of that type.")
    return value


def _kind_of(text: str) -> tuple[str, Scalar]:
    if text not in _WORDS:
        return _number(text) if text[0] in "+-.0123456789" else ("str", text)
    value = _WORDS[text]
    return "null" if value is None else "bool" if isinstance(value, bool) else "float", value


def _decode(text: str) -> str:
    try:
        return base64.b64decode("".join(text.split("\n")), validate=True).decode()
    except (binascii.Error, ValueError):
        raise ScalarError("A value tagged !!binary holds no text in base64. Write the text itself.") from None


def key_text(key: Scalar) -> str:
    """
    Return the text that a mapping key becomes in JSON.

    Errors: ScalarError for what has no one text, such as null and numbers with a point.
    """
    match key:
        case str():
            return key
        case bool():
            return "true" if key else "false"
        case int():
            return str(key)
        case _:
            raise ScalarError("This key is no text. Write it in quotes.")
