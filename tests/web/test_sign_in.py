"""Signing in with Proxmox VE's realms: limits, second factor, and the fixed end of a session (ACCEPTANCE 4.2, 4.3)."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from tests.web.browsing import BASE, Browser, text_of
from tests.web.conftest import Site


def test_the_form_offers_the_realms_that_take_a_password(site: Site) -> None:
    page = Browser(site.app).get("/sign-in").text
    assert '<option value="corp" selected>corp: company directory</option>' in page
    assert "sso" not in page


def test_a_right_password_leads_to_the_page_that_was_asked_for(site: Site) -> None:
    browser = Browser(site.app)
    asked = browser.get("/plans?state=closed")
    assert asked.headers["Location"] == "/sign-in?next=/plans?state%3Dclosed"
    assert browser.sign_in("maria@corp", "oak", next="/plans?state=closed").headers["Location"] == "/plans?state=closed"
    assert browser.get("/plans").status_code == 200


@pytest.mark.parametrize(
    "target",
    ["https://evil.example.org/", "//evil.example.org", "/\\evil.example.org", "javascript:alert(1)", "evil", "/\t/evil.example.org", ""],
)
def test_nobody_is_led_to_another_site(site: Site, target: str) -> None:
    assert Browser(site.app).sign_in("maria@corp", "oak", next=target).headers["Location"] == "/clusters"


def test_a_wrong_password_is_said_in_the_words_of_the_pages(site: Site) -> None:
    browser = Browser(site.app)
    response = browser.sign_in("maria@corp", "wrong")
    assert response.status_code == 401
    assert (
        "Not signed in. Proxmox VE did not accept this user name and password in the realm corp. 4 more tries in the next 5 minutes."
        in text_of(response)
    )
    assert "wrong" not in response.text
    assert browser.client.get("/clusters", base_url=BASE).status_code == 303


def test_a_user_name_that_is_not_there_is_answered_like_a_wrong_password(site: Site) -> None:
    known = text_of(Browser(site.app).sign_in("maria@corp", "wrong"))
    unknown = text_of(Browser(site.app).sign_in("nemo@corp", "wrong"))
    assert known == unknown


def test_the_sixth_failure_of_a_user_is_not_passed_on(site: Site) -> None:
    browser = Browser(site.app)
    answers = [browser.sign_in("maria@corp", "wrong") for _ in range(6)]
    assert [one.status_code for one in answers] == [401] * 5 + [429]
    assert site.people.asked.count("sign_in") == 5
    assert "Too many sign-ins" in text_of(answers[-1])
    assert 0 < int(answers[-1].headers["Retry-After"]) <= 300
    assert browser.sign_in("maria@corp", "oak").status_code == 429, "the right password is not tried either"
    assert browser.sign_in("tomas@corp", "elm").status_code == 303, "others go on"


def test_spelling_a_name_otherwise_gives_no_more_tries(site: Site) -> None:
    browser = Browser(site.app)
    for name in ("maria", "Maria", "MARIA", " maria", "mariA"):
        browser.sign_in(f"{name}@corp", "wrong")
    assert browser.sign_in("maria@corp", "wrong").status_code == 429


def test_the_failures_of_one_address_are_limited_over_all_users(site: Site) -> None:
    browser = Browser(site.app)
    answers = [browser.sign_in(f"user{number}@corp", "wrong").status_code for number in range(21)]
    assert answers == [401] * 20 + [429]
    assert site.people.asked.count("sign_in") == 20


def test_signing_in_rightly_uses_up_no_try(site: Site) -> None:
    browser = Browser(site.app)
    for _ in range(30):
        assert browser.sign_in("maria@corp", "oak").status_code == 303
        browser.post("/sign-out")


def test_tries_at_the_same_moment_all_count(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    browsers = [Browser(site.app) for _ in range(12)]
    together = threading.Barrier(12)
    answers = []

    def try_once(browser: Browser) -> None:
        token = browser.token()
        together.wait(timeout=20)
        form = {"csrf_token": token, "username": "maria", "realm": "corp", "password": "wrong"}
        answers.append(browser.client.post("/sign-in", data=form, base_url=BASE).status_code)

    threads = [threading.Thread(target=try_once, args=(browser,)) for browser in browsers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [401] * 5 + [429] * 7


def test_proxmox_ve_being_away_uses_up_no_try(site: Site) -> None:
    browser = Browser(site.app)
    token = browser.token()
    site.people.down = True
    for _ in range(7):
        form = {"csrf_token": token, "username": "maria", "realm": "corp", "password": "oak"}
        response = browser.client.post("/sign-in", data=form, base_url=BASE)
        assert response.status_code == 503
        assert "Proxmox VE does not answer" in response.text
    site.people.down = False
    assert browser.sign_in("maria@corp", "oak").status_code == 303


@pytest.mark.parametrize("form", [{"username": "maria"}, {"realm": "corp", "password": "oak"}, {}])
def test_an_incomplete_form_is_not_passed_on(site: Site, form: dict[str, str]) -> None:
    assert Browser(site.app).post("/sign-in", form).status_code == 422
    assert "sign_in" not in site.people.asked


def test_a_session_ends_after_eight_hours_however_active(site: Site, maria: Browser) -> None:
    for _ in range(15):
        site.clock.forward(31 * 60)
        assert maria.get("/clusters").status_code == 200
    site.clock.forward(15 * 60)
    assert maria.get("/clusters").status_code == 303


def test_a_ticket_is_renewed_before_proxmox_ve_lets_it_end(site: Site, maria: Browser) -> None:
    site.clock.forward(59 * 60)
    maria.get("/clusters")
    assert "renew" not in site.people.asked
    site.clock.forward(2 * 60)
    maria.get("/clusters")
    assert site.people.asked.count("renew") == 1


def test_a_user_who_is_disabled_is_out_within_half_a_minute(site: Site, maria: Browser) -> None:
    assert maria.get("/clusters").status_code == 200
    site.people.disabled.add("maria@corp")
    site.clock.forward(30)
    assert maria.get("/clusters").status_code == 303
    site.people.disabled.clear()
    assert maria.get("/clusters").status_code == 303, "a session that has ended does not come back"


def test_rights_that_were_taken_away_count_within_half_a_minute(site: Site, maria: Browser) -> None:
    assert maria.get("/clusters/prod/shop").status_code == 200
    asked = site.people.asked.count("rights")
    site.people.listed["maria@corp"] = {"/": {}}
    maria.get("/clusters")
    assert site.people.asked.count("rights") == asked, "Proxmox VE is not asked for every page"
    site.clock.forward(30)
    assert maria.get("/clusters/prod/shop").status_code == 404


def test_signing_out_ends_the_session_on_the_server(site: Site, maria: Browser) -> None:
    cookie = maria.client.get_cookie("__Host-kubehenge", domain="kubehenge.example.org")
    assert cookie is not None
    assert maria.post("/sign-out").headers["Location"] == "/sign-in"
    thief = Browser(site.app)
    thief.client.set_cookie("__Host-kubehenge", cookie.value, domain="kubehenge.example.org", secure=True)
    assert thief.client.get("/clusters", base_url=BASE).status_code == 303


def test_signing_in_changes_the_id_of_the_session(site: Site) -> None:
    browser = Browser(site.app)
    browser.get("/sign-in")
    before = browser.client.get_cookie("__Host-kubehenge", domain="kubehenge.example.org")
    browser.sign_in("maria@corp", "oak")
    after = browser.client.get_cookie("__Host-kubehenge", domain="kubehenge.example.org")
    assert before is not None
    assert after is not None
    assert before.value != after.value
    thief = Browser(site.app)
    thief.client.set_cookie("__Host-kubehenge", before.value, domain="kubehenge.example.org", secure=True)
    assert thief.client.get("/clusters", base_url=BASE).status_code == 303


def test_visitors_take_no_memory(site: Site) -> None:
    sessions = site.app.session_interface
    for _ in range(50):
        Browser(site.app).get("/sign-in")
    assert len(sessions) == 0  # type: ignore[arg-type]


def test_a_second_factor_is_asked_for_and_is_no_session(site: Site) -> None:
    browser = Browser(site.app)
    answer = browser.sign_in("aisha@corp", "yew", next="/plans")
    assert answer.headers["Location"] == "/sign-in/second-factor?next=/plans"
    page = browser.get("/sign-in/second-factor")
    assert "Code from an app" in page.text
    assert "Recovery key" not in page.text
    assert browser.client.get("/clusters", base_url=BASE).status_code == 303
    assert browser.client.get("/api/v1/clusters", base_url=BASE).status_code == 401


def test_a_right_code_signs_in_and_keeps_its_leading_zero(site: Site) -> None:
    browser = Browser(site.app)
    browser.sign_in("aisha@corp", "yew")
    assert browser.post("/sign-in/second-factor", {"factor": "totp", "code": " 012345 ", "next": "/plans"}).headers["Location"] == "/plans"
    assert browser.get("/clusters").status_code == 200


def test_wrong_codes_are_limited_like_passwords(site: Site) -> None:
    browser = Browser(site.app)
    browser.sign_in("aisha@corp", "yew")
    answers = [browser.post("/sign-in/second-factor", {"factor": "totp", "code": "12345"}).status_code for _ in range(6)]
    assert answers == [401] * 5 + [429]
    assert browser.client.get("/sign-in/second-factor", base_url=BASE).status_code == 303, "the challenge is over"


def test_a_challenge_is_forgotten_after_a_few_minutes(site: Site) -> None:
    browser = Browser(site.app)
    browser.sign_in("aisha@corp", "yew")
    site.clock.forward(timedelta(minutes=6).total_seconds())
    assert browser.client.get("/sign-in/second-factor", base_url=BASE).status_code == 303


def test_a_security_key_cannot_be_used_from_here_and_the_page_says_so(site: Site) -> None:
    browser = Browser(site.app)
    browser.sign_in("aisha@corp", "yew")
    assert browser.post("/sign-in/second-factor", {"factor": "webauthn", "code": "x"}).status_code == 422
    assert "bound to Proxmox VE's own address" in text_of(browser.get("/sign-in/second-factor"))


def test_no_password_or_ticket_is_on_any_page_or_in_the_log(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    browser = Browser(site.app)
    browser.sign_in("maria@corp", "a-password-that-is-wrong")
    browser.sign_in("maria@corp", "oak")
    pages = browser.get("/clusters").text + browser.get("/ledger").text
    logged = "".join(capsys.readouterr())
    for secret in ("a-password-that-is-wrong", "PVE:maria"):
        assert secret not in pages
        assert secret not in logged
