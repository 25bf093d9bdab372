"""Replicate messages: metadata or changes."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.domain.model.change import Change, Image, Operation
from app.domain.model.names import SourceName
from app.domain.rows.landing_rows import landing_rows
from app.formats.replicate.messages import DataChange, ReplicateRequest, decode_replicate, log_position_of
from app.formats.replicate.metadata import MetadataMessage, SourceColumn
from app.formats.replicate.standard_form import HeaderPointers
from mirrorgate.errors import Code
from tests.support.rejections import rejected
from tests.support.samples.schemas import schema_of

EMPLOYEES = SourceName(None, "HR", "EMPLOYEES")
SCHEMA_ID = "6ec0b9d2-6b1f-4f3a-9d3c-5a6a2f4f7f10"
SCHEMA = schema_of(
    {
        "EMPLOYEE_ID": "int64",
        "NAME": "string",
        "SALARY": "decimal(12,2)",
        "HIRED": "date",
        "CHANGED_AT": "timestamp",
        "BADGE": "binary",
    },
    ["EMPLOYEE_ID"],
    required=["EMPLOYEE_ID"],
)


def grace(key: int, salary: str) -> Image:
    moment = "2026-01-05 09:30:00"
    return {"EMPLOYEE_ID": key, "NAME": "Grace", "SALARY": salary, "HIRED": None, "CHANGED_AT": moment, "BADGE": None}


ADA: Image = {
    "EMPLOYEE_ID": 9007199254740993,
    "NAME": "Ada",
    "SALARY": "81234.50",
    "HIRED": "2024-02-29",
    "CHANGED_AT": "2026-01-05 08:00:00.123456",
    "BADGE": "00FF10",
}
SEQUENCE = "2026010509300000000000000000000000"
SAMPLES: dict[str, tuple[Operation, Image | None, Image | None, str | None]] = {
    "dt_refresh": (Operation.SNAPSHOT, None, ADA, None),
    "dt_insert": (Operation.INSERT, None, grace(2, "0.01"), SEQUENCE + "1"),
    "dt_update": (Operation.UPDATE, grace(2, "0.01"), grace(2, "99999.99"), SEQUENCE + "2"),
    "dt_key_change": (Operation.UPDATE, grace(2, "99999.99"), grace(3, "99999.99"), SEQUENCE + "3"),
    "dt_delete": (Operation.DELETE, grace(3, "99999.99"), None, SEQUENCE + "4"),
}
CHANGE_MASKS = {"dt_refresh": None, "dt_insert": 0x3F, "dt_update": 4, "dt_key_change": 1, "dt_delete": 1}
TIMES = {name: None if name == "dt_refresh" else "2026-01-05T09:30:00.000" for name in SAMPLES}
COLUMNS = {
    name: SourceColumn(ordinal, kind, ordinal == 1)
    for ordinal, (name, kind) in enumerate(
        zip(SCHEMA.names, ["INT8", "WSTRING", "NUMERIC", "DATE", "DATETIME", "BYTES"], strict=True), 1
    )
}


def sample(samples: Path, name: str) -> dict[str, Any]:
    return json.loads((samples / "replicate" / f"{name}.json").read_bytes())


def decoded(*messages: Any) -> ReplicateRequest:
    return decode_replicate(json.dumps(list(messages)).encode())


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("at", ["/message", ""], ids=["enveloped", "bare"])
def test_a_data_message_is_this_change_enveloped_or_bare(samples: Path, name: str, at: str) -> None:
    operation, before, after, position = SAMPLES[name]
    before_at, after_at = ("data", "beforeData") if operation is Operation.DELETE else ("beforeData", "data")
    headers = sample(samples, name)["message"]["headers"]
    change = Change(
        0,
        operation,
        before,
        after,
        f"{at}/{before_at}",
        f"{at}/{after_at}",
        position,
        position_at=f"{at}/headers/changeSequence",
        source_time=TIMES[name],
        log_position=log_position_of(position),
        transaction_id=headers["transactionId"] or None,
        transaction_order=headers["transactionEventCounter"],
    )
    schema_id = SCHEMA_ID if at else None
    entry = DataChange(change, None, schema_id, 0x3F, CHANGE_MASKS[name], None, HeaderPointers(f"{at}/headers/"))
    message = sample(samples, name)
    assert decoded(message if at else message["message"]) == ReplicateRequest([], [entry], 0)


def test_a_metadata_message_declares_its_table(samples: Path) -> None:
    message = sample(samples, "md_employees")
    body = message["message"]
    for spelling, pointer in ((message, "/message"), (body, ""), ({"message": body}, "/message")):
        metadata = MetadataMessage(0, EMPLOYEES, SCHEMA, SCHEMA_ID, 1, pointer, COLUMNS, task="replicate/hr_to_fabric")
        assert decoded(spelling) == ReplicateRequest([metadata], [], 0)


@pytest.mark.parametrize("time", [None, "", "2026-01-05T08:00:00.000", "no time", 1767605400000])
def test_the_time_of_a_metadata_message_decides_nothing(samples: Path, time: Any) -> None:
    body = sample(samples, "md_employees")["message"]
    assert decoded(body | {"lineage": body["lineage"] | {"timestamp": time}}) == decoded(body)


def test_a_conversation_keeps_each_kind_of_message_in_order(samples: Path) -> None:
    request = decode_replicate((samples / "replicate" / "conversation.ndjson").read_bytes())
    assert [entry.index for entry in request.metadata] == [0]
    assert [entry.change.operation for entry in request.changes] == [entry[0] for entry in SAMPLES.values()]
    assert [entry.change.index for entry in request.changes] == [1, 2, 3, 4, 5]


def test_an_envelope_without_a_body_is_counted_and_nothing_else() -> None:
    envelope = {"magic": "atMSG", "type": "DT", "headers": None, "messageSchemaId": None, "message": None}
    assert decoded(envelope, envelope) == ReplicateRequest([], [], 2)


def metadata_of(columns: dict[str, dict[str, Any]], **lineage: Any) -> dict[str, Any]:
    return {"lineage": {"table": "t"} | lineage, "tableStructure": {"tableColumns": columns}}


@pytest.mark.parametrize(
    ("column", "declared"),
    [
        ({"type": "BOOLEAN"}, "boolean"),
        ({"type": "INT1"}, "int16"),
        ({"type": "INT2"}, "int16"),
        ({"type": "UINT1"}, "int16"),
        ({"type": "INT4"}, "int32"),
        ({"type": "UINT2"}, "int32"),
        ({"type": "INT8"}, "int64"),
        ({"type": "UINT4"}, "int64"),
        ({"type": "UINT8"}, "decimal(20,0)"),
        ({"type": "REAL4"}, "float32"),
        ({"type": "REAL8"}, "float64"),
        ({"type": "NUMERIC", "precision": 38, "scale": 38}, "decimal(38,38)"),
        ({"type": "NUMERIC", "precision": 10}, "decimal(10,0)"),
        ({"type": "DATE"}, "date"),
        ({"type": "TIME"}, "string"),
        ({"type": "DATETIME", "scale": 6}, "timestamp"),
        ({"type": "STRING", "length": 9}, "string"),
        ({"type": "WSTRING"}, "string"),
        ({"type": "CLOB"}, "string"),
        ({"type": "NCLOB"}, "string"),
        ({"type": "BYTES"}, "binary"),
        ({"type": "BLOB"}, "binary"),
        ({"type": "int8"}, "int64"),
        ({"type": "SOMETHING_NEW"}, "string"),
    ],
)
def test_a_replicate_type_has_one_declared_type(column: dict[str, Any], declared: str) -> None:
    [metadata] = decoded(metadata_of({"a": {"ordinal": 1, **column}})).metadata
    assert str(metadata.schema.columns[0].type) == declared


@pytest.mark.parametrize(
    "facts", [{}, {"precision": 0, "scale": 0}, {"precision": 39}, {"precision": 4, "scale": 5}, {"precision": -1}]
)
def test_a_numeric_that_no_decimal_holds_is_rejected(facts: dict[str, int]) -> None:
    [metadata] = decoded(metadata_of({"a": {"ordinal": 1, "type": "NUMERIC", **facts}})).metadata
    with rejected(places=[(Code.INCOMPATIBLE_SCHEMA, 0, "/tableStructure/tableColumns/a", "a")]):
        metadata.schema_after(None)


def test_columns_stand_by_ordinal_and_keys_by_their_own_position() -> None:
    columns = {
        "c": {"ordinal": 3, "type": "INT4", "primaryKeyPosition": 1},
        "a": {"ordinal": 1, "type": "INT4", "primaryKeyPosition": 2},
        "b": {"ordinal": 2, "type": "INT4", "nullable": False},
        "d": {"ordinal": 4, "type": "INT4"},
    }
    [metadata] = decoded(metadata_of(columns)).metadata
    assert metadata.schema.names == ("a", "b", "c", "d")
    assert metadata.schema.key_columns == ("c", "a")
    assert [column.nullable for column in metadata.schema.columns] == [False, False, False, True]


def data(operation: str = "INSERT", **members: Any) -> dict[str, Any]:
    return {"headers": {"operation": operation}} | members


@pytest.mark.parametrize("operation", ["refresh", "Read", "INSERT", "insert", "Update", "delete"])
def test_an_operation_may_have_any_letter_case(operation: str) -> None:
    kinds = {"refresh": Operation.SNAPSHOT, "read": Operation.SNAPSHOT}
    [entry] = decoded(data(operation, data={"a": 1})).changes
    assert entry.change.operation == kinds.get(operation.lower(), operation.lower())


def test_a_data_message_may_name_its_table() -> None:
    request = decoded(data(data={}, schema="S", table="t"), data(data={}, table="t"), data(data={}, schema="S"))
    expected = [SourceName(None, "S", "t"), SourceName(None, None, "t"), None]
    assert [entry.source for entry in request.changes] == expected


@pytest.mark.parametrize(
    ("images", "pointer"),
    [
        ({"data": {"a": 1}}, "/data"),
        ({"data": {"a": 1}, "beforeData": None}, "/data"),
        ({"data": None, "beforeData": {"a": 1}}, "/beforeData"),
        ({"data": {"a": 1}, "beforeData": {"a": 1}}, "/data"),
    ],
)
def test_a_deleted_row_is_in_data_or_in_before_data(images: dict[str, Any], pointer: str) -> None:
    [entry] = decoded(data("DELETE", **images)).changes
    assert (entry.change.before, entry.change.after, entry.change.before_at) == ({"a": 1}, None, pointer)


COLUMN = {"a": {"ordinal": 1, "type": "INT4"}}


@pytest.mark.parametrize(
    ("message", "code", "pointer"),
    [
        ({"magic": "other", "type": "DT", "message": data(data={})}, Code.BAD_ENVELOPE, None),
        ({"magic": "atMSG", "type": "MT", "message": data(data={})}, Code.BAD_ENVELOPE, None),
        ({"magic": "atMSG", "message": data(data={})}, Code.BAD_ENVELOPE, None),
        ({"type": "DT", "message": data(data={})}, Code.BAD_ENVELOPE, None),
        ({"magic": "atMSG", "type": "MD", "message": data(data={})}, Code.BAD_ENVELOPE, None),
        ({"magic": "atMSG", "type": "DT", "message": metadata_of(COLUMN)}, Code.BAD_ENVELOPE, None),
        (data(data=[{"a": 1}]), Code.LEGACY_FORMAT, "/data"),
        ({"message": data(data=[])}, Code.LEGACY_FORMAT, "/message/data"),
        (data("TRUNCATE", data={}), Code.BAD_OP, "/headers/operation"),
        (data("", data={}), Code.BAD_OP, "/headers/operation"),
        ({"data": {}}, Code.MALFORMED_MESSAGE, "/headers"),
        ({}, Code.MALFORMED_MESSAGE, "/headers"),
        ({"headers": {}, "data": {}}, Code.MALFORMED_MESSAGE, "/headers"),
        (data(data=7), Code.MALFORMED_MESSAGE, "/data"),
        (data(), Code.MALFORMED_MESSAGE, "/data"),
        ({"tableStructure": {"tableColumns": COLUMN}}, Code.MALFORMED_MESSAGE, "/lineage"),
        (metadata_of({}), Code.BAD_SCHEMA, None),
        (metadata_of({"__ROWMARKER__": COLUMN["a"]}), Code.RESERVED_NAME, None),
        (metadata_of({"a": COLUMN["a"], "A": COLUMN["a"]}), Code.BAD_SCHEMA, None),
        (metadata_of({"a": COLUMN["a"] | {"primaryKeyPosition": -1}}), Code.BAD_SCHEMA, None),
        (metadata_of(COLUMN, table=""), Code.BAD_NAME, None),
        (metadata_of(COLUMN, schema="x" * 256), Code.BAD_NAME, None),
        (data(data={}, table="x" * 256), Code.BAD_NAME, None),
    ],
)
def test_a_message_that_replicate_does_not_write_is_rejected(message: Any, code: Code, pointer: str | None) -> None:
    with rejected(places=[(code, 1, pointer, None)]):
        decoded(data(data={}), message)


def test_every_wrong_message_is_named() -> None:
    with rejected() as rejection:
        decoded(data("?", data={}), data(data={}), data(data=[]), metadata_of({}))
    assert [place[:2] for place in rejection.places] == [
        (Code.BAD_OP, 0),
        (Code.LEGACY_FORMAT, 2),
        (Code.BAD_SCHEMA, 3),
    ]


def test_a_rejection_never_repeats_a_value() -> None:
    for wrong in (data("7391", data={}), data(data=["7391"])):
        with rejected() as rejection:
            decoded(wrong)
        assert "7391" not in rejection.text


@pytest.mark.parametrize(
    ("messages", "places"),
    [(3, [0]), (3, [0, 0, 2]), (1, [0]), (3, [1]), (3, [2, 2]), (3, [1, 3]), (1, [1]), (1, [1, 1])],
)
def test_null_lines_before_between_and_behind_messages_are_ignored(
    samples: Path, messages: int, places: list[int]
) -> None:
    lines = (samples / "replicate" / "conversation.ndjson").read_bytes().splitlines()[:messages]
    for place in reversed(places):
        lines.insert(place, b"null")
    request = decode_replicate(b"\n".join(lines))
    assert len(request.metadata) + len(request.changes) == messages
    assert request.ignored == len(places)


@pytest.mark.parametrize(
    ("written", "ends"),
    [(True, True), ("True", True), (None, True), (5, True), (False, False), ("False", False), ("false", False)],
)
@pytest.mark.parametrize("flattened", [False, True])
def test_the_last_event_of_a_transaction_may_be_said_in_quotes(written: Any, ends: bool, flattened: bool) -> None:
    message = {"data": {}} | (
        {"headers_operation": "INSERT", "headers_transactionLastEvent": written}
        if flattened
        else {"headers": {"operation": "INSERT", "transactionLastEvent": written}}
    )
    assert decoded(message).changes[0].change.ends_transaction is ends


def test_headers_that_no_row_needs_may_have_any_type() -> None:
    odd = {"timestamp": 5, "streamPosition": [], "transactionId": 5, "transactionEventCounter": "1" * 5_000}
    [entry] = decoded({"headers": {"operation": "INSERT", "externalSchemaId": 77, **odd}, "data": {}}).changes
    assert entry.external_schema_id == "77"


@pytest.mark.parametrize("body", [b"nullx", b"null {", b'null\n"x"', b"null\n[]"])
def test_what_begins_with_null_is_strict_json_all_the_same(body: bytes) -> None:
    assert decode_replicate(b"null") == ReplicateRequest([], [], 1)
    with rejected() as rejection:
        decode_replicate(body)
    assert rejection.code in {Code.MALFORMED_JSON, Code.MALFORMED_MESSAGE}


@pytest.mark.parametrize(
    ("flags", "ends"),
    [
        ([], True),
        ([False, True], True),
        ([True, False], False),
        ([False], False),
        ([None], True),
        ([False, None], True),
    ],
)
def test_a_batch_ends_a_transaction_when_its_last_change_does_or_does_not_say(
    flags: list[bool | None], ends: bool
) -> None:
    headers = [{"operation": "INSERT", "transactionId": "0A", "transactionLastEvent": flag} for flag in flags]
    messages = [{"headers": header, "data": {"a": 1}} for header in headers] or [{"message": None}]
    changes = decoded(*messages).changes
    assert landing_rows([message.change for message in changes], schema_of({"a": "int32"})).ends_transaction is ends
