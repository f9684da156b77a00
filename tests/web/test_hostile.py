"""Names, messages and files come from others: whatever they hold, a page shows it as text."""

from __future__ import annotations

import pytest

from kubehenge.model.plan import Check, Obstacle, Remedy
from kubehenge.store.rows import SourceState, Verdict
from tests.web.browsing import HTML, Browser, parse
from tests.web.conftest import Site
from tests.web.factories import Fleet, at, create, update

ATTACKS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg/onload=alert(1)>",
    "{{ 7*7 }}{% raw %}",
    "`<img src=x onerror=alert(2)>` between backticks",
    "javascript:alert(1)",
    "\u202ereversed\u0000".replace("\u0000", ""),
)
PAYLOAD = " ".join(ATTACKS)


def planted(fleet: Fleet) -> dict[str, int]:
    fleet.source_id = fleet.source(
        PAYLOAD[:60], url=PAYLOAD, accepted_author=PAYLOAD, accepted_subject=PAYLOAD, state=SourceState.UNREACHABLE, reason=PAYLOAD
    )
    conditions = [{"type": PAYLOAD, "status": "False", "reason": PAYLOAD, "message": PAYLOAD, "since": PAYLOAD}]
    fleet.cluster("prod/evil", class_name=PAYLOAD, version=PAYLOAD, conditions=conditions, status={"endpoint": PAYLOAD})
    fleet.machine(
        "prod/evil", PAYLOAD.replace("/", "|"), vmid=7777, node=PAYLOAD, version=PAYLOAD, deployment=PAYLOAD, address=PAYLOAD, ready=False
    )
    problem = {"line": 1, "column": 1, "field": PAYLOAD, "message": PAYLOAD, "severity": "error"}
    fleet.document(PAYLOAD, verdict=Verdict.REFUSED, kind="Cluster", scope="prod/evil", problems=[problem])
    actions = [
        create(1, "proxmox.pool", PAYLOAD, {"comment": PAYLOAD, PAYLOAD: PAYLOAD}),
        update(2, "kube.cluster", "prod/evil", {"a": PAYLOAD}, {"a": PAYLOAD + "!"}, reason=PAYLOAD),
    ]
    obstacle = Obstacle(what=PAYLOAD, asked=PAYLOAD, there_is=PAYLOAD, short_by=PAYLOAD, remedies=(Remedy(text=PAYLOAD, cost=PAYLOAD),))
    stuck = fleet.plan(
        "prod/evil",
        PAYLOAD,
        actions,
        digest="eeee00000001",
        opened=at("12:00"),
        author=PAYLOAD,
        summary=PAYLOAD,
        obstacles=(obstacle,),
        checks=(Check(text=PAYLOAD, holds=False, note=PAYLOAD),),
    )
    fleet.said(stuck, PAYLOAD, when=at("12:01"), comment=PAYLOAD)
    run = fleet.run(stuck, started=at("12:02"), waits_on=PAYLOAD, error=PAYLOAD, log=[{"at": PAYLOAD, "level": PAYLOAD, "text": PAYLOAD}])
    fleet.entry(PAYLOAD[:60], "prod/evil", PAYLOAD, at("12:03"), {"note": PAYLOAD})
    return {"plan": stuck, "run": run, "source": fleet.source_id}


@pytest.fixture
def evil(site: Site) -> dict[str, int]:
    return site.change(planted)  # type: ignore[no-any-return]


PATHS = [
    "/clusters",
    "/clusters/prod/evil",
    "/clusters/prod/evil/machines",
    "/clusters/prod/evil/conditions",
    "/clusters/prod/evil/plans",
    "/plans",
    "/plans/{plan}",
    "/plans/{plan}/actions/1",
    "/plans/{plan}/actions/2",
    "/approvals",
    "/runs",
    "/runs/{run}",
    "/runs/{run}/log",
    "/sources",
    "/sources/{source}",
    "/ledger",
    "/freezes",
    "/find?q=prod",
]


@pytest.mark.parametrize("path", PATHS)
def test_nothing_that_others_wrote_becomes_markup(maria: Browser, evil: dict[str, int], path: str) -> None:
    response = maria.get(path.format(**evil))
    assert response.status_code == 200
    tree = parse(response.text)
    for element in tree.iter():
        if not isinstance(element.tag, str):
            continue
        assert element.tag != f"{HTML}img"
        assert not [name for name in element.attrib if name.lower().startswith("on")], ElementName(element)
        assert "javascript:" not in element.get("href", "")
        assert "style" not in element.attrib
    scripts = [element.get("src") for element in tree.iter(f"{HTML}script")]
    assert scripts == ["/static/htmx.min.js", "/static/kubehenge.js"]
    assert "{{ 7*7 }}" not in response.text or "49" not in response.text.partition("{{ 7*7 }}")[0][-4:]


class ElementName:
    """An element for a message."""

    def __init__(self, element: object) -> None:
        self.element = element

    def __repr__(self) -> str:
        return str(getattr(self.element, "tag", self.element))


@pytest.mark.parametrize(
    "path", ["/clusters", "/plans", "/ledger", "/find", "/freezes", "/fragments/cluster-table", "/fragments/plan-table"]
)
@pytest.mark.parametrize("attack", ATTACKS)
def test_what_stands_in_an_address_comes_back_as_text(maria: Browser, path: str, attack: str) -> None:
    query = dict.fromkeys(("q", "ns", "who", "event", "scope", "class", "state", "word", "order", "page", "from", "to", "minor"), attack)
    response = maria.get(path, query_string=query)
    assert response.status_code == 200
    tree = parse(response.text)
    assert all(element.tag != f"{HTML}img" for element in tree.iter())
    assert {element.get("src") for element in tree.iter(f"{HTML}script")} <= {"/static/htmx.min.js", "/static/kubehenge.js"}
    assert "<script>alert" not in response.text


def test_what_was_typed_into_a_form_comes_back_as_text(site: Site, maria: Browser) -> None:
    plan = site.fleet.plans["lab/scratch asked"]
    for attack in ATTACKS:
        answer = maria.post(f"/plans/{plan}/approve", {"digest": "x", "typed_name": attack, "comment": attack})
        assert "<script>alert" not in answer.text
        assert all(element.tag != f"{HTML}img" for element in parse(answer.text).iter())
        answer = maria.post("/freezes", {"scope": attack, "reason": attack, "hours": attack})
        assert answer.status_code == 422
        assert "<script>alert" not in answer.text
    for attack in ATTACKS:
        answer = Browser(site.app).post("/sign-in", {"username": attack, "realm": attack, "password": "x", "next": attack})
        assert answer.status_code in {401, 429}
        assert "<script>alert" not in answer.text


def test_an_address_that_is_not_there_comes_back_as_text(maria: Browser) -> None:
    response = maria.get("/clusters/%3Cscript%3Ealert(1)%3C/script%3E/x")
    assert response.status_code == 404
    assert "<script>alert" not in response.text


def test_a_header_of_another_site_cannot_be_put_in(maria: Browser) -> None:
    response = maria.post("/plans/again", {"back": "/plans\r\nSet-Cookie: a=b"})
    assert "Set-Cookie" not in response.headers.get("Location", "")
    assert response.headers.get_all("Set-Cookie") == []
