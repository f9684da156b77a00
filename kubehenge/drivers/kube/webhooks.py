"""Webhooks that do not answer the API server: whose they are, why, and what to look at; from its words to ours."""

from __future__ import annotations

import re

# What the API server says (Kubernetes 1.30 to 1.36), of admission and of conversion between versions.
_ADMISSION = re.compile(r'failed calling webhook "(?P<name>[^"]+)"(?:: failed to call webhook)?: (?P<why>.*)', re.DOTALL)
_CONVERSION = re.compile(r"conversion webhook for (?P<name>[^,]+(?:, Kind=\w+)?) failed: (?P<why>.*)", re.DOTALL)
_SERVICE = re.compile(r"https://(?P<name>[a-z0-9-]+)\.(?P<namespace>[a-z0-9-]+)\.svc[:/]")
_CALL = re.compile(r'^Post "[^"]*": ')

_OWNERS = (
    ("kubehenge.dev", "Kubehenge's own webhook"),
    ("infrastructure.cluster.x-k8s.io", "the webhook of Cluster API's Proxmox provider (capmox)"),
    ("cluster.x-k8s.io", "Cluster API's webhook"),
)
"""Whose webhook it is, by the end of its name or of the API group that it converts."""


def away(said: str) -> str:
    """Return what is away and what to do about it, '' when the words are of something else."""
    found = _ADMISSION.search(said) or _CONVERSION.search(said)
    if found is None:
        return ""
    name, why = found["name"], found["why"].strip()
    service = _SERVICE.search(why)
    where = f"service {service['name']} in namespace {service['namespace']}" if service else ""
    look = f"Look at the pods behind {where}" if where else "Look at the program that serves it"
    if name.endswith("kubehenge.dev"):
        look += " (`kubehenge hooks`)"
    return f"{_owner(name)} {name} is away ({_short(why)}). Nothing was done. {look}; it is tried again by itself."


def _owner(name: str) -> str:
    group = name.partition("/")[0]
    return next((owner for end, owner in _OWNERS if group.endswith(end)), "the webhook")


def _short(why: str) -> str:
    """The reason without the address, which the service stands for."""
    text = " ".join(_CALL.sub("", why).split())
    return text.removeprefix("dial tcp ") or "without a reason"
