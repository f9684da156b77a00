"""The lab's certificate authority: one CA for a lab directory, and the server certificates it signs."""

from __future__ import annotations

import ipaddress
import os
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_CA_DAYS = 3650
_LEAF_DAYS = 730  # as Proxmox VE's node certificates
_RENEW_BEFORE = timedelta(days=30)
LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A certificate and its key as PEM files; `fingerprint` is its SHA-256, colon-separated, as Proxmox VE shows it."""

    cert: Path
    key: Path
    fingerprint: str

    def server_context(self) -> ssl.SSLContext:
        """A TLS context for a server that presents this certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert, self.key)
        return context


class CertificateAuthority:
    """
    The CA kept in `directory` (`ca.crt`, `ca.key`), made when it is not there yet.

    Shape: keys are P-256; files are for their owner only; certificates for the same name are reused until 30 days before their end.
    Errors: OSError when the directory cannot be written, ValueError when what is in it is no CA.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.cert_path = directory / "ca.crt"
        self._key_path = directory / "ca.key"
        if self.cert_path.exists() and self._key_path.exists():
            self._cert = x509.load_pem_x509_certificate(self.cert_path.read_bytes())
            self._key = _load_key(self._key_path)
        else:
            self._key = ec.generate_private_key(ec.SECP256R1())
            self._cert = self._self_signed()
            _write(self._key_path, _pem(self._key))
            _write(self.cert_path, self._cert.public_bytes(serialization.Encoding.PEM))

    @property
    def pem(self) -> str:
        """The CA's certificate, for clients to trust."""
        return self.cert_path.read_text(encoding="ascii")

    def client_context(self) -> ssl.SSLContext:
        """A TLS context for a client that trusts this CA and nothing else."""
        return ssl.create_default_context(cafile=str(self.cert_path))

    def leaf(self, name: str, *, hosts: Iterable[str] = LOOPBACK) -> Leaf:
        """The server certificate called `name` for these host names and addresses, made or renewed when needed."""
        wanted = tuple(dict.fromkeys((*hosts, name)))
        cert_path, key_path = self.directory / f"{name}.crt", self.directory / f"{name}.key"
        if cert_path.exists() and key_path.exists():
            cert = x509.load_pem_x509_certificate(cert_path.read_bytes())
            fresh = cert.not_valid_after_utc - datetime.now(UTC) > _RENEW_BEFORE
            if fresh and cert.issuer == self._cert.subject and _names(cert) == set(wanted) and self._signed(cert):
                return Leaf(cert=cert_path, key=key_path, fingerprint=_fingerprint(cert))
        key = ec.generate_private_key(ec.SECP256R1())
        cert = self._sign(name, wanted, key)
        _write(key_path, _pem(key))
        _write(cert_path, cert.public_bytes(serialization.Encoding.PEM) + self.cert_path.read_bytes())
        return Leaf(cert=cert_path, key=key_path, fingerprint=_fingerprint(cert))

    def _signed(self, cert: x509.Certificate) -> bool:
        try:
            cert.verify_directly_issued_by(self._cert)
        except Exception:  # noqa: BLE001 - whatever is wrong with it, a new one is made
            return False
        return True

    def _self_signed(self) -> x509.Certificate:
        subject = x509.Name(
            [x509.NameAttribute(NameOID.COMMON_NAME, "Kubehenge lab"), x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Kubehenge lab CA")]
        )
        usage = x509.KeyUsage(
            key_cert_sign=True,
            crl_sign=True,
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        return (
            _builder(subject, subject, self._key, _CA_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(self._key, hashes.SHA256())
        )

    def _sign(self, name: str, hosts: Iterable[str], key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
        issuer_id = self._cert.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        return (
            _builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), self._cert.subject, key, _LEAF_DAYS)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer_id), critical=False)
            .sign(self._key, hashes.SHA256())
        )


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))  # clocks of clients may be behind
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _names(cert: x509.Certificate) -> set[str]:
    names = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(name) for name in names.get_values_for_type(x509.DNSName)} | {
        str(address) for address in names.get_values_for_type(x509.IPAddress)
    }


def _fingerprint(cert: x509.Certificate) -> str:
    return cert.fingerprint(hashes.SHA256()).hex(":").upper()


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def _load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError(f"{path} holds no P-256 key; remove ca.crt and ca.key to have new ones made")  # noqa: TRY004 - a file's content
    return key


def _write(path: Path, content: bytes) -> None:
    """Write atomically, readable for the owner only."""
    part = path.with_name(path.name + ".part")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
    part.replace(path)
