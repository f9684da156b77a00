"""A test client that refuses what a browser would stumble over: invalid HTML, an id twice, a form without its token."""

from __future__ import annotations

from collections import Counter
from typing import Any
from xml.etree import ElementTree as ET

import html5lib
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

BASE = "https://kubehenge.example.org"
HTML = "{http://www.w3.org/1999/xhtml}"


def parse(text: str) -> ET.Element:
    """Parse a document or a fragment strictly; refuses an id that stands twice."""
    whole = text.lstrip().lower().startswith("<!doctype")
    parser = html5lib.HTMLParser(strict=True)
    tree = parser.parse(text) if whole else parser.parseFragment(text)
    ids = Counter(element.get("id") for element in tree.iter() if isinstance(element.tag, str) and element.get("id"))
    twice = [one for one, count in ids.items() if count > 1]
    assert not twice, f"ids that stand twice: {twice}"
    return tree


class Browser:
    """Someone's browser: keeps the cookie, follows nothing by itself, and judges every page it gets."""

    def __init__(self, app: Flask) -> None:
        self.client: FlaskClient = app.test_client()

    def get(self, path: str, **options: Any) -> TestResponse:
        return self._judged(self.client.get(path, base_url=BASE, buffered=True, **options))

    def post(self, path: str, data: dict[str, Any] | None = None, *, token: bool = True, **options: Any) -> TestResponse:
        """Send a form, with the token of this session and the origin that a browser adds."""
        fields = dict(data or {})
        if token:
            fields["csrf_token"] = self.token()
        headers = {"Origin": BASE, **options.pop("headers", {})}
        return self._judged(self.client.post(path, data=fields, base_url=BASE, headers=headers, **options))

    def token(self) -> str:
        """The token that the forms of this session bear."""
        page = self.client.get("/sign-in", base_url=BASE)
        if page.status_code == 303:
            page = self.client.get("/ledger", base_url=BASE)
        found = parse(page.text).find(f".//{HTML}input[@name='csrf_token']")
        assert found is not None
        return found.get("value", "")

    def sign_in(self, user: str, password: str, **more: str) -> TestResponse:
        name, _at, realm = user.partition("@")
        return self.post("/sign-in", {"username": name, "realm": realm, "password": password, **more})

    @staticmethod
    def _judged(response: TestResponse) -> TestResponse:
        if response.mimetype == "text/html" and response.status_code != 303 and response.text and response.status_code != 302:
            parse(response.text)
        return response


def text_of(response: TestResponse) -> str:
    """All words of a page, with white space made one."""
    return " ".join(" ".join(parse(response.text).itertext()).split())


def main_text(response: TestResponse) -> str:
    """The words of a page's main part, without what stands around it."""
    main = parse(response.text).find(f".//{HTML}main")
    assert main is not None
    return " ".join(" ".join(main.itertext()).split())


def links_of(response: TestResponse) -> set[str]:
    """All addresses that a page links to."""
    return {found for element in parse(response.text).iter(f"{HTML}a") if (found := element.get("href"))}
