"""Server certificates that are wrong in one way, which the lab's own authority never makes."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kubehenge.lab.pki import CertificateAuthority


def pair(
    ca: CertificateAuthority, folder: Path, *, days: int = 30, starts_in_days: int = -5, hosts: Sequence[str] = ("127.0.0.1",)
) -> tuple[Path, Path]:
    """A certificate that the authority signs, and its key."""
    signer = serialization.load_pem_private_key((ca.directory / "ca.key").read_bytes(), password=None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    issuer = x509.load_pem_x509_certificate(ca.cert_path.read_bytes())
    key = ec.generate_private_key(ec.SECP256R1())
    now = dt.datetime.now(dt.UTC)
    named = [x509.IPAddress(ipaddress.ip_address(one)) if one[0].isdigit() else x509.DNSName(one) for one in hosts]
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "made for a test")]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + dt.timedelta(days=starts_in_days))
        .not_valid_after(now + dt.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName(named), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, hashes.SHA256())
    )
    cert_path, key_path = folder / "made.crt", folder / "made.key"
    cert_path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_path.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return cert_path, key_path


def certificate(
    ca: CertificateAuthority, folder: Path, *, days: int = 30, starts_in_days: int = -5, hosts: Sequence[str] = ("127.0.0.1",)
) -> ssl.SSLContext:
    """A server's TLS context with such a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pair(ca, folder, days=days, starts_in_days=starts_in_days, hosts=hosts))
    return context
