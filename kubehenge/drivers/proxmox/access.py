"""
`proxmox.token` and `proxmox.acl`: what a cluster's user signs in with, and its rights (facts: 2 API tokens, 3 Rights; MODEL 8, 21).

A token bears its own mark; rights are ours exactly when their user is. A token's secret is seen once and goes to the vault.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import SecretStr

from kubehenge.drivers.base import ActionContext, Done, Outcome
from kubehenge.drivers.fingerprint import secret_hmac
from kubehenge.drivers.marks import mark_in, require_ours
from kubehenge.drivers.proxmox.client import ProxmoxClient
from kubehenge.drivers.proxmox.errors import ProxmoxRefusedError, is_denied, is_existing, is_missing
from kubehenge.drivers.proxmox.pools import find_pool
from kubehenge.drivers.proxmox.users import find_user, require_our_user
from kubehenge.errors import RefusedError, UncertainError
from kubehenge.model.canon import Body
from kubehenge.model.resource import Observed, ResourceRef

TOKEN = "proxmox.token"  # noqa: S105 - a kind
ACL = "proxmox.acl"


def observed_token(userid: str, row: Mapping[str, Any]) -> Observed:
    """Reduce a token as a user's list shows it."""
    comment = row.get("comment", "")
    body = {"userid": userid, "tokenid": row["tokenid"], "privsep": int(row.get("privsep", 1)), "comment": comment}
    return Observed(ref=ResourceRef(kind=TOKEN, name=f"{userid}!{row['tokenid']}"), body=body, mark=mark_in(comment))


def observed_acl(row: Mapping[str, Any]) -> Observed:
    """Reduce a row of the ACL; it has no mark of its own."""
    body = {
        "path": row["path"],
        "type": row["type"],
        "ugid": row["ugid"],
        "roleid": row["roleid"],
        "propagate": int(row.get("propagate", 1)),
    }
    return Observed(ref=ResourceRef(kind=ACL, name=f"{row['path']}:{row['ugid']}:{row['roleid']}"), body=body)


class Tokens:
    """The verbs of tokens."""

    def __init__(self, client: ProxmoxClient, site_key: bytes) -> None:
        self._client = client
        self._site_key = site_key

    def read(self, ref: ResourceRef, body: Body | None) -> Observed | None:  # noqa: ARG002 - its name says all
        """Read one token; never its secret, which Proxmox VE does not show."""
        userid, _, tokenid = ref.name.partition("!")
        try:
            row = self._client.get(f"/access/users/{userid}/token/{tokenid}")
        except RefusedError as exc:
            if is_missing(exc) or (is_denied(exc) and find_user(self._client, userid) is None):
                return None
            raise
        return observed_token(userid, {**row, "tokenid": tokenid})

    def create(self, ref: ResourceRef, body: Body, context: ActionContext) -> Outcome:
        """
        Make the token, keep its secret in the vault, and give the secret's HMAC out.

        A token that is there already is lost unless this very run made it: nobody can be shown its secret again, and
        regenerating it would break whoever holds it (MODEL 8).
        """
        if not require_our_user(self._client, body["userid"], context, f"Token {body['tokenid']}", verb="made"):
            raise RefusedError(f"Token {ref.name} is not made: its user is not there. The next plan makes the user first.")
        try:
            answer = self._client.post(
                f"/access/users/{body['userid']}/token/{body['tokenid']}", privsep=body["privsep"], comment=body["comment"]
            )
        except ProxmoxRefusedError as exc:
            if not is_existing(exc):
                raise
            secret = context.vault.get(ref.name)
        else:
            if not isinstance(answer, dict) or not answer.get("value"):
                raise UncertainError(f"Proxmox VE made token {ref.name} without showing its secret; the next look finds it lost.")
            secret = SecretStr(str(answer["value"]))
            context.vault.keep(ref.name, secret)
        made = observed_token(body["userid"], body)
        return Done(left=Observed(ref=made.ref, body=made.body, mark=made.mark, outputs={"hmac": secret_hmac(self._site_key, secret)}))

    def update(self, ref: ResourceRef, body: Body, context: ActionContext) -> Outcome:
        """Put comment and separation back; the secret stays as it is."""
        found = self.read(ref, body)
        if found is None:
            raise RefusedError(f"Token {ref.name} is not there any more. The next plan makes the next generation.")
        if found.mark is not None:
            require_ours(found.mark, context.mark, f"Token {ref.name}", verb="changed")
        else:
            require_our_user(self._client, body["userid"], context, f"Token {body['tokenid']}", verb="changed")
        left = observed_token(body["userid"], body)
        if found.body != left.body:
            self._client.put(f"/access/users/{body['userid']}/token/{body['tokenid']}", privsep=body["privsep"], comment=body["comment"])
        return Done(left=left)

    def delete(self, ref: ResourceRef, body: Body, context: ActionContext) -> Outcome:
        """Delete a token with our mark; whoever holds it is signed out at once."""
        found = self.read(ref, body)
        if found is None:
            return Done(left=None)
        require_ours(found.mark, context.mark, f"Token {ref.name}", verb="deleted")
        userid, _, tokenid = ref.name.partition("!")
        try:
            self._client.delete(f"/access/users/{userid}/token/{tokenid}")
        except ProxmoxRefusedError as exc:
            if not is_missing(exc):
                raise
        return Done(left=None)


class Acls:
    """The verbs of rights: one row each of Proxmox VE's ACL."""

    def __init__(self, client: ProxmoxClient) -> None:
        self._client = client

    def read(self, ref: ResourceRef, body: Body | None) -> Observed | None:  # noqa: ARG002 - its name says all
        """Read one row; the list holds only those that the token may change."""
        rows = (observed_acl(row) for row in self._client.get("/access/acl"))
        return next((row for row in rows if row.ref == ref), None)

    def create(self, ref: ResourceRef, body: Body, context: ActionContext) -> Outcome:
        """Give the role to our user on our pool; giving it again changes nothing."""
        if not require_our_user(self._client, body["ugid"], context, f"Role {body['roleid']}", verb="given"):
            raise RefusedError(f"Role {body['roleid']} is not given: user {body['ugid']} is not there. The next plan makes it first.")
        poolid = str(body["path"]).removeprefix("/pool/")
        pool = find_pool(self._client, poolid)
        if pool is None:
            raise RefusedError(f"Role {body['roleid']} is not given: pool {poolid} is not there. The next plan makes it first.")
        require_ours(mark_in(pool.get("comment")), context.mark, f"Role {body['roleid']} on pool {poolid}", verb="given")
        self._client.put("/access/acl", **_row(body))
        return Done(left=Observed(ref=ref, body=observed_acl(body).body))

    def update(self, ref: ResourceRef, body: Body, context: ActionContext) -> Outcome:
        """Give it with the propagation asked for, which takes the place of the old one."""
        return self.create(ref, body, context)

    def delete(self, ref: ResourceRef, body: Body, context: ActionContext) -> Outcome:
        """Take the role away, also where its pool is gone: Proxmox VE leaves the row behind, and a new pool would revive it."""
        found = self.read(ref, body)
        if found is None:
            return Done(left=None)
        row = found.body
        if not require_our_user(self._client, row["ugid"], context, f"Role {row['roleid']} on {row['path']}", verb="taken away"):
            raise RefusedError(
                f"Role {row['roleid']} on {row['path']} is not taken away from {row['ugid']}: Kubehenge's token cannot see that user, "
                "so whose it is is not known. Put the user back into its group."
            )
        try:
            self._client.put("/access/acl", delete=1, **_row(row))
        except ProxmoxRefusedError as exc:
            if not is_missing(exc):
                raise
        return Done(left=None)


def _row(body: Body) -> dict[str, Any]:
    subjects = {"user": "users", "group": "groups", "token": "tokens"}
    return {"path": body["path"], "roles": body["roleid"], subjects[body["type"]]: body["ugid"], "propagate": body["propagate"]}
