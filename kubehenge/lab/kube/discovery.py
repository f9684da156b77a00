"""What the server says about itself: version, groups, resources, and the least OpenAPI that kubectl asks for."""

from __future__ import annotations

from typing import Any

from kubehenge.lab.kube import kinds
from kubehenge.lab.kube.kinds import Kind

VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.3",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2026-08-12T00:00:00Z",
    "goVersion": "go1.26.0",
    "compiler": "gc",
    "platform": "linux/amd64",
}
AUTHORIZATION = "authorization.k8s.io"
REVIEWS = f"/apis/{AUTHORIZATION}/v1/selfsubjectaccessreviews"
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


def _group(group: str, version: str) -> dict[str, Any]:
    entry = {"groupVersion": f"{group}/{version}", "version": version}
    return {"name": group, "versions": [entry], "preferredVersion": entry}


def _resources(group: str, version: str) -> dict[str, Any]:
    resources: list[dict[str, Any]] = []
    for kind in kinds.KINDS:
        if (kind.group, kind.version) != (group, version):
            continue
        entry: dict[str, Any] = {
            "name": kind.plural,
            "singularName": kind.kind.lower(),
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": list(_VERBS),
        }
        if kind.short_names:
            entry["shortNames"] = list(kind.short_names)
        if kind.categories:
            entry["categories"] = list(kind.categories)
        resources.append(entry)
        if kind.has_status:
            status = {"name": f"{kind.plural}/status", "singularName": "", "namespaced": kind.namespaced, "kind": kind.kind}
            resources.append({**status, "verbs": ["get", "patch", "update"]})
        if kind.has_scale:
            names = {"name": f"{kind.plural}/scale", "singularName": "", "namespaced": True}
            resources.append({**names, "group": "autoscaling", "version": "v1", "kind": "Scale", "verbs": ["get", "patch", "update"]})
    if group == AUTHORIZATION:
        review = {"name": "selfsubjectaccessreviews", "singularName": "selfsubjectaccessreview", "namespaced": False}
        resources.append({**review, "kind": "SelfSubjectAccessReview", "verbs": ["create"]})
    group_version = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}


def answer(path: str) -> dict[str, Any] | None:
    """The document at a discovery path, or None when it is none."""
    parts = tuple(part for part in path.split("/") if part)
    groups = {**kinds.groups(), AUTHORIZATION: "v1"}
    match parts:
        case ("version",):
            return VERSION
        case ("api",):
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ("api", "v1"):
            return _resources("", "v1")
        case ("apis",):
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(*item) for item in groups.items()]}
        case ("apis", group) if group in groups:
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, groups[group])}
        case ("apis", group, version) if groups.get(group) == version:
            return _resources(group, version)
        case ("openapi", "v3"):
            names = ["api/v1", *(f"apis/{group}/{version}" for group, version in groups.items())]
            return {"paths": {name: {"serverRelativeURL": f"/openapi/v3/{name}"} for name in names}}
        case ("openapi", "v3", "api", "v1"):
            return _open_api("", "v1")
        case ("openapi", "v3", "apis", group, version) if groups.get(group) == version:
            return _open_api(group, version)
        case _:
            return None


def _open_api(group: str, version: str) -> dict[str, Any]:
    """The paths of a group with their parameters: how kubectl learns that the server checks fields itself."""
    paths = {}
    for kind in kinds.KINDS:
        if (kind.group, kind.version) == (group, version):
            paths[_item_path(kind)] = {"patch": _operation(kind, "patch"), "put": _operation(kind, "put")}
            paths[_item_path(kind).rpartition("/")[0]] = {"post": _operation(kind, "post")}
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": VERSION["gitVersion"]},
        "paths": paths,
        "components": {"schemas": {}},
    }


def _item_path(kind: Kind) -> str:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    scope = "/namespaces/{namespace}" if kind.namespaced else ""
    return f"{root}{scope}/{kind.plural}/{{name}}"


def _operation(kind: Kind, verb: str) -> dict[str, Any]:
    names = ("dryRun", "fieldManager", "fieldValidation", *(("force",) if verb == "patch" else ()))
    parameters = [{"name": name, "in": "query", "schema": {"type": "boolean" if name == "force" else "string"}} for name in names]
    gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    return {
        "x-kubernetes-action": verb,
        "x-kubernetes-group-version-kind": gvk,
        "parameters": parameters,
        "responses": {"200": {"description": "OK"}},
    }
