"""Rate limits per key: 429 with Retry-After and the RateLimit fields, from the key or the settings."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from app.api.limits import KeyMeter, RateLimiter
from app.api.server.request_facts import RequestFacts
from app.domain.access.rights import Credential, RateLimits
from mirrorgate.errors import Code, TemporarilyUnavailable
from tests.api.calls import ADMIN_KEY, Gateway, insert, problem
from tests.api.commands import Terminal
from tests.support.http.raw_http import connected, head
from tests.support.postgres import sql
from tests.support.waiting import wait_until

SLOW = 0.001
"""A rate that brings nothing while a test lasts."""


@pytest.fixture
def limited(gateway: Gateway) -> Iterator[Any]:
    """Make clients whose keys have these limits, and the id of each key."""
    gateway.register("t", {"id": "int64"}, ["id"]).raise_for_status()
    with ExitStack() as stack:

        def client(**limits: Any) -> tuple[Gateway, str]:
            created = gateway.new_key("ingest", "read", **limits)
            return stack.enter_context(Gateway.at(gateway.address, created["key"])), created["id"]

        yield client


def test_a_key_may_send_no_more_requests_than_its_limit(gateway: Gateway, limited: Any) -> None:
    client, _ = limited(requests_per_second=SLOW)
    first = client.arcion(insert("t", id="1"))
    assert first.status_code == 202
    assert first.headers["ratelimit-policy"] == '"requests";q=1;qu="request";w=1000'
    assert first.headers["ratelimit"].startswith('"requests";r=0;t=')
    for rejected in (client.arcion(insert("t", id="2")), client.get("/v1/tables")):
        details = problem(rejected, 429, "rate_limited")
        assert details["detail"] == "the key is limited to 0.001 requests per second"
        assert 990 <= int(rejected.headers["retry-after"]) <= 1_000
        assert "ratelimit" in rejected.headers
    assert gateway.status("t")["staged"]["rows"] == 1
    assert "ratelimit" not in gateway.get("/v1/tables").headers


def test_a_key_may_send_no_more_bytes_than_its_limit(limited: Any) -> None:
    client, _ = limited(bytes_per_second=20)
    first = client.arcion(insert("t", id="1"))  # a body larger than the quota gets through
    assert first.status_code == 202
    assert first.headers["ratelimit-policy"] == '"bytes";q=20;qu="content-bytes";w=1'
    problem(client.arcion(insert("t", id="2")), 429, "rate_limited")


def test_a_body_that_is_too_large_to_be_read_counts_no_bytes(gateway: Gateway) -> None:
    key = gateway.new_key("read", "register", bytes_per_second=20)["key"]
    with connected(gateway.address) as sender:
        sender.send(head("/v1/tables/t", key, f"Content-Length: {10**15}", method="PUT"))
        assert sender.answer().status == 413
    with Gateway.at(gateway.address, key) as client:
        client.get("/v1/tables").raise_for_status()


def test_bytes_of_a_body_without_a_length_count_as_they_come(limited: Any) -> None:
    client, _ = limited(bytes_per_second=20)
    body = json.dumps(insert("t", id="1")).encode()
    assert client.post("/v1/changes/arcion", content=iter([body[:10], body[10:]])).status_code == 202
    problem(client.get("/v1/tables"), 429, "rate_limited")


def test_a_limit_changes_and_is_listed(gateway: Gateway, limited: Any) -> None:
    client, key_id = limited(requests_per_second=SLOW, bytes_per_second=10**9)
    path = f"/v1/keys/{key_id}"
    changed = gateway.patch(path, json={"requests_per_second": None}).raise_for_status().json()
    assert (changed["requests_per_second"], changed["bytes_per_second"]) == (None, 10**9)
    assert gateway.listed_keys() == [changed | {"last_used_at": None}]
    client.get("/v1/tables")
    wait_until(lambda: client.get("/v1/tables").is_success, within=60, what="the new limit holds")
    rotated = gateway.post(f"{path}/rotate", json={}).raise_for_status().json()["key"]
    with Gateway.at(gateway.address, rotated) as later:
        assert '"bytes";q=1000000000' in later.get("/v1/tables").headers["ratelimit-policy"]
    [act] = [event for event in gateway.audit(outcome="done") if event["action"] == "update_key"]
    assert act["details"] == {"key": key_id, "requests_per_second": None}
    problem(gateway.patch("/v1/keys/00000000", json={}), 404, "unknown_key")


def test_concurrent_changes_of_different_limits_both_last(gateway: Gateway, limited: Any) -> None:
    _, key_id = limited(requests_per_second=5)

    def change(**limits: float) -> None:
        with Gateway.at(gateway.address, ADMIN_KEY) as administrator:
            administrator.patch(f"/v1/keys/{key_id}", json=limits).raise_for_status()

    with ThreadPoolExecutor(2) as threads:
        with sql.locked(gateway.engine, "SELECT FROM mirrorgate.api_keys WHERE key_id = :id FOR UPDATE", id=key_id):
            changes = [threads.submit(change, requests_per_second=7), threads.submit(change, bytes_per_second=9)]
            wait_until(lambda: sql.lock_waits(gateway.engine) == 2, within=30, what="both changes wait")
        for one in changes:
            one.result(timeout=30)
    [key] = gateway.listed_keys()
    assert (key["requests_per_second"], key["bytes_per_second"]) == (7, 9)


@pytest.mark.parametrize(
    "wanted",
    [
        {"requests_per_second": 0},
        {"requests_per_second": -1},
        {"requests_per_second": 0.0009},
        {"requests_per_second": 5e-324},
        {"requests_per_second": "1"},
        {"bytes_per_second": 0},
        {"bytes_per_second": 1.5},
    ],
    ids=str,
)
def test_a_limit_that_makes_no_sense_is_rejected(gateway: Gateway, limited: Any, wanted: dict[str, Any]) -> None:
    _, key_id = limited()
    problem(gateway.patch(f"/v1/keys/{key_id}", json=wanted), 400, "bad_request")
    problem(gateway.post("/v1/keys", json={"rights": ["read"], **wanted}), 400, "bad_request")


def test_the_rights_of_a_key_do_not_change(gateway: Gateway, limited: Any) -> None:
    problem(gateway.patch(f"/v1/keys/{limited()[1]}", json={"rights": ["admin"]}), 400, "bad_request")


@pytest.mark.usefixtures("gateway")
def test_limits_are_given_on_the_command_line(terminal: Terminal) -> None:
    def listed() -> tuple[float | None, int | None]:
        [key] = json.loads(terminal.run("keys", "list", "--json").output)
        return key["requests_per_second"], key["bytes_per_second"]

    wanted = ("--rights", "read, ingest", "--requests-per-second", 5, "--bytes-per-second", 1_000_000)
    key_id = terminal.run("keys", "create", *wanted).output.split("_")[1]
    assert listed() == (5, 1_000_000)
    assert terminal.run("keys", "limit", key_id, "--bytes-per-second", 7).output == "7 B a second\n"
    assert listed() == (None, 7)


def test_the_settings_limit_keys_without_a_limit_of_their_own() -> None:
    limiter = RateLimiter(RateLimits(requests_per_second=1.0), clock=lambda: 0.0)
    facts = RequestFacts()
    limiter.admit(Credential("a", ()), None, facts)
    with pytest.raises(TemporarilyUnavailable) as caught:
        limiter.admit(Credential("a", ()), None, facts)
    assert (caught.value.code, caught.value.retry_after) == (Code.RATE_LIMITED, 1)
    limiter.admit(Credential("b", ()), None, facts)
    own = Credential("a", (), RateLimits(requests_per_second=2.0))
    limiter.admit(own, None, facts)
    limiter.admit(own, None, facts)


def test_a_rejected_request_counts_towards_nothing() -> None:
    now = 0.0
    meter = KeyMeter(RateLimits(1.0, 100.0), lambda: now)
    meter.admit(10)
    for _ in range(50):
        with pytest.raises(TemporarilyUnavailable):
            meter.admit(1_000)
    now = 1.0
    meter.admit(10)


def test_a_client_reads_the_headers_of_every_answer(limited: Any) -> None:
    client, _ = limited(requests_per_second=1000, bytes_per_second=10**6)
    answers: list[httpx.Response] = [client.get("/v1/tables"), client.get("/v1/tables/none"), client.arcion({})]
    for answer in answers:
        assert answer.headers["ratelimit-policy"] == (
            '"requests";q=1000;qu="request";w=1, "bytes";q=1000000;qu="content-bytes";w=1'
        )
