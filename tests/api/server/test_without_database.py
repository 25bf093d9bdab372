"""The API without Postgres, or with silent connections to it: it answers 503, asks clients to retry, and recovers."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.api.routes import probes as probe_routes
from tests.api.calls import Gateway, insert, own_gateway, problem
from tests.support.postgres.swallowing_proxy import SwallowingProxy, swallowing_proxy
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with own_gateway("postgresql://unused@127.0.0.1:1/none") as client:
        yield client


def test_every_call_that_needs_the_database_is_unavailable_for_now(gateway: Gateway) -> None:
    for response in (
        gateway.get("/v1/tables"),
        gateway.get("/v1/tables/t"),
        gateway.register("t", {"id": "int64"}),
        gateway.arcion(insert("t", id="1")),
        gateway.replicate({"messageSchemaId": "x", "headers": {"operation": "INSERT"}, "data": {}}),
        gateway.get("/v1/keys"),
    ):
        problem(response, 503, "database_unavailable")
        assert response.headers["retry-after"] == "1"


def test_the_metrics_are_those_of_the_process_and_say_that_the_database_is_away(gateway: Gateway) -> None:
    text = gateway.get("/metrics").raise_for_status().text
    assert "mirrorgate_database_up 0.0" in text
    assert "mirrorgate_api_processes 1.0" in text
    assert "mirrorgate_table_state" not in text


def test_a_stored_key_is_not_taken_for_a_wrong_one(gateway: Gateway) -> None:
    headers = {"Authorization": "Bearer mg_0011aabb_" + "x" * 43}
    problem(gateway.get("/v1/tables", headers=headers), 503, "database_unavailable")


def test_health_goes_on_and_readiness_names_the_database(gateway: Gateway) -> None:
    assert gateway.get("/healthz").status_code == 200
    response = gateway.get("/readyz")
    assert response.status_code == 503
    assert response.json()["parts"]["database"] != "ok"
    assert response.json()["parts"]["api"] == "ok"


def test_a_rejection_that_needs_no_database_is_given_as_always(gateway: Gateway) -> None:
    problem(gateway.arcion({"opType": "?"}), 422, "malformed_message")


@pytest.fixture
def proxy(database_url: str) -> Iterator[SwallowingProxy]:
    with swallowing_proxy(database_url) as proxy:
        yield proxy


@pytest.fixture
def behind_proxy(proxy: SwallowingProxy, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    monkeypatch.setattr("app.staging.connection.database._PING_SECONDS", 0.3)
    monkeypatch.setattr("app.staging.connection.notifications._SILENCE_SECONDS", 0.5)
    monkeypatch.setattr(probe_routes, "ANSWER_SECONDS", 0.3)
    with own_gateway(proxy.url, database_seconds=1.0) as client:
        client.register("t", {"id": "int64"}).raise_for_status()
        client.arcion(insert("t", id="1")).raise_for_status()
        yield client


def test_after_its_connections_fell_silent_the_api_goes_on_with_new_ones(
    proxy: SwallowingProxy, behind_proxy: Gateway
) -> None:
    proxy.swallow()
    started = time.monotonic()
    first = behind_proxy.arcion(insert("t", id="2"))
    assert time.monotonic() - started < 25
    if first.status_code != 202:
        problem(first, 503, "database_unavailable")
        assert first.headers["retry-after"] == "1"
    assert behind_proxy.arcion(insert("t", id="3")).status_code == 202


def test_while_every_connection_is_silent_requests_are_rejected_and_the_process_is_not_ready(
    proxy: SwallowingProxy, behind_proxy: Gateway
) -> None:
    proxy.swallow_new = True
    proxy.swallow()
    with ThreadPoolExecutor(8) as threads:
        answers = [threads.submit(behind_proxy.arcion, insert("t", id=str(key))) for key in range(8)]
        assert behind_proxy.get("/healthz").status_code == 200
        # An answer that is a second old still counts.
        wait_until(
            lambda: behind_proxy.get("/readyz").json()["parts"]["database"] != "ok",
            within=60,
            what="the database is not ready",
        )
        assert behind_proxy.get("/readyz").status_code == 503
        assert behind_proxy.get("/statusz").status_code == 503
        for answer in answers:
            problem(answer.result(timeout=20), 503, "database_unavailable")
    proxy.swallow_new = False
    wait_until(
        lambda: behind_proxy.arcion(insert("t", id="9")).status_code == 202, within=60, what="changes are accepted"
    )
    wait_until(lambda: behind_proxy.get("/readyz").status_code == 200, within=60, what="the process is ready")
