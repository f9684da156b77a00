"""The forms of texts that documents hold: names, addresses, host names (reference: kubehenge-clusters)."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from kubehenge.model.document import ProblemKind
from kubehenge.model.network import Unreadable, parse_address, parse_block, parse_network
from kubehenge.source.shape import Form, refuse
from kubehenge.source.time_zones import check_time_zone


def _check_address(text: str) -> str:
    found = parse_address(text)
    return refuse(ProblemKind.FORM, found.reason) if isinstance(found, Unreadable) else text


def _check_block(text: str) -> str:
    found = parse_block(text)
    return refuse(ProblemKind.FORM, found.reason) if isinstance(found, Unreadable) else text


def _check_network(text: str) -> str:
    found = parse_network(text)
    return refuse(ProblemKind.FORM, found.reason) if isinstance(found, Unreadable) else text


_OCTET = r"(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_ADDRESS = rf"{_OCTET}(\.{_OCTET}){{3}}"
_PREFIX = r"(3[0-2]|[12]?\d)"
LABEL_PATTERN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"

AddressText = Annotated[
    str, AfterValidator(_check_address), Field(json_schema_extra={"pattern": f"^{_ADDRESS}$", "examples": ["192.0.2.10"]})
]
BlockText = Annotated[
    str,
    AfterValidator(_check_block),
    Field(
        json_schema_extra={"pattern": f"^{_ADDRESS}(/{_PREFIX}|-{_ADDRESS})?$", "examples": ["192.0.2.51-192.0.2.69"]},
        description="A range, a network in CIDR notation or a single address.",
    ),
]
NetworkText = Annotated[
    str, AfterValidator(_check_network), Field(json_schema_extra={"pattern": f"^{_ADDRESS}/{_PREFIX}$", "examples": ["10.42.0.0/16"]})
]

Label = Annotated[str, Form(pattern=LABEL_PATTERN, wants="lower-case letters, digits and dashes", example="md-0", longest=63)]
Namespace = Annotated[str, Form(pattern=LABEL_PATTERN, wants="lower-case letters, digits and dashes", example="clusters", longest=63)]
ClusterName = Annotated[
    str,
    Form(
        pattern=r"[a-z]([-a-z0-9]*[a-z0-9])?",
        wants="lower-case letters, digits and dashes, starting with a letter and ending with a letter or digit",
        example="prod",
        longest=40,
    ),
]
HostName = Annotated[
    str,
    Form(
        pattern=rf"(?!\d+(\.\d+)*$){LABEL_PATTERN}(\.{LABEL_PATTERN})*",
        wants="a host name in lower case",
        example="app.example.com",
        longest=253,
    ),
]
StorageName = Annotated[
    str,
    Form(pattern=r"[A-Za-z][A-Za-z0-9._-]*[A-Za-z0-9]", wants="the name of a storage in Proxmox VE", example="shared-storage", longest=100),
]
BridgeName = Annotated[str, Form(pattern=r"[-_.A-Za-z0-9]+", wants="the name of a bridge in Proxmox VE", example="vmbr0", longest=64)]
NodeName = Annotated[
    str, Form(pattern=r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?", wants="the name of a Proxmox VE node", example="pve1", longest=63)
]
_LABEL_VALUE = r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
LabelValue = Annotated[
    str, Form(pattern=_LABEL_VALUE, wants="letters, digits, dashes, dots and underscores", example="production", longest=63)
]

TimeZone = Annotated[str, AfterValidator(check_time_zone), Field(json_schema_extra={"examples": ["Europe/Berlin"]})]
