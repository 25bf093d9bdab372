"""Plain rows as Arrow streams, and plain rows in any format that declare their table."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import httpx
import pyarrow as pa
import pytest

from app.api.server.request_parameters import ARROW_STREAM
from tests.api.calls import Gateway, problem
from tests.api.conftest import ClientWith
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


@pytest.mark.parametrize(
    ("rows", "status", "code", "place"),
    [
        (ROWS.set_column(0, "id", pa.array([1, None])), 422, "null_key", (1, "/id")),
        (ROWS.set_column(1, "name", pa.array([1, 2])), 409, "schema_mismatch", (None, "/name")),
    ],
)
def test_what_cannot_land_is_rejected_by_row_and_column(
    gateway: Gateway, rows: pa.Table, status: int, code: str, place: tuple[int | None, str]
) -> None:
    register(gateway)
    [found] = problem(post(gateway, rows), status, code)["errors"]
    assert (found.get("index"), found["pointer"]) == place
    assert gateway.status(TABLE)["accepted"]["batches"] == 0


def test_what_a_stream_does_not_have_is_rejected(gateway: Gateway) -> None:
    register(gateway, source_order="enforce")
    problem(post(gateway, ROWS), 422, "bad_sequence")
    problem(post(gateway, ROWS, on_reject="dead_letter"), 400, "bad_request")
    problem(post(gateway, ROWS, delimiter=";"), 400, "bad_request")
    problem(post(gateway, ROWS, columns="id:int64", key_columns="id", register=True), 400, "bad_request")
    problem(gateway.rows(TABLE, {"id": 1}, register=True), 400, "bad_request")


DECLARED: Final = {"columns": "id:int64,name:string!,price:decimal(9,2)", "key_columns": "id"}
ROW: Final = {"id": 1, "name": "lamp", "price": "5.00"}


def schema(gateway: Gateway) -> list[str]:
    found = gateway.get(f"/v1/tables/{TABLE}/schema").raise_for_status().json()
    return [f"{column['name']}:{column['type']}{'' if column['nullable'] else '!'}" for column in found["columns"]]


@pytest.mark.parametrize("in_csv", [False, True])
def test_the_first_body_registers_its_table_and_the_answer_says_so(gateway: Gateway, *, in_csv: bool) -> None:
    def send() -> httpx.Response:
        if in_csv:
            return gateway.csv_rows(TABLE, "id,name,price\n1,lamp,5.00\n", **DECLARED)
        return gateway.rows(TABLE, ROW, **DECLARED)

    first, second = send(), send()
    assert (first.status_code, second.status_code) == (202, 202)
    assert first.json()["registered"] == [{"table": TABLE, "outcome": "created"}]
    assert "registered" not in second.json()
    assert schema(gateway) == ["id:int64!", "name:string!", "price:decimal(9,2)"]
    assert gateway.status(TABLE)["accepted"]["rows"] == 2


def test_a_repeated_request_says_again_what_it_registered(gateway: Gateway) -> None:
    key = {"Idempotency-Key": "k"}
    answers = [gateway.body("rows", json.dumps(ROW), headers=key, table=TABLE, **DECLARED) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [202, 200]
    assert answers[1].json() == answers[0].json() | {"replayed": True}


def test_a_declared_column_that_the_table_lacks_is_added_and_the_others_stay(gateway: Gateway) -> None:
    gateway.rows(TABLE, ROW, **DECLARED).raise_for_status()
    more = {"columns": "id:int64,color:string!,name:string", "key_columns": "id"}
    answer = gateway.rows(TABLE, ROW | {"color": "red"}, **more)
    assert answer.json()["registered"] == [{"table": TABLE, "outcome": "evolved"}]
    assert schema(gateway) == ["id:int64!", "name:string!", "price:decimal(9,2)", "color:string"]
    assert "registered" not in gateway.rows(TABLE, ROW | {"color": "red"}, **more).json()


def test_a_key_without_the_right_to_register_can_post_to_a_registered_table_only(
    gateway: Gateway, client_with: ClientWith
) -> None:
    producer, registrar = (client_with("ingest", *more, tables=["shop.*"]) for more in ((), ("register",)))
    problem(producer.rows(TABLE, ROW, **DECLARED), 403, "forbidden")
    assert registrar.rows(TABLE, ROW, **DECLARED).status_code == 202
    assert producer.rows(TABLE, ROW, **DECLARED).status_code == 202
    problem(registrar.rows("other.items", ROW, **DECLARED), 404, "unknown_table")
    problem(gateway.get("/v1/tables/other.items"), 404, "unknown_table")


def test_a_dry_run_registers_nothing(gateway: Gateway) -> None:
    answer = gateway.rows(TABLE, ROW, dry_run=True, **DECLARED).raise_for_status()
    assert answer.json()["tables"][0]["rows"] == [ROW | {"__rowMarker__": 4}]
    problem(gateway.get(f"/v1/tables/{TABLE}"), 404, "unknown_table")


@pytest.mark.parametrize(
    "parameters",
    [
        {"columns": "id:int64"},
        {"key_columns": "id"},
        {"columns": "id", "key_columns": "id"},
        {"columns": "id:int64", "key_columns": "id", "register": True},
    ],
)
def test_a_declaration_without_its_parts_is_rejected(gateway: Gateway, parameters: dict[str, Any]) -> None:
    problem(gateway.rows(TABLE, ROW, **parameters), 400, "bad_request")


def test_a_table_of_inserts_needs_no_key(gateway: Gateway) -> None:
    answer = gateway.rows(TABLE, ROW, columns=DECLARED["columns"], op="insert")
    assert answer.json()["registered"][0]["outcome"] == "created"
    problem(gateway.rows(TABLE, ROW), 422, "no_key")


def test_the_schema_of_an_arrow_stream_registers_its_table(gateway: Gateway) -> None:
    fields = [pa.field("id", pa.int32(), nullable=False), ("name", pa.string()), ("__op__", pa.string())]
    rows = pa.table({"id": [1], "name": ["lamp"], "__op__": ["insert"]}, pa.schema(fields))
    first = post(gateway, rows, register=True, key_columns="id")
    assert first.json()["registered"] == [{"table": TABLE, "outcome": "created"}]
    assert schema(gateway) == ["id:int32!", "name:string"]
    wider = pa.table(
        {"id": pa.array([2], pa.int64()), "name": ["desk"], "seen": pa.array([1], pa.timestamp("s", "UTC"))}
    )
    assert post(gateway, wider, register=True, key_columns="id").json()["registered"][0]["outcome"] == "evolved"
    assert "registered" not in post(gateway, wider, register=True, key_columns="id").json()
    assert schema(gateway) == ["id:int32!", "name:string", "seen:timestamp"]
    problem(post(gateway, rows, register=True, key_columns="name"), 409, "incompatible_schema")
    problem(post(gateway, rows, register=True), 400, "bad_request")


def test_a_column_without_a_value_declares_nothing_and_fits_any_column(gateway: Gateway) -> None:
    empty = pa.table({"id": [1], "seen": [None]})
    problem(post(gateway, empty, register=True, key_columns="id"), 422, "unknown_column")
    assert schema(gateway) == ["id:int64!"]
    typed = pa.table({"id": [1], "seen": pa.array([None], pa.date32())})
    post(gateway, typed, register=True, key_columns="id").raise_for_status()
    post(gateway, empty, register=True, key_columns="id").raise_for_status()
    assert schema(gateway) == ["id:int64!", "seen:date"]


def test_a_stream_can_declare_the_types_of_its_table_instead(gateway: Gateway) -> None:
    rows = pa.table({"id": [1], "name": ["{}"]})
    answer = post(gateway, rows, columns="id:int64,name:json", key_columns="id")
    assert answer.json()["registered"][0]["outcome"] == "created"
    assert schema(gateway) == ["id:int64!", "name:json"]


def test_first_requests_at_the_same_time_make_one_table_with_the_columns_of_all(gateway: Gateway) -> None:
    def send(number: int) -> httpx.Response:
        declared = {"columns": f"id:int64,extra_{number}:string", "key_columns": "id"}
        return gateway.rows(TABLE, {"id": number, f"extra_{number}": "a"}, op="insert", **declared)

    with ThreadPoolExecutor(4) as threads:
        answers = [*threads.map(send, range(4))]
    assert [answer.status_code for answer in answers] == [202] * 4
    outcomes = [answer.json().get("registered", [{}])[0].get("outcome") for answer in answers]
    assert sorted(outcomes) == ["created", "evolved", "evolved", "evolved"]
    assert sorted(schema(gateway)) == [*(f"extra_{number}:string" for number in range(4)), "id:int64!"]
    partial = gateway.rows(TABLE, {"id": 1, "extra_1": "b"})
    assert problem(partial, 422, "incomplete_update")["errors_total"] == 3, "no column has left the source"
