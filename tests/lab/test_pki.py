"""The lab's certificate authority."""

from __future__ import annotations

import shutil
import ssl
import stat

from cryptography import x509

from kubehenge.lab.pki import CertificateAuthority


def test_same_directory_has_the_same_authority_and_certificates(tmp_path):
    first = CertificateAuthority(tmp_path)
    leaf = first.leaf("pve1")
    again = CertificateAuthority(tmp_path)
    assert again.pem == first.pem
    assert again.leaf("pve1") == leaf


def test_certificate_names_loopback_and_itself_and_is_signed_by_the_authority(tmp_path):
    authority = CertificateAuthority(tmp_path)
    leaf = authority.leaf("pve1")
    cert, issuer = x509.load_pem_x509_certificates(leaf.cert.read_bytes())
    names = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert set(names.get_values_for_type(x509.DNSName)) == {"localhost", "pve1"}
    assert {str(address) for address in names.get_values_for_type(x509.IPAddress)} == {"127.0.0.1", "::1"}
    cert.verify_directly_issued_by(issuer)
    assert leaf.fingerprint.count(":") == 31


def test_clients_may_check_certificates_strictly(tmp_path):
    authority = CertificateAuthority(tmp_path)
    server = authority.leaf("pve1").server_context()
    client = ssl.create_default_context(cafile=str(authority.cert_path))
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    there = server.wrap_bio(incoming, outgoing, server_side=True)
    here = client.wrap_bio(outgoing, incoming, server_hostname="127.0.0.1")
    for side in (here, there, here, there):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    assert here.getpeercert()["subject"] == ((("commonName", "pve1"),),)


def test_certificate_of_another_authority_is_made_anew(tmp_path):
    old = CertificateAuthority(tmp_path / "old").leaf("pve1")
    new = CertificateAuthority(tmp_path / "new")
    for path in (old.cert, old.key):
        shutil.copy(path, tmp_path / "new")
    assert new.leaf("pve1").fingerprint != old.fingerprint


def test_certificate_for_more_names_is_made_anew(tmp_path):
    authority = CertificateAuthority(tmp_path)
    assert (
        authority.leaf("page", hosts=("127.0.0.1",)).fingerprint != authority.leaf("page", hosts=("127.0.0.1", "lab.example")).fingerprint
    )


def test_keys_are_for_their_owner_only(tmp_path):
    leaf = CertificateAuthority(tmp_path).leaf("pve1")
    for path in (leaf.key, tmp_path / "ca.key"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
