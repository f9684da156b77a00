"""`doctor`: each thing that is wrong is named with how to mend it, and no secret is shown."""

from __future__ import annotations

import datetime as dt
import fcntl
import json
from collections.abc import Callable
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from kubehenge.store.database import Database
from kubehenge.store.rows import LeaseRow
from tests.cli.conftest import Ended

Kh = Callable[..., Ended]


def findings(kh: Kh, *arguments: str) -> dict[str, dict[str, Any]]:
    ended = kh("doctor", *(arguments or ("--local",)), "-o", "json")
    found = {one["what"]: one for one in json.loads(ended.out)}
    assert ended.code == (0 if all(one["ok"] for one in found.values()) else 1)
    return found


def the(found: dict[str, dict[str, Any]], beginning: str) -> dict[str, Any]:
    (one,) = (value for key, value in found.items() if key.startswith(beginning))
    return one


def test_a_running_site_is_well_but_for_what_it_did_not_read(kh: Kh, filled: Database) -> None:
    now = dt.datetime.now(UTC)
    with filled.write() as session:
        for name in ("watch", "tick", "apply"):
            lease = LeaseRow(name=f"default/{name}", holder="pve1:42", fence=1, expires_at=now + timedelta(minutes=1), renewed_at=now)
            session.add(lease)
    found = findings(kh)
    wrong = {what for what, one in found.items() if not one["ok"]}
    assert wrong == {"reading of bulk"}
    assert the(found, "loops")["detail"] == "run by pve1:42"
    assert "failed: 595; read last 2025-03-10 08:30:00 UTC" in found["reading of bulk"]["detail"]
    assert the(found, "source fleet")["detail"] == "at cccccccccccc, 2 documents, 1 refused"


def test_before_the_first_start_it_says_what_to_do(kh: Kh) -> None:
    found = findings(kh)
    assert "kubehenge db upgrade" in found["database"]["detail"]
    kh("db", "upgrade")
    found = findings(kh)
    assert (the(found, "site default")["ok"], "kubehenge serve" in the(found, "site default")["mend"]) == (False, True)
    assert "kubehenge serve" in the(found, "loops")["mend"]


def test_wrong_settings_are_said_and_nothing_else_is_looked_at(kh: Kh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEHENGE_LISTEN_PORT", "https")
    found = findings(kh)
    assert "KUBEHENGE_LISTEN_PORT" in found["settings"]["detail"]
    assert "database" not in found


def test_misspelt_variables_are_named(kh: Kh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEHENGE_DATBASE_URL", "sqlite:////x")
    assert findings(kh)["KUBEHENGE_DATBASE_URL"]["ok"] is False


def test_secrets_are_set_and_not_shown(kh: Kh, filled: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    canary = "hunter2hunter2hunter2"
    (tmp_path / "secret").write_text(canary, encoding="utf-8")
    monkeypatch.setenv("KUBEHENGE_PROXMOX_TOKEN_ID", "kubehenge@pve!kubehenge")
    monkeypatch.setenv("KUBEHENGE_PROXMOX_TOKEN_SECRET_FILE", str(tmp_path / "secret"))
    monkeypatch.setenv("KUBEHENGE_METRICS_TOKEN", canary)
    for form in ("table", "json"):
        ended = kh("doctor", "--local", "-o", form)
        assert "KUBEHENGE_METRICS_TOKEN=set" in ended.out
        assert canary not in ended.out + ended.err


def test_a_state_directory_that_others_can_read_is_named(kh: Kh, filled: Database, tmp_path: Path) -> None:
    (tmp_path / "state").chmod(0o755)
    (tmp_path / "state" / "site.key").write_bytes(b"k" * 32)
    (tmp_path / "state" / "site.key").chmod(0o644)
    found = findings(kh)
    assert the(found, "state directory")["mend"] == f"chmod 700 {tmp_path / 'state'}"
    assert the(found, "site key")["mend"].startswith("chmod 600")


def test_a_state_directory_that_is_not_there_is_named(kh: Kh, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBEHENGE_STATE_DIR", str(tmp_path / "nowhere"))
    assert "install -d -m 700" in the(findings(kh), "state directory")["mend"]


def test_the_process_that_holds_the_lock_is_named(kh: Kh, filled: Database, tmp_path: Path) -> None:
    with (tmp_path / "state" / "engine.lock").open("w", encoding="utf-8") as file:
        file.write("4242\n")
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        assert "process 4242 holds" in the(findings(kh), "loops")["detail"]
    assert "4242" not in the(findings(kh), "loops")["detail"]


def test_changed_tables_are_named(kh: Kh, filled: Database) -> None:
    with filled.connect() as connection:
        connection.execute(text("DROP INDEX ix_tick_site_id_at"))
    assert "ix_tick_site_id_at" in the(findings(kh), "database ")["detail"]


def test_what_is_kept_aside_waits_for_someone_and_a_rewritten_source_are_named(kh: Kh, filled: Database) -> None:
    with filled.connect() as connection:
        connection.execute(text("UPDATE site SET mode = 'observing', mode_reason = 'the world is newer'"))
        connection.execute(text("UPDATE source SET state = 'rewritten', reason = 'The branch was rewritten.'"))
        connection.execute(
            text(
                "INSERT INTO suspicion (site_id, kind, missing, readings, opened_at, outcome) VALUES (1, 'proxmox.vm', '[\"1\", \"2\"]', '[]', '2025-03-10 08:00:00.000000', '')"
            )
        )
    found = findings(kh)
    assert "the world is newer" in the(found, "site default")["detail"]
    assert the(found, "source fleet")["mend"] == "kubehenge source accept fleet"
    assert "2 things vanished" in the(found, "reading of proxmox.vm")["detail"]


def certificate(folder: Path, *, days: int) -> tuple[Path, Path]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubehenge")])
    now = dt.datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
    signed = made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=days)).sign(key, hashes.SHA256())
    cert_path, key_path = folder / f"{days}.pem", folder / f"{days}.key"
    cert_path.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    unencrypted = serialization.NoEncryption()
    key_path.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, unencrypted))
    return cert_path, key_path


@pytest.mark.parametrize(("days", "ok", "says"), [(90, True, "fits its key"), (7, False, "ends ")])
def test_the_pages_certificate_is_looked_at(
    kh: Kh, filled: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, days: int, ok: bool, says: str
) -> None:
    cert, key = certificate(tmp_path, days=days)
    monkeypatch.setenv("KUBEHENGE_TLS_CERT_FILE", str(cert))
    monkeypatch.setenv("KUBEHENGE_TLS_KEY_FILE", str(key))
    one = the(findings(kh), "certificate")
    assert (one["ok"], says in one["detail"]) == (ok, True)


def test_a_certificate_with_another_key_is_named(kh: Kh, filled: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cert, _ = certificate(tmp_path, days=90)
    _, key = certificate(tmp_path, days=91)
    monkeypatch.setenv("KUBEHENGE_TLS_CERT_FILE", str(cert))
    monkeypatch.setenv("KUBEHENGE_TLS_KEY_FILE", str(key))
    one = the(findings(kh), "certificate")
    assert (one["ok"], "cannot be used" in one["detail"]) == (False, True)


def test_files_that_settings_name_are_looked_at(kh: Kh, filled: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBEHENGE_KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("KUBEHENGE_WEBHOOK_SECRETS_FILE", str(tmp_path / "none"))
    found = findings(kh)
    assert the(found, "KUBEHENGE_KUBECONFIG")["ok"] is False
    assert found["webhook secrets"]["ok"] is False


def test_what_is_not_set_of_the_world_is_said(kh: Kh, filled: Database) -> None:
    one = the(findings(kh, "-o", "json"), "Proxmox VE and the management cluster")
    assert "KUBEHENGE_PROXMOX_ENDPOINTS" in one["detail"]


def test_without_a_kubeconfig_and_outside_of_a_pod_it_says_what_to_give(kh: Kh, filled: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBEHENGE_PROXMOX_ENDPOINTS", "https://127.0.0.1:1")
    monkeypatch.setenv("KUBEHENGE_PROXMOX_TOKEN_ID", "kubehenge@pve!kubehenge")
    monkeypatch.setenv("KUBEHENGE_PROXMOX_TOKEN_SECRET", "s3cret-of-the-token")
    one = the(findings(kh, "-o", "json"), "Proxmox VE and the management cluster")
    assert "give KUBEHENGE_KUBECONFIG, or run Kubehenge as a pod in it" in one["detail"]


def test_clusters_that_cluster_api_cannot_go_on_with_are_named(kh: Kh, filled: Database) -> None:
    with filled.connect() as connection:
        status = '{"troubles": [{"text": "Its class gone does not exist."}]}'
        connection.execute(text("UPDATE cluster SET status = :status WHERE id = (SELECT min(id) FROM cluster)"), {"status": status})
        [row] = connection.execute(text("SELECT namespace || '/' || name AS scope FROM cluster ORDER BY id LIMIT 1"))
    assert the(findings(kh), f"cluster {row.scope}")["detail"] == "Its class gone does not exist."
