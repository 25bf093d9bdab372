"""Posting Replicate messages: metadata registers the table, data follows in JSON or in Avro."""

import base64
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.calls import EMPLOYEES, Gateway, problem, without_id
from tests.api.commands import keys, staged
from tests.api.conftest import ClientWith
from tests.support.ingest_harness import counted_paths
from tests.support.samples.replicate_avro import (
    JOBS,
    data_message,
    data_record,
    data_schema,
    envelope,
    metadata_message,
)

DATA_MESSAGES = ("dt_refresh", "dt_insert", "dt_update", "dt_key_change", "dt_delete")


ACCEPTED = {"receipts": [], "ignored": 0, "duplicates": 0, "dead_letters": 0, "replayed": False}


def message(samples: Path, name: str) -> Any:
    return json.loads((samples / "replicate" / f"{name}.json").read_bytes())


def test_a_conversation_registers_its_table_and_stages_its_data(gateway: Gateway, samples: Path) -> None:
    conversation = (samples / "replicate" / "conversation.ndjson").read_bytes()
    response = gateway.post("/v1/changes/replicate", content=conversation)
    assert response.status_code == 202
    receipt = {"table": EMPLOYEES, "generation": 1, "sequence": 1, "changes": 5, "rows": 6}
    assert response.json() == ACCEPTED | {"receipts": [receipt]}
    schema = gateway.get(f"/v1/tables/{EMPLOYEES}/schema").json()
    assert schema["key_columns"] == ["EMPLOYEE_ID"]
    assert [(column["name"], column["type"]) for column in schema["columns"]] == [
        ("EMPLOYEE_ID", "int64"),
        ("NAME", "string"),
        ("SALARY", "decimal(12,2)"),
        ("HIRED", "date"),
        ("CHANGED_AT", "timestamp"),
        ("BADGE", "binary"),
    ]
    assert gateway.get(f"/v1/batches/{EMPLOYEES}/1/1").json()["state"] == "pending"
    assert gateway.get(f"/v1/tables/{EMPLOYEES}/files").json()["files"] == []


def test_data_finds_its_table_by_the_schema_id_of_earlier_metadata(gateway: Gateway, samples: Path) -> None:
    without_a_body = {"magic": "atMSG", "type": "DT", "message": None}
    described = gateway.replicate(message(samples, "md_employees"), without_a_body)
    assert (described.status_code, described.json()) == (202, ACCEPTED | {"ignored": 1})
    receipts = [gateway.replicate(message(samples, name)).json()["receipts"] for name in DATA_MESSAGES]
    assert [(receipt["sequence"], receipt["rows"]) for [receipt] in receipts] == [
        (1, 1),
        (2, 1),
        (3, 1),
        (4, 2),
        (5, 1),
    ]


def test_bare_data_needs_the_table_in_the_request(gateway: Gateway, samples: Path) -> None:
    bare = message(samples, "dt_insert")["message"]
    gateway.replicate(message(samples, "md_employees"))
    details = problem(gateway.replicate(bare), 404, "unknown_table")
    assert details["errors"][0]["pointer"] == "/messageSchemaId"
    assert gateway.replicate(bare, table=EMPLOYEES).status_code == 202


def test_a_schema_id_does_not_tell_a_table_outside_the_keys_patterns(
    gateway: Gateway, client_with: ClientWith, samples: Path
) -> None:
    gateway.replicate(message(samples, "md_employees"))
    outsider = client_with("ingest", "register", tables=["other"])
    known = outsider.replicate(message(samples, "dt_insert"))
    never_seen = message(samples, "dt_insert") | {"messageSchemaId": "never-seen"}
    assert without_id(known) == without_id(outsider.replicate(never_seen))
    assert EMPLOYEES not in known.text
    problem(known, 409, "schema_unknown")


def test_the_partition_of_a_request_is_a_short_text_without_blanks(gateway: Gateway, samples: Path) -> None:
    gateway.replicate(message(samples, "md_employees"))
    gateway.put(f"/v1/tables/{EMPLOYEES}", json={"options": {"source_order": "enforce"}}).raise_for_status()
    insert = message(samples, "dt_insert")
    duplicates = [
        gateway.replicate(insert, partition=partition).json()["duplicates"] for partition in ("hr-0", "hr-1", "hr-0")
    ]
    assert duplicates == [0, 0, 1]
    for partition in ("", "a b", "x" * 129):
        problem(gateway.replicate(insert, partition=partition), 400, "bad_request")


TABLE = "PAYROLL.JOBS"
ROW = {
    "ID": 1,
    "TITLE": "Ingénieur",
    "PAY": Decimal("-81234.50"),
    "SINCE": date(2026, 1, 5),
    "AT": datetime(2026, 1, 5, 8, 0, 0, 250_001, tzinfo=UTC),
    "RATIO": 0.1,
    "BADGE": b"\x00\xff",
}
LANDED = tuple(ROW.values())


def post(gateway: Gateway, *messages: bytes, **parameters: Any) -> httpx.Response:
    return gateway.body("replicate", b"".join(messages), "application/avro", **parameters)


def test_the_data_schema_is_the_avro_schema_for_deserializing_the_data_messages(gateway: Gateway) -> None:
    described = post(gateway, metadata_message(TABLE, "7b1c"))
    assert (described.status_code, described.json()["receipts"]) == (202, [])
    accepted = post(gateway, data_message(TABLE, "7b1c", "REFRESH", ROW))
    assert accepted.status_code == 202, accepted.text
    assert staged(gateway.engine, TABLE) == [LANDED]


def test_metadata_and_data_of_one_request_are_read_in_order(gateway: Gateway) -> None:
    accepted = post(
        gateway,
        metadata_message(TABLE, "7b1c"),
        data_message(TABLE, "7b1c", "INSERT", ROW),
        b"\n",  # as Kafka Connect's byte-array files have it
        data_message(TABLE, "7b1c", "UPDATE", ROW | {"TITLE": "Senior"}, ROW),
        data_message(TABLE, "7b1c", "DELETE", ROW),
    )
    assert accepted.json()["receipts"][0]["changes"] == 3, accepted.text
    assert [row[1] for row in staged(gateway.engine, TABLE)] == ["Ingénieur", "Senior", None]


def test_data_of_a_known_schema_takes_the_columnar_path(gateway: Gateway) -> None:
    post(gateway, metadata_message(TABLE, "7b1c"))
    messages = [data_message(TABLE, "7b1c", "INSERT", ROW | {"ID": number}) for number in range(20)]
    with counted_paths(("replicate", "columnar", "")):
        assert post(gateway, *messages).status_code == 202
    assert staged(gateway.engine, TABLE) == [(number, *LANDED[1:]) for number in range(20)]


def test_the_json_envelope_holds_the_bytes_in_base64_beside_messages_in_json(gateway: Gateway) -> None:
    post(gateway, metadata_message(TABLE, "7b1c"))
    message = {
        "magic": "atMSG",
        "type": "DT",
        "headers": None,
        "messageSchemaId": "7b1c",
        "messageSchema": None,
        "message": base64.b64encode(data_record(TABLE, "INSERT", ROW)).decode(),
    }
    plain = {"data": {"ID": 2}, "headers": {"operation": "INSERT", "columnMask": "01"}}
    in_json = message | {
        "message": plain | {"data": dict.fromkeys(ROW) | {"ID": 2}, "headers": {"operation": "INSERT"}}
    }
    assert gateway.replicate(message, in_json).status_code == 202
    assert gateway.replicate({"key": {"ID": 1}, "value": message | {"messageSchema": None}}).status_code == 202
    assert keys(gateway.engine, TABLE) == [1, 2, 1]


def test_several_schema_ids_of_a_table_are_read_each_by_its_own_schema(gateway: Gateway) -> None:
    later = {**JOBS, "GRADE": ("INT2", ["null", "int"])}
    post(gateway, metadata_message(TABLE, "v1"))
    assert post(gateway, metadata_message(TABLE, "v2", later, version=2)).status_code == 202
    accepted = post(
        gateway,
        data_message(TABLE, "v2", "INSERT", ROW | {"ID": 2, "GRADE": 7}, types=later),
        data_message(TABLE, "v1", "INSERT", ROW),
    )
    assert accepted.status_code == 202, accepted.text
    assert [(row[0], row[-1]) for row in staged(gateway.engine, TABLE)] == [(2, 7), (1, None)]


def test_a_record_without_an_envelope_needs_its_schema_id(gateway: Gateway) -> None:
    post(gateway, metadata_message(TABLE, "7b1c"))
    record = data_record(TABLE, "INSERT", ROW)
    assert "schema_id" in problem(post(gateway, record), 400, "bad_request")["detail"]
    assert post(gateway, record, schema_id="7b1c").status_code == 202
    assert staged(gateway.engine, TABLE) == [LANDED]
    in_json = gateway.replicate({"data": {}}, schema_id="7b1c")
    assert "in Avro" in problem(in_json, 400, "bad_request")["detail"]


def test_data_before_its_metadata_can_be_sent_again(gateway: Gateway) -> None:
    early = data_message(TABLE, "7b1c", "INSERT", ROW)
    found = problem(post(gateway, early), 409, "schema_unknown")
    assert found["errors"][0] | {"detail": ""} == {
        "index": 0, "pointer": "/messageSchemaId", "code": "schema_unknown", "detail": ""
    }  # fmt: skip
    post(gateway, metadata_message(TABLE, "7b1c"))
    assert post(gateway, early).status_code == 202


@pytest.mark.parametrize(
    ("wrong", "detail"),
    [
        (lambda right: right[:-1], "ends before"),
        (lambda right: right + b"x", "does not begin with atMSG"),
        (lambda right: b"atMSG" + b"\xff" * 11, "more than ten bytes"),
        (lambda right: b"atMSG\x01", "negative"),
        (lambda right: b"atMSG\x04\xff\xfe", "not UTF-8"),
        (lambda right: b"atMSG\x04DT\x06", "two branches"),
    ],
)
def test_a_broken_envelope_is_named_by_its_index(gateway: Gateway, wrong: Any, detail: str) -> None:
    post(gateway, metadata_message(TABLE, "7b1c"))
    right = data_message(TABLE, "7b1c", "INSERT", ROW)
    found = problem(post(gateway, right, wrong(right)), 422, "malformed_avro")
    assert detail in found["errors"][0]["detail"]
    assert found["errors"][0]["index"] == (2 if wrong(right) == right + b"x" else 1)
    assert "MD" in found["remedy"]


def test_bytes_that_are_not_of_their_schema_are_rejected_with_index_and_pointer(gateway: Gateway) -> None:
    post(gateway, metadata_message(TABLE, "7b1c"))
    right = data_message(TABLE, "7b1c", "INSERT", ROW)
    wrong = envelope("DT", data_record(TABLE, "INSERT", ROW)[:-3], schema_id="7b1c")
    found = problem(post(gateway, right, wrong), 422, "malformed_avro")
    assert (found["errors"][0]["index"], found["errors"][0]["pointer"]) == (1, "/message")
    assert "Ing" not in json.dumps(found)


def test_a_wrong_record_becomes_a_dead_letter_that_can_be_replayed(gateway: Gateway) -> None:
    types = {"ID": "int32", "TITLE": "string", "PAY": "decimal(9,2)", "SINCE": "date", "AT": "timestamp"}
    gateway.register(TABLE, types | {"RATIO": "float64", "BADGE": "binary"}, ["ID"], dead_letters="accept")
    assert post(gateway, metadata_message(TABLE, "7b1c")).status_code == 202
    right = data_message(TABLE, "7b1c", "INSERT", ROW)
    wrong = envelope("DT", data_record(TABLE, "INSERT", ROW)[:-3], schema_id="7b1c")
    answer = post(gateway, right, wrong, on_reject="dead_letter")
    assert (answer.status_code, answer.json()["dead_letters"]) == (202, 1), answer.text
    [letter] = gateway.letters(TABLE)
    corrected = {
        "magic": "atMSG",
        "type": "DT",
        "messageSchemaId": "7b1c",
        "message": base64.b64encode(data_record(TABLE, "INSERT", ROW | {"ID": 2})).decode(),
    }
    replayed = gateway.post(f"/v1/tables/{TABLE}/dead-letters/{letter['id']}/replay", json=corrected)
    assert replayed.status_code == 202, replayed.text
    assert keys(gateway.engine, TABLE) == [1, 2]


def test_a_message_with_a_new_data_schema_under_its_id_replaces_the_old_one(gateway: Gateway) -> None:
    without = metadata_message(TABLE, "7b1c", schema={})
    post(gateway, without)
    problem(post(gateway, data_message(TABLE, "7b1c", "INSERT", ROW)), 409, "schema_unknown")
    post(gateway, metadata_message(TABLE, "7b1c"))
    assert post(gateway, data_message(TABLE, "7b1c", "INSERT", ROW)).status_code == 202
    post(gateway, without)  # as the same task writes it in JSON
    assert post(gateway, data_message(TABLE, "7b1c", "INSERT", ROW)).status_code == 202
    assert staged(gateway.engine, TABLE) == [LANDED, LANDED]


def test_an_unreadable_data_schema_rejects_only_the_data(gateway: Gateway) -> None:
    looping = {"type": "record", "name": "R", "fields": [{"name": "next", "type": ["null", "R"]}]}
    assert post(gateway, metadata_message(TABLE, "7b1c", schema=looping)).status_code == 202
    found = problem(post(gateway, data_message(TABLE, "7b1c", "INSERT", ROW)), 422, "malformed_avro")
    assert "contains itself" in found["errors"][0]["detail"]
    assert data_schema(TABLE)["name"] == "DataRecord"
