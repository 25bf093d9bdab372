"""Access tokens of an OpenID Connect issuer, used instead of keys."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import jwt
import pytest
import structlog
from pydantic import ValidationError

from app.api.auth.oidc import (
    KEYS_SECONDS,
    LEEWAY_SECONDS,
    RETRY_SECONDS,
    RETRY_WITHOUT_KEYS_SECONDS,
    IssuerKeys,
    OidcVerifier,
    token_verifier,
)
from app.domain.access.rights import Grant, Right
from app.settings import Settings
from mirrorgate.errors import Code, Misconfigured, TemporarilyUnavailable
from tests.api.calls import ADMIN_KEY, Gateway, insert, own_gateway, problem
from tests.support.http.issuer import AUDIENCE, DISCOVERY, KEYS, Issuer
from tests.support.rejections import rejected
from tests.support.waiting import Clock, wait_until

RIGHTS = {
    "sender": {"rights": ["ingest"], "tables": ["*"]},
    "sales.owner": {"rights": ["read", "register"], "tables": ["sales.*"]},
    "operator": {"rights": ["admin"], "tables": ["*"]},
}


@pytest.fixture
def address(issuer: Issuer, database_url: str) -> Iterator[str]:
    """Give an API that takes this issuer's tokens, with the tables sales.orders and hr.people."""
    trusted = {"oidc_issuer": issuer.url, "oidc_audience": AUDIENCE, "oidc_rights": RIGHTS}
    with own_gateway(database_url, **trusted) as admin:
        for table in ("sales.orders", "hr.people"):
            admin.register(table, {"id": "int64"}, ["id"]).raise_for_status()
        with Gateway.at(admin.address, issuer.token("one", [])) as client:
            wait_until(lambda: client.get("/v1/keys").status_code == 403, within=30, what="the issuer's keys are read")
        yield admin.address


def test_a_token_may_do_what_its_roles_grant_with_their_tables_and_nothing_else(issuer: Issuer, address: str) -> None:
    with Gateway.at(address, issuer.token("one", ["sender", "sales.owner", "unknown"])) as client:
        assert client.arcion(insert("hr.people", id="1")).status_code == 202
        assert [table["table"] for table in client.get("/v1/tables").json()["tables"]] == ["sales.orders"]
        problem(client.get("/v1/tables/hr.people"), 404, "unknown_table")
        assert "the token lacks" in problem(client.get("/v1/keys"), 403, "forbidden")["detail"]
    with Gateway.at(address, issuer.token("one", ["unknown"])) as nobody:
        problem(nobody.get("/v1/tables"), 403, "forbidden")


def test_a_holders_requests_are_its_own_whatever_token_it_shows(issuer: Issuer, address: str) -> None:
    def send(**claims: Any) -> int:
        named = {"Idempotency-Key": "the-same"}
        with Gateway.at(address, issuer.token("one", ["sender"], **claims)) as client:
            return client.post("/v1/changes/arcion", json=[insert("hr.people", id="1")], headers=named).status_code

    assert [send(), send(exp=at(99)), send(sub="app-2"), send(sub="app-2")] == [202, 200, 202, 200]


def test_the_audit_names_the_holder_of_a_token(issuer: Issuer, address: str) -> None:
    with Gateway.at(address, issuer.token("one", ["operator"], sub="an-operator")) as operator:
        operator.post("/v1/tables/sales.orders/pause", params={"generation": 1}).raise_for_status()
        with Gateway.at(address, issuer.token("one", [], sub="a-stranger")) as stranger:
            problem(stranger.get("/v1/keys"), 403, "forbidden")

        def subjects() -> set[str]:
            return {event["subject"] for event in operator.audit()} & {"oidc:an-operator", "oidc:a-stranger"}

        wait_until(lambda: len(subjects()) == 2, within=30, what="act and rejection are in the audit")


def test_keys_go_on_beside_tokens_and_without_an_issuer_a_token_is_no_key(
    issuer: Issuer, address: str, gateway: Gateway
) -> None:
    with Gateway.at(address, ADMIN_KEY) as client:
        assert client.get("/v1/keys").status_code == 200
    token = issuer.token("one", ["operator"])
    problem(gateway.get("/v1/tables", headers={"Authorization": f"Bearer {token}"}), 401, "unauthenticated")
    problem(gateway.get("/v1/tables", headers={"Authorization": "Bearer a.b.c"}), 401, "unauthenticated")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def verifier(issuer: Issuer, clock: Clock) -> OidcVerifier:
    grants = {"sender": Grant(frozenset({Right.INGEST}), ("*",))}
    return OidcVerifier(IssuerKeys(issuer.url, clock), issuer.url, AUDIENCE, grants)


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_a_token_is_verified_with_the_issuers_published_key(
    issuer: Issuer, verifier: OidcVerifier, algorithm: str
) -> None:
    issuer.new_key("two", algorithm)
    credential = verifier.credential(issuer.token("two", ["sender"]))
    assert (credential.subject, len(credential.grants)) == ("oidc:app-1", 1)


def encoded(content: Any) -> str:
    text = content if isinstance(content, str) else json.dumps(content)
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def unsigned(issuer: Issuer) -> str:
    claims = jwt.decode(issuer.token("one", ["sender"]), options={"verify_signature": False})
    return f"{encoded({'alg': 'none', 'kid': 'one'})}.{encoded(claims)}.AA"


def signed_with_the_public_key(issuer: Issuer) -> str:
    """HMAC with what everybody can read, for a verifier that would let the token choose."""
    claims = jwt.decode(issuer.token("one", ["sender"]), options={"verify_signature": False})
    text = f"{encoded({'alg': 'HS256', 'kid': 'one'})}.{encoded(claims)}"
    digest = hmac.new(json.dumps(issuer.keys[0]).encode(), text.encode(), hashlib.sha256).digest()
    return f"{text}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def signed_by_another(issuer: Issuer) -> str:
    issuer.new_key("forger", publish=False)
    return issuer.token("forger", ["sender"], headers={"kid": "one"})


def with_other_claims(issuer: Issuer) -> str:
    header, _, signature = issuer.token("one", []).split(".")
    return f"{header}.{issuer.token('one', ['sender']).split('.')[1]}.{signature}"


def of_another_algorithm(issuer: Issuer) -> str:
    issuer.new_key("long", "ES384")
    return issuer.token("long", ["sender"])


def for_encryption(issuer: Issuer) -> str:
    issuer.new_key("sealing", use="enc")
    return issuer.token("sealing", ["sender"])


def of_another_type(issuer: Issuer) -> str:
    issuer.new_key("rsa", "RS256")
    return issuer.token("one", ["sender"], headers={"kid": "rsa"})


def at(seconds: int) -> int:
    return int(time.time()) + seconds


BAD_TOKENS: dict[str, tuple[str, Callable[[Issuer], str]]] = {
    "unsigned": ("is not signed with", unsigned),
    "signed with the public key": ("is not signed with", signed_with_the_public_key),
    "signed by another": ("is not valid", signed_by_another),
    "other claims": ("is not valid", with_other_claims),
    "another algorithm": ("is not signed with", of_another_algorithm),
    "a key for encryption": ("does not publish", for_encryption),
    "a key of another type": ("is not valid", of_another_type),
    "no such key": ("does not publish", lambda issuer: issuer.token("one", [], headers={"kid": "two"})),
    "no key named": ("does not name the key", lambda issuer: issuer.token("one", [], headers={"kid": None})),
    "a long key id": ("does not name the key", lambda issuer: issuer.token("one", [], headers={"kid": "k" * 300})),
    "an unknown critical header": (
        "cannot be read",
        lambda issuer: issuer.token("one", [], headers={"crit": ["x"], "x": 1}),
    ),
    "expired": ("has expired", lambda issuer: issuer.token("one", [], exp=at(-LEEWAY_SECONDS - 5))),
    "not yet valid": ("is not valid yet", lambda issuer: issuer.token("one", [], nbf=at(LEEWAY_SECONDS + 30))),
    "for ever": ("is not valid", lambda issuer: issuer.token("one", [], exp=None)),
    "an expiry that is no number": ("is not valid", lambda issuer: issuer.token("one", [], exp="never")),
    "another issuer": ("from another issuer", lambda issuer: issuer.token("one", [], iss=issuer.url + "/")),
    "no issuer": ("is not valid", lambda issuer: issuer.token("one", [], iss=None)),
    "another audience": ("for another audience", lambda issuer: issuer.token("one", [], aud="api://other")),
    "no audience": ("is not valid", lambda issuer: issuer.token("one", [], aud=None)),
    "nobody": ("names no subject", lambda issuer: issuer.token("one", [], sub=None)),
    "too long": ("is too long", lambda issuer: issuer.token("one", ["r" * 20_000])),
    "no token": ("cannot be read", lambda _: "a.b.c"),
    "too deep a header": ("cannot be read", lambda _: f"{encoded('[' * 9_000)}.{encoded({})}.AA"),
    "a header that is no object": ("cannot be read", lambda _: f"{encoded([1])}.{encoded({})}.AA"),
}


@pytest.mark.parametrize("bad", BAD_TOKENS)
def test_any_other_token_is_rejected_without_being_repeated(issuer: Issuer, verifier: OidcVerifier, bad: str) -> None:
    reason, make = BAD_TOKENS[bad]
    token = make(issuer)
    with rejected(Code.UNAUTHENTICATED) as rejection:
        verifier.credential(token)
    assert reason in rejection.detail
    assert not [part for part in token.split(".") if len(part) > 4 and part in rejection.text]


def test_clocks_may_differ_a_little(issuer: Issuer, verifier: OidcVerifier) -> None:
    token = issuer.token("one", [], exp=at(-LEEWAY_SECONDS + 20), nbf=at(LEEWAY_SECONDS - 20))
    assert verifier.credential(token).subject == "oidc:app-1"


def test_keys_that_were_read_ahead_are_not_asked_for_by_the_first_token(issuer: Issuer, clock: Clock) -> None:
    keys = IssuerKeys(issuer.url, clock)
    keys.prefetch()
    assert issuer.asked[KEYS] == 1
    assert keys.find("one") is not None
    keys.prefetch()
    assert issuer.asked[KEYS] == 1


def test_while_one_request_asks_the_issuer_no_other_waits(issuer: Issuer, clock: Clock) -> None:
    keys = IssuerKeys(issuer.url, clock)
    keys.prefetch()
    clock.now += KEYS_SECONDS
    with keys._lock:  # as the request that asks holds it
        assert keys.find("one") is not None
        with pytest.raises(TemporarilyUnavailable):
            keys.find("two")
    assert issuer.asked[KEYS] == 1


def test_a_new_key_is_asked_for_at_most_once_a_minute_and_its_tokens_are_to_be_tried_again(
    issuer: Issuer, verifier: OidcVerifier, clock: Clock
) -> None:
    verifier.credential(issuer.token("one", []))
    issuer.new_key("two")
    clock.now += RETRY_SECONDS - 2.5
    for _ in range(3):
        with pytest.raises(TemporarilyUnavailable) as early:
            verifier.credential(issuer.token("two", []))
        assert (early.value.code, early.value.retry_after) == (Code.ISSUER_UNAVAILABLE, 3)
    assert issuer.asked[KEYS] == 1
    clock.now += 2.5
    for key_id in ("two", "one", "two"):
        verifier.credential(issuer.token(key_id, []))
    assert (issuer.asked[DISCOVERY], issuer.asked[KEYS]) == (2, 2)


@pytest.mark.parametrize("claims", [{"aud": "other"}, {"iss": "https://other"}, {"exp": 1}, {"exp": None}])
def test_a_token_that_no_key_makes_valid_is_not_to_be_tried_again(
    issuer: Issuer, verifier: OidcVerifier, claims: dict[str, Any]
) -> None:
    verifier.credential(issuer.token("one", []))
    issuer.new_key("two")
    with rejected(Code.UNAUTHENTICATED):
        verifier.credential(issuer.token("two", [], **claims))


def test_before_the_first_answer_of_the_issuer_a_token_is_to_be_tried_again(issuer: Issuer, clock: Clock) -> None:
    keys = IssuerKeys(issuer.url, clock)
    with keys._lock, pytest.raises(TemporarilyUnavailable, match="does not answer"):
        keys.find("one")


def test_a_key_that_the_issuer_has_withdrawn_stops_working_when_keys_are_read_again(
    issuer: Issuer, verifier: OidcVerifier, clock: Clock
) -> None:
    token = issuer.token("one", [])
    verifier.credential(token)
    issuer.keys.clear()
    issuer.new_key("two")
    clock.now += KEYS_SECONDS
    with rejected():
        verifier.credential(token)


def test_while_the_issuer_fails_known_keys_go_on_and_unknown_ones_are_to_be_tried_again(
    issuer: Issuer, verifier: OidcVerifier, clock: Clock
) -> None:
    verifier.credential(issuer.token("one", []))
    issuer.answers_with = 500
    issuer.new_key("two")
    clock.now += 10 * KEYS_SECONDS
    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            assert verifier.credential(issuer.token("one", [])).subject == "oidc:app-1"
            with pytest.raises(TemporarilyUnavailable) as unavailable:
                verifier.credential(issuer.token("two", []))
    assert unavailable.value.code is Code.ISSUER_UNAVAILABLE
    assert [line["event"] for line in logs] == ["issuer_keys_read_failed"], "one try a minute"
    issuer.answers_with = 200
    clock.now += RETRY_SECONDS
    verifier.credential(issuer.token("two", []))


@pytest.mark.parametrize(
    "discovery",
    [
        b"",
        b"<html>",
        b"[1]",
        b"{" * 100_000,
        b'{"issuer": "' + b"x" * 2**20 + b'"}',
        {},
        {"issuer": "https://other", "jwks_uri": "SAME"},
        {"issuer": "SAME"},
        {"issuer": "SAME", "jwks_uri": 7},
        {"issuer": "SAME", "jwks_uri": "http://keys.invalid/keys"},
        {"issuer": "SAME", "jwks_uri": "file:///etc/passwd"},
    ],
    ids=lambda discovery: str(discovery)[:40],
)
def test_an_issuer_whose_documents_are_wrong_has_no_keys(
    issuer: Issuer, verifier: OidcVerifier, clock: Clock, discovery: Any
) -> None:
    right = issuer.discovery
    if isinstance(discovery, dict):
        discovery = {name: right[name] if value == "SAME" else value for name, value in discovery.items()}
    issuer.discovery = discovery
    token = issuer.token("one", [])
    for _ in range(2):
        with pytest.raises(TemporarilyUnavailable):
            verifier.credential(token)
    assert issuer.asked == {DISCOVERY: 1}
    issuer.discovery = right
    clock.now += RETRY_WITHOUT_KEYS_SECONDS
    verifier.credential(token)


EC = {"kty": "EC", "kid": "one"}


@pytest.mark.parametrize(
    "keys",
    [
        [],
        {},
        [{}],
        [7],
        [{"kty": "oct", "k": "c2VjcmV0", "kid": "one", "alg": "HS256"}],
        [EC],
        [EC | {"crv": "P-256", "x": 7, "y": 7}],
        [EC | {"crv": ["P-256"], "x": "AA", "y": "AA"}],
        [EC | {"crv": "P-256", "x": "AA", "y": "AA"}],
        [{"kty": "RSA", "kid": "one", "n": None, "e": "AQAB"}],
        [{"kty": "RSA", "kid": "one", "n": "AQAB", "e": "AQAB", "alg": 7}],
        [{"kty": ["RSA"], "kid": "one"}],
    ],
    ids=str,
)
def test_only_public_keys_for_signatures_are_taken(issuer: Issuer, verifier: OidcVerifier, keys: Any) -> None:
    token = issuer.token("one", [])
    issuer.keys = keys
    with pytest.raises(TemporarilyUnavailable):
        verifier.credential(token)


@pytest.mark.parametrize(
    "given",
    [
        {"oidc_issuer": "https://login.example/t", "oidc_rights": RIGHTS},
        {"oidc_issuer": "https://login.example/t", "oidc_audience": "api"},
        {"oidc_issuer": "http://login.example/t", "oidc_audience": "api", "oidc_rights": RIGHTS},
        {"oidc_issuer": "http://[login.example/t", "oidc_audience": "api", "oidc_rights": RIGHTS},
    ],
)
def test_settings_that_do_not_go_together_keep_the_api_from_starting(given: dict[str, Any]) -> None:
    with pytest.raises(Misconfigured, match=Code.BAD_SETTING):
        token_verifier(Settings.model_validate(given))


@pytest.mark.parametrize(
    "rights",
    [
        "{",
        "[]",
        '{"a": {"rights": ["write"], "tables": ["*"]}}',
        '{"a": {"rights": [], "tables": ["*"]}}',
        '{"a": {"rights": ["read"]}}',
        '{"a": {"rights": ["read"], "tables": []}}',
        '{"a": {"rights": ["read"], "tables": ["sales.*", " hr.*"]}}',
        '{"a": {"rights": ["read"], "tables": ["*"], "more": 1}}',
    ],
)
def test_a_mapping_that_makes_no_sense_is_rejected(rights: str) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate({"oidc_rights": rights})


def test_the_mapping_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIRRORGATE_OIDC_RIGHTS", json.dumps(RIGHTS))
    assert Settings.from_environment(port=1).oidc_rights["sales.owner"].tables == ["sales.*"]
    monkeypatch.setenv("MIRRORGATE_OIDC_RIGHTS", "{")
    with pytest.raises(Misconfigured) as rejection:
        Settings.from_environment()
    assert "MIRRORGATE_OIDC_RIGHTS" in rejection.value.detail
