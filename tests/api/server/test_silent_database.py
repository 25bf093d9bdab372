"""The API with silent connections to Postgres: it answers 503, reports the reason and recovers by itself."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.api.routes import probes as probe_routes
from tests.api.calls import Gateway, insert, own_gateway, problem
from tests.support.postgres.swallowing_proxy import SwallowingProxy, swallowing_proxy
from tests.support.waiting import wait_until


@pytest.fixture
def proxy(database_url: str) -> Iterator[SwallowingProxy]:
    with swallowing_proxy(database_url) as proxy:
        yield proxy


@pytest.fixture
def gateway(proxy: SwallowingProxy, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    monkeypatch.setattr("app.staging.connection.database._PING_SECONDS", 0.3)
    monkeypatch.setattr("app.staging.connection.notifications._SILENCE_SECONDS", 0.5)
    monkeypatch.setattr(probe_routes, "ANSWER_SECONDS", 0.3)
    with own_gateway(proxy.url, database_seconds=1.0) as client:
        client.register("t", {"id": "int64"}).raise_for_status()
        client.arcion(insert("t", id="1")).raise_for_status()
        yield client


def test_after_its_connections_fell_silent_the_api_goes_on_with_new_ones(
    proxy: SwallowingProxy, gateway: Gateway
) -> None:
    proxy.swallow()
    started = time.monotonic()
    first = gateway.arcion(insert("t", id="2"))
    assert time.monotonic() - started < 25
    if first.status_code != 202:
        problem(first, 503, "database_unavailable")
        assert first.headers["retry-after"] == "1"
    assert gateway.arcion(insert("t", id="3")).status_code == 202


def test_while_every_connection_is_silent_requests_are_rejected_and_the_process_is_not_ready(
    proxy: SwallowingProxy, gateway: Gateway
) -> None:
    proxy.swallow_new = True
    proxy.swallow()
    with ThreadPoolExecutor(8) as threads:
        answers = [threads.submit(gateway.arcion, insert("t", id=str(key))) for key in range(8)]
        assert gateway.get("/healthz").status_code == 200
        # An answer that is a second old still counts.
        wait_until(lambda: states(gateway)["database"] != "ok", within=60, what="the database is not ready")
        assert gateway.get("/readyz").status_code == 503
        assert gateway.get("/statusz").status_code == 503
        for answer in answers:
            problem(answer.result(timeout=20), 503, "database_unavailable")
    proxy.swallow_new = False
    wait_until(lambda: gateway.arcion(insert("t", id="9")).status_code == 202, within=60, what="changes are accepted")
    wait_until(lambda: gateway.get("/readyz").status_code == 200, within=60, what="the process is ready")


def states(gateway: Gateway) -> dict[str, str]:
    """Return the state of each part, as the probe says it."""
    parts: dict[str, str] = gateway.get("/readyz").json()["parts"]
    return parts
