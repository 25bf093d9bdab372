"""Keys: their text, the signatures that they make, their rates, and the tables and rights that they grant."""

import hashlib
import hmac
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.access.rights import (
    MAX_SKEW_SECONDS,
    NO_LIMITS,
    SALT_BYTES,
    ApiKey,
    Grant,
    Principal,
    RateLimits,
    Right,
    Signature,
    TokenBucket,
    format_key,
    hash_secret,
    looks_like_a_token,
    signing_secret,
)
from app.domain.model.names import TableName
from mirrorgate.errors import Code
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
    with rejected(Code.UNAUTHENTICATED) as rejection:
        ApiKey.parse(text)
    assert rejection.detail == "the key is not of the form mg_<id>_<secret>"
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
        (("orders[1]",), "orders[1]", True),
        (("orders[1]",), "orders1", False),
        (("sales[a-z].*",), "salesx.orders", False),
        ((), "orders", False),
    ],
)
def test_a_pattern_says_which_tables_a_key_may_touch(patterns: tuple[str, ...], table: str, allowed: bool) -> None:
    principal = Principal("0011aabb", frozenset({Right.ADMIN}), patterns)
    assert principal.may_touch(TableName.parse(table)) is allowed


SIGNING_SECRET = "s" * 43
BODY = b'[{"id": 1}]'
NOW = 1_767_605_400.5


def digest(body: bytes, secret: str = SIGNING_SECRET) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def is_of(header: str, body: bytes = BODY, secret: str = SIGNING_SECRET, now: float = NOW) -> bool:
    signature = Signature.parse(header)
    return signature is not None and signature.is_of(body, secret, now)


def timed(moment: int, body: bytes = BODY) -> str:
    return f"t={moment},v1={digest(b'%d.' % moment + body)}"


def test_the_signature_of_the_body_is_right_and_any_other_is_not() -> None:
    assert is_of(f"sha256={digest(BODY)}")
    assert is_of(f" sha256={digest(BODY).upper()} ")
    assert not is_of(f"sha256={digest(BODY)}", BODY + b" ")
    assert not is_of(f"sha256={digest(BODY)}", secret="t" * 43)
    assert not is_of(f"sha256={digest(b'1767605400.' + BODY)}")


def test_a_signature_with_a_time_is_right_for_some_minutes() -> None:
    for moment in (int(NOW), int(NOW) - MAX_SKEW_SECONDS + 1, int(NOW) + MAX_SKEW_SECONDS):
        assert is_of(timed(moment))
    assert is_of(timed(int(NOW) - MAX_SKEW_SECONDS), now=float(int(NOW)))
    for moment in (int(NOW) - MAX_SKEW_SECONDS - 1, int(NOW) + MAX_SKEW_SECONDS + 2, 0, 999_999_999_999):
        assert not is_of(timed(moment))
    assert not is_of(timed(int(NOW)).replace("t=1", "t=01"))
    assert not is_of(f"t={int(NOW)},v1={digest(BODY)}")


def test_one_right_signature_of_up_to_four_is_enough() -> None:
    assert is_of(f"t={int(NOW)},v1={'0' * 64},{timed(int(NOW)).partition(',')[2]},v0=ignored")
    assert is_of(f"t={int(NOW)}" + f",v1={'0' * 64}" * 3 + f",v1={timed(int(NOW))[-64:]}")
    assert not is_of(f"t={int(NOW)}" + f",v1={'0' * 64}" * 4 + f",v1={timed(int(NOW))[-64:]}")


ZEROS = "0" * 64
NO_SIGNATURES = [
    "",
    "sha256=",
    "sha1=" + "0" * 40,
    "sha256=" + "0" * 63,
    "sha256=" + "g" * 64,
    ZEROS,
    "t=1",
    f"v1={ZEROS}",
    f"t=1,t=1,v1={ZEROS}",
    f"t=,v1={ZEROS}",
    f"t=-1,v1={ZEROS}",
    "t=1,v1=0",
    ",",
    f"t=1 v1={ZEROS}",
    f"t=1,v1={ZEROS},v1=g",
    f"t=1,t=x,v1={ZEROS}",
    f"t=1,=x,v1={ZEROS}",
    f"t=1,v1={ZEROS},",
    f"t=1,v1=x={ZEROS}",
]


@pytest.mark.parametrize("header", NO_SIGNATURES)
def test_a_header_of_another_form_is_no_signature(header: str) -> None:
    assert Signature.parse(header) is None


@given(st.text(max_size=200))
def test_any_header_is_read_or_rejected(header: str) -> None:
    signature = Signature.parse(header)
    assert signature is None or not signature.is_of(BODY, SIGNING_SECRET, NOW)


def test_a_signing_secret_is_the_same_in_every_release() -> None:
    secret = signing_secret("m" * 32, "00112233", bytes(range(SALT_BYTES)))
    assert secret == "bQDWkcYc-F-AeqhXJGz-alOzA9GUzSdVirzi-vJg_wY"
    assert all("=" not in signing_secret("m" * 32, f"{number:08x}", bytes(SALT_BYTES)) for number in range(4))


def test_signing_secrets_differ_by_gateway_key_and_salt() -> None:
    salts = (bytes(SALT_BYTES), b"\x01" * SALT_BYTES)
    secrets = {
        signing_secret(master, key_id, salt)
        for master in ("m" * 32, "n" * 32)
        for key_id in ("00112233", "00112234")
        for salt in salts
    }
    assert len(secrets) == 8
    assert {len(secret) for secret in secrets} == {43}


@pytest.mark.parametrize(("rate", "quota", "window"), [(50, 50, 1), (1, 1, 1), (0.1, 1, 10), (2.5, 2, 1), (0.4, 1, 3)])
def test_the_quota_is_what_one_window_brings_and_one_at_least(rate: float, quota: int, window: int) -> None:
    bucket = TokenBucket(rate, 0.0)
    assert (bucket.quota, bucket.window) == (quota, window)


@pytest.mark.parametrize("rate", [0.3, 1.0, 7.0, 250.0])
def test_a_bucket_allows_its_rate_on_average_and_its_quota_at_once(rate: float) -> None:
    source, now, spent = random.Random(1), 0.0, 0
    bucket = TokenBucket(rate, now)
    for _ in range(5_000):
        now += source.expovariate(3 * rate)
        if bucket.seconds_to_wait(now) == 0:
            bucket.spend(1)
            spent += 1
        assert spent <= bucket.quota + now * rate + 1e-6
    assert spent >= 0.7 * now * rate


def test_a_caller_that_waits_as_told_is_accepted() -> None:
    source, now = random.Random(2), 0.0
    bucket = TokenBucket(3.0, now)
    for _ in range(100):
        bucket.spend(source.randrange(1, 20))
        now += bucket.seconds_to_wait(now) + 1e-9
        assert bucket.seconds_to_wait(now) == 0


def test_more_than_the_quota_may_be_spent_at_once_and_is_waited_for_afterwards() -> None:
    bucket = TokenBucket(100.0, 0.0)
    assert bucket.seconds_to_wait(0.0) == 0
    bucket.spend(1_000)
    assert (bucket.left, bucket.seconds_to_full) == (0, 10)
    assert bucket.seconds_to_wait(0.0) == pytest.approx(9.01)
    assert bucket.seconds_to_wait(9.02) == 0


def test_a_clock_that_does_not_move_refills_nothing() -> None:
    bucket = TokenBucket(1.0, 5.0)
    bucket.spend(1)
    assert bucket.seconds_to_wait(5.0) == bucket.seconds_to_wait(5.0) == 1


def test_limits_of_a_key_go_before_the_defaults() -> None:
    defaults = RateLimits(10.0, 1_000.0)
    assert NO_LIMITS.or_else(defaults) == defaults
    assert RateLimits(bytes_per_second=5.0).or_else(defaults) == RateLimits(10.0, 5.0)
    assert RateLimits(1.0, 2.0).or_else(defaults) == RateLimits(1.0, 2.0)
