"""Rejected requests: their problem details, and that none of their changes is staged."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.calls import Gateway, insert, problem
from tests.support.samples.messages import arcion, metadata

CANARY = "canary7391"


@pytest.fixture
def orders(gateway: Gateway) -> Iterator[Gateway]:
    """Give a gateway with the table `t`, of which nothing is staged when the test ends."""
    gateway.register("t", {"id": "int64", "day": "date"}, ["id"])
    yield gateway
    status = gateway.status("t")
    assert (status["last_sequence"], status["accepted"]["rows"], status["staged"]["rows"]) == (0, 0, 0)


GOOD = insert("t", id="1", day="2024-02-29")


@pytest.mark.parametrize(
    ("wrong", "status", "code", "pointer", "column"),
    [
        (insert("t", id="1", day=CANARY), 422, "bad_value", "/after/day", "day"),
        (insert("t", id="1", day="null", extra=CANARY), 422, "unknown_column", "/after/extra", "extra"),
        (insert("t", id="null", day="null"), 422, "null_key", "/after/id", "id"),
        (insert("t", day="null"), 422, "missing_key", "/after/id", "id"),
        (GOOD | {"opType": CANARY}, 422, "bad_op", "/opType", None),
        (GOOD | {"exists": {"id": CANARY}}, 422, "bad_exists", "/exists/id", "id"),
        (GOOD | {"exists": {"id": "3"}}, 422, "exists_mismatch", "/before/id", "id"),
        (GOOD | {"exists": CANARY}, 422, "malformed_message", "/exists", None),
        (insert("nowhere", id=CANARY), 404, "unknown_table", None, None),
        (insert("_t", id=CANARY), 422, "bad_name", "/tableName", None),
    ],
)
def test_a_wrong_message_is_named_and_its_neighbours_are_not_staged(
    orders: Gateway, wrong: Any, status: int, code: str, pointer: str | None, column: str | None
) -> None:
    response = orders.arcion(GOOD, wrong)
    [error] = problem(response, status, code)["errors"]
    assert (error["index"], error.get("pointer"), error.get("column")) == (1, pointer, column)
    assert CANARY not in response.text


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (b"", 422, "empty_request"),
        (b"[]", 422, "empty_request"),
        (b'{"canary7391"', 400, "malformed_json"),
        (b'{"a":"\xff"}', 400, "malformed_json"),
        (b"[" * 50_000, 400, "malformed_json"),
        (b"{}", 422, "malformed_message"),
        (b"[1]", 422, "malformed_message"),
    ],
)
@pytest.mark.parametrize("source_format", ["arcion", "replicate"])
def test_a_malformed_body_is_rejected(
    orders: Gateway, source_format: str, content: bytes, status: int, code: str
) -> None:
    response = orders.post(f"/v1/changes/{source_format}", content=content)
    problem(response, status, code)
    assert CANARY not in response.text


@pytest.mark.parametrize("table", ["", "a..b", "_t", "a/b"])
def test_a_table_parameter_that_is_no_name_is_rejected(orders: Gateway, table: str) -> None:
    response = orders.arcion(GOOD, table=table) if table else orders.arcion(insert("_", id=1), table=table)
    problem(response, 422, "bad_name")


def test_the_first_hundred_problems_are_listed_and_all_are_counted(orders: Gateway) -> None:
    details = problem(orders.arcion(*[insert("t", id=CANARY, day="null")] * 150), 422, "bad_value")
    assert [error["index"] for error in details["errors"]] == list(range(100))
    assert details["errors_total"] == 150


def test_problems_of_several_tables_come_in_the_order_of_the_messages(orders: Gateway) -> None:
    details = problem(
        orders.arcion(insert("t", id="x"), insert("nowhere", id="1"), insert("t", id="y")), 422, "bad_value"
    )
    assert [(error["index"], error["code"]) for error in details["errors"]] == [
        (0, "bad_value"),
        (1, "unknown_table"),
        (2, "bad_value"),
    ]


LONG = "x" * 9_000


@pytest.mark.parametrize("name", ["schemaId", "lineage/server", "lineage/task"])
def test_a_text_of_metadata_beyond_its_bound_is_rejected_with_its_place(gateway: Gateway, name: str) -> None:
    message = metadata("hr.employees", {"id": "INT8"})
    within, _, key = name.rpartition("/")
    (message["message"][within] if within else message["message"])[key] = LONG
    [error] = problem(gateway.replicate(message), 422, "unstorable")["errors"]
    assert (error["index"], error["pointer"]) == (0, f"/message/{name}")
    assert "255" in error["detail"]


def test_a_catalog_beyond_its_bound_is_rejected(orders: Gateway) -> None:
    [error] = problem(orders.arcion(arcion("t", None, {"id": "1"}, catalog=LONG)), 422, "bad_name")["errors"]
    assert "255" in error["detail"]


def test_a_source_name_beyond_its_bound_is_rejected(gateway: Gateway) -> None:
    body = {"columns": [{"name": "id", "type": "int64"}], "options": {"sources": [f"{LONG}.sales.orders"]}}
    assert gateway.put("/v1/tables/t", json=body).status_code == 422


@pytest.mark.parametrize("header", ["Idempotency-Key", "Mirrorgate-Producer"])
def test_a_name_of_a_request_beyond_its_bound_is_rejected(orders: Gateway, header: str) -> None:
    headers = {header: "k" * 256} | ({"Mirrorgate-Producer-Sequence": "1"} if "Producer" in header else {})
    response = orders.post("/v1/changes/arcion", json=[GOOD], headers=headers)
    assert "255" in problem(response, 400, "bad_request")["detail"]
