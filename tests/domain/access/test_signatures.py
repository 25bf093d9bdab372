"""Signatures of bodies: how headers are read, and what they are the signature of."""

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.access.api_key import MAX_SKEW_SECONDS, SALT_BYTES, Signature, signing_secret

SECRET = "s" * 43
BODY = b'[{"id": 1}]'
NOW = 1_767_605_400.5


def digest(body: bytes, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def is_of(header: str, body: bytes = BODY, secret: str = SECRET, now: float = NOW) -> bool:
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
    for moment in (int(NOW) - MAX_SKEW_SECONDS - 1, int(NOW) + MAX_SKEW_SECONDS + 2, 0, 999_999_999_999):
        assert not is_of(timed(moment))
    assert not is_of(timed(int(NOW)).replace("t=1", "t=01"))
    assert not is_of(f"t={int(NOW)},v1={digest(BODY)}")


def test_one_right_signature_of_several_is_enough() -> None:
    assert is_of(f"t={int(NOW)},v1={'0' * 64},{timed(int(NOW)).partition(',')[2]},v0=ignored")
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
]


@pytest.mark.parametrize("header", NO_SIGNATURES)
def test_a_header_of_another_form_is_no_signature(header: str) -> None:
    assert Signature.parse(header) is None


@given(st.text(max_size=200))
def test_any_header_is_read_or_rejected(header: str) -> None:
    signature = Signature.parse(header)
    assert signature is None or not signature.is_of(BODY, SECRET, NOW)


@pytest.mark.parametrize(
    "header",
    [f"t=1,v1={ZEROS},v1=g", f"t=1,t=x,v1={ZEROS}", f"t=1,=x,v1={ZEROS}", f"t=1,v1={ZEROS},", f"t=1,v1=x={ZEROS}"],
)
def test_a_part_that_is_damaged_makes_the_header_no_signature(header: str) -> None:
    assert Signature.parse(header) is None


def test_a_header_can_have_four_signatures() -> None:
    assert is_of(f"t={int(NOW)}" + f",v1={'0' * 64}" * 3 + f",v1={timed(int(NOW))[-64:]}")


def test_a_time_at_the_limit_is_right() -> None:
    assert is_of(timed(int(NOW) - MAX_SKEW_SECONDS), now=float(int(NOW)))


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
