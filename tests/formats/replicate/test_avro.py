"""Records in Avro: reading them by column, together or alone gives the same, and hostile bytes give an error."""

import base64
import json
import tracemalloc
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.model.change import UNLIMITED, InputLimits
from app.domain.model.written_values import JSON_ENCODER
from app.formats.avro import DecodePlan, Style, read_schema
from app.formats.avro.flat import FieldValues, FlatReader, RecordColumns
from app.formats.replicate.avro_records import MAX_LIST_VALUES, AvroBody, plan_of
from app.formats.replicate.columnar import DataBody, decode_data_messages
from app.formats.replicate.columnar_images import ImageReader
from app.formats.replicate.messages import decode_replicate
from mirrorgate.avro_envelope import read_envelopes
from mirrorgate.errors import Code, RejectedInput
from tests.support.rejections import rejected
from tests.support.samples.replicate_avro import JOBS, data_record, data_schema, encoded, envelope

TABLE = "HR.JOBS"
SCHEMA = json.dumps(data_schema(TABLE))
MORE: Mapping[str, tuple[str, Any]] = {
    **JOBS,
    "FLAG": ("BOOLEAN", ["boolean", "null"]),
    "SMALL": ("REAL4", "float"),
    "CLOCK": ("TIME", ["null", {"type": "int", "logicalType": "time-millis"}]),
}
ROWS = st.fixed_dictionaries(
    {
        "ID": st.integers(-(2**31), 2**31 - 1),
        "TITLE": st.none() | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8),
        "PAY": st.none() | st.decimals(-1_000, 1_000, places=2),
        "SINCE": st.none() | st.dates(date(1, 1, 1)),
        "AT": st.none() | st.datetimes(datetime(1900, 1, 1), timezones=st.just(UTC)),  # a zone is added
        "RATIO": st.none() | st.floats(),
        "BADGE": st.none() | st.binary(max_size=5),
        "FLAG": st.none() | st.booleans(),
        "SMALL": st.floats(width=32),
        "CLOCK": st.none() | st.just(datetime(2026, 1, 1, 12, 34, 56, 7000).time()),  # a time of day
    }
)
CHANGES = st.tuples(st.sampled_from(["INSERT", "UPDATE", "DELETE"]), ROWS, st.none() | ROWS)


def read(decoded: DataBody | None, reader: ImageReader) -> Any:
    [changes] = reader.read([decoded.columns])
    spelled = JSON_ENCODER.encode([changes.before, changes.after])  # equal decimals can be written in two ways
    return changes.shapes, changes.before, changes.after, spelled, decoded.addresses, [*decoded.columns.sequences]


@given(st.lists(CHANGES, min_size=1, max_size=5))
def test_messages_read_by_column_are_those_that_become_json(
    changes: list[tuple[str, dict[str, Any], dict[str, Any] | None]],
) -> None:
    schema = json.dumps(data_schema(TABLE, MORE))
    messages = [
        data_record(TABLE, operation, row, before if operation == "UPDATE" else None, MORE, changeSequence=str(number))
        for number, (operation, row, before) in enumerate(changes)
    ]
    body = AvroBody(["7b1c"] * len(messages), messages)
    reader = ImageReader(tuple(MORE), frozenset(), None)
    by_column = body.as_columns(schema, reader.image_type.__args__[0], UNLIMITED)
    [by_json] = decode_data_messages([body.as_json({"7b1c": plan_of(schema)}, UNLIMITED)])
    assert read(by_column, reader) == read(by_json, reader)


def rows_of(record: RecordColumns, count: int) -> list[dict[str, Any] | None]:
    def column(found: FieldValues) -> list[Any]:
        return found if isinstance(found, list) else rows_of(found, len(found.present or range(count)))

    columns = {name: column(found) for name, found in record.columns.items()}
    made = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    if record.present is None:
        return [*made]
    placed: list[dict[str, Any] | None] = [None] * count
    for place, one in zip(record.present, made, strict=True):
        placed[place] = one
    return placed


def as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: as_json(inner) for name, inner in value.items()}
    return float(value) if isinstance(value, Decimal) else value


@st.composite
def broken_records(draw: st.DrawFn) -> bytes:
    whole = data_record(TABLE, "INSERT", {"ID": 1, "TITLE": "ab", "RATIO": 0.5})
    start = draw(st.integers(0, len(whole)))
    return whole[:start] + draw(st.binary(max_size=4)) + whole[start + draw(st.integers(0, 4)) :]


@given(st.lists(broken_records() | st.binary(max_size=30), min_size=1, max_size=3))
def test_any_bytes_are_read_alike_together_and_alone_or_rejected(payloads: list[bytes]) -> None:
    plan = plan_of(SCHEMA)
    flat = FlatReader(read_schema(SCHEMA)).read(payloads)
    try:
        together = [record for part in plan.json_in_parts(payloads) for record in part]
    except RejectedInput as error:
        assert error.code is Code.MALFORMED_AVRO
        assert flat is None
        return
    assert together == [plan.json(payload) for payload in payloads]
    if flat is not None:
        assert [as_json(row) for row in rows_of(flat, len(payloads))] == [json.loads(one) for one in together]


@given(st.binary(max_size=60) | st.binary(max_size=40).map(lambda rest: b"atMSG" + rest))
def test_any_bytes_are_envelopes_or_rejected(body: bytes) -> None:
    try:
        assert body.replace(b"\n", b"").replace(b"\r", b"").startswith(b"atMSG") or not read_envelopes(body)
    except RejectedInput as error:
        assert error.code is Code.MALFORMED_AVRO
        assert error.problems[0].index is not None


def record(*types: Any, name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": f"f{at}", "type": of} for at, of in enumerate(types)]}


MESSAGE = {"magic": "atMSG", "type": "DT", "messageSchemaId": "1", "message": ""}
NOTHING = record("null", {"type": "fixed", "name": "F", "size": 0}, name="N")
DEEP: Any = "int"
for level in range(70):
    DEEP = {"type": "record", "name": f"R{level}", "fields": [{"name": "f", "type": DEEP}]}


@pytest.mark.parametrize(
    ("schema", "payload", "detail"),
    [
        (record({"type": "array", "items": "null"}), b"\xfe\xff\xff\xff\x0f\0", "take no bytes"),
        (record({"type": "array", "items": NOTHING}), b"\xfe\xff\xff\xff\x0f\0", "take no bytes"),
        (record({"type": "array", "items": "int"}), b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\0", "not of the Avro"),
        (record({"type": "array", "items": "boolean"}), b"\xc0\x9a\x0c" + bytes(100_001), "more values"),
        (
            record({"type": "map", "values": record("boolean", name="B")}),
            b"\x80\x92\xf4\x01" + bytes(10**6),
            "more values",
        ),
        (record("bytes"), b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "not of the Avro"),
        (record("string"), b"\x04\xff\xfe", "not of the Avro"),
        (record("long"), b"\xff" * 11, "not of the Avro"),
        (record("int"), b"\x02\x02", "not of the Avro"),
        (record(["null", "int"]), b"\x08", "not of the Avro"),
        (record(["null", "R"]), b"\x02" * 1_000, "contains itself"),
        (DEEP, b"\x02", "nests deeper"),
        (record({"type": "enum", "name": "E", "symbols": [1]}), b"\0", "not a list of strings"),
        (record({"type": "enum", "name": "E", "symbols": ["a b", "a b"]}), b"\0", "cannot be read"),
        (record({"type": "fixed", "name": "F", "size": 2**40}), b"\0", "without a size"),
        ({"type": "record", "name": "R", "fields": 5}, b"\0", "not a list"),
        ("string", b"\0", "not that of a record"),
        ([], b"\0", "not that of a record"),
        ("[" * 100_000, b"\0", "does not declare"),
    ],
)
def test_hostile_avro_gets_an_error_with_its_index_in_little_memory(schema: Any, payload: bytes, detail: str) -> None:
    text = schema if isinstance(schema, str) and schema.startswith("[") else json.dumps(schema)
    body = b"null\n" + json.dumps(MESSAGE | {"message": base64.b64encode(payload).decode()}).encode()
    tracemalloc.start()
    try:
        with rejected() as error:
            decode_replicate(body, schemas=lambda _: text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert error.code is Code.MALFORMED_AVRO
    assert detail in error.details[0]
    assert error.places == [(Code.MALFORMED_AVRO, 1, "/message", None)]
    assert peak < 32 * 2**20


def test_memory_for_what_records_become_is_reserved_before_it_is_used() -> None:
    """A record of null fields takes no byte, and its JSON has all their names."""
    schema = json.dumps(record(*["null"] * 1_000))
    reserved: list[int] = []

    def reserve(size: int) -> None:
        reserved.append(size)
        if size > 50_000:
            raise RejectedInput(Code.BODY_TOO_LARGE, "too much")

    body = b"\n".join([json.dumps(MESSAGE).encode()] * 100)
    with rejected(Code.BODY_TOO_LARGE):
        decode_replicate(body, InputLimits(1_000, 1_000, reserve), schemas=lambda _: schema)
    assert max(reserved) < 100_000


def test_a_metadata_message_of_many_columns_is_within_the_bound_of_lists() -> None:
    values = {"type": "map", "values": record("int", "string", "int", "int", "int", "int", name="C")}
    column = {"f0": 1, "f1": "INT4", "f2": 0, "f3": 0, "f4": 0, "f5": 0}
    columns = {f"column {number}": column for number in range(5_000)}
    schema = {"type": "record", "name": "M", "fields": [{"name": "c", "type": values}]}
    plan = DecodePlan(read_schema(json.dumps(schema)), Style.TEXT, max_values=MAX_LIST_VALUES)
    assert len(json.loads(plan.json(encoded(schema, {"c": columns})))["c"]) == 5_000


def test_an_envelope_differs_from_the_one_before_it_in_any_part() -> None:
    sent = [*product(("a", "b", None), (0, 63, 64, 8_191, 8_192, 100_000))]
    whole = [envelope("DT", b"x" * length, schema_id=schema_id) for schema_id, length in sent]
    assert [(one.schema_id, len(one.message)) for one in read_envelopes(b"".join(whole))] == sent
