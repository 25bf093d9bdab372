"""Nobody stops a caller: neither callers without a key, at any route, nor other keys, by bodies that never arrive."""

import hashlib
import hmac
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from app.api.application import create_app
from app.observability.resource_watch import raise_descriptor_limit
from app.settings import Settings
from tests.api.calls import Gateway, insert
from tests.limits.conftest import Serve, held
from tests.support.http.issuer import AUDIENCE, CLIENT_ID, Issuer, issuing
from tests.support.http.raw_http import RawClient, connected, head, request
from tests.support.waiting import wait_until

CHANGES = "/v1/changes/rows?table=t"
ROWS = json.dumps([{"id": 1}]).encode()
DECLARED = 256 * 2**10
FORM = "application/x-www-form-urlencoded"


@pytest.fixture(autouse=True)
def _descriptors() -> None:
    raise_descriptor_limit()


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with issuing() as issuer:
        yield issuer


def sign_in_settings(issuer: Issuer) -> dict[str, Any]:
    """Return the settings with which the console has all of its routes."""
    known = {
        "console": True,
        "oidc_issuer": issuer.url,
        "oidc_audience": AUDIENCE,
        "oidc_rights": json.dumps({"reader": {"rights": ["read"], "tables": ["*"]}}),
        "oidc_client_id": CLIENT_ID,
        "oidc_redirect_url": "http://127.0.0.1:8480/console/oidc/callback",
    }
    return {name: value for name, value in Settings.model_validate(known) if name in known}


def every_route(**settings: Any) -> list[tuple[str, str]]:
    """Return method and path of each route of the application, with values in the places of parameters."""
    found = set()
    for part in create_app(Settings(**settings)).routes:
        contexts = part.effective_route_contexts() if hasattr(part, "effective_route_contexts") else [part]
        for route in contexts:
            path = re.sub(r"\{[^}]*\}", "1", route.path.replace("{table}", "t"))
            found |= {(method, path) for method in route.methods}
    return sorted(found)


def flood(gateway: Gateway, stack: ExitStack, heads: Iterable[bytes]) -> list[RawClient]:
    """Open a connection for each head, send it and leave it open. Return once the gateway has read them."""
    clients = []
    for content in heads:
        clients.append(stack.enter_context(connected(gateway.address)))
        clients[-1].send(content)
    for _ in range(2):  # connections are accepted in order
        with connected(gateway.address) as later:
            later.send(b"GET /healthz HTTP/1.1\r\nHost: gateway\r\n\r\n")
            assert later.answer().status == 200
    return clients


def stranger(method: str, path: str, *headers: str, kind: str = FORM) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: gateway", f"Content-Type: {kind}", *headers, "", ""]
    return "\r\n".join(lines).encode()


class Victim:
    """Posts rows with a key of its own, and counts the answers."""

    def __init__(self, gateway: Gateway, stack: ExitStack) -> None:
        self.answers: Counter[int] = Counter()
        self._client = stack.enter_context(Gateway.at(gateway.address, gateway.new_key("ingest")["key"]))
        self._ids = itertools.count()

    def post(self, times: int = 1) -> None:
        for _ in range(times):
            self.answers[self._client.arcion(insert("t", id=str(next(self._ids)))).status_code] += 1

    def lost_nothing(self) -> None:
        assert set(self.answers) == {202}, self.answers


def check_all_is_forgotten(gateway: Gateway, before: list[float]) -> None:
    """What attackers held is given back once they have gone."""
    wait_until(lambda: held(gateway) == before, within=60, what="nothing is held")


@pytest.mark.parametrize(
    ("heads", "limits"),
    [
        (24, {"max_body_bytes": 2 * DECLARED, "max_bytes_in_memory": 4 * DECLARED, "max_concurrent_requests": 8}),
        pytest.param(2_000, {}, marks=[pytest.mark.thorough, pytest.mark.timeout(1_800)]),
    ],
)
@pytest.mark.slow
def test_heads_without_a_key_stop_nobody_at_any_route(
    serve: Serve, issuer: Issuer, heads: int, limits: dict[str, int]
) -> None:
    signing_in = sign_in_settings(issuer)
    routes = every_route(**signing_in)
    assert len(routes) > 80
    assert {"/console/sign-in", "/console/oidc/start", "/v1/changes/rows", "/metrics", "/docs"} <= {
        p for _, p in routes
    }
    gateway = serve(**signing_in, **limits)
    before = held(gateway)
    with ExitStack() as all_open:
        victim = Victim(gateway, all_open)
        for batch in batches(routes, len(routes) if limits else 1):
            with ExitStack() as attack:
                for method, path in batch:
                    kind = FORM if path.startswith("/console") else "application/json"
                    one = stranger(method, path, f"Content-Length: {DECLARED}", kind=kind)
                    small = stranger(method, path, "Content-Length: 8000", kind=kind)
                    flood(gateway, attack, [one] * (heads - 4) + [small] * 4)
                    victim.post()
                victim.post(5)
        victim.lost_nothing()
        check_all_is_forgotten(gateway, before)


def batches(routes: list[tuple[str, str]], size: int) -> list[list[tuple[str, str]]]:
    return [routes[start : start + size] for start in range(0, len(routes), size)]


@pytest.mark.slow
def test_unverified_signatures_stop_nobody_not_even_senders_that_sign(serve: Serve) -> None:
    gateway = serve(signing_key="a-signing-key-only-for-tests-of-limits")
    before = held(gateway)
    keys = [gateway.new_key("ingest", hmac=True, requests_per_second=1_000) for _ in range(2)]
    with ExitStack() as stack:
        victim = Victim(gateway, stack)
        anonymous = stack.enter_context(Gateway.at(gateway.address, None))
        forged = f"X-Signature: sha256={'0' * 64}"
        ids = itertools.cycle(key["id"] for key in keys)
        genuine: Counter[int] = Counter()
        for _ in range(11):
            names = itertools.islice(ids, 100)
            length = ("Content-Length: 1000", "Content-Encoding: gzip")
            attack = (
                stranger("POST", f"{CHANGES}&key_id={name}", forged, *length, kind="application/json") for name in names
            )
            flood(gateway, stack, attack)
            victim.post(3)
            for key in keys:  # the holders of the very ids that the attack names
                genuine[signed(anonymous, key)] += 1
        victim.lost_nothing()
        assert set(genuine) == {202}
        fresh = anonymous.post(CHANGES, content=ROWS, headers=signature(keys[0]))
        assert int(re.findall(r'"requests";r=(\d+)', fresh.headers["ratelimit"])[0]) > 900  # the forged ones spent none
    check_all_is_forgotten(gateway, before)


def signature(key: dict[str, str]) -> dict[str, str]:
    digest = hmac.new(key["signing_secret"].encode(), ROWS, hashlib.sha256).hexdigest()
    return {
        "Content-Type": "application/json",
        "Mirrorgate-Key-Id": key["id"],
        "X-Signature": f"sha256={digest}",
    }


def signed(client: Gateway, key: dict[str, str]) -> int:
    return client.post(CHANGES, content=ROWS, headers=signature(key)).status_code


@pytest.mark.slow
def test_two_keys_with_dripping_bodies_stop_no_other_key(serve: Serve) -> None:
    gateway = serve()
    before = held(gateway)
    with ExitStack() as stack:
        victim = Victim(gateway, stack)
        greedy = [gateway.new_key("ingest")["key"] for _ in range(2)]
        dripping = []
        for key in greedy:
            for _ in range(3):
                begun = head(CHANGES, key, "Content-Length: 100000") + b"["
                dripping += flood(gateway, stack, [begun] * 167)
                victim.post(3)
        for client in dripping:
            with suppress(OSError):  # closed, because it was rejected
                client.send(b" ")
        victim.post(10)
        several = [
            flood(gateway, stack, [request(CHANGES, gateway.new_key("ingest")["key"], ROWS)])[0] for _ in range(3)
        ]
        assert [client.answer().status for client in several] == [202] * 3
        victim.lost_nothing()
    check_all_is_forgotten(gateway, before)
