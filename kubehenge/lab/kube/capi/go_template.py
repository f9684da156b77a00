"""
Go's text/template, as far as ClusterClasses use it: fields, pipelines, if, with, range, and the functions they call. Pure.

Source: the language of Go's text/template; functions as in sprig, of which Cluster API serves those without side effects.
"""

from __future__ import annotations

import base64
import json
import operator
import re
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_ACTION = re.compile(r"\{\{(-\s)?\s*(.*?)\s*(\s-)?\}\}", re.DOTALL)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|`[^`]*`|[()|]|-?\d+(?:\.\d+)?(?![\w.])|[$.]?[\w.$-]*[\w.$]|\$|\.|:=|\S')
_COMMENT = re.compile(r"^/\*.*\*/$", re.DOTALL)


class TemplateError(ValueError):
    """A template that cannot be read, or calls what is not known here."""


@dataclass(slots=True, kw_only=True)
class _Node:
    """A piece of a template: text, an action, or a block with its branches, each a condition and its nodes."""

    text: str = ""
    action: str = ""
    word: str = ""  # if, with, range
    branches: list[tuple[str, list[_Node]]] = field(default_factory=list)


def render(template: str, values: Mapping[str, Any]) -> str:
    """
    A template's text with values filled in.

    Errors: TemplateError.
    """
    nodes, rest = _parse(_pieces(template))
    if rest:
        raise TemplateError("unexpected {{end}}")
    return _Scope(dot=values, names=ChainMap({"$": values})).text(nodes)


def _pieces(template: str) -> list[tuple[bool, str]]:
    """Text and actions in turn, white space cut where an action says so."""
    found: list[tuple[bool, str]] = []
    at, cut = 0, False
    for action in _ACTION.finditer(template):
        text = template[at : action.start()]
        text = text.lstrip() if cut else text
        found.append((False, text.rstrip() if action[1] else text))
        if not _COMMENT.match(action[2]):
            found.append((True, action[2]))
        at, cut = action.end(), bool(action[3])
    text = template[at:]
    return [*found, (False, text.lstrip() if cut else text)]


def _parse(pieces: list[tuple[bool, str]]) -> tuple[list[_Node], list[tuple[bool, str]]]:
    """Nodes up to the end of a block, and what follows from there on."""
    nodes: list[_Node] = []
    while pieces:
        is_action, text = pieces[0]
        word, _, rest = text.partition(" ")
        if not is_action:
            nodes.append(_Node(text=text))
        elif word in {"end", "else"}:
            return nodes, pieces
        elif word in {"if", "with", "range"}:
            block, pieces = _parse_block(word, rest, pieces[1:])
            nodes.append(block)
            continue
        else:
            nodes.append(_Node(action=text))
        pieces = pieces[1:]
    return nodes, []


def _parse_block(word: str, condition: str, pieces: list[tuple[bool, str]]) -> tuple[_Node, list[tuple[bool, str]]]:
    block = _Node(word=word)
    while True:
        nodes, pieces = _parse(pieces)
        block.branches.append((condition, nodes))
        if not pieces:
            raise TemplateError(f"{{{{{word}}}}} without {{{{end}}}}")
        text = pieces[0][1]
        pieces = pieces[1:]
        if text == "end":
            return block, pieces
        condition = text.removeprefix("else").strip().removeprefix(word).strip() or "true"


@dataclass(slots=True, kw_only=True)
class _Scope:
    """What `.` and `$names` stand for; names of an outer block can be set from within, and those of a block end with it."""

    dot: Any
    names: ChainMap[str, Any]

    def text(self, nodes: Sequence[_Node]) -> str:
        return "".join(self._one(node) for node in nodes)

    def _one(self, node: _Node) -> str:
        if node.word:
            return self._block(node)
        if not node.action:
            return node.text
        if assigned := re.match(r"(\$\w+)\s*(:?=)\s*(.*)", node.action, re.DOTALL):
            self._assign(assigned[1], self.value(assigned[3]), declares=assigned[2] == ":=")
            return ""
        return show(self.value(node.action))

    def _assign(self, name: str, value: Any, *, declares: bool) -> None:
        where = self.names.maps[0] if declares else next((names for names in self.names.maps if name in names), None)
        if where is None:
            raise TemplateError(f"undefined variable {name!r}")
        where[name] = value

    def _block(self, node: _Node) -> str:
        for condition, nodes in node.branches:
            names = re.match(r"((?:\$\w+\s*,?\s*)+):=\s*(.*)", condition, re.DOTALL)
            value = self.value(names[2] if names else condition)
            if not is_true(value):
                continue
            inner = _Scope(dot=self.dot, names=self.names.new_child())
            given = re.findall(r"\$\w+", names[1]) if names else []
            if node.word == "range" and condition != "true":
                return self._range(value, nodes, given)
            if given:
                inner.names[given[0]] = value
            if node.word == "with" and condition != "true":
                inner.dot = value
            return inner.text(nodes)
        return ""

    def _range(self, value: Any, nodes: Sequence[_Node], given: list[str]) -> str:
        entries = sorted(value.items()) if isinstance(value, Mapping) else list(enumerate(value))
        parts = []
        for key, item in entries:
            inner = _Scope(dot=item, names=self.names.new_child())
            inner.names.update(zip(given, (key, item) if len(given) > 1 else (item,), strict=False))
            parts.append(inner.text(nodes))
        return "".join(parts)

    def value(self, pipeline: str) -> Any:
        """What a pipeline comes to."""
        tokens = _TOKEN.findall(pipeline)
        value, rest = self._pipeline(tokens)
        if rest:
            raise TemplateError(f"unexpected {rest[0]!r} in {pipeline!r}")
        return value

    def _pipeline(self, tokens: list[str]) -> tuple[Any, list[str]]:
        value, tokens = self._command(tokens, [])
        while tokens and tokens[0] == "|":
            value, tokens = self._command(tokens[1:], [value])
        return value, tokens

    def _command(self, tokens: list[str], piped: list[Any]) -> tuple[Any, list[str]]:
        if not tokens:
            raise TemplateError("missing value for command")
        function = FUNCTIONS.get(tokens[0])
        if function is None:
            value, tokens = self._operand(tokens)
            return value, tokens
        tokens, arguments = tokens[1:], []
        while tokens and tokens[0] not in {"|", ")"}:
            value, tokens = self._operand(tokens)
            arguments.append(value)
        try:
            return function(*arguments, *piped), tokens
        except (TypeError, ValueError, LookupError, AttributeError) as exc:
            raise TemplateError(f"error calling {function.__name__}: {exc}") from exc

    def _operand(self, tokens: list[str]) -> tuple[Any, list[str]]:
        token, rest = tokens[0], tokens[1:]
        if token == "(":
            value, rest = self._pipeline(rest)
            if not rest or rest[0] != ")":
                raise TemplateError("unclosed left paren")
            rest = rest[1:]
            if rest and rest[0].startswith(".") and len(rest[0]) > 1:
                return _walk(value, rest[0]), rest[1:]
            return value, rest
        if token[0] == '"':
            return json.loads(token), rest
        if token[0] == "`":
            return token[1:-1], rest
        if re.fullmatch(r"-?\d+", token):
            return int(token), rest
        if token in {"true", "false", "nil"}:
            return {"true": True, "false": False, "nil": None}[token], rest
        if token.startswith("."):
            return _walk(self.dot, token), rest
        if token.startswith("$"):
            name, _, path = token.partition(".")
            if name not in self.names:
                raise TemplateError(f"undefined variable {name!r}")
            return _walk(self.names[name], f".{path}"), rest
        if token in FUNCTIONS:
            return FUNCTIONS[token](), rest
        raise TemplateError(f"function {token!r} not defined")


def _walk(value: Any, path: str) -> Any:
    """A field of nested maps; what is not there is nil, whose fields cannot be asked for."""
    for name in filter(None, path.split(".")):
        if value is None:
            raise TemplateError(f"nil pointer evaluating interface {{}}.{name}")
        if not isinstance(value, Mapping):
            raise TemplateError(f"can't evaluate field {name}")
        value = value.get(name)
    return value


def is_true(value: Any) -> bool:
    """Whether Go's `if` takes a value: neither nil, nor zero, nor empty."""
    return bool(value)


def show(value: Any) -> str:
    """A value as it is printed."""
    match value:
        case None:
            return "<no value>"
        case bool():
            return "true" if value else "false"
        case float() if value.is_integer():
            return str(int(value))
        case Mapping():
            return "map[" + " ".join(f"{key}:{show(item)}" for key, item in sorted(value.items())) + "]"
        case list():
            return "[" + " ".join(show(item) for item in value) + "]"
        case _:
            return str(value)


def _index(value: Any, *keys: Any) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else value[key]
    return value


def _printf(form: str, *values: Any) -> str:
    given = iter(values)
    return re.sub(r"%[vdsq]", lambda verb: json.dumps(next(given)) if verb[0] == "%q" else show(next(given)), form)


def _to_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _and(*values: Any) -> Any:
    return next((value for value in values if not value), values[-1])


def _or(*values: Any) -> Any:
    return next((value for value in values if value), values[-1])


def _indent(spaces: int, text: str) -> str:
    return "\n".join(" " * spaces + line for line in text.split("\n"))


def _fail(text: str) -> str:
    raise TemplateError(f"error calling fail: {text}")


def _uniq(items: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for item in items:
        if item not in found:
            found.append(item)
    return found


def _set(value: dict[str, Any], key: str, item: Any) -> dict[str, Any]:
    value[key] = item
    return value


_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
    "": operator.eq,
}


def _semver_compare(constraint: str, version: str) -> bool:
    """Compare by the three numbers alone: a constraint of ours names a first release with its pre-releases."""
    sign, wanted = re.match(r"([<>=]*)\s*(.*)", constraint, re.DOTALL).groups()  # type: ignore[union-attr]
    return _OPERATORS[sign](_numbers(version), _numbers(wanted))


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"v?(\d+)\.(\d+)\.(\d+)", version)
    if found is None:
        raise ValueError(f"{version!r} is no version")
    return tuple(map(int, found.groups()))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "index": _index,
    "printf": _printf,
    "print": lambda *values: "".join(map(show, values)),
    "len": len,
    "not": lambda value: not value,
    "and": _and,
    "or": _or,
    "eq": lambda first, *others: first in others,
    "ne": lambda first, second: first != second,
    "lt": lambda first, second: first < second,
    "le": lambda first, second: first <= second,
    "gt": lambda first, second: first > second,
    "ge": lambda first, second: first >= second,
    "default": lambda other, value=None: value or other,
    "empty": lambda value: not value,
    "ternary": lambda yes, no, test: yes if test else no,
    "list": lambda *values: list(values),
    "dict": lambda *values: dict(zip(values[::2], values[1::2], strict=True)),
    "hasKey": lambda value, key: key in value,
    "get": lambda value, key: value.get(key, ""),
    "has": lambda item, items: item in items,
    "first": lambda items: items[0] if items else None,
    "append": lambda items, item: [*items, item],
    "uniq": _uniq,
    "compact": lambda items: [item for item in items if item],
    "set": _set,
    "fail": _fail,
    "semverCompare": _semver_compare,
    "nospace": lambda text: re.sub(r"\s", "", text),
    "last": lambda items: items[-1] if items else None,
    "join": lambda between, items: between.join(map(show, items)),
    "splitList": lambda between, text: text.split(between),
    "toString": show,
    "toJson": _to_json,
    "quote": lambda *values: " ".join(json.dumps(show(value), ensure_ascii=False) for value in values if value is not None),
    "squote": lambda *values: " ".join(f"'{show(value)}'" for value in values if value is not None),
    "lower": str.lower,
    "upper": str.upper,
    "trim": str.strip,
    "trimPrefix": lambda prefix, text: text.removeprefix(prefix),
    "trimSuffix": lambda suffix, text: text.removesuffix(suffix),
    "hasPrefix": lambda prefix, text: text.startswith(prefix),
    "hasSuffix": lambda suffix, text: text.endswith(suffix),
    "contains": lambda part, text: part in text,
    "replace": lambda old, new, text: text.replace(old, new),
    "regexReplaceAll": lambda pattern, text, new: re.sub(pattern, new.replace("${", "\\g<").replace("}", ">"), text),
    "regexMatch": lambda pattern, text: re.search(pattern, text) is not None,
    "indent": _indent,
    "nindent": lambda spaces, text: "\n" + _indent(spaces, text),
    "b64enc": lambda text: base64.b64encode(text.encode()).decode(),
    "int": int,
    "int64": int,
    "atoi": int,
    "add": lambda *values: sum(map(int, values)),
    "sub": lambda first, second: int(first) - int(second),
    "mul": lambda first, second: int(first) * int(second),
    "div": lambda first, second: int(first) // int(second),
}
