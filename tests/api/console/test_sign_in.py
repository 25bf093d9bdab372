"""Signing in to the console: sessions, their cookies, their ends, and the forms of other sites."""

import html
import re
from collections.abc import Iterator

import httpx
import pytest
import sqlalchemy as sa

from app.api.console.answers import SESSION_COOKIE
from app.api.console.sign_in import ATTEMPTS_PER_SECOND, AttemptLimit
from app.api.middleware.request_entry import MAX_SIGN_IN_BYTES
from app.api.server.problem_responses import POLICY
from mirrorgate.errors import Code, TemporarilyUnavailable
from tests.api.calls import ADMIN_KEY, Gateway
from tests.support.postgres import sql
from tests.support.waiting import wait_until


@pytest.fixture
def browser(gateway: Gateway) -> Iterator[httpx.Client]:
    """Give a client without a key that keeps cookies."""
    with httpx.Client(base_url=gateway.address, trust_env=False) as client:
        yield client


def sign_in(browser: httpx.Client, key: str = ADMIN_KEY, **fields: str) -> httpx.Response:
    return browser.post("/console/sign-in", data={"key": key, **fields})


def csrf_of(browser: httpx.Client) -> str:
    found = re.search(r'name="csrf" value="([0-9a-f]{64})"', browser.get("/console").raise_for_status().text)
    assert found is not None
    return found[1]


def test_a_key_opens_a_session_in_a_cookie_that_no_script_and_no_other_site_uses(browser: httpx.Client) -> None:
    assert browser.get("/console").headers["location"] == "/console/sign-in?next=/console"
    answer = sign_in(browser, next="/console?x=1")
    assert (answer.status_code, answer.headers["location"]) == (303, "/console?x=1")
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/console"} <= set(cookie.split("; "))
    assert "Secure" not in cookie  # this server speaks plain HTTP on the machine itself
    page = browser.get("/console").raise_for_status()
    assert "<h1>Overview</h1>" in page.text
    assert page.headers["cache-control"] == "no-store"


def test_pages_for_strangers_read_no_file_of_the_package(
    browser: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many of them must cost little: reading the version of the package took five times as long as filling a page."""
    browser.get("/console/sign-in")
    monkeypatch.setattr("importlib.metadata.Distribution.metadata", property(lambda _: pytest.fail("read")))
    assert browser.get("/console/sign-in").status_code == 200
    assert browser.post("/console/nothing").status_code == 405
    assert browser.post("/console/sign-in", content=b"x").status_code == 415


@pytest.mark.parametrize("path", ["/console/tables/s.k%C3%B6%20%22x%22", "/console/tables?q=a%20b&state=paused"])
def test_a_link_to_a_page_survives_the_sign_in(browser: httpx.Client, path: str) -> None:
    way = browser.get(path).headers["location"]
    form = browser.get(way).raise_for_status().text
    found = re.search(r'name="next" value="([^"]+)"', form)
    assert found is not None
    assert sign_in(browser, next=html.unescape(found[1])).headers["location"] == path


def test_signing_in_leads_to_the_console_only(browser: httpx.Client) -> None:
    assert sign_in(browser, next="//evil.example").headers["location"] == "/console"
    assert "evil" not in browser.get("/console/sign-in", params={"next": "//evil.example"}).text


def test_a_wrong_key_is_rejected_audited_and_never_shown(browser: httpx.Client, gateway: Gateway) -> None:
    answer = sign_in(browser, ADMIN_KEY[:-1] + "!")
    assert (answer.status_code, SESSION_COOKIE in browser.cookies) == (401, False)
    assert ADMIN_KEY[:-1] not in answer.text
    assert "This key is not valid" in answer.text

    def audited() -> bool:
        events = gateway.audit(outcome="rejected")
        return any(event["action"] == "POST /console/sign-in" and event["status"] == 401 for event in events)

    wait_until(audited, within=60, what="the rejected try is in the audit")
    assert gateway.audit(outcome="done") == []


def test_each_sign_in_makes_a_new_session_and_ends_the_one_before(browser: httpx.Client, api_engine: sa.Engine) -> None:
    planted = "A" * 43
    sign_in_with = {"Cookie": f"{SESSION_COOKIE}={planted}"}
    browser.post("/console/sign-in", data={"key": ADMIN_KEY}, headers=sign_in_with)
    first = browser.cookies[SESSION_COOKIE]
    assert first != planted
    sign_in(browser)
    second = browser.cookies[SESSION_COOKIE]
    assert second != first
    old = {"Cookie": f"{SESSION_COOKIE}={first}"}
    assert (
        httpx.get(f"{browser.base_url}/console", headers=old, trust_env=False).headers["location"].endswith("ended=1")
    )
    with api_engine.connect() as connection:
        stored = connection.execute(sa.text("SELECT s::text FROM mirrorgate.console_sessions s")).scalars().all()
    assert len(stored) == 1
    assert second not in stored[0]


def test_signing_out_ends_the_session_and_is_audited(browser: httpx.Client, gateway: Gateway) -> None:
    sign_in(browser)
    token = browser.cookies[SESSION_COOKIE]
    assert browser.post("/console/sign-out", data={"csrf": csrf_of(browser)}).status_code == 303
    again = httpx.get(f"{browser.base_url}/console", headers={"Cookie": f"{SESSION_COOKIE}={token}"}, trust_env=False)
    assert again.status_code == 303
    assert [event["action"] for event in gateway.audit(outcome="done")] == ["sign_in", "sign_out"]


def test_a_form_needs_the_token_of_its_session_and_an_origin_of_this_server(browser: httpx.Client) -> None:
    sign_in(browser)
    csrf = csrf_of(browser)
    for data, headers in (
        ({"csrf": ""}, {}),
        ({"csrf": "0" * 64}, {}),
        ({"csrf": csrf}, {"Sec-Fetch-Site": "cross-site"}),
        ({"csrf": csrf}, {"Sec-Fetch-Site": "same-site"}),
        ({"csrf": csrf}, {"Origin": "https://evil.example"}),
        ({"csrf": csrf}, {"Origin": "null"}),
    ):
        answer = browser.post("/console/sign-out", data=data, headers=headers)
        assert (answer.status_code, "<h1>" in answer.text) == (403, True)
    assert browser.post("/console/sign-in", data={"key": ADMIN_KEY}, headers={"Origin": "https://x"}).status_code == 403
    own = {"Origin": str(browser.base_url).rstrip("/")}
    assert browser.post("/console/theme", data={"csrf": csrf, "theme": "dark"}, headers=own).status_code == 303
    assert 'data-theme="dark"' in browser.get("/console").text


def test_the_menu_leads_back_to_the_page_and_after_a_form_to_its_section(browser: httpx.Client) -> None:
    sign_in(browser)
    csrf, path = csrf_of(browser), "/console/tables?q=a%20b&state=paused"

    def back(page: httpx.Response) -> str:
        found = re.search(r'name="next" value="([^"]*)"', page.text)
        assert found is not None
        fields = {"csrf": csrf, "theme": "dark", "next": html.unescape(found[1])}
        return browser.post("/console/theme", data=fields).headers["location"]

    assert back(browser.get(path)) == path
    tried = browser.post("/console/try", data={"csrf": csrf, "format": "rows", "table": "s.none", "parameters": ""})
    assert (tried.status_code >= 400, back(tried)) == (True, "/console/try")
    key = browser.post("/console/keys/new", data={"csrf": csrf, "right-read": "on", "tables": "*"})
    assert (key.status_code, back(key)) == (200, "/console/keys")
    refused = browser.post("/console/dead-letters/replay", data={"csrf": csrf})
    assert (refused.status_code, back(refused)) == (400, "/console")


def test_a_session_ends_when_its_key_is_deleted_or_rotated_without_an_overlap(
    browser: httpx.Client, gateway: Gateway
) -> None:
    for end in ("delete", "rotate"):
        made = gateway.new_key("read")
        sign_in(browser, made["key"])
        browser.get("/console").raise_for_status()
        if end == "delete":
            gateway.delete(f"/v1/keys/{made['id']}").raise_for_status()
        else:
            gateway.post(f"/v1/keys/{made['id']}/rotate", json={"overlap_seconds": 0}).raise_for_status()
        wait_until(lambda: browser.get("/console").status_code == 303, within=60, what=f"the session ends ({end})")


@pytest.mark.parametrize(
    "moved",
    ["expires_at = now()", "last_used_at = now() - interval '61 min'", "last_used_at = now() + interval '61 min'"],
    ids=["expired", "unused", "clock_was_set_back"],
)
def test_a_session_ends_by_itself(browser: httpx.Client, api_engine: sa.Engine, moved: str) -> None:
    sign_in(browser)
    browser.get("/console").raise_for_status()
    sql.run(api_engine, f"UPDATE mirrorgate.console_sessions SET {moved}")
    assert browser.get("/console").headers["location"] == "/console/sign-in?next=/console&ended=1"


def test_sessions_from_before_the_clock_was_set_back_are_the_first_of_too_many(
    browser: httpx.Client, api_engine: sa.Engine
) -> None:
    sign_in(browser)
    copies = """
        INSERT INTO mirrorgate.console_sessions (session_hash, subject, proof, grants, expires_at, created_at)
        SELECT sha256(n::text::bytea), subject, proof, grants, expires_at, now() + interval '1 day'
        FROM mirrorgate.console_sessions, generate_series(1, 50) n"""
    sql.run(api_engine, copies)
    sign_in(browser)
    assert browser.get("/console").status_code == 200


@pytest.mark.parametrize(("right", "way_out"), [("ingest", "/console/producers"), ("register", "/console/sign-in")])
def test_a_key_without_the_right_to_read_sees_a_page_that_says_so(
    browser: httpx.Client, gateway: Gateway, right: str, way_out: str
) -> None:
    sign_in(browser, gateway.new_key(right, tables=["a.*"])["key"])
    answer = browser.get("/console")
    assert answer.status_code == 403
    assert f'<a class="button" href="{way_out}">' in answer.text
    assert "without the right <code>read</code>" in answer.text
    assert "/console/keys" not in answer.text


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/console/none", 303),
        ("GET", "/console/assets/none.js", 404),
        ("DELETE", "/console", 405),
        ("GET", "/console/%00", 400),
        ("GET", "/console/sign-in", 200),
        ("POST", "/console/sign-in", 415),
        ("GET", "/console/assets/console.css", 200),
    ],
)
def test_every_answer_has_the_headers_of_a_page(browser: httpx.Client, method: str, path: str, status: int) -> None:
    answer = browser.request(method, path)
    assert answer.status_code == status
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["x-frame-options"] == "DENY"
    assert "application/problem+json" not in answer.headers.get("content-type", "")


def test_unknown_pages_are_problem_pages_with_a_remedy(browser: httpx.Client) -> None:
    sign_in(browser)
    answer = browser.get("/console/none")
    assert answer.status_code == 404
    assert "What to do" in answer.text
    assert 'aria-label="Console"' in answer.text
    assert browser.get("/console/audit?before=-1").text.count("parameter before") == 1


def test_an_unauthenticated_body_is_small(browser: httpx.Client) -> None:
    assert sign_in(browser, "x" * MAX_SIGN_IN_BYTES).status_code == 413


def test_a_live_part_without_a_session_tells_the_script_to_load_the_page(browser: httpx.Client) -> None:
    answer = browser.get("/console/fragments/overview", headers={"HX-Request": "true"})
    assert (answer.status_code, answer.headers["hx-refresh"]) == (401, "true")


def test_a_link_of_another_site_loads_the_page_again_so_that_the_cookie_is_sent(browser: httpx.Client) -> None:
    answer = browser.get("/console/tables/a.b", headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 200
    assert 'content="0;url=/console/tables/a.b"' in answer.text


def test_failed_tries_of_one_address_are_limited() -> None:
    now = 0.0
    limit = AttemptLimit(lambda: now)
    for _ in range(round(ATTEMPTS_PER_SECOND)):
        limit.check("10.0.0.1")
        limit.note_failure("10.0.0.1")
    with pytest.raises(TemporarilyUnavailable, match=Code.RATE_LIMITED):
        limit.check("10.0.0.1")
    limit.check("10.0.0.2")
    now = 1.0
    limit.check("10.0.0.1")


def test_a_page_beyond_a_limit_loads_itself_again_and_the_answer_to_a_form_does_not(
    browser: httpx.Client, gateway: Gateway
) -> None:
    key = gateway.new_key("read", requests_per_second=0.001)["key"]
    sign_in(browser, key)  # counts as a request of the key
    answers = [
        browser.get("/console"),
        browser.post("/console/theme"),
        browser.post("/console/sign-in", data={"key": key}),
    ]
    assert [answer.status_code for answer in answers] == [429, 429, 429]
    assert ['http-equiv="refresh"' in answer.text for answer in answers] == [True, False, False]
