"""Webhook senders: bodies that are signed in place of sending a key, and keys as the password of Basic."""

import gzip
import hashlib
import hmac
import json
import time
from dataclasses import dataclass
from typing import Any
from urllib.request import HTTPBasicAuthHandler, HTTPPasswordMgrWithDefaultRealm, build_opener

import httpx
import pytest
import sqlalchemy as sa

from app.api.auth import dependencies
from tests.api.calls import ADMIN_KEY, Gateway, problem

ROWS = b'[{"id": 1, "n": "a"}]'


@dataclass
class Sender:
    """A webhook sender with a signing secret."""

    client: Gateway
    key_id: str
    secret: str

    def sign(self, body: bytes, secret: str | None = None) -> str:
        return "sha256=" + hmac.new((secret or self.secret).encode(), body, hashlib.sha256).hexdigest()

    def post(self, body: bytes = ROWS, path: str = "/v1/changes/rows", **headers: str) -> httpx.Response:
        sent = {"Mirrorgate-Key-Id": self.key_id, "X-Signature": self.sign(body), "Content-Type": "application/json"}
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {name: value for name, value in (sent | given).items() if value}
        return self.client.post(path, content=body, params={"table": "t"}, headers=sent)


@pytest.fixture
def sender(gateway: Gateway, anonymous: Gateway) -> Sender:
    gateway.register("t", {"id": "int64", "n": "string"}, ["id"]).raise_for_status()
    created = gateway.new_key("ingest", hmac=True)
    return Sender(anonymous, created["id"], created["signing_secret"])


def accepted(gateway: Gateway) -> int:
    return int(gateway.status("t")["accepted"]["rows"])


def test_a_signed_body_is_accepted_in_each_header_and_form(sender: Sender, gateway: Gateway) -> None:
    signature, now = sender.sign(ROWS), int(time.time())
    stamped = hmac.new(sender.secret.encode(), b"%d." % now + ROWS, hashlib.sha256).hexdigest()
    assert sender.post().status_code == 202
    assert sender.post(X_Signature="", X_Hub_Signature_256=signature).status_code == 202
    assert sender.post(X_Signature=f"t={now},v1={stamped}").status_code == 202
    query = {"table": "t", "key_id": sender.key_id}
    headers = {"X-Signature": signature, "Content-Type": "application/json"}
    assert sender.client.post("/v1/changes/rows", content=ROWS, params=query, headers=headers).status_code == 202
    compressed = gzip.compress(ROWS)
    assert sender.post(compressed, Content_Encoding="gzip").status_code == 202
    assert accepted(gateway) == 5


def test_a_signature_of_anything_else_stages_nothing(sender: Sender, gateway: Gateway) -> None:
    other = gateway.new_key("ingest", hmac=True)
    plain = gateway.new_key("ingest")
    old = int(time.time()) - 301
    stale = hmac.new(sender.secret.encode(), b"%d." % old + ROWS, hashlib.sha256).hexdigest()
    fresh_time = f"t={old + 301},v1={stale}"
    attacks: list[dict[str, Any]] = [
        {"X_Signature": sender.sign(ROWS + b" ")},
        {"X_Signature": sender.sign(ROWS, other["signing_secret"])},
        {"X_Signature": sender.sign(ROWS, sender.secret.swapcase())},
        {"X_Signature": "sha256=" + "0" * 64},
        {"X_Signature": "sha256="},
        {"X_Signature": "none"},
        {"X_Signature": f"t={old},v1={stale}"},
        {"X_Signature": fresh_time},
        {"Mirrorgate_Key_Id": other["id"]},
        {"Mirrorgate_Key_Id": plain["id"]},
        {"Mirrorgate_Key_Id": "0011223344"},
        {"Mirrorgate_Key_Id": ADMIN_KEY.split("_")[1]},
        {"Mirrorgate_Key_Id": "x' OR 1=1"},
        {"Mirrorgate_Key_Id": ""},
        {"Content_Encoding": "gzip", "X_Signature": sender.sign(b"other")},
    ]
    for headers in attacks:
        details = problem(sender.post(**headers), 401, "bad_signature")
        assert sender.secret not in json.dumps(details), headers
    signed = sender.sign(ROWS)
    changed = sender.post(ROWS.replace(b"1", b"2"), X_Signature=signed)
    problem(changed, 401, "bad_signature")
    assert accepted(gateway) == 0


def test_a_signature_with_a_query_of_many_parameters_is_rejected(sender: Sender) -> None:
    answer = sender.client.post("/v1/changes/rows?" + "a=1&" * 100, headers={"X-Signature": sender.sign(b"")})
    problem(answer, 401, "bad_signature")


def test_a_signature_beside_a_key_does_not_replace_it(sender: Sender) -> None:
    problem(sender.post(Authorization="Bearer mg_00112233_" + "x" * 43), 401, "unauthenticated")
    problem(sender.post(X_Signature=""), 401, "unauthenticated")


def test_a_signature_opens_the_change_endpoints_only(sender: Sender) -> None:
    headers = {"Mirrorgate-Key-Id": sender.key_id, "X-Signature": sender.sign(b"")}
    for path in ("/v1/tables", "/v1/keys", "/v1/producers/p", "/metrics"):
        problem(sender.client.get(path, headers=headers), 401, "unauthenticated")


def test_the_key_decides_what_a_signed_body_may_change(sender: Sender, gateway: Gateway) -> None:
    reader = gateway.new_key("read", hmac=True)
    problem(Sender(sender.client, reader["id"], reader["signing_secret"]).post(), 403, "forbidden")
    other = gateway.new_key("ingest", tables=["s.*"], hmac=True)
    problem(Sender(sender.client, other["id"], other["signing_secret"]).post(), 404, "unknown_table")
    gateway.delete(f"/v1/keys/{sender.key_id}").raise_for_status()


def test_a_body_counts_towards_its_key_once_its_signature_is_verified(sender: Sender, gateway: Gateway) -> None:
    gateway.patch(f"/v1/keys/{sender.key_id}", json={"requests_per_second": 0.001}).raise_for_status()
    for _ in range(3):
        problem(sender.post(X_Signature="sha256=" + "0" * 64), 401, "bad_signature")
    assert sender.post().status_code == 202
    problem(sender.post(), 429, "rate_limited")


def test_a_signed_body_beyond_its_limit_is_rejected(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dependencies, "MAX_SIGNED_BODY_BYTES", len(ROWS))
    assert sender.post().status_code == 202
    problem(sender.post(ROWS + b" "), 413, "body_too_large")


def test_the_list_of_keys_tells_who_can_sign_and_no_secret(sender: Sender, gateway: Gateway) -> None:
    [key] = gateway.listed_keys()
    assert key["hmac"] is True
    assert sender.secret not in gateway.get("/v1/keys").text
    assert sender.secret not in gateway.get("/v1/audit").text


def test_the_database_holds_no_signing_secret(sender: Sender, api_engine: sa.Engine) -> None:
    with api_engine.begin() as connection:
        row = connection.execute(sa.text("SELECT * FROM mirrorgate.api_keys")).one()
    assert sender.secret not in str([bytes(value) if isinstance(value, memoryview) else value for value in row])
    assert len(row.signing_salt) == 16


@pytest.mark.parametrize("user", ["", "anyone", "mirrorgate", "user with blanks", "J\u00fcrgen"])
def test_a_key_is_accepted_as_the_password_of_basic(anonymous: Gateway, gateway: Gateway, user: str) -> None:
    assert anonymous.get("/v1/tables", auth=(user, ADMIN_KEY)).status_code == 200


@pytest.mark.usefixtures("gateway")
def test_a_sender_that_waits_for_a_challenge_is_offered_basic(api_address: str) -> None:
    passwords = HTTPPasswordMgrWithDefaultRealm()
    passwords.add_password(None, api_address, "webhook", ADMIN_KEY)
    opener = build_opener(HTTPBasicAuthHandler(passwords))
    assert opener.open(f"{api_address}/v1/tables").status == 200


@pytest.mark.parametrize(
    "credentials",
    ["!", "bm9jb2xvbg==", "dXNlcjo=", "dXNlcjpwYXNzd29yZA==", "w6Q6bWdfMDA=", "dXNlcjptZ18wMDExMjIzM194"],
)
def test_other_basic_credentials_are_rejected(anonymous: Gateway, credentials: str) -> None:
    response = anonymous.get("/v1/tables", headers={"Authorization": f"Basic {credentials}"})
    problem(response, 401, "unauthenticated")
