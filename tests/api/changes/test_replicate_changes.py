"""Posting Replicate messages: metadata registers the table, data follows."""

import json
from pathlib import Path
from typing import Any

from tests.api.calls import EMPLOYEES, Gateway, problem, without_id
from tests.api.conftest import ClientWith

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
