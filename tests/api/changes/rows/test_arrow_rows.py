"""Plain rows as Arrow streams: operations, partial rows, images, dry runs, repeats and rejections."""

from typing import Any, Final

import httpx
import pyarrow as pa
import pytest

from app.api.server.request_parameters import ARROW_STREAM
from tests.api.calls import Gateway, problem
from tests.support.samples.arrow_streams import stream

TABLE: Final = "shop.items"
COLUMNS: Final = {"id": "int64", "name": "string", "price": "decimal(9,2)"}


def register(gateway: Gateway, **options: str) -> None:
    gateway.register(TABLE, COLUMNS, ["id"], **options).raise_for_status()


ROWS: Final = pa.table({"id": [1, 2], "name": ["lamp", None], "price": pa.array([5, None], pa.decimal128(3, 1))})


def post(gateway: Gateway, rows: pa.Table, headers: dict[str, str] | None = None, **parameters: Any) -> httpx.Response:
    return gateway.body("rows", stream(rows), ARROW_STREAM, headers, table=TABLE, **parameters)


def dry(gateway: Gateway, rows: pa.Table, **parameters: Any) -> list[list[Any]]:
    answer = post(gateway, rows, dry_run=True, **parameters).raise_for_status()
    [table] = answer.json()["tables"]
    return [[row["__rowMarker__"], row["id"], row["name"], row["price"]] for row in table["rows"]]


def test_rows_of_a_stream_are_upserts_unless_they_have_an_operation(gateway: Gateway) -> None:
    register(gateway)
    assert dry(gateway, ROWS) == [[4, 1, "lamp", "5.00"], [4, 2, None, None]]
    assert dry(gateway, ROWS, op="insert") == [[0, 1, "lamp", "5.00"], [0, 2, None, None]]
    assert dry(gateway, ROWS, op="delete") == [[2, 1, None, None], [2, 2, None, None]]
    mixed = ROWS.append_column("__op__", pa.array(["Delete", None]))
    assert dry(gateway, mixed, op="insert") == [[2, 1, None, None], [0, 2, None, None]]


def test_a_stream_follows_changes_and_is_repeated_safely(gateway: Gateway) -> None:
    register(gateway)
    gateway.rows(TABLE, {"id": 1, "name": "lamp", "price": 4}).raise_for_status()
    for headers in ({"Idempotency-Key": "k"}, {"Mirrorgate-Producer": "p", "Mirrorgate-Producer-Sequence": "1"}):
        first, again = (post(gateway, ROWS, headers) for _ in range(2))
        assert (first.status_code, again.status_code) == (202, 200)
        assert again.json() == first.json() | {"replayed": True}
    assert gateway.status(TABLE)["accepted"] == {"batches": 3, "changes": 5, "rows": 5}


def test_partial_rows_are_completed_from_images_that_streams_leave_too(gateway: Gateway) -> None:
    register(gateway)
    partial = pa.table({"id": [2, 1], "price": pa.array([7, 8], pa.int64()).cast(pa.decimal128(21, 2))})
    rejected = problem(post(gateway, partial), 422, "incomplete_update")
    assert [(error["index"], error["pointer"]) for error in rejected["errors"]] == [(0, "/name")]
    register(gateway, partial_updates="complete")
    post(gateway, ROWS).raise_for_status()
    assert dry(gateway, partial) == [[4, 2, None, "7.00"], [4, 1, "lamp", "8.00"]]
    assert dry(gateway, partial, op="insert") == [[4, 2, None, "7.00"], [4, 1, None, "8.00"]], "their keys have rows"
    post(gateway, partial).raise_for_status()
    [table] = gateway.rows(TABLE, {"id": 1, "name": "b"}, dry_run=True).json()["tables"]
    assert table["rows"] == [{"id": 1, "name": "b", "price": "8.00", "__rowMarker__": 4}]


def test_a_table_without_row_markers_gets_one_for_the_first_upsert_that_fits(gateway: Gateway) -> None:
    register(gateway, initial_load="without_marker")
    assert post(gateway, ROWS, op="insert").status_code == 202
    assert post(gateway, ROWS.set_column(0, "id", pa.array([1, None]))).status_code == 422
    assert gateway.get(f"/v1/tables/{TABLE}/schema").json()["schema_version"] == 1
    assert post(gateway, ROWS).status_code == 202
    assert gateway.get(f"/v1/tables/{TABLE}/schema").json()["schema_version"] == 2


@pytest.mark.parametrize(
    ("rows", "status", "code", "place"),
    [
        (ROWS.append_column("color", pa.array(["red", "red"])), 422, "unknown_column", (0, "/color")),
        (ROWS.append_column("__op__", pa.array(["r", "x"])), 422, "bad_op", (1, "/__op__")),
        (ROWS.set_column(0, "id", pa.array([1, None])), 422, "null_key", (1, "/id")),
        (ROWS.set_column(1, "name", pa.array([1, 2])), 409, "schema_mismatch", (None, "/name")),
        (ROWS.set_column(2, "price", pa.array([1, 2], pa.decimal128(20, 3))), 202, "", None),
        (ROWS.drop_columns(["id"]), 422, "missing_key", (0, "/id")),
        (ROWS.slice(0, 0), 422, "empty_request", None),
    ],
)
def test_what_cannot_land_is_rejected_by_row_and_column(
    gateway: Gateway, rows: pa.Table, status: int, code: str, place: tuple[int | None, str] | None
) -> None:
    register(gateway)
    answer = post(gateway, rows)
    assert answer.status_code == status
    if code:
        details = problem(answer, status, code)
        assert place is None or (details["errors"][0].get("index"), details["errors"][0]["pointer"]) == place
        assert gateway.status(TABLE)["accepted"]["batches"] == 0


def test_what_a_stream_does_not_have_is_rejected(gateway: Gateway) -> None:
    register(gateway, source_order="enforce")
    problem(post(gateway, ROWS), 422, "bad_sequence")
    problem(post(gateway, ROWS, on_reject="dead_letter"), 400, "bad_request")
    problem(post(gateway, ROWS, delimiter=";"), 400, "bad_request")
    problem(post(gateway, ROWS, columns="id:int64", key_columns="id", register=True), 400, "bad_request")
    problem(gateway.rows(TABLE, {"id": 1}, register=True), 400, "bad_request")
