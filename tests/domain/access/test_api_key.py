"""API keys as text, and the tables and rights that they grant."""

import pytest

from app.domain.access.api_key import ApiKey, format_key, hash_secret, looks_like_a_token
from app.domain.access.rights import Grant, Principal, Right
from app.domain.model.names import TableName
from app.errors import Code
from tests.support.rejections import rejected

SECRET = "s3cret-s3cret_s3cret-s3cret"


def test_a_key_is_recognised_by_the_hash_of_its_secret() -> None:
    key = ApiKey.parse(format_key("0011aabb", SECRET))
    assert key.key_id == "0011aabb"
    assert key.matches(hash_secret(SECRET))
    assert not key.matches(hash_secret(SECRET + "x"))


def test_a_key_with_two_secrets_is_recognised_by_either() -> None:
    key = ApiKey.parse(format_key("0011aabb", SECRET))
    assert key.matches_any([hash_secret("other"), hash_secret(SECRET)])
    assert key.matches_any([hash_secret(SECRET)])
    assert not key.matches_any([hash_secret("other")])
    assert not key.matches_any([])


def test_a_key_that_is_none_is_rejected_without_its_text() -> None:
    with rejected() as rejection:
        ApiKey.parse("mg_not-a-key")
    assert rejection.detail == "the key is not of the form mg_<id>_<secret>"


def test_a_signed_token_is_told_from_a_key() -> None:
    assert looks_like_a_token("eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl")
    assert not looks_like_a_token(format_key("0011aabb", SECRET))


def test_the_secret_is_not_in_what_a_key_prints() -> None:
    assert SECRET not in repr(ApiKey.parse(format_key("0011aabb", SECRET)))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "mg_",
        f"mg_0011aabb{SECRET}",
        f"0011aabb_{SECRET}",
        f"MG_0011aabb_{SECRET}",
        f"mg_0011AABB_{SECRET}",
        f"mg_0011aab_{SECRET}",
        "mg_0011aabb_short",
        f"mg_0011aabb_{SECRET} ",
        f"mg_0011aabb_{SECRET}\n",
        f"mg_0011aabb_{SECRET}é",
        f"mg_0011aabb_{'x' * 129}",
        f"mg_{'0' * 33}_{SECRET}",
    ],
)
def test_any_other_text_is_rejected_without_being_repeated(text: str) -> None:
    with rejected() as rejection:
        ApiKey.parse(text)
    assert rejection.code == Code.UNAUTHENTICATED
    assert SECRET not in rejection.text


def test_admin_includes_every_right_and_no_other_includes_another() -> None:
    for right in Right:
        grant = Grant(frozenset({right}), ("*",))
        held = {other for other in Right if grant.carries(other)}
        assert held == (set(Right) if right is Right.ADMIN else {right})


@pytest.mark.parametrize(
    ("patterns", "table", "allowed"),
    [
        (("*",), "orders", True),
        (("*",), "sales.orders", True),
        (("sales.*",), "sales.orders", True),
        (("sales.*",), "SALES.Orders", True),
        (("Sales.*",), "sales.orders", True),
        (("sales.*",), "salesforce", False),
        (("sales.*",), "presales.orders", False),
        (("orders",), "orders", True),
        (("orders",), "sales.orders", False),
        (("orders",), "orders2", False),
        (("a", "b"), "b", True),
        ((), "orders", False),
    ],
)
def test_a_pattern_says_which_tables_a_key_may_touch(patterns: tuple[str, ...], table: str, allowed: bool) -> None:
    principal = Principal("0011aabb", frozenset({Right.ADMIN}), patterns)
    assert principal.may_touch(TableName.parse(table)) is allowed
