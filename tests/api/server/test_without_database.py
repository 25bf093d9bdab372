"""The API without Postgres: it answers 503 and asks clients to retry."""

from collections.abc import Iterator

import pytest

from tests.api.calls import Gateway, insert, own_gateway, problem


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with own_gateway("postgresql://nobody@127.0.0.1:1/none") as client:
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
