"""Posting Arrow streams: initial loads of one table."""

from typing import Final

import httpx
import pyarrow as pa
import pytest

from app.api.server.request_parameters import ARROW_STREAM
from tests.api.calls import Gateway, insert, problem
from tests.support.samples.arrow_streams import hostile_streams, stream

TABLE = "sales.orders"
COLUMNS = {"id": "int64", "name": "string"}
ROWS = pa.table({"name": ["a", "b", None], "id": [1, 2, 3]})


def load(gateway: Gateway, rows: pa.Table = ROWS, table: str = TABLE, **headers: str) -> httpx.Response:
    return gateway.body("arrow", stream(rows), ARROW_STREAM, headers, table=table)


@pytest.fixture
def orders(gateway: Gateway) -> Gateway:
    gateway.register(TABLE, COLUMNS, ["id"]).raise_for_status()
    return gateway


def test_a_stream_is_one_batch_with_a_receipt(orders: Gateway) -> None:
    answer = load(orders)
    assert answer.status_code == 202
    receipt = {"table": "sales.orders", "generation": 1, "sequence": 1, "changes": 3, "rows": 3}
    assert answer.json() == {"receipts": [receipt], "ignored": 0, "duplicates": 0, "dead_letters": 0, "replayed": False}
    assert orders.status(TABLE)["lag"]["rows"] == 3


def test_a_repeated_load_is_answered_as_before_and_staged_once(orders: Gateway) -> None:
    first, again = (load(orders, **{"Idempotency-Key": "part-1"}) for _ in range(2))
    assert (again.status_code, again.headers["Idempotency-Replayed"]) == (200, "true")
    assert again.json()["receipts"] == first.json()["receipts"]
    assert orders.status(TABLE)["accepted"]["rows"] == 3


def test_changes_may_follow_a_load_and_a_load_may_not_follow_changes(orders: Gateway) -> None:
    load(orders).raise_for_status()
    orders.arcion(insert(TABLE, id="4", name="d")).raise_for_status()
    problem(load(orders), 409, "reload_requires_recreate")


def test_a_load_is_for_a_registered_table(gateway: Gateway) -> None:
    problem(load(gateway), 404, "unknown_table")


def test_what_is_no_stream_is_rejected_with_what_to_change(orders: Gateway) -> None:
    problem(orders.body("arrow", b"[]", table=TABLE), 415, "unsupported_media_type")
    problem(orders.body("arrow", b"x", ARROW_STREAM, table=TABLE), 400, "malformed_arrow")
    problem(orders.body("arrow", b"x", ARROW_STREAM), 400, "bad_request")
    rejected = problem(load(orders, pa.table({"id": ["1"], "name": ["a"]})), 409, "schema_mismatch")
    assert rejected["errors"][0]["column"] == "id"


def test_partial_updates_are_completed_from_loaded_rows(gateway: Gateway) -> None:
    gateway.register(TABLE, COLUMNS, ["id"], partial_updates="complete").raise_for_status()
    load(gateway).raise_for_status()
    assert gateway.status(TABLE)["row_images"]["rows"] == 3


LANDING: Final = {"null view with a negative size", "null view with a large size"}
"""What harmed readers of Arrow and is valid here: the length in the view of a NULL is not used."""


def test_streams_made_to_harm_are_answered_with_what_to_change(gateway: Gateway) -> None:
    gateway.register(TABLE, {**COLUMNS, "total": "decimal(9,2)", "at": "timestamp"}, ["id"])
    codes = {"malformed_arrow", "schema_mismatch", "too_many_messages", "body_too_large"}
    for name, body in hostile_streams().items():
        answer = gateway.body("arrow", body, ARROW_STREAM, table=TABLE)
        if name in LANDING:
            assert answer.status_code == 202, name
            continue
        assert answer.status_code in {400, 409, 413}, name
        assert answer.json()["code"] in codes, name
        assert answer.json()["remedy"]


def test_a_column_of_nothing_lands_as_null_where_it_may(orders: Gateway) -> None:
    """Pandas writes a column without a value so."""
    assert load(orders, pa.table({"id": [1, 2], "name": pa.nulls(2)})).json()["receipts"][0]["rows"] == 2
    problem(load(orders, pa.table({"id": pa.nulls(2)})), 422, "null_key")


def test_rows_whose_absent_columns_would_fill_the_memory_are_rejected(gateway: Gateway) -> None:
    gateway.register("sales.wide", {"id": "int64", **{f"c{number}": "int64" for number in range(100)}}, ["id"])
    narrow = pa.table({"id": pa.array(range(1_000))})
    rejected = problem(load(gateway, narrow, "sales.wide"), 413, "body_too_large")
    assert "rows" in rejected["detail"]
    assert load(gateway, narrow.slice(0, 100), "sales.wide").status_code == 202
