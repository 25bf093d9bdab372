"""Values of each semantic type, one by one and over their whole range."""

from base64 import b64encode
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.model.table_options import BinaryEncoding
from app.domain.model.table_schema import Column, ColumnType
from app.domain.model.written_number import WrittenNumber
from app.domain.rows.conversion.column_conversion import BadValues, convert
from app.formats.debezium.connect_schema import ConnectField, WrongSchema, read_schema
from app.formats.debezium.reading import PLAIN_READING, DebeziumReading, DecimalForm, Nanoseconds, TimestampUnit
from app.formats.debezium.unavailable import unavailable_values
from app.formats.debezium.values import NeedsParameter, column_reader, field_reader

TIME, DATA, CONNECT = "io.debezium.time.", "io.debezium.data.", "org.apache.kafka.connect.data."
AT = datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=UTC)
MICROS = 1767323045123456


def field(kind: str, meaning: str = "", **members: Any) -> ConnectField:
    return read_schema({"type": kind, "name": meaning or None, "field": "v", "optional": True, **members})


def typed(one: ConnectField, written: Any, type_name: str | None = None) -> Any:
    """Return the value as it lands in a column of this type, by default the one that the field registers."""
    column_type = one.column_type if type_name is None else ColumnType.parse(type_name)
    assert column_type is not None
    read = field_reader(one, Column("v", column_type), BinaryEncoding.HEX)
    return convert([written if read is None else read(written)], column_type)[0].as_py()


@pytest.mark.parametrize(
    ("kind", "meaning", "written", "landed"),
    [
        ("int32", f"{TIME}Date", -719162, date(1, 1, 1)),
        ("int32", f"{CONNECT}Date", 20455, date(2026, 1, 2)),
        ("string", f"{TIME}IsoDate", "2026-01-02Z", date(2026, 1, 2)),
        ("int64", f"{TIME}Timestamp", -1, datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)),
        ("int64", f"{CONNECT}Timestamp", MICROS // 1000, AT.replace(microsecond=123000)),
        ("int64", f"{TIME}MicroTimestamp", MICROS, AT),
        ("int64", f"{TIME}NanoTimestamp", MICROS * 1000, AT),
        ("string", f"{TIME}IsoTimestamp", "2026-01-02T03:04:05.123456Z", AT),
        ("string", f"{TIME}ZonedTimestamp", "2026-01-02T05:04:05.123456+02:00", AT),
        ("int32", f"{TIME}Time", 37230001, "10:20:30.001"),
        ("int32", f"{CONNECT}Time", 37230000, "10:20:30"),
        ("int64", f"{TIME}MicroTime", 37230000001, "10:20:30.000001"),
        ("int64", f"{TIME}NanoTime", 37230000000001, "10:20:30.000000001"),
        ("string", f"{TIME}IsoTime", "10:20:30Z", "10:20:30Z"),
        ("string", f"{TIME}ZonedTime", "10:20:30+02:00", "10:20:30+02:00"),
        ("string", f"{TIME}Interval", "P1Y2M3DT4H5M6S", "P1Y2M3DT4H5M6S"),
        ("int64", f"{TIME}MicroDuration", 5, 5),
        ("int32", f"{TIME}Year", 2026, 2026),
        ("string", f"{DATA}Json", '{"a":[1]}', '{"a":[1]}'),
        ("string", f"{DATA}EnumSet", "a,b", "a,b"),
        ("bytes", f"{DATA}Bits", "Dw==", b"\x0f"),
        ("array", "", [1, None], "[1,null]"),
        ("map", "", {"k": "v"}, '{"k":"v"}'),
        (
            "struct",
            f"{DATA}SparseDoubleVector",
            {"dimensions": 3, "vector": {"1": 0.5}},
            '{"dimensions":3,"vector":{"1":0.5}}',
        ),
        ("struct", f"{TIME}StructuredDate", {"year": 2026, "month": 1, "day": 2}, date(2026, 1, 2)),
        (
            "struct",
            f"{TIME}StructuredZonedTimestamp",
            {
                "year": 2026,
                "month": 1,
                "day": 2,
                "hour": 5,
                "minute": 4,
                "second": 5,
                "nanos": 123456000,
                "offsetSeconds": 7200,
            },
            AT,
        ),
        ("struct", f"{TIME}StructuredTime", {"hour": 1, "minute": 2, "second": 3, "nanos": 1}, "01:02:03.000000001"),
        ("struct", f"{DATA}VariableScaleDecimal", {"scale": -2, "value": "BQ=="}, "500"),
        ("int8", "", -5, -5),
        ("boolean", "", True, True),
        ("double", "", "-Infinity", float("-inf")),
    ],
)
def test_a_semantic_type_lands_as_what_it_means(kind: str, meaning: str, written: Any, landed: Any) -> None:
    fields = [{"type": "int32", "field": "x"}] if kind == "struct" else None
    items = {"type": "int32"} if kind == "array" else None
    assert typed(field(kind, meaning, fields=fields, items=items, values={"type": "string"}), written) == landed


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**30), max_value=10**30))
def test_a_decimal_keeps_every_digit(number: Decimal) -> None:
    unscaled = int(number.scaleb(4))
    encoded = b64encode(unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)).decode()
    one = field("bytes", f"{CONNECT}Decimal", parameters={"scale": "4", "connect.decimal.precision": "38"})
    assert typed(one, encoded) == number
    assert (
        typed(field("struct", f"{DATA}VariableScaleDecimal", fields=[]), {"scale": 4, "value": encoded})
        == f"{number:f}"
    )
    column = Column("v", ColumnType.parse("decimal(38,4)"))
    read = column_reader(column, BinaryEncoding.HEX, DebeziumReading(decimals=DecimalForm.BASE64))
    assert read is not None
    assert convert([read(encoded)], column.type)[0].as_py() == number


@given(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59)))
def test_a_timestamp_keeps_every_digit(moment: datetime) -> None:
    micros = (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    expected = moment.replace(tzinfo=UTC)
    assert typed(field("int64", f"{TIME}MicroTimestamp"), micros) == expected
    assert typed(field("int64", f"{TIME}NanoTimestamp"), micros * 1000) == expected
    assert typed(field("int32", f"{TIME}Date"), moment.toordinal() - 719163) == moment.date()


@pytest.mark.parametrize(
    ("kind", "meaning", "written", "type_name"),
    [
        ("int64", f"{TIME}NanoTimestamp", MICROS * 1000 + 1, "timestamp"),
        ("int64", f"{TIME}MicroTimestamp", 9223372036825200000, "timestamp"),
        ("int64", f"{TIME}MicroTimestamp", "2026", "timestamp"),
        ("int32", f"{TIME}Date", True, "date"),
        ("bytes", f"{CONNECT}Decimal", "no base64", "decimal(9,2)"),
        ("bytes", f"{CONNECT}Decimal", "", "decimal(9,2)"),
        ("bytes", f"{CONNECT}Decimal", b64encode(b"\x7f" * 2000).decode(), "decimal(9,2)"),
        ("bytes", "", "x", "binary"),
        ("int64", "", Decimal("61.5"), "int64"),
    ],
)
def test_a_value_that_does_not_fit_is_rejected(kind: str, meaning: str, written: Any, type_name: str) -> None:
    one = field(kind, meaning, parameters={"scale": "2"})
    with pytest.raises((ValueError, BadValues)) as raised:
        typed(one, written, type_name)
    assert len(str(written)) < 2 or str(written) not in str(raised.value)


def test_whole_numbers_with_a_point_fit_integers() -> None:
    assert typed(field("double"), Decimal("61.0"), "int64") == 61


def test_parts_of_containers_have_their_meaning() -> None:
    price = {"type": "bytes", "name": f"{CONNECT}Decimal", "parameters": {"scale": "2"}, "field": "price"}
    day = {"type": "int32", "name": f"{TIME}Date", "field": "day"}
    one = field("array", items={"type": "struct", "fields": [price, day, {"type": "string", "field": "s"}]})
    assert (
        typed(one, [{"price": "AeJA", "day": 20455, "s": "x"}, None])
        == '[{"price":1234.56,"day":"2026-01-02","s":"x"},null]'
    )
    assert typed(one, [7]) == "[7]"
    rows = field("map", values=price)
    assert typed(rows, {"a": "AeJA"}) == '{"a":1234.56}'


def test_timestamps_without_a_schema_need_their_unit() -> None:
    column = Column("v", ColumnType.parse("timestamp"))
    read = column_reader(column, BinaryEncoding.HEX, PLAIN_READING)
    assert read is not None
    assert read("2026-01-02T03:04:05Z") == "2026-01-02T03:04:05Z"
    with pytest.raises(NeedsParameter, match="timestamps=millis"):
        read(MICROS)
    read = column_reader(column, BinaryEncoding.HEX, DebeziumReading(timestamps=TimestampUnit.MICROS))
    assert read is not None
    assert convert([read(MICROS)], column.type)[0].as_py() == AT


@pytest.mark.parametrize(
    ("kind", "meaning", "written"),
    [
        ("int64", f"{TIME}NanoTimestamp", MICROS * 1000 + 789),
        ("string", f"{TIME}ZonedTimestamp", "2026-01-02T05:04:05.1234567+02:00"),
    ],
)
def test_digits_below_a_microsecond_are_cut_off_if_the_request_says_so(kind: str, meaning: str, written: Any) -> None:
    reading = DebeziumReading(nanoseconds=Nanoseconds.TRUNCATE)
    column = Column("v", ColumnType.parse("timestamp"))
    for read in (
        field_reader(field(kind, meaning), column, BinaryEncoding.HEX, reading),
        column_reader(column, BinaryEncoding.HEX, replace(reading, timestamps=TimestampUnit.NANOS)),
    ):
        assert read is not None
        assert convert([read(written)], column.type)[0].as_py() == AT
    text = Column("v", ColumnType.parse("string"))
    kept = field_reader(field(kind, meaning), text, BinaryEncoding.HEX, reading)
    assert kept is None or str(kept(written)).endswith("789")
    assert DebeziumReading.from_json(reading.to_json()) == reading


def test_placeholders_are_recognized_in_every_form() -> None:
    text = "__debezium_unavailable_value"
    forms: list[Any] = [
        text,
        b64encode(text.encode()).decode(),
        text.encode().hex(),
        [text],
        [*text.encode()],
        {text: text},
        f'{{"{text}":"{text}"}}',
    ]
    assert all(map(unavailable_values(()), forms))
    assert not any(map(unavailable_values(()), ["none", [], {}, 1, None, [1], "__debezium"]))
    assert unavailable_values(("none",))("none")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "struct", "fields": "none"},
        {"type": "struct", "fields": [{"field": "x"}]},
        {"type": "struct", "fields": [7]},
        {"type": ["int32"]},
        {"type": "int99", "default": WrittenNumber("1e5")},
        {"type": "array", "items": 7},
        {"type": "bytes", "parameters": [1]},
        {"type": "bytes", "name": f"{CONNECT}Decimal", "parameters": {"scale": "two"}},
    ],
)
def test_what_is_no_connect_schema_is_rejected(schema: dict[str, Any]) -> None:
    with pytest.raises(WrongSchema):
        read_schema(schema)
