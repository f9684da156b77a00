"""A plan as Markdown, for a comment on a pull request; what comes from files can break out of no code block."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kubehenge.commands.plan_text import SIGNS, arrow, bill_lines, tally
from kubehenge.commands.plan_view import WholePlan

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+\-.!|~@&])")
_LINE_BREAK = re.compile(r"[\r\n]+")


def as_markdown(plans: tuple[WholePlan, ...]) -> str:
    """Return plans as one comment, most telling first."""
    if not plans:
        return "### Kubehenge\n\nNothing to do: everything is as it is declared.\n"
    return "\n".join(["### Kubehenge\n", *(line for plan in plans for line in _one(plan))]) + "\n"


def _one(plan: WholePlan) -> Iterator[str]:
    line = plan.view.line
    yield f"#### {escaped(line.title)}"
    yield ""
    if line.summary:
        yield escaped(line.summary)
        yield ""
    yield f"{code(line.scope)}, {line.lane}, **{escaped(line.word)}**, {code(line.short_digest)}"
    yield ""
    for obstacle in plan.view.obstacles:
        yield f"- **Cannot finish**: {escaped(obstacle.what)}; asked {escaped(obstacle.asked)}, there is {escaped(obstacle.there_is)}"
        for remedy in obstacle.remedies:
            yield f"  - could be: {escaped(remedy.text)}"
    for text in bill_lines(line.bill):
        yield f"- {escaped(text)}"
    if line.held:
        yield f"- **Held back**: {escaped(line.held)}"
    yield ""
    yield f"<details><summary>{escaped(tally(plan.actions))}</summary>"
    yield ""
    yield fenced("\n".join(_diff(plan)), "diff")
    yield ""
    yield "</details>"
    yield ""


def _diff(plan: WholePlan) -> Iterator[str]:
    signs = {"~": "!"}  # the mark that code hosts colour as a change
    for action in plan.actions:
        sign = SIGNS[action.verb]
        yield f"{signs.get(sign, sign)} {_one_line(f'{action.kind} {action.name}')}  {action.change_class}"
        for change in action.fields if sign != "+" else ():
            yield f"    {_one_line(change.path)}: {_one_line(arrow(change))}"
        for change in action.drift:
            yield f"    {_one_line(change.path)}: {_one_line(arrow(change))}  (changed by someone else)"


def escaped(text: str) -> str:
    """Return a text that Markdown shows as it is: no mark-up, no mention of anybody, no HTML."""
    return _SPECIAL.sub(r"\\\1", _one_line(text)).replace("\\@", "@\u200b").replace("\\<", "&lt;").replace("\\&", "&amp;")


def code(text: str) -> str:
    """Return a text as inline code, whatever it holds."""
    fence = "`" * (_longest_run(text) + 1)
    pad = " " if "`" in text else ""
    return f"{fence}{pad}{_one_line(text)}{pad}{fence}"


def fenced(text: str, language: str) -> str:
    """Return a text as a code block whose fence is longer than any in it."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall(r"`+", text)), default=0)


def _one_line(text: str) -> str:
    return _LINE_BREAK.sub(" ", text)
