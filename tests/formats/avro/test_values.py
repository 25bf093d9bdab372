"""Avro values become the JSON that the gateway reads: exact, whatever Avro writes them as."""

import json
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.formats.avro import DecodePlan, Style, read_schema
from mirrorgate.errors import RejectedInput
from tests.support.forms.avro import encoded

UUID_OF_16_BYTES = {"type": "fixed", "name": "u", "size": 16, "logicalType": "uuid"}
DECIMAL_OF_CONNECT = {
    "type": "bytes",
    "connect.name": "org.apache.kafka.connect.data.Decimal",
    "connect.parameters": {"scale": "1"},
}

MASKED = {
    "type": "record",
    "name": "r",
    "fields": [{"name": "columnMask", "type": ["null", "bytes"]}, {"name": "v", "type": "bytes"}],
}
"""A message of Replicate, whose masks are bytes too."""


def as_json(written_as: Any, value: Any, style: Style = Style.TEXT, *, declared: Any = None) -> Any:
    """Return what a value becomes that was written with one schema; `declared` is what the registry says of it."""
    plan = DecodePlan(read_schema(json.dumps(declared or written_as)), style)
    return json.loads(plan.json(encoded(written_as, value)[5:]))


@pytest.mark.parametrize(
    ("declared", "value", "text", "connect"),
    [
        ({"type": "int", "logicalType": "date"}, 19_000, "2022-01-08", 19_000),
        ({"type": "int", "connect.name": "io.debezium.time.Date"}, -719_162, "0001-01-01", -719_162),
        ({"type": "int", "logicalType": "date"}, 2**31 - 1, "+5881580-07-11", 2**31 - 1),
        ({"type": "int", "logicalType": "date"}, -2_147_472_692, "infinity", -2_147_472_692),
        ({"type": "int", "logicalType": "time-millis"}, 45_296_001, "12:34:56.001000", 45_296_001),
        ({"type": "int", "logicalType": "time-millis"}, -1_800_000, "-1800000", -1_800_000),
        ({"type": "long", "logicalType": "time-micros"}, 86_400_000_000, "86400000000", 86_400_000_000),
        ({"type": "long", "connect.name": "io.debezium.time.NanoTime"}, 1, "00:00:00.000000001", 1),
        ({"type": "long", "logicalType": "timestamp-millis"}, -1, "1969-12-31T23:59:59.999000Z", -1),
        ({"type": "long", "logicalType": "timestamp-micros"}, 2**62, "+148108-07-06 14:00:27.387904Z", 2**62),
        ({"type": "long", "logicalType": "timestamp-nanos"}, 1, "1970-01-01 00:00:00.000000001Z", 1),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, 1, "1970-01-01T00:00:00.000001", 1),
        ({"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}, 1, "1970-01-01T00:00:00.000001", 1),
        ({"type": "string", "logicalType": "date"}, "text", "text", "text"),
        ("bytes", b"\x00\xff", "\\x00ff", "AP8="),
        ({"type": "fixed", "name": "f", "size": 2}, b"\x00\xff", "\\x00ff", "AP8="),
        (UUID_OF_16_BYTES, bytes(16), str(UUID(int=0)), "A" * 22 + "=="),
        ({"type": "string", "logicalType": "uuid"}, "x", "x", "x"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, b"\xff", "-0.01", "/w=="),
        (DECIMAL_OF_CONNECT, b"\x00\x80", "12.8", "AIA="),
        ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, "B", "B", "B"),
        ("double", float("nan"), "NaN", "NaN"),
        ("double", float("-inf"), "-Infinity", "-Infinity"),
        ("long", 2**63 - 1, 2**63 - 1, 2**63 - 1),
        (["null", "bytes"], b"\x01", "\\x01", "AQ=="),
        (["null", "bytes"], None, None, None),
        ({"type": "array", "items": ["null", "bytes"]}, [None, b"\x01"], [None, "\\x01"], [None, "AQ=="]),
        ({"type": "map", "values": "bytes"}, {"k": b"\x01"}, {"k": "\\x01"}, {"k": "AQ=="}),
        (
            MASKED,
            {"columnMask": b"\x0b", "v": b"\x01"},
            {"columnMask": "0b", "v": "\\x01"},
            {"columnMask": "Cw==", "v": "AQ=="},
        ),
        (["null", "string", "bytes", "long"], b"\x01", "\\x01", "AQ=="),
    ],
)  # fmt: skip
def test_a_value_becomes_text_for_rows_and_what_connect_writes_for_debezium(
    declared: Any, value: Any, text: Any, connect: Any
) -> None:
    plain = without_logical_types(declared)
    assert as_json(plain, value, declared=declared) == text
    assert as_json(plain, value, Style.CONNECT, declared=declared) == connect


def without_logical_types(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    return {name: value for name, value in schema.items() if name != "logicalType"}


@pytest.mark.parametrize("meaning", ["timestamp-millis", "timestamp-micros", "local-timestamp-millis", "time-micros"])
def test_the_text_of_a_time_does_not_depend_on_a_date_beside_it(meaning: str) -> None:
    types = {"at": {"type": "long", "logicalType": meaning}, "day": {"type": "int", "logicalType": "date"}}
    declared = record(*({"name": name, "type": written} for name, written in types.items()))
    written_as = record({"name": "at", "type": "long"}, {"name": "day", "type": "int"})
    usual, beyond = (as_json(written_as, {"at": 1_500, "day": day}, declared=declared) for day in (0, 2**31 - 1))
    assert usual["at"] == beyond["at"]


@given(st.integers(-(10**40), 10**40), st.integers(0, 40))
def test_a_decimal_keeps_every_digit_also_beyond_its_precision(unscaled: int, scale: int) -> None:
    declared = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": scale}
    text = as_json("bytes", unscaled.to_bytes(20, "big", signed=True), declared=declared)
    sign, digits, exponent = Decimal(text).as_tuple()
    assert (int("".join(map(str, digits))) * (-1 if sign else 1), -int(exponent)) == (unscaled, scale)
    assert "E" not in text


def record(*fields: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [*fields], **others}


def test_names_that_avro_does_not_allow_are_read_as_they_are() -> None:
    schema = record({"name": "a b$", "type": ["null", "string"]}, namespace="com.attunity.queue.msg.task-1.DBO.T")
    assert as_json(schema, {"a b$": "é"}) == {"a b$": "é"}


def test_a_type_is_found_by_its_name_in_the_schema_and_in_its_references() -> None:
    value = {"name": "Value", "type": "record", "fields": [{"name": "id", "type": "bytes"}]}
    used = record({"name": "before", "type": ["null", "x.Value"]}, {"name": "after", "type": "Value"}, namespace="x")
    plan = DecodePlan(read_schema(json.dumps(used), [json.dumps({**value, "namespace": "x"})]), Style.TEXT)
    inline = record({"name": "before", "type": ["null", value]}, {"name": "after", "type": "Value"})
    payload = encoded(inline, {"before": {"id": b"\x01"}, "after": {"id": b"\x02"}})[5:]
    assert json.loads(plan.json(payload)) == {"before": {"id": "\\x01"}, "after": {"id": "\\x02"}}


@pytest.mark.parametrize(
    ("schema", "detail"),
    [
        (record({"name": "next", "type": ["null", "R"]}), "contains itself"),
        ({"type": "array", "items": "null"}, "take no bytes"),
        (record({"name": "a", "type": "Unknown"}), "does not declare"),
        ({"fields": []}, "as the specification asks"),
        (["bytes", {"type": "fixed", "name": "f", "size": 2}], "look the same"),
    ],
)
def test_a_schema_without_one_reading_is_rejected(schema: Any, detail: str) -> None:
    with pytest.raises(RejectedInput, match=detail):
        DecodePlan(read_schema(json.dumps(schema)), Style.TEXT)


def test_a_schema_that_grows_without_end_is_rejected() -> None:
    fields = [{"name": "a0", "type": record({"name": "x", "type": "int"}, name="R0")}]
    for level in range(1, 40):
        inner = [{"name": part, "type": f"R{level - 1}"} for part in ("x", "y")]
        fields.append({"name": f"a{level}", "type": record(*inner, name=f"R{level}")})
    with pytest.raises(RejectedInput, match="20,000 types"):
        read_schema(json.dumps(record(*fields)))


@given(st.binary(max_size=40))
def test_any_bytes_are_decoded_or_rejected(payload: bytes) -> None:
    schema = record(
        {"name": "a", "type": ["null", "string"]},
        {"name": "b", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "c", "type": {"type": "array", "items": "double"}},
    )
    plan = DecodePlan(read_schema(json.dumps(schema)), Style.TEXT)
    try:
        assert set(json.loads(plan.json(payload))) == {"a", "b", "c"}
    except RejectedInput as error:
        assert "not of the Avro schema" in error.detail


def test_bytes_after_a_record_are_rejected() -> None:
    plan = DecodePlan(read_schema('"long"'), Style.TEXT)
    with pytest.raises(RejectedInput):
        plan.json(b"\x02\x02")
