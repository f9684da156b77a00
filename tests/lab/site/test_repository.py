"""The lab's repository: cloned and pushed to as any other, and each push told to the page with a signed notice."""

from __future__ import annotations

import json
import os
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kubehenge.lab.places import SOURCE
from kubehenge.lab.site import find_example
from kubehenge.source.webhook import Delivery, verify
from tests.fakes.lab import LabThread, lab_in_thread, until
from tests.lab.site.conftest import git

pytestmark = pytest.mark.lab


class Page:
    """Takes notices where Kubehenge's page would, with its certificate."""

    def __init__(self, lab: LabThread) -> None:
        settings = lab.settings
        notices: list[tuple[str, dict[str, str], bytes]] = []
        self.notices, self.status = notices, 202
        page = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                notices.append((self.path, dict(self.headers.items()), body))
                self.send_response(page.status)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", int(settings["KUBEHENGE_LISTEN_PORT"])), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(settings["KUBEHENGE_TLS_CERT_FILE"], settings["KUBEHENGE_TLS_KEY_FILE"])
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def page(lab: LabThread) -> Iterator[Page]:
    taking = Page(lab)
    yield taking
    taking.close()


@pytest.fixture
def clone(lab: LabThread, tmp_path: Path) -> Path:
    git(tmp_path, "clone", "-q", str(lab.site.places.repository), "clone")
    return tmp_path / "clone"


def change(clone: Path, name: str = "note.md") -> str:
    (clone / name).write_text("changed\n")
    git(clone, "add", "--all")
    git(clone, "commit", "-q", "-m", "Change something")
    return git(clone, "rev-parse", "HEAD").stdout.strip()


def webhook_secret(lab: LabThread) -> str:
    name, _, secret = Path(lab.settings["KUBEHENGE_WEBHOOK_SECRETS_FILE"]).read_text().strip().partition(" ")
    assert name == SOURCE
    return secret


def test_a_push_is_told_to_the_page_with_a_notice_that_kubehenge_believes(lab: LabThread, page: Page, clone: Path) -> None:
    after = change(clone)
    said = git(clone, "push", "-q").stderr
    assert "Kubehenge knows of the push" in said
    [(path, headers, body)] = page.notices
    assert path == f"/hooks/git/{SOURCE}"
    delivery = verify(headers, body, [webhook_secret(lab)], now=datetime.now(UTC))
    assert isinstance(delivery, Delivery)
    assert (delivery.ref, delivery.after, delivery.pusher) == ("refs/heads/main", after, "maria")
    assert delivery.repository_urls == (lab.site.git_url,)


def test_a_push_succeeds_while_there_is_no_page(clone: Path) -> None:
    change(clone)
    assert "does not answer" in git(clone, "push", "-q").stderr


def test_a_page_that_refuses_the_notice_fails_no_push(page: Page, clone: Path) -> None:
    page.status = 403
    change(clone)
    assert "did not take the notice" in git(clone, "push", "-q").stderr


def test_the_pusher_over_https_is_whoever_signed_in(lab: LabThread, page: Page, tmp_path: Path) -> None:
    trust = ("-c", f"http.sslCAInfo={lab.site.ca_file}")
    token = (lab.site.places.secrets / "git-token").read_text().strip()
    url = lab.site.git_url.replace("https://", f"https://tomas:{token}@")
    git(tmp_path, *trust, "clone", "-q", url, "over-https")
    change(tmp_path / "over-https")
    git(tmp_path / "over-https", *trust, "push", "-q")
    assert json.loads(page.notices[0][2])["pusher"]["login"] == "tomas"


@pytest.mark.parametrize("protocol", ["0", "2"])
@pytest.mark.parametrize("login", ["", "tomas:wrong@"])
def test_https_without_the_token_is_refused(lab: LabThread, tmp_path: Path, login: str, protocol: str) -> None:
    trust = ("-c", f"http.sslCAInfo={lab.site.ca_file}", "-c", f"protocol.version={protocol}")
    done = git(tmp_path, *trust, "ls-remote", lab.site.git_url.replace("https://", f"https://{login}"), check=False)
    assert done.returncode == 128
    assert "Authentication failed" in done.stderr or "could not read Username" in done.stderr


def test_large_pushes_and_fetches_pass_over_https(lab: LabThread, tmp_path: Path) -> None:
    trust = ("-c", f"http.sslCAInfo={lab.site.ca_file}", "-c", "http.postBuffer=65536")
    token = (lab.site.places.secrets / "git-token").read_text().strip()
    url = lab.site.git_url.replace("https://", f"https://tomas:{token}@")
    for protocol in ("0", "2"):
        folder = tmp_path / f"protocol-{protocol}"
        git(tmp_path, *trust, "-c", f"protocol.version={protocol}", "clone", "-q", url, str(folder))
        (folder / "large.bin").write_bytes(os.urandom(3_000_000))
        pushed = change(folder)
        git(folder, *trust, "-c", f"protocol.version={protocol}", "push", "-q")
        assert git(lab.site.places.repository, "rev-parse", "main").stdout.strip() == pushed


def test_history_may_be_rewritten_to_see_what_becomes_of_it(clone: Path) -> None:
    git(clone, "commit", "-q", "--amend", "-m", "Another beginning")
    git(clone, "push", "-q", "--force")


def test_a_new_repository_holds_the_example(tmp_path: Path) -> None:
    example = find_example()
    assert example is not None
    with lab_in_thread(tmp_path / "lab", speed=0, gitops=example) as lab:
        names = git(lab.site.places.repository, "ls-tree", "-r", "--name-only", "main").stdout.split()
        subjects = git(lab.site.places.repository, "log", "--format=%s", "main").stdout.splitlines()
    assert names == sorted(str(path.relative_to(example)) for path in example.rglob("*") if path.is_file())
    assert subjects == ["Add the clusters of the lab", "Begin the repository of clusters"]


def test_a_lab_may_begin_with_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with lab_in_thread(tmp_path / "lab", speed=0, gitops=tmp_path / "empty") as lab:
        assert git(lab.site.places.repository, "ls-tree", "-r", "--name-only", "main").stdout.split() == ["README.md"]


def test_the_hook_names_the_page_of_the_running_lab_after_a_move(tmp_path: Path) -> None:
    with lab_in_thread(tmp_path / "lab", speed=0):
        pass
    (tmp_path / "lab").rename(tmp_path / "moved")
    with lab_in_thread(tmp_path / "moved", speed=0) as lab:
        git(tmp_path, "clone", "-q", str(lab.site.places.repository), "clone")
        change(tmp_path / "clone")
        taking = Page(lab)
        git(tmp_path / "clone", "push", "-q")
        until(lambda: taking.notices)
        taking.close()
