"""Posting Arrow streams: initial loads of one table."""

import io
from typing import Final

import httpx
import pyarrow as pa

from app.api.server.request_parameters import ARROW_STREAM
from tests.api.calls import Gateway, insert, problem
from tests.support.samples.arrow_streams import hostile_streams

COLUMNS = {"id": "int64", "name": "string"}
ROWS = pa.table({"name": ["a", "b", None], "id": [1, 2, 3]})


def load(gateway: Gateway, table: pa.Table = ROWS, name: str = "sales.orders", **headers: str) -> httpx.Response:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return posted(gateway, f"?table={name}", sink.getvalue(), **headers)


def posted(gateway: Gateway, query: str, body: bytes, **headers: str) -> httpx.Response:
    return gateway.post(f"/v1/changes/arrow{query}", content=body, headers={"Content-Type": ARROW_STREAM, **headers})


def test_a_stream_is_one_batch_with_a_receipt(gateway: Gateway) -> None:
    gateway.register("sales.orders", COLUMNS, ["id"])
    answer = load(gateway)
    assert answer.status_code == 202
    receipt = {"table": "sales.orders", "generation": 1, "sequence": 1, "changes": 3, "rows": 3}
    assert answer.json() == {"receipts": [receipt], "ignored": 0, "duplicates": 0, "dead_letters": 0, "replayed": False}
    assert gateway.status("sales.orders")["lag"]["rows"] == 3


def test_a_repeated_load_is_answered_as_before_and_staged_once(gateway: Gateway) -> None:
    gateway.register("sales.orders", COLUMNS, ["id"])
    first = load(gateway, **{"Idempotency-Key": "part-1"})
    again = load(gateway, **{"Idempotency-Key": "part-1"})
    assert (again.status_code, again.headers["Idempotency-Replayed"]) == (200, "true")
    assert again.json()["receipts"] == first.json()["receipts"]
    assert gateway.status("sales.orders")["accepted"]["rows"] == 3


def test_changes_may_follow_a_load_and_a_load_may_not_follow_changes(gateway: Gateway) -> None:
    gateway.register("sales.orders", COLUMNS, ["id"])
    load(gateway).raise_for_status()
    gateway.arcion(insert("sales.orders", id="4", name="d")).raise_for_status()
    problem(load(gateway), 409, "reload_requires_recreate")


def test_a_load_is_for_a_registered_table(gateway: Gateway) -> None:
    problem(load(gateway), 404, "unknown_table")


def test_what_is_no_stream_is_rejected_with_what_to_change(gateway: Gateway) -> None:
    gateway.register("sales.orders", COLUMNS, ["id"])
    problem(gateway.post("/v1/changes/arrow?table=sales.orders", json=[]), 415, "unsupported_media_type")
    problem(posted(gateway, "?table=sales.orders", b"x"), 400, "malformed_arrow")
    problem(posted(gateway, "", b"x"), 400, "bad_request")
    rejected = problem(load(gateway, pa.table({"id": ["1"], "name": ["a"]})), 409, "schema_mismatch")
    assert rejected["errors"][0]["column"] == "id"


def test_partial_updates_are_completed_from_loaded_rows(gateway: Gateway) -> None:
    gateway.register("sales.orders", COLUMNS, ["id"], partial_updates="complete").raise_for_status()
    load(gateway).raise_for_status()
    assert gateway.status("sales.orders")["row_images"]["rows"] == 3


LANDING: Final = {"null view with a negative size", "null view with a large size"}
"""What harmed readers of Arrow and is valid here: the length in the view of a NULL is not used."""


def test_streams_made_to_harm_are_answered_with_what_to_change(gateway: Gateway) -> None:
    gateway.register("sales.orders", {**COLUMNS, "total": "decimal(9,2)", "at": "timestamp"}, ["id"])
    codes = {"malformed_arrow", "schema_mismatch", "too_many_messages", "body_too_large"}
    for name, body in hostile_streams().items():
        answer = posted(gateway, "?table=sales.orders", body)
        if name in LANDING:
            assert answer.status_code == 202, name
            continue
        assert answer.status_code in {400, 409, 413}, name
        assert answer.json()["code"] in codes, name
        assert answer.json()["remedy"]


def test_a_column_of_nothing_lands_as_null_where_it_may(gateway: Gateway) -> None:
    """Pandas writes a column without a value so."""
    gateway.register("sales.orders", COLUMNS, ["id"])
    assert load(gateway, pa.table({"id": [1, 2], "name": pa.nulls(2)})).json()["receipts"][0]["rows"] == 2
    problem(load(gateway, pa.table({"id": pa.nulls(2)})), 422, "null_key")


def test_rows_whose_absent_columns_would_fill_the_memory_are_rejected(gateway: Gateway) -> None:
    gateway.register("sales.wide", {"id": "int64", **{f"c{number}": "int64" for number in range(100)}}, ["id"])
    narrow = pa.table({"id": pa.array(range(1_000))})
    rejected = problem(load(gateway, narrow, "sales.wide"), 413, "body_too_large")
    assert "rows" in rejected["detail"]
    assert load(gateway, narrow.slice(0, 100), "sales.wide").status_code == 202
