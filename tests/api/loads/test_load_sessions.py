"""Load sessions and Arrow streams over HTTP: beginning, rows in every format, completion, abort, and rejections."""

import json
from typing import Any
from uuid import uuid4

import httpx
import pyarrow as pa
import pytest
import sqlalchemy as sa

from app.api.operations import table_operations as loads
from app.api.server.request_parameters import ARROW_STREAM
from tests.api.calls import Gateway, insert, problem
from tests.support.gateway_parts import current
from tests.support.postgres import sql
from tests.support.samples.arrow_streams import stream
from tests.support.samples.debezium import Field, event, with_schema
from tests.support.samples.images import staged_batches, stored_images

TABLE = "sales.orders"
COLUMNS = {"id": "int64", "name": "string"}
ROW = {"id": 1, "name": "a"}


@pytest.fixture
def table(gateway: Gateway) -> str:
    gateway.register(TABLE, COLUMNS, ["id"], row_images="on").raise_for_status()
    return TABLE


def begin(gateway: Gateway, mode: str = "full", table: str = TABLE) -> str:
    answer = gateway.post(f"/v1/tables/{table}/loads", json={"mode": mode})
    assert answer.status_code == 201, answer.text
    load: str = answer.json()["load"]
    return load


def loaded(gateway: Gateway, load: str, *rows: dict[str, Any], **headers: str) -> httpx.Response:
    sent = {"Mirrorgate-Load": load, **headers}
    return gateway.post("/v1/changes/rows", json=list(rows), params={"table": TABLE}, headers=sent)


def complete(gateway: Gateway, load: str) -> dict[str, Any]:
    answer = gateway.post(f"/v1/tables/{TABLE}/loads/{load}/complete")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def images(engine: sa.Engine) -> dict[Any, Any]:
    return {image["id"]: image["name"] for image in stored_images(engine, current(engine, TABLE)).values()}


def arrow_stream(*rows: dict[str, Any]) -> bytes:
    return stream(pa.Table.from_pylist(list(rows)))


def test_a_full_load_replaces_the_rows_and_the_stream_wins(gateway: Gateway, table: str) -> None:
    gateway.rows(table, {"id": 1, "name": "old"}, {"id": 2, "name": "gone"}, {"id": 3, "name": "x"}).raise_for_status()
    load = begin(gateway)
    loaded(gateway, load, {"id": 1, "name": "loaded"}).raise_for_status()
    gateway.rows(table, {"id": 4, "name": "stream"}, {"id": 3, "name": "", "__op__": "delete"}).raise_for_status()
    answer = loaded(gateway, load, {"id": 3, "name": "late"}, {"id": 4, "name": "late"}, {"id": 5, "name": "new"})
    assert [receipt["rows"] for receipt in answer.json()["receipts"]] == [1]
    done = complete(gateway, load)
    assert (done["state"], done["rows"], done["superseded"], done["deletes"]) == ("completed", 2, 2, 1)
    assert images(gateway.engine) == {1: "loaded", 4: "stream", 5: "new"}
    assert staged_batches(gateway.engine, current(gateway.engine, table))[-1] == [
        {"id": 2, "name": None, "__rowMarker__": 2}
    ]
    assert complete(gateway, load) == done


def test_a_full_load_flags_the_rows_that_it_lacks_once_and_brings_deleted_ones_back(gateway: Gateway) -> None:
    flag = {"deletes": "flag", "row_images": "on", "audit_columns": {"deleted": "gone"}}
    gateway.register(TABLE, COLUMNS, ["id"], **flag).raise_for_status()
    gateway.rows(TABLE, {"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 3, "name": "c"}).raise_for_status()
    gateway.rows(TABLE, {"id": 2, "__op__": "delete"}).raise_for_status()
    deletes = []
    for keys in ((1, 2), (1, 2)):
        load = begin(gateway)
        loaded(gateway, load, *({"id": key, "name": "new"} for key in keys)).raise_for_status()
        deletes.append(complete(gateway, load)["deletes"])
    assert deletes == [1, 0]
    rows = [row for batch in staged_batches(gateway.engine, current(gateway.engine, TABLE)) for row in batch]
    assert {row["id"]: (row["name"], row["gone"]) for row in rows} == {
        1: ("new", False),
        2: ("new", False),
        3: ("c", True),
    }


def test_a_full_load_gives_rows_the_columns_that_they_lack(gateway: Gateway, table: str) -> None:
    def lacked() -> dict[str, int]:
        return dict(gateway.status(table)["rows_lack"])

    fields: dict[str, Field] = {"id": {"type": "int64", "optional": False}, "name": "string"}
    wider = fields | {"paid": {"type": "boolean", "default": False}}
    gateway.rows(table, ROW).raise_for_status()
    changed = with_schema(event("c", table, after={"id": 2, "name": "b", "paid": True}), wider)
    load = begin(gateway)
    loaded(gateway, load, ROW).raise_for_status()
    gateway.post("/v1/changes/debezium", json=changed).raise_for_status()
    complete(gateway, load)
    assert lacked() == {"paid": 2}, "the load began before the column was there"
    [told] = [found for found in gateway.events(table) if "rows_lack" in str(found)]
    assert told["details"]["rows_lack"] == ["paid"]
    load = begin(gateway, "append")
    loaded(gateway, load, {**ROW, "paid": False}).raise_for_status()
    complete(gateway, load)
    assert lacked() == {"paid": 2}
    load = begin(gateway)
    loaded(gateway, load, {**ROW, "paid": False}, {"id": 2, "name": "b", "paid": True}).raise_for_status()
    complete(gateway, load)
    assert lacked() == {}


def test_an_abort_keeps_what_was_landed_and_deletes_nothing(gateway: Gateway, table: str) -> None:
    gateway.rows(table, {"id": 1, "name": "kept"}).raise_for_status()
    load = begin(gateway)
    loaded(gateway, load, {"id": 2, "name": "loaded"}).raise_for_status()
    for _ in range(2):
        assert gateway.delete(f"/v1/tables/{table}/loads/{load}").json()["state"] == "aborted"
    assert images(gateway.engine) == {1: "kept", 2: "loaded"}
    problem(loaded(gateway, load, {"id": 3, "name": "late"}), 409, "load_ended")
    problem(gateway.post(f"/v1/tables/{table}/loads/{load}/complete"), 409, "load_ended")


def test_rows_of_a_load_come_in_every_format(gateway: Gateway, table: str) -> None:
    gateway.rows(table, {"id": 9, "name": "", "__op__": "delete"}).raise_for_status()
    load = begin(gateway)
    header = {"Mirrorgate-Load": load}
    gateway.body("rows", "id,name\n1,csv\n", "text/csv", header, table=table).raise_for_status()
    for path, key in (("rows", 2), ("arrow", 3)):
        body = arrow_stream({"id": key, "name": path})
        gateway.body(path, body, ARROW_STREAM, header, table=table).raise_for_status()
    arcion = json.dumps(insert(table, id="4", name="arcion"))
    gateway.body("arcion", arcion, headers=header).raise_for_status()
    assert complete(gateway, load)["rows"] == 4
    assert images(gateway.engine) == {"1": "csv", 2: "rows", 3: "arrow", "4": "arcion"}


def test_no_insert_lands_on_a_key_that_has_a_row_while_a_load_is_open(gateway: Gateway, table: str) -> None:
    gateway.rows(table, {"id": 1, "name": "old"}).raise_for_status()
    header = {"Mirrorgate-Load": begin(gateway)}

    def post(path: str, content: bytes | str, of_type: str, load: dict[str, str], **parameters: str) -> None:
        gateway.body(path, content, of_type, load, table=table, **parameters).raise_for_status()

    def markers() -> list[tuple[Any, int]]:
        last = staged_batches(gateway.engine, current(gateway.engine, table))[-1]
        return [(row["id"], row["__rowMarker__"]) for row in last]

    rows = [{"id": key, "name": "new"} for key in (1, 2)]
    post("arrow", arrow_stream(*rows), ARROW_STREAM, header)
    assert markers() == [(1, 4), (2, 0)]
    post("rows", arrow_stream(*rows, {"id": 3, "name": "new"}), ARROW_STREAM, header, op="insert")
    assert markers() == [(1, 4), (2, 4), (3, 0)]
    post("rows", "id,name\n1,csv\n4,csv\n", "text/csv", header, op="insert")
    assert markers() == [(1, 4), (4, 0)]
    post("rows", "id,name\n4,stream\n5,stream\n", "text/csv", {}, op="insert")
    assert markers() == [(4, 4), (5, 0)]


def test_a_load_into_an_empty_table_without_markers_stays_without_them(gateway: Gateway) -> None:
    gateway.register(TABLE, COLUMNS, ["id"], row_images="on", initial_load="without_marker").raise_for_status()
    load = begin(gateway)
    header = {"Mirrorgate-Load": load}

    def post(*rows: dict[str, Any]) -> None:
        gateway.body("arrow", arrow_stream(*rows), ARROW_STREAM, header, table=TABLE).raise_for_status()

    post({"id": 1, "name": "a"}, {"id": 2, "name": "b"})
    assert current(gateway.engine, TABLE).schema.bare
    post({"id": 2, "name": "again"})
    assert not current(gateway.engine, TABLE).schema.bare
    assert staged_batches(gateway.engine, current(gateway.engine, TABLE))[-1][0]["__rowMarker__"] == 4
    assert complete(gateway, load)["rows"] == 3
    second = begin(gateway)
    loaded(gateway, second, {"id": 1, "name": "c"}).raise_for_status()
    assert complete(gateway, second)["deletes"] == 1
    assert images(gateway.engine) == {1: "c"}


def test_completing_a_load_gives_a_table_without_markers_its_marker(gateway: Gateway) -> None:
    gateway.register(TABLE, COLUMNS, ["id"], row_images="on", initial_load="without_marker").raise_for_status()
    gateway.rows(TABLE, {"id": 1, "name": "a"}, op="insert").raise_for_status()
    assert complete(gateway, begin(gateway))["deletes"] == 1
    assert not current(gateway.engine, TABLE).schema.bare
    assert images(gateway.engine) == {}


def test_completion_continues_where_it_stopped(gateway: Gateway, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway.rows(table, *({"id": key, "name": "x"} for key in range(10))).raise_for_status()
    load = begin(gateway)
    monkeypatch.setattr("app.staging.loads.DELETES_PER_BATCH", 4)
    monkeypatch.setattr(loads.LoadOperation.complete, "__kwdefaults__", {"seconds": 0.0})
    path = f"/v1/tables/{table}/loads/{load}/complete"
    answer = gateway.post(path)
    assert (answer.status_code, answer.json()["state"]) == (202, "completing")
    problem(loaded(gateway, load, {"id": 1, "name": "late"}), 409, "load_ended")
    monkeypatch.undo()
    assert gateway.post(path).json()["deletes"] == 10
    assert images(gateway.engine) == {}


def test_a_repeated_request_of_a_load_is_staged_once(gateway: Gateway, table: str) -> None:
    load, name = begin(gateway), {"Idempotency-Key": "part-1"}
    first = loaded(gateway, load, {"id": 1, "name": "a"}, **name)
    again = loaded(gateway, load, {"id": 1, "name": "a"}, **name)
    assert again.json()["receipts"] == first.json()["receipts"]
    assert complete(gateway, load)["rows"] == 1
    other = begin(gateway)
    problem(loaded(gateway, other, {"id": 1, "name": "a"}, **name), 422, "idempotency_key_reused")


def test_a_begin_that_is_repeated_with_its_id_returns_the_load(gateway: Gateway, table: str) -> None:
    wanted = {"mode": "full", "load": str(uuid4())}
    path = f"/v1/tables/{table}/loads"
    first, again = gateway.post(path, json=wanted), gateway.post(path, json=wanted)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    problem(gateway.post(path, json=wanted | {"mode": "append"}), 409, "load_ended")
    assert wanted["load"] in problem(gateway.post(path, json={"mode": "full"}), 409, "load_open")["detail"]


def test_an_expired_load_takes_no_rows_and_makes_room_for_another(gateway: Gateway, table: str) -> None:
    load = begin(gateway)
    sql.run(gateway.engine, "UPDATE mirrorgate.loads SET expires_at = clock_timestamp()")
    assert gateway.get(f"/v1/tables/{table}/loads/{load}").json()["state"] == "expired"
    problem(loaded(gateway, load, {"id": 1, "name": "a"}), 409, "load_ended")
    begin(gateway)
    assert [one["state"] for one in gateway.get(f"/v1/tables/{table}/loads").json()["loads"]] == ["open", "expired"]


def test_a_load_ends_with_the_generation_of_its_table(gateway: Gateway, table: str) -> None:
    load = begin(gateway)
    gateway.post(f"/v1/tables/{table}/recreate", params={"generation": 1}).raise_for_status()
    assert gateway.get(f"/v1/tables/{table}/loads/{load}").json()["state"] == "aborted"
    problem(gateway.post(f"/v1/tables/{table}/loads/{load}/complete"), 409, "load_ended")


def test_the_status_of_a_table_shows_its_open_load(gateway: Gateway, table: str) -> None:
    assert gateway.status(table)["load"] is None
    load = begin(gateway)
    assert gateway.status(table)["load"]["load"] == load
    complete(gateway, load)
    assert gateway.status(table)["load"] is None


def test_requests_that_a_load_cannot_take_are_rejected_and_stage_nothing(gateway: Gateway, table: str) -> None:
    gateway.register("sales.other", COLUMNS, ["id"]).raise_for_status()
    load = begin(gateway)
    header = {"Mirrorgate-Load": load}
    found = problem(
        loaded(gateway, load, {"id": 1, "name": "a"}, {"id": 2, "__op__": "delete"}), 422, "load_takes_rows"
    )
    assert [entry["index"] for entry in found["errors"]] == [1]
    other = gateway.post("/v1/changes/rows", json=[ROW], params={"table": "sales.other"}, headers=header)
    problem(other, 409, "load_table_mismatch")
    problem(loaded(gateway, str(uuid4()), ROW), 404, "unknown_load")
    problem(loaded(gateway, "5", ROW), 400, "bad_request")
    for query in ({"dry_run": "true"}, {"on_reject": "dead_letter"}):
        answer = gateway.post("/v1/changes/rows", json=[ROW], params={"table": table, **query}, headers=header)
        problem(answer, 400, "bad_request")
    assert (gateway.status(table)["last_sequence"], gateway.status("sales.other")["last_sequence"]) == (0, 0)


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


def test_a_load_is_for_a_registered_table(gateway: Gateway) -> None:
    problem(load(gateway), 404, "unknown_table")


def test_what_is_no_stream_is_rejected_with_what_to_change(orders: Gateway) -> None:
    problem(orders.body("arrow", b"[]", table=TABLE), 415, "unsupported_media_type")
    problem(orders.body("arrow", b"x", ARROW_STREAM, table=TABLE), 400, "malformed_arrow")
    problem(orders.body("arrow", b"x", ARROW_STREAM), 400, "bad_request")
    rejected = problem(load(orders, pa.table({"id": ["1"], "name": ["a"]})), 409, "schema_mismatch")
    assert rejected["errors"][0]["column"] == "id"


def test_a_column_of_nothing_lands_as_null_where_it_may(orders: Gateway) -> None:
    """Pandas writes a column without a value so."""
    assert load(orders, pa.table({"id": [1, 2], "name": pa.nulls(2)})).json()["receipts"][0]["rows"] == 2
    problem(load(orders, pa.table({"id": pa.nulls(2)})), 422, "null_key")
