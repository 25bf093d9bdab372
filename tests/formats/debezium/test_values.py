"""Values of each semantic type, one by one and over their whole range."""

from base64 import b64decode, b64encode
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.model.table_options import DEFAULT_OPTIONS, OutOfRange, TableOptions, TimestampUnit
from app.domain.model.table_schema import Column, ColumnType
from app.domain.model.written_values import WrittenNumber
from app.domain.rows.conversion import BadValues, convert, reading_of
from app.formats.debezium.columnar_images import reader_of_columns, typing_of_columns
from app.formats.debezium.connect_schema import ConnectField, read_schema
from app.formats.debezium.events import WrongEvent
from app.formats.debezium.values import (
    PLAIN_READING,
    DebeziumReading,
    DecimalForm,
    Nanoseconds,
    NeedsParameter,
    column_reader,
    field_reader,
    parse_units,
    unavailable_values,
)
from mirrorgate.errors import RejectedInput

TIME, DATA, CONNECT = "io.debezium.time.", "io.debezium.data.", "org.apache.kafka.connect.data."
AT = datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=UTC)
MICROS = 1767323045123456


def field(kind: str, meaning: str = "", **members: Any) -> ConnectField:
    return read_schema({"type": kind, "name": meaning or None, "field": "v", "optional": True, **members})


def typed(one: ConnectField, written: Any, type_name: str | None = None) -> Any:
    """Return the value as it lands in a column of this type, by default the one that the field registers."""
    column_type = one.column_type if type_name is None else ColumnType.parse(type_name)
    read = field_reader(one, Column("v", column_type), DEFAULT_OPTIONS)
    return convert([written if read is None else read(written)], column_type)[0].as_py()


def in_bytes(unscaled: int) -> str:
    return b64encode(unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)).decode()


DAY = {"year": 2026, "month": 1, "day": 2}


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
        ("string", f"{TIME}IsoTime", "10:20:30Z", "10:20:30"),
        ("string", f"{TIME}ZonedTime", "10:20:30+02:00", "10:20:30+02:00"),
        ("string", f"{TIME}Interval", "P1Y2M3DT4H5M6S", "P1Y2M3DT4H5M6S"),
        ("int64", f"{TIME}MicroDuration", 5, 5),
        ("int32", f"{TIME}Year", 2026, 2026),
        ("string", f"{DATA}Json", '{"a":[1]}', '{"a":[1]}'),
        ("string", f"{DATA}EnumSet", "a,b", "a,b"),
        ("bytes", f"{DATA}Bits", "Dw==", b"\x0f"),
        ("array", "", [1, None], "[1,null]"),
        ("map", "", {"k": "v"}, '{"k":"v"}'),
        ("struct", f"{DATA}SparseDoubleVector", {"vector": {"1": 0.5}}, '{"vector":{"1":0.5}}'),
        ("struct", f"{TIME}StructuredDate", DAY, date(2026, 1, 2)),
        (
            "struct",
            f"{TIME}StructuredZonedTimestamp",
            DAY | {"hour": 5, "minute": 4, "second": 5, "nanos": 123456000, "offsetSeconds": 7200},
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


BEYOND = [
    *((f"{TIME}Date", "int32", days, True) for days in (-2_147_472_692, -622_191_234, 3_663_382, 2_145_042_905)),
    *((f"{TIME}Date", "int32", days, False) for days in (-2_147_472_691, -625_821_272, -735_160, -2_440_550)),
    (f"{CONNECT}Date", "int32", -2_147_472_692, True),
    (f"{TIME}IsoDate", "string", "-5877611-06-21Z", True),
    (f"{TIME}IsoDate", "string", "+292278994-08-16Z", True),
    (f"{TIME}IsoDate", "string", "+12000-01-01Z", True),
    (f"{TIME}IsoDate", "string", "-5877611-06-22Z", False),
    (f"{TIME}IsoDate", "string", "+292269055-12-02Z", False),
    (f"{TIME}IsoDate", "string", "-0043-03-15Z", False),
    (f"{TIME}Timestamp", "int64", 9_223_372_036_825_200, True),
    (f"{TIME}Timestamp", "int64", 316_516_204_800_000, True),
    (f"{TIME}Timestamp", "int64", -63_517_824_000_000, False),
    (f"{CONNECT}Timestamp", "int64", -9_223_372_036_832_400, False),
    (f"{TIME}MicroTimestamp", "int64", 9_223_372_036_825_200_000, True),
    (f"{TIME}MicroTimestamp", "int64", 2**63 - 1, True),
    (f"{TIME}MicroTimestamp", "int64", -63_517_824_000_000_000, False),
    (f"{TIME}NanoTimestamp", "int64", 2**63 - 1, True),
    (f"{TIME}NanoTimestamp", "int64", -(2**63), False),
    (f"{TIME}IsoTimestamp", "string", "+294247-01-10T04:00:25.2Z", True),
    (f"{TIME}IsoTimestamp", "string", "-290308-12-21T19:59:27.6Z", False),
    (f"{TIME}IsoTimestamp", "string", "-0043-03-15T00:00:00Z", False),
    (f"{TIME}ZonedTimestamp", "string", "infinity", True),
    (f"{TIME}ZonedTimestamp", "string", "+12000-01-01T00:00:00.000000Z", True),
    (f"{TIME}ZonedTimestamp", "string", "-0043-03-15T12:00:00.000000Z", False),
    (f"{TIME}StructuredDate", "struct", {"year": -43, "month": 3, "day": 15}, False),
    (f"{TIME}StructuredTimestamp", "struct", {"year": 12000, "month": 3, "day": 15, "hour": 1}, True),
    (f"{TIME}StructuredDate", "struct", {"specialValue": "NEGATIVE_INFINITY"}, False),
]
"""What Debezium writes for times beyond the years 1 to 9999, and whether they are after the last one."""


@pytest.mark.parametrize(("meaning", "kind", "written", "is_late"), BEYOND)
@pytest.mark.parametrize("nanoseconds", Nanoseconds)
def test_a_time_beyond_the_calendar_lands_as_its_nearest_bound_or_is_rejected(
    meaning: str, kind: str, written: Any, nanoseconds: Nanoseconds, *, is_late: bool
) -> None:
    one = field(kind, meaning, fields=[] if kind == "struct" else None)
    column_type = one.column_type
    column, reading = Column("v", column_type), DebeziumReading(nanoseconds=nanoseconds)
    read = field_reader(one, column, DEFAULT_OPTIONS, reading) or (lambda value: value)
    first, last = (date.min, date.max) if column_type == ColumnType.parse("date") else (datetime.min, datetime.max)
    saturating = reading_of("v", TableOptions(out_of_range=OutOfRange.SATURATE))
    [landed] = convert([read(written)], column_type, saturating).to_pylist()
    assert (landed.replace(tzinfo=None) if isinstance(landed, datetime) else landed) == (last if is_late else first)
    with pytest.raises(BadValues) as raised:
        convert([read(written)], column_type)
    assert "out_of_range" in raised.value.reasons[0]
    kernel = typing_of_columns(one, column, read, saturating)
    if kernel is not None:
        assert kernel([written, None]).to_pylist() == [landed, None]
    assert convert(reader_of_columns(one, read)([written]), column_type, saturating).to_pylist() == [landed]


def test_times_and_dates_of_arrays_keep_their_years_and_lose_the_zone_that_they_never_had() -> None:
    days = field("array", items={"type": "int32", "name": f"{TIME}Date"})
    assert typed(days, [20455, 3_663_382, -622_191_234, None]) == '["2026-01-02","+12000-01-01","infinity",null]'
    iso_days = field("array", items={"type": "string", "name": f"{TIME}IsoDate"})
    assert typed(iso_days, ["+292278994-08-16Z", "-5877611-06-22Z"]) == '["infinity","-infinity"]'
    iso_moments = field("array", items={"type": "string", "name": f"{TIME}IsoTimestamp"})
    infinite = ["+294247-01-10T04:00:25.2Z", "-290308-12-21T19:59:27.6Z", "+12000-01-01T00:00:00Z"]
    assert typed(iso_moments, infinite) == '["infinity","-infinity","+12000-01-01T00:00:00"]'
    moments = field("array", items={"type": "string", "name": f"{TIME}ZonedTimestamp"})
    infinite = ["infinity", "+292269055-12-02T23:00:00.000000Z", "2026-01-01T00:00:00.000000Z"]
    assert typed(moments, infinite) == '["infinity","-infinity","2026-01-01T00:00:00.000000Z"]'
    times = field("array", items={"type": "string", "name": f"{TIME}IsoTime"})
    assert typed(times, ["10:20:30Z", None]) == '["10:20:30",null]'


@pytest.mark.parametrize("days", [2**31, -(2**31) - 1, MICROS // 1000])
def test_a_number_of_days_has_32_bits_as_milliseconds_have_not(days: int) -> None:
    for read in (
        field_reader(field("int64", f"{TIME}Date"), Column("v", ColumnType.parse("date")), DEFAULT_OPTIONS),
        column_reader(Column("v", ColumnType.parse("date")), DEFAULT_OPTIONS, PLAIN_READING),
    ):
        with pytest.raises(ValueError, match="32 bits"):
            read(days)


@pytest.mark.parametrize(("offset", "clock"), [(3208, (11, 6, 32)), (-30, (12, 0, 30)), (-3600, (13, 0, 0))])
def test_an_offset_keeps_its_seconds(offset: int, clock: tuple[int, int, int]) -> None:
    one = field("struct", f"{TIME}StructuredZonedTimestamp", fields=[])
    assert typed(one, DAY | {"hour": 12, "offsetSeconds": offset}) == datetime(2026, 1, 2, *clock, tzinfo=UTC)


@pytest.mark.parametrize(
    ("precision", "scale", "declared", "unscaled", "landed"),
    [
        ("5", "8", "decimal(8,8)", 12345, Decimal("0.00012345")),
        ("5", "-2", "decimal(7,0)", 123, Decimal(12300)),
        ("8", "2046", "decimal(10,0)", 12300 * 10**2046, Decimal(12300)),
        ("38", "38", "decimal(38,38)", 1, Decimal(1).scaleb(-38)),
    ],
)
def test_a_decimal_has_the_column_that_holds_it(
    precision: str, scale: str, declared: str, unscaled: int, landed: Decimal
) -> None:
    parameters = {"scale": scale, "connect.decimal.precision": precision}
    one = field("bytes", f"{CONNECT}Decimal", parameters=parameters)
    assert str(one.column_type) == declared
    assert typed(one, in_bytes(unscaled)) == landed
    as_text = typed(one, in_bytes(unscaled), "string")
    assert Decimal(as_text) == landed
    assert len(as_text) < 50


@pytest.mark.parametrize("scale", ["100000", "-99999", "2000000000"])
def test_a_decimal_of_a_scale_that_is_a_mistake_is_rejected(scale: str) -> None:
    one = field("bytes", f"{CONNECT}Decimal", parameters={"scale": scale, "connect.decimal.precision": "5"})
    with pytest.raises(ValueError, match="has a scale that no decimal has"):
        typed(one, in_bytes(1), "decimal(10,2)")


@pytest.mark.parametrize("digits", [("45", "5"), ("5", "39"), ("0", "0")])
def test_a_decimal_of_more_digits_than_columns_have_is_for_the_table_to_decide(digits: tuple[str, str]) -> None:
    parameters = {"connect.decimal.precision": digits[0], "scale": digits[1]}
    assert field("bytes", f"{CONNECT}Decimal", parameters=parameters).column_type is None


@pytest.mark.parametrize("source_type", ["BIGINT UNSIGNED", "bigint(20) unsigned", "BIGINT UNSIGNED ZEROFILL"])
def test_a_negative_value_of_an_unsigned_integer_is_rejected(source_type: str) -> None:
    one = field("int64", parameters={"__debezium.source.column.type": source_type})
    assert typed(one, 2**63 - 1) == 2**63 - 1
    with pytest.raises(ValueError, match=r"bigint\.unsigned\.handling\.mode=precise"):
        typed(one, -1)
    for signed in ("BIGINT", "INT UNSIGNED", "bigserial", None):
        plain = field("int64", parameters=signed and {"__debezium.source.column.type": signed})
        assert typed(plain, -1) == -1


@pytest.mark.parametrize(("encoding", "landed"), [("hex", b"\xde\xad\xbe\xef"), ("base64", b64decode("deadbeef"))])
def test_a_text_of_bytes_is_read_as_the_options_say_or_not_at_all(encoding: str, landed: bytes) -> None:
    column = Column("v", ColumnType.parse("binary"))
    for declared in ({"binary_encoding": encoding}, {"columns": {"v": {"encoding": encoding}}}):
        options = TableOptions.parse(declared)
        for read in (field_reader(field("string"), column, options), column_reader(column, options, PLAIN_READING)):
            value = "deadbeef" if read is None else read("deadbeef")
            assert convert([value], column.type, reading_of("v", options)).to_pylist() == [landed]
        of_bytes = field_reader(field("bytes"), column, options)
        assert convert([of_bytes("3q2+7w==")], column.type, reading_of("v", options))[0].as_py().hex() == "deadbeef"
    for read in (
        field_reader(field("string"), column, DEFAULT_OPTIONS),
        column_reader(column, DEFAULT_OPTIONS, PLAIN_READING),
    ):
        with pytest.raises(NeedsParameter, match="binary_encoding"):
            read("deadbeef")


@given(st.integers(-(10**34), 10**34))
def test_a_decimal_keeps_every_digit(unscaled: int) -> None:
    number, encoded = Decimal(f"{unscaled}e-4"), in_bytes(unscaled)
    one = field("bytes", f"{CONNECT}Decimal", parameters={"scale": "4", "connect.decimal.precision": "38"})
    assert typed(one, encoded) == number
    variable = field("struct", f"{DATA}VariableScaleDecimal", fields=[])
    assert typed(variable, {"scale": 4, "value": encoded}) == f"{number:f}"
    column = Column("v", ColumnType.parse("decimal(38,4)"))
    read = column_reader(column, DEFAULT_OPTIONS, DebeziumReading(decimals=DecimalForm.BASE64))
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
    landed = '[{"price":1234.56,"day":"2026-01-02","s":"x"},null]'
    assert typed(one, [{"price": "AeJA", "day": 20455, "s": "x"}, None]) == landed
    assert typed(one, [7]) == "[7]"
    assert typed(field("map", values=price), {"a": "AeJA"}) == '{"a":1234.56}'


@pytest.mark.parametrize(
    ("given_units", "of_table", "unit"),
    [
        ("v:millis,*:micros", None, "millis"),
        ("w:millis,*:micros", None, "micros"),
        ("*:micros", "millis", "millis"),
        ("v:nanos,*:micros", "millis", "nanos"),
        ("w:millis", "micros", "micros"),
        ("w:millis", None, None),
    ],
)
def test_the_unit_of_a_column_is_that_of_its_own_name_before_that_of_all(
    given_units: str, of_table: str | None, unit: str | None
) -> None:
    options = TableOptions.parse({"columns": {"v": {"unit": of_table}} if of_table else {}})
    reading = DebeziumReading(timestamps=parse_units(given_units.split(",")))
    assert reading.unit_of("v", options) == unit
    assert DebeziumReading.from_json(reading.to_json()) == reading


@pytest.mark.parametrize("written", ["micros", "v:", ":micros", "v:seconds", "v:micros,v:millis", ""])
def test_a_unit_that_names_no_column_is_rejected(written: str) -> None:
    with pytest.raises(RejectedInput, match="timestamps"):
        parse_units(written.split(","))


def test_timestamps_without_a_schema_need_their_unit() -> None:
    column = Column("v", ColumnType.parse("timestamp"))
    read = column_reader(column, DEFAULT_OPTIONS, PLAIN_READING)
    assert read("2026-01-02T03:04:05Z") == "2026-01-02T03:04:05Z"
    with pytest.raises(NeedsParameter, match="timestamps=v:millis"):
        read(MICROS)
    read = column_reader(column, DEFAULT_OPTIONS, DebeziumReading(timestamps=(("*", TimestampUnit.MICROS),)))
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
        field_reader(field(kind, meaning), column, DEFAULT_OPTIONS, reading),
        column_reader(column, DEFAULT_OPTIONS, replace(reading, timestamps=(("v", TimestampUnit.NANOS),))),
    ):
        assert convert([read(written)], column.type)[0].as_py() == AT
    text = Column("v", ColumnType.parse("string"))
    kept = field_reader(field(kind, meaning), text, DEFAULT_OPTIONS, reading)
    assert kept is None or str(kept(written)).endswith("789")
    assert DebeziumReading.from_json(reading.to_json()) == reading


def test_placeholders_are_recognized_in_every_form() -> None:
    text = "__debezium_unavailable_value"
    encoded = text.encode()
    forms = [
        b64encode(encoded).decode(),
        encoded.hex(),
        [*encoded],
        text,
        [text],
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
    with pytest.raises(WrongEvent):
        read_schema(schema)
