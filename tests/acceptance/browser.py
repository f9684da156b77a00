"""A browser without script: pages, their texts, and their forms filled in and sent as a person does."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin, urlsplit
from xml.etree.ElementTree import Element

import html5lib
import requests

TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class Form:
    """One form of a page: where it goes, what it holds, and the buttons that send it (by their words)."""

    action: str
    method: str
    fields: dict[str, str]
    buttons: dict[str, str]


@dataclass(frozen=True, slots=True)
class Page:
    """One answer."""

    status: int
    path: str
    text: str
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def root(self) -> Element:
        parsed: Element = html5lib.parse(self.text, namespaceHTMLElements=False)
        return parsed

    @property
    def words(self) -> str:
        """What one reads, on one line."""
        body = self.root.find("body")
        return " ".join("".join(body.itertext() if body is not None else ()).split())

    def forms(self) -> list[Form]:
        return [_form(element, self.path) for element in self.root.iter("form")]

    def form(self, action: str) -> Form | None:
        """The form that goes to an address, or has a button that does."""
        return next((one for one in self.forms() if action in {one.action, *one.buttons.values()}), None)

    def has_button(self, words: str) -> bool:
        """Whether there is a button with these words that can be pressed."""
        return any(
            words in " ".join("".join(button.itertext()).split()) and "disabled" not in button.attrib for button in self.root.iter("button")
        )

    def find(self, pattern: str) -> re.Match[str] | None:
        return re.search(pattern, self.words)


class Browser:
    """Keeps cookies, follows redirects, trusts the lab's authority."""

    def __init__(self, url: str, ca_file: str) -> None:
        self._url = url
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.verify = ca_file
        self.page = Page(0, "/", "")

    def get(self, path: str, **more: Any) -> requests.Response:
        return self._session.get(urljoin(self._url, path), timeout=TIMEOUT_S, **more)

    def post(self, path: str, **more: Any) -> requests.Response:
        return self._session.post(urljoin(self._url, path), timeout=TIMEOUT_S, **more)

    def open(self, path: str) -> Page:
        """Go to a page, which becomes the one whose forms can be sent."""
        self.page = _page(self.get(path))
        return self.page

    def submit(self, action: str, **values: str) -> Page:
        """Fill in the form of the page that goes there, and send it with all its hidden fields."""
        form = self.page.form(action)
        assert form is not None, f"{self.page.path} has no form to {action}: {self.page.words[:2000]}"
        unknown = set(values) - set(form.fields)
        assert not unknown, f"the form has no field {unknown}"
        self.page = _page(self.post(action, data={**form.fields, **values}))
        return self.page

    def json(self, path: str, *, status: int = 200) -> Any:
        """Ask the JSON API with this session."""
        answer = self.get(path)
        assert answer.status_code == status, (answer.status_code, answer.text[:2000])
        return answer.json()


def _page(answer: requests.Response) -> Page:
    return Page(answer.status_code, urlsplit(answer.url).path, answer.text, dict(answer.headers))


def _form(element: Element, path: str) -> Form:
    fields: dict[str, str] = {}
    buttons: dict[str, str] = {}
    action = urljoin(path, element.get("action", path))
    for one in element.iter():
        name = one.get("name")
        match one.tag:
            case "input" if name and one.get("type") not in {"checkbox", "radio", "submit"}:
                fields[name] = one.get("value", "")
            case "input" if name and "checked" in one.attrib:
                fields[name] = one.get("value", "on")
            case "textarea" if name:
                fields[name] = "".join(one.itertext())
            case "select" if name:
                options = list(one.iter("option"))
                chosen = [option for option in options if "selected" in option.attrib] or options[:1]
                fields[name] = chosen[0].get("value", "") if chosen else ""
            case "button":
                buttons[" ".join("".join(one.itertext()).split())] = urljoin(path, one.get("formaction", action))
    return Form(action, element.get("method", "get"), fields, buttons)
