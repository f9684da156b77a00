"""
ClusterClasses and their templates, from the files of `classes/` to immutable objects named by their content (MODEL 31).

The files are data: a distribution's own stand beside those in `shared`, and lists of both (templates, variables, patches) are joined,
shared ones first. Three marks are filled in: `{$template: control-plane}` becomes a reference to that template under the name of its
content, `{$text: kube-vip, manifests: /x}` the text of that name with `/x` for each `@manifests@`, and each class its name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubehenge.errors import InvariantError
from kubehenge.model.canon import Body

SHARED = "shared"
_PREFIX = "kubehenge-"
_INFRASTRUCTURE = "infrastructure.cluster.x-k8s.io/"
_HEX_DIGITS = 10

Parts = Mapping[str, Sequence[Any]]
"""The documents of each file, by its path below `classes/`: `rke2/patches.yaml`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedClass:
    """
    A distribution's class as one version of its files makes it.

    `templates` are the infrastructure templates; `provider_templates`, of the control plane and of bootstrapping, can only be applied
    once the distribution's controllers serve, since their webhooks have to admit them (MODEL 6).
    """

    distribution: str
    name: str
    templates: tuple[Body, ...]
    provider_templates: tuple[Body, ...]
    cluster_class: Body

    @property
    def alias(self) -> str:
        """The name that files use: `kubehenge-rke2`."""
        return f"{_PREFIX}{self.distribution}"

    @property
    def objects(self) -> tuple[Body, ...]:
        """Everything in order of creation: Cluster API backs off for minutes from a class whose templates are not there."""
        return (*self.templates, *self.provider_templates, self.cluster_class)


def render(distribution: str, parts: Parts, namespace: str) -> RenderedClass:
    """
    Return the class of a distribution.

    Shape: names are the same for the same content, whatever the namespace. A template's covers the template alone, so a class that
    changes only a variable keeps the names of its templates. Of the ten digits of a class the first five stand for what machines are
    made from, so that two names alone tell whether a move from one to the other may replace nodes (decision 0012).
    Errors: InvariantError when the files do not fit together; they are ours.
    """
    templates = {
        body["metadata"]["name"]: _named(f"{_PREFIX}{distribution}-{body['metadata']['name']}", body, namespace)
        for body in _joined(distribution, parts, "templates.yaml")
    }
    texts = {
        name: text for folder in (SHARED, distribution) for file in parts.get(f"{folder}/texts.yaml", ()) for name, text in file.items()
    }
    (skeleton,) = _joined(distribution, parts, "class.yaml") or (None,)
    if skeleton is None:
        raise InvariantError("classes/shared/class.yaml is missing")
    spec = {
        **skeleton["spec"],
        "variables": [one for file in _joined(distribution, parts, "variables.yaml") for one in file],
        "patches": [one for file in _joined(distribution, parts, "patches.yaml") for one in file],
    }
    filled = _filled(spec, templates, texts)
    machines = _digest(_machine_parts(filled, templates.values()))
    made = _named(f"{_PREFIX}{distribution}", {**skeleton, "spec": filled}, namespace, machines=machines)
    return RenderedClass(
        distribution=distribution,
        name=made["metadata"]["name"],
        templates=tuple(one for one in templates.values() if one["apiVersion"].startswith(_INFRASTRUCTURE)),
        provider_templates=tuple(one for one in templates.values() if not one["apiVersion"].startswith(_INFRASTRUCTURE)),
        cluster_class=made,
    )


def _machine_parts(spec: Mapping[str, Any], templates: Iterable[Body]) -> list[Any]:
    """
    Return what of a class may replace nodes when it changes.

    Machine, control-plane and bootstrap templates count, with the patches that reach them and the defaults of variables, which those
    patches read; the ProxmoxCluster, health checks and a variable's limits are changed in place.
    """
    cluster_template = spec["infrastructure"]["templateRef"]["name"]
    named = sorted((body["kind"], body["metadata"]["name"]) for body in templates if body["metadata"]["name"] != cluster_template)
    patches = [
        (patch["name"], patch.get("enabledIf"), reaching)
        for patch in spec["patches"]
        if (reaching := [one for one in patch["definitions"] if set(one["selector"]["matchResources"]) != {"infrastructureCluster"}])
    ]
    defaults = {one["name"]: _defaults(one["schema"]["openAPIV3Schema"]) for one in spec["variables"]}
    return [named, patches, defaults]


def _defaults(schema: Mapping[str, Any], path: str = "") -> list[tuple[str, Any]]:
    own = [(path, schema["default"])] if "default" in schema else []
    below = [*schema.get("properties", {}).items()]
    if "items" in schema:
        below.append(("[]", schema["items"]))
    return [*own, *(found for name, inner in sorted(below) for found in _defaults(inner, f"{path}.{name}"))]


def _joined(distribution: str, parts: Parts, file: str) -> list[Any]:
    return [document for folder in (SHARED, distribution) for document in parts.get(f"{folder}/{file}", ())]


def _named(stem: str, body: Body, namespace: str, *, machines: str = "") -> dict[str, Any]:
    """Name a body by its kind and spec; `machines` is the digest whose beginning takes the place of the first half."""
    digits = (machines[: _HEX_DIGITS // 2] + _digest([body["apiVersion"], body["kind"], body["spec"]]))[:_HEX_DIGITS]
    metadata = {"name": f"{stem}-{digits}", "namespace": namespace}
    return {"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": metadata, "spec": body["spec"]}


def _digest(value: Any) -> str:
    """
    Return the digest of a value.

    Not of the canonical form of resources: in it the order of named lists means nothing, and patches are carried out in order.
    """
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _filled(value: Any, templates: Mapping[str, Body], texts: Mapping[str, str]) -> Any:
    match value:
        case {"$template": str(name)}:
            if name not in templates:
                raise InvariantError(f"classes/ has no template {name}")
            found = templates[name]
            return {"apiVersion": found["apiVersion"], "kind": found["kind"], "name": found["metadata"]["name"]}
        case {"$text": str(name)}:
            return _text(name, {key: item for key, item in value.items() if key != "$text"}, texts)
        case dict():
            return {key: _filled(item, templates, texts) for key, item in value.items()}
        case list() | tuple():
            return [_filled(item, templates, texts) for item in value]
        case _:
            return value


def _text(name: str, given: Mapping[str, str], texts: Mapping[str, str]) -> str:
    if name not in texts:
        raise InvariantError(f"classes/ has no text {name}")
    text = texts[name]
    for key, value in given.items():
        if f"@{key}@" not in text:
            raise InvariantError(f"the text {name} of classes/ has no @{key}@")
        text = text.replace(f"@{key}@", value)
    return text
