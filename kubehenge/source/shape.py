"""
The building blocks of documents' shapes: closed mappings, and values with a form or a range.

A shape is a pydantic model. It judges a document, and the JSON Schema for editors is made from it, so a rule is written once.
Validators raise with the kind of problem and its words (`kubehenge.source.words` turns the rest of pydantic's errors into ours).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from kubehenge.model.document import ProblemKind

QUOTED_LENGTH = 64
"""Characters of a value that a message repeats at most."""


class Shape(BaseModel):
    """A mapping of which every field is known; nothing is converted, since kubectl converts nothing."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, regex_engine="python-re", serialize_by_alias=True)


class _SchemaOfShapes(GenerateJsonSchema):
    """JSON Schema without what says nothing to an editor: titles, and null, which only stands for a field that is left out."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])

    def enum_schema(self, schema: core_schema.EnumSchema) -> dict[str, Any]:
        return {key: value for key, value in super().enum_schema(schema).items() if key != "description"}  # written for developers


@cache
def json_schema(shape: type[Shape]) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a shape. The result is shared: copy it before changing it."""
    cleaned = _cleaned(shape.model_json_schema(schema_generator=_SchemaOfShapes))
    return cleaned if isinstance(cleaned, dict) else {}


def _cleaned(value: Any) -> Any:
    """Leave out titles and defaults of null."""
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if not isinstance(value, dict):
        return value
    unsaid = {
        key for key in ("title", "default") if key in value and (value[key] is None or (key == "title" and isinstance(value[key], str)))
    }
    return {key: _cleaned(item) for key, item in value.items() if key not in unsaid}


_Value = TypeVar("_Value")


def always(value: _Value) -> Callable[[], _Value]:
    """Return what gives the same frozen value each time, as a default that pydantic does not copy for each document."""
    return lambda: value


def refuse(kind: ProblemKind, message: str) -> NoReturn:
    """Raise what pydantic carries on as a problem of this kind with this message."""
    raise PydanticCustomError(kind.value, "{message}", {"message": message})


def printable(text: str) -> str:
    """Return a text that a terminal shows and does not obey: what is not printable becomes U+FFFD."""
    return text if text.isprintable() else "".join(mark if mark.isprintable() else "\N{REPLACEMENT CHARACTER}" for mark in text)


def quoted(value: object) -> str:
    """Return a value for a message, cut when it is long; ciphertext is never repeated."""
    text = printable(str(value))
    if text.startswith("ENC["):
        return "an encrypted value"
    return f"`{text}`" if len(text) <= QUOTED_LENGTH else f"`{text[:QUOTED_LENGTH]}…`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """
    Bounds of a whole number.

    `unit` stands behind numbers in messages. With `both_ends` a number outside is a range problem, else a minimum or maximum one.
    """

    minimum: int
    maximum: int | None = None
    step: int = 1
    unit: str = ""
    both_ends: bool = False

    def check(self, value: int) -> int:
        """Return the number, or refuse it; being out of bounds comes before being between steps."""
        unit = f" {self.unit}" if self.unit else ""
        if self.both_ends and self.maximum is not None and not self.minimum <= value <= self.maximum:
            refuse(ProblemKind.RANGE, f"{value} is not from {self.minimum} to {self.maximum}{unit}.")
        if value < self.minimum:
            refuse(ProblemKind.MINIMUM, f"{value} is less than {self.minimum}{unit}. Write {self.minimum} or more.")
        if self.maximum is not None and value > self.maximum:
            refuse(ProblemKind.MAXIMUM, f"{value} is more than {self.maximum}{unit}. Write {self.maximum} or less.")
        if value % self.step:
            below = value // self.step * self.step
            choices = [str(number) for number in (below, below + self.step) if self.minimum <= number <= (self.maximum or number)]
            refuse(ProblemKind.STEP, f"{value} is not a multiple of {self.step}. Write {' or '.join(choices)}.")
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        found = handler(schema)
        found["minimum"] = self.minimum
        if self.maximum is not None:
            found["maximum"] = self.maximum
        if self.step > 1:
            found["multipleOf"] = self.step
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """
    The form of a text: a regular expression for the whole of it, at most so many characters, and what to write instead.

    `example` is a text of that form, for messages and editors.
    """

    pattern: str
    wants: str
    example: str
    longest: int | None = None
    kind: ProblemKind = ProblemKind.FORM

    def check(self, value: str) -> str:
        """Return the text, or refuse it; an empty or too long one is a matter of length first."""
        if self.longest is not None and len(value) > self.longest:
            refuse(ProblemKind.LENGTH, f"{quoted(value)} has {len(value)} characters. Write at most {self.longest}.")
        if not re.fullmatch(self.pattern, value, re.ASCII):
            shown = quoted(value) if value else "An empty text"
            refuse(self.kind, f"{shown} is not allowed here. Write {self.wants}, such as {self.example}.")
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        found = handler(schema)
        found["pattern"] = f"^(?:{self.pattern})$"
        found["examples"] = [self.example]
        if self.longest is not None:
            found["maxLength"] = self.longest
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOf:
    """The whole numbers that are allowed, and why no others are."""

    numbers: tuple[int, ...]
    why: str

    def check(self, value: int) -> int:
        """Return the number, or refuse it."""
        if value not in self.numbers:
            *first, last = (str(number) for number in self.numbers)
            refuse(ProblemKind.NOT_ALLOWED, f"{value} is not allowed. Write {', '.join(first)} or {last}: {self.why}.")
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return handler(schema) | {"enum": list(self.numbers)}
