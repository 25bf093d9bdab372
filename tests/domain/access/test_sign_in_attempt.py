"""One try to sign in at a provider: what follows from the cookie, for this browser alone."""

import hashlib
from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.access.sign_in import MAX_NEXT_CHARACTERS, SignInAttempt

RANDOM = bytes(range(32))
ATTEMPT = SignInAttempt.of(RANDOM, "/console/tables?page=2")


def test_a_cookie_gives_the_attempt_back() -> None:
    assert ATTEMPT.secret == urlsafe_b64encode(RANDOM).decode().rstrip("=")
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
    assert SignInAttempt.of(RANDOM, fits).next == fits
    assert SignInAttempt.of(RANDOM, fits + "x").next == "/console"


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
