"""Process settings: where they come from, what is refused in which words, and that none is missing in the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubehenge.errors import SettingsError
from kubehenge.settings import Settings, described, load_settings, unknown_variables, variable
from kubehenge.settings_files import read_webhook_secrets
from kubehenge.settings_table import as_markdown

DOCS = Path(__file__).parent.parent / "docs" / "settings.md"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*(variable(name) for name in described()), "KUBEHENGE_CONFIG"):
        monkeypatch.delenv(name, raising=False)


def test_nothing_set_is_a_whole_set_of_defaults() -> None:
    settings = load_settings()
    assert settings.site == "default"
    assert settings.database.get_secret_value() == "sqlite:////var/lib/kubehenge/state.db"
    assert settings.page_url == "http://127.0.0.1:8443"


def test_the_environment_sets_and_lists_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEHENGE_PROXMOX_ENDPOINTS", "https://pve1:8006/, https://pve2:8006")
    monkeypatch.setenv("KUBEHENGE_LISTEN_PORT", "443")
    settings = load_settings()
    assert settings.proxmox_endpoints == ("https://pve1:8006", "https://pve2:8006")
    assert settings.listen_port == 443


def test_an_empty_variable_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEHENGE_LISTEN_PORT", "")
    assert load_settings().listen_port == 8443


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.toml", 'site = "berlin"\nproxmox_endpoints = ["https://pve1:8006", "https://pve2:8006"]\nlisten_port = 9000\n'),
        (
            "config.env",
            "KUBEHENGE_SITE=berlin\nKUBEHENGE_PROXMOX_ENDPOINTS=https://pve1:8006,https://pve2:8006\nKUBEHENGE_LISTEN_PORT=9000\n",
        ),
    ],
)
def test_a_file_sets_and_the_environment_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setenv("KUBEHENGE_CONFIG", str(tmp_path / name))
    monkeypatch.setenv("KUBEHENGE_LISTEN_PORT", "9001")
    settings = load_settings()
    assert settings.site == "berlin"
    assert settings.proxmox_endpoints == ("https://pve1:8006", "https://pve2:8006")
    assert settings.listen_port == 9001


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("config.toml", 'sit = "berlin"\n', "sit is no setting"),
        ("config.env", "KUBEHENGE_SIT=berlin\n", "sit is no setting"),
        ("config.toml", "site = berlin\n", "cannot be read as settings"),
        ("config.ini", "[kubehenge]\n", r"must end in \.toml or \.env"),
        ("config.toml", None, "which is no file"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str | None, says: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setenv("KUBEHENGE_CONFIG", str(tmp_path / name))
    with pytest.raises(SettingsError, match=says):
        load_settings()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"listen_port": "https"}, "KUBEHENGE_LISTEN_PORT"),
        ({"session_hours": 9}, "KUBEHENGE_SESSION_HOURS"),
        ({"site": "Not A Name"}, "KUBEHENGE_SITE"),
        ({"proxmox_endpoints": "pve1:8006"}, "must start with https://"),
        ({"tls_cert_file": "/c.pem"}, "go together"),
        ({"proxmox_token_id": "kubehenge@pve!kubehenge"}, "KUBEHENGE_PROXMOX_TOKEN_ID and its secret go together"),
        ({"capmox_token_id": "capmox", "capmox_token_secret": "x"}, "must look like user@realm!name"),
        ({"metrics_token": "a", "metrics_token_file": "/nowhere"}, "both set"),
        (
            {"metrics_token_file": "/nowhere/at/all"},
            "KUBEHENGE_METRICS_TOKEN_FILE names /nowhere/at/all, which cannot be read: No such file",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_variable(given: dict[str, object], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        load_settings(**given)


def test_all_errors_come_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(listen_port="x", workers=0)
    assert "KUBEHENGE_LISTEN_PORT" in str(caught.value)
    assert "KUBEHENGE_WORKERS" in str(caught.value)


def test_a_secret_is_read_from_its_file_without_the_line_end(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("11111111-2222-3333-4444-555555555555\n", encoding="utf-8")
    settings = load_settings(proxmox_token_id="kubehenge@pve!kubehenge", proxmox_token_secret_file=tmp_path / "secret")
    assert settings.proxmox_token_secret is not None
    assert settings.proxmox_token_secret.get_secret_value() == "11111111-2222-3333-4444-555555555555"


def test_no_secret_shows_in_print_or_in_an_error(tmp_path: Path) -> None:
    secret = "hunter2hunter2"
    settings = load_settings(
        database_url=f"postgresql://u:{secret}@h/d", proxmox_token_id="a@pve!b", proxmox_token_secret=secret, metrics_token=secret
    )
    assert secret not in f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"
    with pytest.raises(SettingsError) as caught:
        load_settings(metrics_token=[secret], listen_port=secret, capmox_token_secret=secret)
    assert secret not in str(caught.value)


def test_misspelt_variables_are_found() -> None:
    assert unknown_variables({"KUBEHENGE_DATBASE_URL": "x", "KUBEHENGE_SITE": "x", "KUBEHENGE_CONFIG": "x", "HOME": "/"}) == (
        "KUBEHENGE_DATBASE_URL",
    )


def test_webhook_secrets_are_read_by_source(tmp_path: Path) -> None:
    path = tmp_path / "webhooks"
    path.write_text("# ours\nfleet  s3cret one\n\nlab x\n", encoding="utf-8")
    found = read_webhook_secrets(path)
    assert {name: secret.get_secret_value() for name, secret in found.items()} == {"fleet": "s3cret one", "lab": "x"}
    path.write_text("fleet\n", encoding="utf-8")
    with pytest.raises(SettingsError, match="line 1"):
        read_webhook_secrets(path)
    with pytest.raises(SettingsError, match="cannot be read"):
        read_webhook_secrets(tmp_path / "none")
    assert read_webhook_secrets(None) == {}


def test_every_setting_has_words_and_those_with_a_measure_have_a_unit() -> None:
    for name, field in described().items():
        assert field.description, name
        assert field.description.endswith("."), name
        if name.endswith(("_s", "_hours")):
            assert isinstance(field.json_schema_extra, dict)
            assert field.json_schema_extra["unit"], name


def test_the_documentation_holds_every_setting_as_it_is() -> None:
    """`kubehenge settings --process --markdown` prints the table."""
    assert as_markdown() in DOCS.read_text(encoding="utf-8")


def test_settings_cannot_be_changed_once_read() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().site = "other"


def test_the_password_of_the_database_is_a_secret_too() -> None:
    found = load_settings(database_url="postgresql://u:hunter2hunter2@h/d").secrets
    assert [one.get_secret_value() for one in found if one] == ["hunter2hunter2"]
    assert not any(load_settings().secrets)
