"""Sessions of the console: what is derived from a token, and where a sign-in may lead."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.access.sign_in import TOKEN_BYTES, SessionToken, safe_next

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
