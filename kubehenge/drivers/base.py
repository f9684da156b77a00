"""
What every driver promises.

A driver is an adapter to one system. It makes no decisions: it reads all, reads one, creates, updates and deletes, and tells
how a pending step stands. Each call has a time limit. Each verb may be repeated: a creation that finds what bears our mark
takes it over, and refuses what does not; a deletion of what is gone is done. Before a deletion the driver reads name, pool and
mark, and refuses to touch what is not ours (MODEL 21). Failure is an exception of `kubehenge.errors`, never a value:
TransientError may be tried again, UncertainError must be looked at first, RefusedError stays so until something changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeAlias

from pydantic import SecretStr

from kubehenge.errors import RefusedError
from kubehenge.model.canon import Body
from kubehenge.model.resource import Observed, ResourceRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The verb is carried out; `left` is the object as it stands now, None when it is gone, `warnings` what its system warned of."""

    left: Observed | None
    note: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """
    The verb is accepted and its work goes on elsewhere.

    `handle` is JSON that `Driver.look` takes, now or in another process. `left` is the object as the call left it, where that is
    known at once. `abandonable` says that nothing of ours is under way any more, only someone else's controller (MODEL 14).
    `warnings` is what its system warned of when it took the call.
    """

    handle: Mapping[str, Any]
    waits_on: str
    left: Observed | None = None
    done: int = 0
    of: int = 0
    abandonable: bool = False
    warnings: tuple[str, ...] = ()


Outcome: TypeAlias = Done | Pending


class Vault:
    """
    Secrets of one run, in memory only (MODEL 8).

    A token's secret is seen once, by the action that creates it, and written by the action that makes its Secret. A process
    that dies in between has lost it: the token is then a lost one, and the next generation takes its place.
    """

    def __init__(self) -> None:
        self._secrets: dict[str, SecretStr] = {}

    def keep(self, name: str, secret: SecretStr) -> None:
        """Keep a secret under the full id of its token."""
        self._secrets[name] = secret

    def get(self, name: str) -> SecretStr:
        """Return a secret, or raise RefusedError that says that it is lost."""
        try:
            return self._secrets[name]
        except KeyError:
            raise RefusedError(
                f"The secret of token {name} is lost: it is shown once, and whoever saw it has stopped. "
                "The next plan makes a new generation and deletes this token."
            ) from None

    @property
    def secrets(self) -> tuple[SecretStr, ...]:
        """All of them, for whoever keeps them out of what is said."""
        return tuple(self._secrets.values())

    def __repr__(self) -> str:
        return f"<Vault with {len(self._secrets)} secrets>"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionContext:
    """
    What a verb may use besides its resource.

    `mark` is the mark that the object must bear. `outputs` answers references of this cluster's resources, by `<kind>/<name>`:
    what `Observed.outputs` held when they were read or made last.
    """

    mark: str
    vault: Vault
    outputs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def lookup(self, reference: str) -> str:
        """Answer a `$ref` as text, since annotations hold nothing else; raises RefusedError for one that is not known."""
        target, _, name = reference.partition("#")
        try:
            return str(self.outputs[target][name])
        except KeyError:
            raise RefusedError(f"{name} of {target} is not known: it has not been made or read yet. The next plan reads it anew.") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkReading:
    """
    Everything that one family of kinds holds, read by a constant number of requests (MODEL 24).

    Shape: `items` has an entry for each kind that was read whole, also an empty one; a kind that could not be read is in `failed`
    with the reason. `rights` are the rights of the token it was read with (path to privileges), None where the system has no such
    thing; `endpoint` is the node or server that answered, `endpoints` all that could; `requests` how many requests it took.
    """

    items: Mapping[str, tuple[Observed, ...]]
    read_at: datetime
    failed: Mapping[str, str] = field(default_factory=dict)
    rights: Mapping[str, tuple[str, ...]] | None = None
    endpoint: str = ""
    endpoints: tuple[str, ...] = ()
    quorate: bool = True
    requests: int = 0


class Driver(Protocol):
    """One system, and the kinds of resources that live in it."""

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds that it reads and writes."""

    @property
    def endpoints(self) -> tuple[str, ...]:
        """The endpoints that a reading may be asked of; one or none where there is no choice."""

    def read_bulk(self, *, endpoint: str = "") -> BulkReading:
        """Read all kinds whole; `endpoint` asks for another node than the usual one (MODEL 20)."""

    def read(self, ref: ResourceRef, body: Body | None) -> Observed | None:
        """Read one resource now, None when it is certainly not there. `body` is its desired or applied body, which holds its parameters."""

    def create(self, ref: ResourceRef, body: Body, context: ActionContext) -> Outcome:
        """Make it, or take over what bears our mark."""

    def update(self, ref: ResourceRef, body: Body, context: ActionContext) -> Outcome:
        """Bring it to the body, touching our fields only."""

    def delete(self, ref: ResourceRef, body: Body, context: ActionContext) -> Outcome:
        """Remove it after a look at its identity; done when it is gone already."""

    def look(self, ref: ResourceRef, handle: Mapping[str, Any], context: ActionContext) -> Outcome:
        """Tell how a pending step stands."""
