"""The shape of an OpenID Connect provider, in a Cluster and in a Site (reference: kubehenge-clusters, Signing in with OpenID Connect)."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from kubehenge.model.cluster import IdentityProvider
from kubehenge.model.document import ProblemKind
from kubehenge.source.shape import Form, Shape, quoted, refuse


def _check_issuer(text: str) -> str:
    scheme, _, rest = text.partition("://")
    if scheme != "https":
        refuse(ProblemKind.FORM, f"{quoted(text)} does not begin with https://. Write the issuer as its tokens name it, with https.")
    if not rest.partition("/")[0] or any(mark in text for mark in " ?#@\\"):
        refuse(ProblemKind.FORM, f"{quoted(text)} is no issuer. Write https://, a host and at most a path.")
    return text


def _check_prefix(text: str) -> str:
    if text.startswith("system:"):
        refuse(
            ProblemKind.NOT_ALLOWED,
            "What begins with `system:` belongs to Kubernetes itself. Write another prefix, such as `oidc:`.",
        )
    if not text:
        refuse(ProblemKind.LENGTH, "The prefix is empty, so a name could pass for a user of another kind. Write one, such as `oidc:`.")
    return text


def _check_certificates(text: str) -> str:
    from cryptography import x509

    try:
        x509.load_pem_x509_certificates(text.encode())
    except ValueError:
        refuse(ProblemKind.FORM, "This is no certificate in PEM. Write everything from BEGIN CERTIFICATE to END CERTIFICATE.")
    return text


_Prefix = Annotated[str, AfterValidator(_check_prefix), Field(json_schema_extra={"pattern": "^(?!system:).+"})]
_Words = Annotated[str, Form(pattern=r"\S+", wants="one word without spaces", example="email", longest=256)]


class ProviderShape(Shape):
    """One OpenID Connect provider."""

    issuer_url: Annotated[str, AfterValidator(_check_issuer)] = Field(
        alias="issuerURL",
        description="The provider's issuer, exactly as its tokens name it; https.",
        json_schema_extra={"pattern": "^https://[^\\s?#@]+$", "examples": ["https://login.example.com/realms/staff"]},
    )
    client_id: _Words = Field(alias="clientID", description="The client that sign-in tools use; a token's audience names it.")
    username_claim: _Words = Field(default="email", alias="usernameClaim", description="The claim that the user name comes from.")
    username_prefix: _Prefix = Field(
        default="oidc:", alias="usernamePrefix", description="Put before every user name; it may not begin with system:."
    )
    groups_claim: _Words = Field(default="groups", alias="groupsClaim", description="The claim that the groups come from.")
    groups_prefix: _Prefix = Field(
        default="oidc:", alias="groupsPrefix", description="Put before every group; it may not begin with system:."
    )
    scopes: list[_Words] = Field(default=["email", "profile"], description="What sign-in tools ask for besides openid.")
    certificate_authority: Annotated[str, AfterValidator(_check_certificates)] | None = Field(
        default=None, alias="certificateAuthority", description="PEM, when no public CA signs the provider's certificate."
    )

    def declare(self) -> IdentityProvider:
        """Return the provider as a model value."""
        return IdentityProvider(
            issuer_url=self.issuer_url,
            client_id=self.client_id,
            username_claim=self.username_claim,
            username_prefix=self.username_prefix,
            groups_claim=self.groups_claim,
            groups_prefix=self.groups_prefix,
            scopes=tuple(self.scopes),
            certificate_authority=self.certificate_authority or "",
        )
