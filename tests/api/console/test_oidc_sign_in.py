"""Signing in to the console at an identity provider: the flow, the browser that it is bound to, and what rejects it."""

import base64
import html
import re
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from app.api.auth.oidc import ClientRegistration, CodeFlow, IssuerKeys, OidcVerifier
from app.api.console.answers import SESSION_COOKIE
from app.api.console.sign_in import ATTEMPT_COOKIE, ATTEMPTS_PER_SECOND, SIGN_IN_ATTEMPTS
from app.domain.access.rights import Grant, Right
from app.domain.access.sign_in import SignInAttempt
from app.settings import Settings
from app.settings.start_checks import check_tokens
from mirrorgate.errors import Code, Misconfigured
from tests.api.calls import Gateway, own_gateway
from tests.api.console.plain_browser import Browser, check_markup
from tests.support.http.issuer import AUDIENCE, CLIENT_ID, CLIENT_SECRET, Issuer, issuing
from tests.support.postgres import sql
from tests.support.rejections import rejected
from tests.support.waiting import wait_until

CALLBACK = "/console/oidc/callback"
REDIRECT = f"http://127.0.0.1:8480{CALLBACK}"
RIGHTS = {
    "sales.owner": {"rights": ["read"], "tables": ["sales.*"]},
    "operator": {"rights": ["admin"], "tables": ["*"]},
}


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with issuing() as issuer:
        issuer.new_key("forger", publish=False)
        yield issuer


@pytest.fixture(scope="module")
def address(issuer: Issuer, api_database: str) -> Iterator[str]:
    """Give a gateway to whose console people of this issuer can sign in."""
    with own_gateway(api_database, **settings_of(issuer)) as gateway:
        yield gateway.address


@pytest.fixture
def browser(gateway: Gateway, address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Browser]:
    """Give a browser without a session."""
    monkeypatch.setattr(SIGN_IN_ATTEMPTS, "_buckets", {})
    with Browser(base_url=address, trust_env=False, timeout=30) as made:
        yield made


def settings_of(issuer: Issuer) -> dict[str, Any]:
    return {
        "oidc_issuer": issuer.url,
        "oidc_audience": AUDIENCE,
        "oidc_rights": RIGHTS,
        "oidc_client_id": CLIENT_ID,
        "oidc_client_secret": CLIENT_SECRET,
        "oidc_redirect_url": REDIRECT,
    }


def begin(browser: Browser, **fields: str) -> str:
    """Start an attempt; return the address at the provider."""
    answer = browser.post("/console/oidc/start", data={"next": "/console/tables", **fields})
    assert answer.status_code == 200, answer.text
    return target_of(answer)


def target_of(answer: httpx.Response) -> str:
    """Return where a page leads to by itself."""
    found = re.search(r'http-equiv="refresh" content="0;url=([^"]+)"', answer.text)
    assert found is not None, answer.text
    return html.unescape(found[1])


def come_back(browser: Browser, path: str) -> httpx.Response:
    return browser.get(path, headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"})


def cookies_of(answer: httpx.Response) -> dict[str, set[str]]:
    found = {}
    for cookie in answer.headers.get_list("set-cookie"):
        pair, *attributes = cookie.split("; ")
        found[pair.partition("=")[0]] = set(attributes)
    return found


def test_a_person_signs_in_with_the_rights_of_the_roles_for_as_long_as_the_token_is_valid(
    browser: Browser, issuer: Issuer, gateway: Gateway
) -> None:
    for table in ("sales.orders", "hr.people"):
        gateway.register(table, {"id": "int64"}, ["id"]).raise_for_status()
    page = browser.page("/console/sign-in", next="/console/tables")
    check_markup(page)
    assert 'action="/console/oidc/start"' in page
    with capture_logs() as logs:
        started = browser.post("/console/oidc/start", data={"next": "/console/tables"})
        assert {"HttpOnly", "SameSite=lax", "Path=/console/oidc", "Max-Age=600"} <= cookies_of(started)[ATTEMPT_COOKIE]
        path = issuer.sign_in(target_of(started), ["sales.owner", "unknown"], exp=int(time.time()) + 200)
        answer = come_back(browser, path)
    assert (answer.status_code, target_of(answer)) == (200, "/console/tables")
    assert {"HttpOnly", "SameSite=strict", "Path=/console"} <= cookies_of(answer)[SESSION_COOKIE]
    assert ATTEMPT_COOKIE not in browser.cookies
    tables = browser.page("/console/tables")
    assert ("oidc:ann" in tables, "sales.orders" in tables, "hr.people" in tables) == (True, True, False)
    assert browser.get("/console/keys").status_code == 403
    code = parse_qs(urlsplit(path).query)["code"][0]
    secrets = (code, issuer.tokens[-1], CLIENT_SECRET, browser.cookies[SESSION_COOKIE])
    assert not [secret for secret in secrets if secret in str(logs) + answer.text]
    with gateway.engine.connect() as connection:
        [seconds] = connection.execute(
            sa.text("SELECT extract(epoch FROM expires_at - now()) FROM mirrorgate.console_sessions")
        ).scalars()
    assert 100 < seconds <= 200
    [event] = gateway.audit(outcome="done", subject="oidc:ann")
    assert event["action"] == "sign_in"


def other_browser(browser: Browser, path: str) -> str:
    browser.cookies.clear()
    return path


def of_another_attempt(browser: Browser, path: str) -> str:
    begin(browser)
    return path


CASES: dict[str, tuple[str, int, dict[str, Any], Any]] = {
    "another browser": ("did not begin in this browser", 401, {}, other_browser),
    "another attempt": ("did not begin in this browser", 401, {}, of_another_attempt),
    "a planted cookie": (
        "did not begin in this browser",
        401,
        {},
        lambda browser, path: browser.cookies.set(ATTEMPT_COOKIE, "A" * 43 + ".x", path="/console/oidc") or path,
    ),
    "no code": ("has no code", 401, {}, lambda _, path: re.sub("code=[^&]+", "code=", path)),
    "an unknown code": ("invalid_grant", 401, {}, lambda _, path: re.sub("code=[^&]+", "code=stolen", path)),
    "no consent": ("access_denied", 401, {}, lambda _, path: f"{path}&error=access_denied"),
    "a hostile error": ("unknown_error", 401, {}, lambda _, path: f"{path}&error=%3Cscript%3Ealert(7)"),
    "another nonce": ("was not made for this sign-in", 401, {"nonce": "x"}, None),
    "no nonce": ("was not made for this sign-in", 401, {"nonce": None}, None),
    "an access token": ("another audience", 401, {"aud": AUDIENCE}, None),
    "another client": ("another client", 401, {"aud": [CLIENT_ID, "x"], "azp": "x"}, None),
    "no client of several": ("is for several audiences", 401, {"aud": [CLIENT_ID, "x"]}, None),
    "no client named": ("another client", 401, {"aud": CLIENT_ID, "azp": ""}, None),
    "a token that expires now": ("has expired", 401, {"exp": int(time.time()) - 5}, None),
    "a forged token": ("is not valid", 401, {"key_id": "forger", "headers": {"kid": "one"}}, None),
    "a hostile subject": ("1 to 200 visible ASCII characters", 401, {"sub": "a\nb<script>"}, None),
    "no role": ("none of the roles of oidc:&lt;b&gt;", 403, {"roles": [], "sub": "<b>"}, None),
}


@pytest.mark.parametrize("case", CASES)
def test_any_other_redirect_or_token_starts_no_session(
    browser: Browser, issuer: Issuer, api_engine: sa.Engine, case: str
) -> None:
    why, status, claims, change = CASES[case]
    given = {"roles": ["operator"], **claims}
    path = issuer.sign_in(begin(browser), given.pop("roles"), **given)
    answer = come_back(browser, change(browser, path) if change else path)
    check_markup(answer.text)
    assert (answer.status_code, why in answer.text) == (status, True), answer.text
    assert "Start again" in answer.text or "Ask an administrator for a role" in answer.text
    assert (SESSION_COOKIE in browser.cookies, "<script>alert" in answer.text) == (False, False)
    with api_engine.connect() as connection:
        assert connection.execute(sa.text("SELECT count(*) FROM mirrorgate.console_sessions")).scalar() == 0
    assert come_back(browser, path).status_code == 401  # the attempt is over


def test_a_callback_that_another_site_makes_a_browser_load_blocks_no_sign_in(browser: Browser, issuer: Issuer) -> None:
    for _ in range(3 * round(ATTEMPTS_PER_SECOND)):
        assert come_back(browser, f"{CALLBACK}?code=x&state=x").status_code == 401
    assert come_back(browser, issuer.sign_in(begin(browser), ["operator"])).status_code == 200


def test_a_code_works_once_and_rejections_are_audited(browser: Browser, issuer: Issuer, gateway: Gateway) -> None:
    address = begin(browser)
    cookie = browser.cookies[ATTEMPT_COOKIE]
    path = issuer.sign_in(address, ["operator"])
    assert come_back(browser, path).status_code == 200
    with httpx.Client(base_url=browser.base_url, trust_env=False) as thief:
        again = thief.get(path, headers={"Cookie": f"{ATTEMPT_COOKIE}={cookie}"})
    assert (again.status_code, "invalid_grant" in again.text) == (401, True)

    def audited() -> bool:
        events = gateway.audit(outcome="rejected")
        return any(event["action"] == f"GET {CALLBACK}" and event["code"] == "unauthenticated" for event in events)

    wait_until(audited, within=60, what="the rejected sign-in is in the audit")


def test_a_provider_that_is_away_or_does_not_know_the_gateway_is_named_with_a_remedy(
    browser: Browser, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = issuer.sign_in(begin(browser), ["operator"])
    monkeypatch.setattr(issuer, "answers_with", 503)
    away = come_back(browser, path)
    assert (away.status_code, "issuer_unavailable" in away.text) == (503, True)
    monkeypatch.setattr(issuer, "answers_with", 200)
    monkeypatch.setattr(issuer, "client_secret", "another")
    unknown = come_back(browser, path)
    assert (unknown.status_code, "invalid_client" in unknown.text) == (401, True)
    assert "<code>MIRRORGATE_OIDC_CLIENT_SECRET</code>" in unknown.text
    assert CLIENT_SECRET not in html.unescape(unknown.text)


def test_the_way_to_the_provider_begins_at_the_sign_in_page_only(browser: Browser, api_address: str) -> None:
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert browser.post("/console/oidc/start", data={}, headers=headers).status_code == 403
    begin(browser, next="https://evil.example/console")
    assert SignInAttempt.parse(browser.cookies[ATTEMPT_COOKIE]) is not None
    assert "evil" not in base64.urlsafe_b64decode(browser.cookies[ATTEMPT_COOKIE].split(".")[1] + "==").decode()
    with Browser(base_url=api_address, trust_env=False) as without:
        assert "oidc" not in without.page("/console/sign-in")
        assert without.post("/console/oidc/start", data={}).status_code == 404


def test_sessions_of_people_end_where_nobody_can_sign_in_at_a_provider(
    browser: Browser, issuer: Issuer, api_address: str
) -> None:
    come_back(browser, issuer.sign_in(begin(browser), ["operator"]))
    token = browser.cookies[SESSION_COOKIE]
    assert browser.get("/console").status_code == 200
    answer = httpx.get(f"{api_address}/console", headers={"Cookie": f"{SESSION_COOKIE}={token}"}, trust_env=False)
    assert (answer.status_code, "ended=1" in answer.headers["location"]) == (303, True)


def test_a_session_loses_the_rights_that_the_settings_withdraw(
    browser: Browser, issuer: Issuer, api_engine: sa.Engine
) -> None:
    come_back(browser, issuer.sign_in(begin(browser), ["operator", "sales.owner"]))
    assert browser.get("/console/keys").status_code == 200
    withdrawn = "UPDATE mirrorgate.console_sessions SET grants = replace(grants::text, :role, :other)::jsonb"
    for role, other, status in (('["admin"]', '["admin", "read"]', 403), ('"sales.*"', '"hr.*"', 303)):
        sql.run(api_engine, withdrawn, role=role, other=other)
        assert browser.get("/console/keys").status_code == status


BASIC, POST = "client_secret_basic", "client_secret_post"


@pytest.mark.parametrize(
    ("supported", "registered", "secret"),
    [
        ([BASIC], BASIC, CLIENT_SECRET),
        ([POST], POST, CLIENT_SECRET),
        ([POST, BASIC], BASIC, CLIENT_SECRET),
        ([POST, BASIC], POST, CLIENT_SECRET),
        ([POST, BASIC, "none"], "none", None),
    ],
)
def test_a_secret_is_where_the_registration_expects_it_and_a_public_client_sends_none(
    supported: list[str], registered: str, secret: str | None, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    methods = {"token_endpoint_auth_methods_supported": supported}
    monkeypatch.setattr(issuer, "discovery", issuer.discovery | methods)
    monkeypatch.setattr(issuer, "client_method", registered)
    monkeypatch.setattr(issuer, "client_secret", secret)
    grants = {"operator": Grant(frozenset({Right.ADMIN}), ("*",))}
    keys = IssuerKeys(issuer.url)
    keys.prefetch()
    flow = CodeFlow(
        ClientRegistration(issuer.url, CLIENT_ID, secret, REDIRECT),
        OidcVerifier(keys, issuer.url, AUDIENCE, grants),
        grants.values(),
    )
    for number in b"xy":
        attempt = SignInAttempt.of(bytes([number]) * 32, "/console")
        path = issuer.sign_in(flow.authorization_address(attempt), ["operator"])
        before = issuer.asked.total()
        credential, seconds = flow.holder(parse_qs(urlsplit(path).query)["code"][0], attempt)
        assert (credential.subject, 200 < seconds <= 300) == ("oidc:ann", True)
    assert issuer.asked.total() - before == 1, "the place that the issuer took is tried first"
    with rejected(Code.UNAUTHENTICATED):
        flow.holder("", attempt)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"oidc_client_id": None, "oidc_client_secret": None}, "OIDC_REDIRECT_URL is set without"),
        ({"oidc_client_id": None, "oidc_redirect_url": None}, "OIDC_CLIENT_SECRET is set without"),
        ({"oidc_redirect_url": None}, "without MIRRORGATE_OIDC_REDIRECT_URL"),
        ({"oidc_issuer": None, "oidc_audience": None, "oidc_rights": {}}, "without MIRRORGATE_OIDC_ISSUER"),
        ({"oidc_redirect_url": f"http://gateway.example{CALLBACK}"}, "must be https"),
        ({"oidc_redirect_url": "https://gateway.example/"}, "must be https"),
        ({"oidc_redirect_url": f"https://gateway.example{CALLBACK}?x=1"}, "must be https"),
    ],
)
def test_incomplete_settings_are_named_before_the_start(issuer: Issuer, changed: dict[str, Any], named: str) -> None:
    with pytest.raises(Misconfigured, match=Code.BAD_SETTING) as error:
        check_tokens(Settings.model_validate(settings_of(issuer) | changed))
    assert named in error.value.detail
    check_tokens(Settings.model_validate(settings_of(issuer) | {"oidc_client_secret": None}))
