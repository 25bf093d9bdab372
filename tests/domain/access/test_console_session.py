"""Signing in to the console: attempts at a provider, rights of token claims, sessions, and where a sign-in may lead."""

import hashlib
from base64 import urlsafe_b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.access.rights import Credential, Grant, Principal, Right
from app.domain.access.sign_in import (
    MAX_NEXT_CHARACTERS,
    TOKEN_BYTES,
    SessionToken,
    SignInAttempt,
    credential_of,
    safe_next,
    subject_of,
)
from app.domain.model.names import SourceName, TableName
from mirrorgate.errors import Code
from tests.support.rejections import rejected

RANDOM = bytes(range(TOKEN_BYTES))
TOKEN = SessionToken.of(RANDOM)
HASH = b"h" * 32


def test_what_a_token_makes_is_the_same_in_every_release() -> None:
    assert TOKEN.text == "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
    assert TOKEN.csrf == "e0faf7ecf489c38664ef68075e108e19054faee0cd06129679cffe7cb9f00dc3"
    assert TOKEN.proof(HASH).hex() == "2822177c5f8cf165875205b62d08c1d1adbae43eecaed2751538ec7817aeacc0"


def test_a_cookie_is_read_as_the_token_that_it_was_made_of_and_nothing_else_is() -> None:
    assert SessionToken.parse(TOKEN.text) == TOKEN
    for text in (None, "", TOKEN.text[:-1], TOKEN.text + "A", TOKEN.text + "\n", TOKEN.text[:-1] + "="):
        assert SessionToken.parse(text) is None


def test_a_token_is_not_in_what_it_prints() -> None:
    assert TOKEN.text not in repr(TOKEN)


def test_only_the_form_of_the_same_session_is_right() -> None:
    other = SessionToken.of(bytes(TOKEN_BYTES))
    assert TOKEN.is_csrf(TOKEN.csrf)
    assert not TOKEN.is_csrf(other.csrf)
    assert not TOKEN.is_csrf("")
    assert not TOKEN.is_csrf("ä")


def test_a_session_holds_as_long_as_the_key_has_the_secret_that_signed_in() -> None:
    proof = TOKEN.proof(HASH)
    assert TOKEN.is_bound_to(proof, [b"n" * 32, HASH])
    assert not TOKEN.is_bound_to(proof, [b"n" * 32])
    assert not TOKEN.is_bound_to(proof, [])
    assert not SessionToken.of(bytes(TOKEN_BYTES)).is_bound_to(proof, [HASH])


@pytest.mark.parametrize("path", ["/console", "/console/", "/console/tables?page=2&sort=lag", "/console?x=//y"])
def test_a_sign_in_leads_back_to_a_page_of_the_console(path: str) -> None:
    assert safe_next(path) == path


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "/",
        "/consoles",
        "/v1/tables",
        "console/tables",
        "//evil.example/console/",
        "https://evil.example/console/",
        "/console//evil.example",
        "/console/../v1/tables",
        "/console/a?b=../c",
        "/console/ü",
        "/console/a b",
        "/console/\\evil",
        '/console/"',
        "/console/<script>",
        "/console/>",
        "/console/\n",
        "XX/console/XX",
    ],
)
def test_a_sign_in_leads_to_the_start_page_instead_of_anywhere_else(text: str | None) -> None:
    assert safe_next(text) == "/console"


@given(st.text(max_size=60))
def test_wherever_a_sign_in_leads_is_in_the_console(text: str) -> None:
    found = safe_next(text)
    assert found.split("?")[0].split("/")[:2] == ["", "console"]


ATTEMPT_BYTES = bytes(range(32))
ATTEMPT = SignInAttempt.of(ATTEMPT_BYTES, "/console/tables?page=2")


def test_a_cookie_gives_the_attempt_back() -> None:
    assert ATTEMPT.secret == urlsafe_b64encode(ATTEMPT_BYTES).decode().rstrip("=")
    assert SignInAttempt.parse(ATTEMPT.cookie) == ATTEMPT
    assert ATTEMPT.next == "/console/tables?page=2"


@given(st.binary(min_size=32, max_size=32), st.text("abc/", max_size=30))
def test_any_attempt_survives_its_cookie(random: bytes, path: str) -> None:
    attempt = SignInAttempt.of(random, "/console/" + path)
    assert SignInAttempt.parse(attempt.cookie) == attempt


@pytest.mark.parametrize(
    "cookie",
    [
        None,
        "",
        "x",
        ATTEMPT.cookie[1:],
        ATTEMPT.cookie + "!",
        ATTEMPT.secret,
        ATTEMPT.secret + "._w",
        ATTEMPT.secret + ".A",
    ],
)
def test_anything_else_is_no_attempt(cookie: str | None) -> None:
    assert SignInAttempt.parse(cookie) is None


def test_a_cookie_cannot_lead_to_another_site() -> None:
    foreign = urlsafe_b64encode(b"https://evil.example").decode().rstrip("=")
    found = SignInAttempt.parse(f"{ATTEMPT.secret}.{foreign}")
    assert found is not None
    assert found.next == "/console"


def test_a_page_that_is_too_long_for_a_cookie_is_the_start_page() -> None:
    fits = "/console/" + "x" * (MAX_NEXT_CHARACTERS - len("/console/"))
    assert SignInAttempt.of(ATTEMPT_BYTES, fits).next == fits
    assert SignInAttempt.of(ATTEMPT_BYTES, fits + "x").next == "/console"


def test_state_nonce_and_verifier_differ_and_belong_to_the_browser() -> None:
    other = SignInAttempt.of(bytes(32), "/console")
    values = [value for one in (ATTEMPT, other) for value in (one.state, one.nonce, one.verifier)]
    assert len(set(values)) == 6
    assert ATTEMPT.is_state(ATTEMPT.state)
    assert not ATTEMPT.is_state(other.state)
    assert not ATTEMPT.is_state("ä")
    assert ATTEMPT.is_nonce(ATTEMPT.nonce)
    assert not ATTEMPT.is_nonce(other.nonce)
    assert not ATTEMPT.is_nonce(None)
    assert not ATTEMPT.is_nonce([ATTEMPT.nonce])


def test_the_challenge_is_the_hash_of_the_verifier_as_rfc_7636_says() -> None:
    digest = hashlib.sha256(ATTEMPT.verifier.encode()).digest()
    assert ATTEMPT.challenge == urlsafe_b64encode(digest).decode().rstrip("=")
    assert 43 <= len(ATTEMPT.verifier) <= 128


def test_the_secret_is_not_in_what_an_attempt_prints() -> None:
    assert ATTEMPT.secret not in repr(ATTEMPT)


SENDER = Grant(frozenset({Right.INGEST}), ("*",))
OWNER = Grant(frozenset({Right.INGEST, Right.REGISTER}), ("sales.*",))
GRANTED_BY = {"sender": SENDER, "sales.owner": OWNER}


@pytest.mark.parametrize(
    ("claims", "subject"),
    [
        ({"sub": "alice", "azp": "app"}, "oidc:alice"),
        ({"azp": "app", "appid": "other"}, "oidc:app"),
        ({"appid": "app"}, "oidc:app"),
        ({"client_id": "app"}, "oidc:app"),
        ({"sub": "x" * 200}, "oidc:" + "x" * 200),
    ],
)
def test_the_subject_of_a_token_is_the_same_each_time(claims: dict[str, Any], subject: str) -> None:
    assert subject_of(claims) == subject


@pytest.mark.parametrize(
    "claims", [{}, {"sub": ""}, {"sub": "x" * 201}, {"sub": "a b"}, {"sub": "a\x00"}, {"sub": 7, "azp": "app"}]
)
def test_a_token_without_a_subject_is_rejected(claims: dict[str, Any]) -> None:
    with rejected(Code.UNAUTHENTICATED) as rejection:
        subject_of(claims)
    assert rejection.detail in {
        "the token names no subject and no application",
        "the token's claim sub must be 1 to 200 visible ASCII characters",
    }


@pytest.mark.parametrize(
    ("claims", "grants"),
    [
        ({"roles": ["sender"]}, (SENDER,)),
        ({"roles": ["sender", "sales.owner", "sender"]}, (SENDER, OWNER)),
        ({"scp": "openid sender"}, (SENDER,)),
        ({"scope": "sales.owner"}, (OWNER,)),
        ({"scope": ["sales.owner"]}, (OWNER,)),
        ({"roles": "sender"}, (SENDER,)),
        ({"roles": ["Sender", "admin", 7, None]}, ()),
        ({"roles": {"sender": True}}, ()),
        ({"groups": ["sender"]}, ()),
        ({}, ()),
    ],
)
def test_only_roles_and_scopes_that_are_known_grant_anything(claims: dict[str, Any], grants: tuple[Grant, ...]) -> None:
    assert credential_of({"sub": "a", **claims}, GRANTED_BY).grants == grants


def test_a_right_holds_for_the_tables_of_the_grants_that_carry_it_and_no_others() -> None:
    credential = Credential("oidc:a", (SENDER, OWNER))
    registrar = credential.acting_by(Right.REGISTER)
    assert registrar is not None
    assert registrar.may_touch(TableName.parse("sales.orders"))
    assert not registrar.may_touch(TableName.parse("hr.people"))
    ingester = credential.acting_by(Right.INGEST)
    assert ingester is not None
    assert ingester.may_touch(TableName.parse("hr.people"))
    assert ingester.may(Right.REGISTER, TableName.parse("sales.orders"))
    assert not ingester.may(Right.REGISTER, TableName.parse("hr.people"))
    assert credential.acting_by(Right.READ) is None


def test_nothing_is_granted_by_default() -> None:
    assert all(Credential("oidc:a", ()).acting_by(right) is None for right in Right)


def test_the_only_grant_of_a_key_is_its_principal() -> None:
    assert Credential("0011aabb", (OWNER,)).acting_by(Right.INGEST) == Principal(
        "0011aabb", OWNER.rights, OWNER.table_patterns
    )


def test_the_caller_has_the_subject_and_only_the_right_of_the_call() -> None:
    credential = credential_of({"sub": "a", "roles": ["sender", "sales.owner"]}, GRANTED_BY)
    caller = credential.acting_by(Right.REGISTER)
    assert caller == Principal("oidc:a", frozenset({Right.REGISTER}), ("sales.*",), (SENDER, OWNER))


def test_a_key_can_do_all_that_its_one_grant_says() -> None:
    caller = Credential("0011aabb", (OWNER,)).acting_by(Right.INGEST)
    assert caller is not None
    assert caller.may(Right.REGISTER, TableName.parse("sales.orders"))
    assert not caller.may(Right.REGISTER, TableName.parse("hr.people"))
    assert not caller.may(Right.READ, TableName.parse("sales.orders"))


def test_a_caller_may_name_sources_within_its_tables() -> None:
    caller = Principal("0011aabb", OWNER.rights, OWNER.table_patterns)
    assert caller.may_name(SourceName.parse("erp.SALES.orders"))
    assert not caller.may_name(SourceName.parse("erp.hr.people"))
