"""Plain rows that declare their table: it is registered before they are read, and never inferred from values."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import httpx
import pyarrow as pa
import pytest

from tests.api.calls import Gateway, problem
from tests.api.changes.rows.test_arrow_rows import post
from tests.api.conftest import ClientWith

TABLE: Final = "shop.items"
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


def test_a_contradiction_with_the_registered_table_is_rejected(gateway: Gateway) -> None:
    gateway.rows(TABLE, ROW, **DECLARED).raise_for_status()
    for other in ({"columns": "id:int64,name:json"}, {"key_columns": "id,name"}):
        problem(gateway.rows(TABLE, ROW, **DECLARED | other), 409, "incompatible_schema")
    assert gateway.status(TABLE)["accepted"]["batches"] == 1


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
