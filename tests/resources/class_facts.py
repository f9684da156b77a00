"""What the reference says of the variables of the classes (kubehenge-clusters, Variables), and how to look into a class."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from kubehenge.resources.classes import RenderedClass, render
from kubehenge.source.class_files import find_folder, read_parts

NAMESPACE = "kubehenge-system"
PARTS = read_parts(find_folder())

REQUIRED = {"controlPlaneEndpoint", "network", "storage"}
# By path within the class, for all distributions; `cni` and the least memory of control planes differ.
DEFAULTS: dict[str, Any] = {
    "proxmoxHA": True,
    "controlPlaneMachine": {},
    "controlPlaneMachine.cores": 2,
    "controlPlaneMachine.memoryMiB": 4096,
    "controlPlaneMachine.diskGiB": 30,
    "workerMachine": {},
    "workerMachine.cores": 2,
    "workerMachine.memoryMiB": 4096,
    "workerMachine.diskGiB": 40,
    "headlamp.enabled": False,
    "rancher.install": False,
    "rancher.register": True,
    "oidc[].usernameClaim": "email",
    "oidc[].usernamePrefix": "oidc:",
    "oidc[].groupsClaim": "groups",
    "oidc[].groupsPrefix": "oidc:",
    "oidc[].scopes": ["email", "profile"],
    "upgrades": {},
    "upgrades.mode": "off",
    "upgrades.window.start": "02:00",
    "upgrades.window.durationMinutes": 240,
    "upgrades.window.timeZone": "UTC",
}
NO_DEFAULT = {
    "controlPlaneEndpoint",
    "network",
    "network.bridge",
    "network.vlan",
    "network.addresses",
    "network.addresses[]",
    "network.prefix",
    "network.gateway",
    "network.dnsServers",
    "network.dnsServers[]",
    "storage",
    "allowedNodes",
    "allowedNodes[]",
    "headlamp",
    "headlamp.hostname",
    "headlamp.tlsSecret",
    "rancher",
    "rancher.hostname",
    "oidc",
    "oidc[]",
    "oidc[].issuerURL",
    "oidc[].clientID",
    "oidc[].scopes[]",
    "oidc[].certificateAuthority",
    "upgrades.window",
    "upgrades.window.weekdays",
    "upgrades.window.weekdays[]",
    "upgrades.window.monthDays",
    "upgrades.window.monthDays[]",
}


def made(distribution: str, parts: Any = PARTS) -> RenderedClass:
    return render(distribution, parts, NAMESPACE)


def copied() -> dict[str, Any]:
    """The files' documents, to change."""
    return deepcopy({name: list(documents) for name, documents in PARTS.items()})


def schemas(rendered: RenderedClass) -> dict[str, Any]:
    """The schema at each path of each variable."""
    variables = rendered.cluster_class["spec"]["variables"]
    return {path: schema for one in variables for path, schema in walk(one["schema"]["openAPIV3Schema"], one["name"])}


def walk(schema: Any, path: str) -> Iterator[tuple[str, Any]]:
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from walk(inner, f"{path}.{name}")
    if "items" in schema:
        yield from walk(schema["items"], f"{path}[]")


def patch(rendered: RenderedClass, name: str) -> Any:
    return next(one for one in rendered.cluster_class["spec"]["patches"] if one["name"] == name)


def template(rendered: RenderedClass, kind: str) -> Any:
    return next(one for one in rendered.objects if one["kind"] == kind)
