"""The files that are served as they are."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import kubehenge.web
from tests.web.browsing import Browser
from tests.web.conftest import Site

STATIC = Path(kubehenge.web.__file__).parent / "static"
TEMPLATES = Path(kubehenge.web.__file__).parent / "templates"


def test_htmx_is_the_copy_that_is_written_down() -> None:
    noted = re.search(r"`htmx\.min\.js`.*\| (2\.\d+\.\d+) \| `([0-9a-f]{64})`", (STATIC / "README.md").read_text("utf-8"))
    assert noted is not None
    content = (STATIC / "htmx.min.js").read_bytes()
    assert hashlib.sha256(content).hexdigest() == noted[2]
    assert noted[1].encode() in content


def test_htmx_has_its_licence_beside_it() -> None:
    assert "Zero-Clause BSD" in (STATIC / "htmx.LICENSE").read_text("utf-8")


def test_every_icon_that_a_template_names_is_in_the_sprite(site: Site, maria: Browser) -> None:
    there = set(re.findall(r'<symbol id="([a-z]+)"', (STATIC / "icons.svg").read_text("utf-8")))
    named = set()
    for path in TEMPLATES.rglob("*.html"):
        named |= set(re.findall(r"ui\.icon\('([a-z]+)'", path.read_text("utf-8")))
    for path in ("/clusters", "/plans", "/runs/417", "/sources", "/freezes", f"/plans/{site.fleet.plans['prod/shop asked']}"):
        named |= set(re.findall(r"/static/icons\.svg#([a-z]+)", maria.get(path).text))
    assert len(named) > 30
    assert named <= there


def test_every_class_that_a_template_names_is_in_the_stylesheet() -> None:
    css = (STATIC / "kubehenge.css").read_text("utf-8")
    unstyled = {"create", "change", "icon", "tree", "approval"}
    for path in TEMPLATES.rglob("*.html"):
        for names in re.findall(r'class="([a-z -]+)"', path.read_text("utf-8")):
            for name in names.split():
                assert f".{name}" in css or name in unstyled, (path.name, name)


def test_the_script_is_small_and_evaluates_nothing() -> None:
    text = (STATIC / "kubehenge.js").read_text("utf-8")
    assert len(text) < 3000
    for forbidden in ("eval", "innerHTML", "Function(", "document.write", "localStorage", "fetch("):
        assert forbidden not in text


def test_static_files_are_of_their_type(maria: Browser) -> None:
    types = {"kubehenge.css": "text/css", "icons.svg": "image/svg+xml", "htmx.min.js": "text/javascript", "kubehenge.js": "text/javascript"}
    for name, mimetype in types.items():
        response = maria.get(f"/static/{name}")
        assert response.status_code == 200
        assert response.mimetype == mimetype


def test_nothing_outside_the_folder_is_served(maria: Browser) -> None:
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static//etc/passwd", "/static/..%2f..%2fsettings.py"):
        assert maria.get(path).status_code in {308, 404}
