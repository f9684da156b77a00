"""Who asks: bearer tokens, and the kubeconfig files that carry them."""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from kubehenge.lab.kube.errors import ApiError, unauthorized

ADMIN = "admin"
KUBEHENGE = "kubehenge"
_USERS = {
    ADMIN: "kubernetes-admin",
    KUBEHENGE: "system:serviceaccount:kubehenge-system:kubehenge",
}
_OPEN_PATHS = frozenset({"/version", "/version/", "/healthz", "/livez", "/readyz"})


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Who a token stands for."""

    name: str


class Tokens:
    """The tokens of the accounts `admin` and `kubehenge`; made at the first start, kept with the server's state."""

    def __init__(self, saved: Mapping[str, str] | None = None) -> None:
        self._tokens = {account: (saved or {}).get(account) or secrets.token_urlsafe(32) for account in _USERS}

    def saved(self) -> dict[str, str]:
        """The tokens by account, for saving."""
        return dict(self._tokens)

    def of(self, account: str) -> str:
        """
        The token of an account.

        Errors: ValueError for an account that does not exist.
        """
        if account not in self._tokens:
            raise ValueError(f"no account {account!r}; there are {', '.join(self._tokens)}")
        return self._tokens[account]

    def authenticate(self, header: str, path: str) -> User:
        """
        Who sent an Authorization header.

        Errors: ApiError 401 for a token nobody has, 403 for none at all (but where everybody may look).
        """
        scheme, _, token = header.partition(" ")
        if scheme.lower() == "bearer":
            for account, known in self._tokens.items():
                if hmac.compare_digest(known.encode(), token.strip().encode()):
                    return User(name=_USERS[account])
            raise unauthorized()
        if path in _OPEN_PATHS:
            return User(name="system:anonymous")
        raise ApiError(403, "Forbidden", f'forbidden: User "system:anonymous" cannot get path "{path}"', {})


def kubeconfig(*, url: str, ca_pem: str, user: str, token: str, cluster: str = "lab") -> str:
    """A kubeconfig as YAML: one cluster, one user with a token, one context."""
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": cluster, "cluster": {"server": url, "certificate-authority-data": base64.b64encode(ca_pem.encode()).decode()}}
        ],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": f"{user}@{cluster}", "context": {"cluster": cluster, "user": user}}],
        "current-context": f"{user}@{cluster}",
    }
    return yaml.safe_dump(body, sort_keys=False)


def review(body: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a SelfSubjectAccessReview: both accounts may do everything."""
    why = {"allowed": True, "reason": "the lab's accounts may do everything"}
    return {**body, "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "status": why}
