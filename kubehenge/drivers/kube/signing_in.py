"""How Kubehenge signs in to the management cluster: by a kubeconfig, by a token, or as the pod that it runs in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from kubernetes import config
from kubernetes.client import Configuration
from pydantic import SecretStr

from kubehenge.errors import SettingsError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where Kubernetes puts a pod's token, which it replaces before it ends, and the CA of its API server."""

SignIn = Callable[[], Any]
"""Returns a configuration of the kubernetes client, read anew from where it stands."""


def by_kubeconfig(path: Path | str, *, context: str | None = None) -> SignIn:
    """
    Sign in with a kubeconfig file: its token, its file with one, its client certificate, or its exec program.

    Errors, when it is read: SettingsError when it cannot be used, or would not look at the API server's certificate.
    """

    def read() -> Any:
        configuration = Configuration()
        try:
            config.load_kube_config(config_file=str(path), context=context, client_configuration=configuration, persist_config=False)
        except config.ConfigException as exc:  # its words name entries and files, never what is in them
            raise SettingsError(f"{path} is no kubeconfig that can be used: {exc}") from None
        except (yaml.YAMLError, OSError, ValueError, TypeError, KeyError, AttributeError) as exc:
            raise SettingsError(
                f"{path} is no kubeconfig that can be used ({type(exc).__name__}). Name the management cluster's."
            ) from None
        _require_safe(configuration, str(path))
        return configuration

    return read


def by_token(url: str, *, token: SecretStr, ca_file: str | None) -> SignIn:
    """Sign in with a bearer token; without a CA file the system's authorities count."""

    def read() -> Any:
        return _with_token(url.rstrip("/"), token.get_secret_value(), ca_file)

    return read


def runs_in_cluster(environ: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> bool:
    """Tell whether this process is a pod that may talk to its API server."""
    return bool(environ.get("KUBERNETES_SERVICE_HOST")) and (folder / "token").exists()


def in_cluster(environ: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> SignIn:
    """
    Sign in as the pod that this process is, with the token that stands in its file then.

    Errors, when it is read: SettingsError when this is no such pod.
    """

    def read() -> Any:
        host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
        try:
            token = (folder / "token").read_text(encoding="utf-8").strip()
        except OSError as exc:
            raise SettingsError(
                f"The pod's token {folder / 'token'} cannot be read ({exc.strerror}). Give the pod a ServiceAccount."
            ) from None
        if not host or not token:
            raise SettingsError("This is no pod that may talk to its API server: give KUBEHENGE_KUBECONFIG.")
        return _with_token(f"https://{f'[{host}]' if ':' in host else host}:{port}", token, str(folder / "ca.crt"))

    return read


def _with_token(host: str, token: str, ca_file: str | None) -> Any:
    return Configuration(host=host, ssl_ca_cert=ca_file, api_key={"BearerToken": f"Bearer {token}"})


def _require_safe(configuration: Any, path: str) -> None:
    if not str(configuration.host).startswith("https://"):
        raise SettingsError(f"{path} names {configuration.host}, which is no https:// address: the token would be sent in the clear.")
    if not configuration.verify_ssl:
        raise SettingsError(
            f"{path} turns the check of the API server's certificate off (insecure-skip-tls-verify). "
            "Put the management cluster's CA into it instead (certificate-authority-data)."
        )
    if not configuration.api_key and not configuration.cert_file:
        raise SettingsError(f"{path} signs in as nobody: it has no token, no client certificate, and no exec program that gave one.")


def tokens_of(configuration: Any) -> list[SecretStr]:
    """Return what must never be shown."""
    return [SecretStr(text.removeprefix("Bearer ").removeprefix("Basic ")) for text in configuration.api_key.values()]


def is_same(one: Any, other: Any) -> bool:
    """Tell whether two configurations sign in alike."""
    return _means(one) == _means(other)


def _means(configuration: Any) -> tuple[Any, ...]:
    files = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
    return (configuration.host, dict(configuration.api_key), tuple(_content(path) for path in files))


def _content(path: str | None) -> bytes:
    try:
        return Path(path).read_bytes() if path else b""
    except OSError:
        return b""


def certificate_ends(configuration: Any) -> datetime | None:
    """Return when the client certificate ends, None without one."""
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(_content(configuration.cert_file)).not_valid_after_utc.astimezone(UTC)
    except ValueError:
        return None
