"""`proxmox.user`: a cluster's user (facts: 3 Rights; tried: 4)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kubehenge.drivers.base import ActionContext, Done, Outcome
from kubehenge.drivers.marks import mark_in, require_ours
from kubehenge.drivers.proxmox.client import ProxmoxClient
from kubehenge.drivers.proxmox.errors import ProxmoxRefusedError, is_denied, is_existing, is_missing
from kubehenge.errors import RefusedError
from kubehenge.model.canon import Body
from kubehenge.model.resource import Observed, ResourceRef

KIND = "proxmox.user"
OUR_USER = re.compile(r"kh-[0-9a-f]{12}@pve")


def observed_user(row: Mapping[str, Any]) -> Observed:
    """Reduce a user as the list (groups as one text) or its own path (groups as a list) shows it."""
    userid, comment, groups = row["userid"], row.get("comment", ""), row.get("groups") or ()
    body = {
        "userid": userid,
        "comment": comment,
        "groups": sorted(group for group in groups.split(",") if group) if isinstance(groups, str) else sorted(groups),
        "enable": bool(row.get("enable", 1)),
    }
    return Observed(ref=ResourceRef(kind=KIND, name=userid), body=body, mark=mark_in(comment))


def find_user(client: ProxmoxClient, userid: str) -> Observed | None:
    """
    Read one user, None when it is not there.

    Proxmox VE denies a user that does not exist to a token that manages one group's users only. The list of all that the token
    manages then tells whether it is there; a user that left the group does not show in it.
    """
    try:
        return observed_user({**client.get(f"/access/users/{userid}"), "userid": userid})
    except RefusedError as exc:
        if is_missing(exc):
            return None
        if not is_denied(exc):
            raise
    listed = (row for row in client.get("/access/users", full=1) if row["userid"] == userid)
    return next((observed_user(row) for row in listed), None)


def require_our_user(client: ProxmoxClient, userid: str, context: ActionContext, what: str, *, verb: str) -> bool:
    """Tell whether a user is there, and raise RefusedError when it is another's: its tokens and rights are ours when it is."""
    user = find_user(client, userid)
    if user is not None:
        require_ours(user.mark, context.mark, f"{what} of user {userid}", verb=verb)
    return user is not None


class Users:
    """The verbs of users."""

    def __init__(self, client: ProxmoxClient) -> None:
        self._client = client

    def read(self, ref: ResourceRef, body: Body | None) -> Observed | None:  # noqa: ARG002 - a user has no parameters
        """Read one user."""
        return find_user(self._client, ref.name)

    def create(self, ref: ResourceRef, body: Body, context: ActionContext) -> Outcome:
        """Make the user in its groups, or take over one with our mark; RefusedError for another's."""
        try:
            self._client.post("/access/users", userid=body["userid"], **_fields(body))
        except ProxmoxRefusedError as exc:
            if not is_existing(exc):
                raise
            if self.read(ref, body) is None:
                raise RefusedError(
                    f"User {ref.name} exists already, but in no group that Kubehenge's token manages, so whose it is is not known. "
                    f"Put it into {', '.join(body['groups'])}, or remove it."
                ) from None
            return self.update(ref, body, context, unmarked=False)
        return Done(left=observed_user(body))

    def update(self, ref: ResourceRef, body: Body, context: ActionContext, *, unmarked: bool = True) -> Outcome:
        """Put comment, groups and enablement back; `unmarked` as for pools."""
        found = self.read(ref, body)
        if found is None:
            raise RefusedError(f"User {ref.name} is not there any more. The next plan makes it again.")
        if found.mark is not None or not unmarked:
            require_ours(found.mark, context.mark, f"User {ref.name}", verb="changed")
        left = observed_user(body)
        if found.body != left.body:
            # The groups are always named: without them Proxmox VE asks for User.Modify on all groups.
            self._client.put(f"/access/users/{ref.name}", **_fields(body))
        return Done(left=left)

    def delete(self, ref: ResourceRef, body: Body, context: ActionContext) -> Outcome:
        """Delete a user with our mark; its tokens and rights go with it."""
        found = self.read(ref, body)
        if found is None:
            return Done(left=None)
        require_ours(found.mark, context.mark, f"User {ref.name}", verb="deleted")
        try:
            self._client.delete(f"/access/users/{ref.name}")
        except ProxmoxRefusedError as exc:
            if not is_missing(exc):
                raise
        return Done(left=None)


def _fields(body: Body) -> dict[str, Any]:
    return {"groups": ",".join(body["groups"]), "comment": body["comment"], "enable": body["enable"]}
