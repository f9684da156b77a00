"""
Judges documents: accepted, refused with every error at once, or skipped with the reason (ACCEPTANCE 2).

What a document settles by itself is judged here; `crossdoc` judges documents together, and against the site's settings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import islice
from typing import Any, assert_never

from kubehenge.errors import DeclarationError
from kubehenge.model.canon import body_hash
from kubehenge.model.document import Declaration, JudgedDocument, Problem, ProblemKind, Severity, Verdict
from kubehenge.source.classify import OurKind, classify
from kubehenge.source.cluster_draft import Part
from kubehenge.source.cluster_judge import judge_cluster
from kubehenge.source.findings import Finding, Judgement, as_problems, named_path, notation
from kubehenge.source.shape import quoted
from kubehenge.source.site_rules import find_rules_problems, find_site_problems
from kubehenge.source.site_shape import RulesShape, SiteShape
from kubehenge.source.words import validate
from kubehenge.source.yaml_reader import YamlDocument, read_documents
from kubehenge.source.yaml_values import FAULT_LIMIT, Fault, Marks, Path, whole_document

_LONGEST_WORD = 253
"""Characters of the longest name in Kubernetes."""
_TEMPLATE = re.compile(r"\{\{.*?\}\}|\$\{[^}]*\}|\{%.*?%\}", re.DOTALL)


def judge_file(path: str, content: bytes, *, blob_id: str = "") -> tuple[JudgedDocument, ...]:
    """
    Judge every document of a file, each by itself.

    Shape: one entry a document, in the order of the file; empty documents are left out.
    Errors: none; whatever the bytes are, the answer says so.
    """
    return tuple(judge_document(document, path=path, blob_id=blob_id) for document in read_documents(content))


def refuse_unread(path: str, reason: str, *, blob_id: str = "", kind: ProblemKind = ProblemKind.UNREADABLE) -> JudgedDocument:
    """Refuse a file whose content could not be had, with the reason as a sentence; that it is there is known, so it is not gone."""
    fault = Fault(line=1, column=1, kind=kind, message=reason)
    return judge_document(YamlDocument(number=1, line=1, text="", value=None, faults=(fault,)), path=path, blob_id=blob_id)


def judge_document(document: YamlDocument, *, path: str, blob_id: str = "") -> JudgedDocument:
    """Judge one document of a file by itself."""
    value, find_marks = document.value, cache(document.find_marks)
    problems = [_problem_of(fault, path, document) for fault in document.faults]
    judged = partial(_judged, document, path, blob_id)
    if value is None:
        return judged(verdict=Verdict.REFUSED, problems=problems)
    judgement = _judge_value(value, find_marks)
    if isinstance(judgement, str):
        return judged(verdict=Verdict.SKIPPED, reason=judgement)
    if judgement.findings:
        problems += as_problems(_worth_showing(judgement.findings), path=path, document=document.number, value=value, marks=find_marks())
        problems.sort(key=lambda problem: (problem.line, problem.column))
    if any(problem.severity is Severity.ERROR for problem in problems):
        return judged(verdict=Verdict.REFUSED, problems=problems)
    body = json.loads(json.dumps(judgement.body)) if "&" in document.text else judgement.body  # aliases share their values
    return judged(verdict=Verdict.ACCEPTED, problems=problems, body=body, declaration=judgement.declaration)


def _worth_showing(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return as many findings as anyone reads, errors before warnings when there are more."""
    if len(findings) <= FAULT_LIMIT:
        return findings
    return tuple(sorted(findings, key=lambda finding: finding.severity is Severity.WARNING))[:FAULT_LIMIT]


def _judged(
    document: YamlDocument,
    path: str,
    blob_id: str,
    *,
    verdict: Verdict,
    reason: str = "",
    problems: Sequence[Problem] = (),
    body: Mapping[str, Any] | None = None,
    declaration: Declaration | None = None,
) -> JudgedDocument:
    head = Part(document.value)
    metadata = head.part("metadata")
    return JudgedDocument(
        path=path,
        blob_id=blob_id,
        number=document.number,
        line=document.line,
        api_version=_word(head.text("apiVersion")),
        kind=_word(head.text("kind")),
        namespace=_word(metadata.text("namespace")),
        name=_word(metadata.text("name")),
        verdict=verdict,
        reason=reason,
        problems=tuple(problems),
        body=body,
        body_hash=None if body is None else body_hash(body),
        declaration=declaration,
    )


def place_findings(judged: JudgedDocument, findings: Iterable[Finding], content: bytes | None) -> JudgedDocument:
    """
    Add what was found about an accepted document outside of it, with lines and columns from the file's content.

    Without the content the problems stand at the document's first line.
    """
    document = next((document for document in read_documents(content or b"") if document.number == judged.number), None)
    value, marks = (document.value, document.find_marks()) if document else (judged.body, whole_document(judged.line))
    placed = as_problems(findings, path=judged.path, document=judged.number, value=value, marks=marks)
    problems = tuple(sorted((*judged.problems, *placed), key=lambda problem: (problem.line, problem.column)))
    refused = any(problem.severity is Severity.ERROR for problem in problems)
    return replace(judged, problems=problems, verdict=Verdict.REFUSED if refused else judged.verdict)


def declare(body: Mapping[str, Any]) -> Declaration:
    """
    Return what the body of an accepted document declares, as when it was accepted.

    Errors: DeclarationError when it is refused or skipped, as after a rule has become stricter; it names every field.
    """
    judgement = _judge_value(dict(body), lambda: whole_document(1))
    if isinstance(judgement, str):
        raise DeclarationError(f"It is skipped: {judgement}.")
    errors = [finding for finding in judgement.findings if finding.severity is Severity.ERROR]
    if errors or judgement.declaration is None:
        raise DeclarationError(" ".join(f"{notation(finding.path)}: {finding.message}" for finding in errors))
    return judgement.declaration


def _judge_value(value: Any, find_marks: Callable[[], Marks]) -> Judgement | str:
    """Judge a document's value; a text is the reason why it is skipped."""
    classified = classify(value)
    if classified.refused is not None:
        return Judgement(findings=(classified.refused,))
    if classified.kind is None:
        return classified.skipped
    left_over = tuple(islice(_left_over(value), FAULT_LIMIT))
    judgement = _judge_kind(classified.kind, value, find_marks)
    if not left_over:
        return judgement
    taken = {finding.path for finding in left_over}
    return replace(judgement, findings=(*left_over, *(finding for finding in judgement.findings if finding.path not in taken)))


def _judge_kind(kind: OurKind, value: dict[str, Any], find_marks: Callable[[], Marks]) -> Judgement:
    match kind:
        case OurKind.CLUSTER:
            return judge_cluster(value, find_marks)
        case OurKind.SITE:
            site, findings = validate(SiteShape, value, at=(), document=value, find_marks=find_marks)
            findings += find_site_problems(value)
            return Judgement(findings=tuple(findings), body=value, declaration=site.declare() if site and not findings else None)
        case OurKind.APPROVAL_RULES:
            rules, findings = validate(RulesShape, value, at=(), document=value, find_marks=find_marks)
            findings += find_rules_problems(value)
            return Judgement(findings=tuple(findings), body=value, declaration=rules.declare() if rules and not findings else None)
        case _:
            assert_never(kind)


def _left_over(document: Any) -> Iterator[Finding]:
    """Yield what no field may hold, whatever its type: nothing, and the marks of a template that was not rendered."""
    text = json.dumps(document)  # in C: most documents hold nothing of the kind, and walking them costs more
    if not any(mark in text for mark in ("null", "{{", "${", "{%")):
        return
    for path, value in _scalars(document, ()):
        if value is None:
            message = "Nothing is written here. Write a value, or take the line out."
            yield Finding(path=named_path(path, document), kind=ProblemKind.TYPE, message=message, on_key=True)
        elif found := _TEMPLATE.search(value):
            message = f"{quoted(found[0])} is left of a template. Render it before it is committed."
            yield Finding(path=named_path(path, document), kind=ProblemKind.TEMPLATE, message=message)


def _scalars(value: Any, path: Path) -> Iterator[tuple[Path, str | None]]:
    """Yield the texts and nulls in a value with their paths."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _scalars(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _scalars(item, (*path, index))
    elif value is None or type(value) is str:
        yield path, value


def _problem_of(fault: Fault, path: str, document: YamlDocument) -> Problem:
    field = notation(named_path(fault.path, document.value))
    return Problem(
        path=path,
        document=document.number,
        line=fault.line,
        column=fault.column,
        field=field,
        kind=fault.kind,
        message=fault.message,
        severity=fault.severity,
    )


def _word(text: str | None) -> str:
    """Return a text that heads a document if it is fit to be shown: one line, not too long, no ciphertext."""
    return "" if text is None or len(text) > _LONGEST_WORD or "\n" in text or text.startswith("ENC[") else text
