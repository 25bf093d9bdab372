"""The Arrow kernels agree with the reference conversion for any text."""

import base64
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.domain.model.change import SourceValue
from app.domain.model.table_options import BinaryEncoding
from app.domain.model.table_schema import ColumnType
from app.domain.rows.conversion import PLAIN, BadValues, ValueReading, convert, scalar

DIGITS = st.text("0123456789", max_size=6)
NUMBERS = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["", "-", "+", " ", "0x"]),
        st.text("0123456789_٣", max_size=20),
        st.sampled_from(["", ".", ".0", "."]),
        DIGITS,
        st.sampled_from(["", "", "e", "E+", "e-"]),
        st.text("0123456789", max_size=3) | st.sampled_from(["00005", "99999", "100000000", "9" * 30]),
        st.sampled_from(["", "", "", " ", "f", "d", "_"]),
    ),
)
LONG_NUMBERS = st.builds("{}{}.{}".format, st.sampled_from(["", "-"]), *[st.text("0123456789", max_size=45)] * 2)
DAYS = st.sampled_from(
    [
        *("2024-02-29", "2023-02-29", "0001-01-01", "9999-12-31", "0000-01-01", "0000-00-00", "2024-2-9", "1969-07-20"),
        *("+12000-01-01", "-0044-03-15", "10000-01-01", "5874897-12-31"),
    ]
)
MOMENTS = st.builds(
    "".join,
    st.tuples(
        DAYS,
        st.sampled_from(["", "T", " ", "t", "  "]),
        st.sampled_from(["", "0", "00", "23", "24", "7"]),
        st.sampled_from(["", ":00", ":59", ":60", "00", ":"]),
        st.sampled_from(["", ":00", ":59", ":60", "00", ":"]),
        st.sampled_from(["", "", ".", ".0", ".123456", ".1234567", ".123456000", ".000000000000"]),
        st.sampled_from(
            [
                "",
                "",
                "Z",
                "z",
                "+01",
                "-01:30",
                "+0130",
                "+24:00",
                "-23:59",
                "+01:60",
                " Z",
                "+1",
                "+00:53:28",
                "-005328",
                "Z BC",
            ]
        ),
    ),
)
ANY_TEXT = st.text(st.characters(codec="utf-8"), max_size=6)
WORDS = st.sampled_from(
    ["", "true", "False", "TRUE", "nan", "NaN", "-inf", "Infinity", "null", "1", "0", "t", "F", "tr"]
)
TEXTS: dict[str, st.SearchStrategy[str]] = {
    "boolean": WORDS,
    "int16": NUMBERS | st.integers(-(2**15) - 2, 2**15 + 2).map(str),
    "int32": NUMBERS | st.integers(-(2**31) - 2, 2**31 + 2).map(str),
    "int64": NUMBERS | st.integers(-(2**63) - 2, 2**63 + 2).map(str),
    "float32": NUMBERS | WORDS | st.floats().map(repr) | st.floats(width=32).map(repr),
    "float64": NUMBERS | WORDS | st.floats().map(repr),
    "decimal(5,2)": NUMBERS | LONG_NUMBERS | st.decimals(-1000, 1000, places=3).map(str),
    "decimal(38,10)": NUMBERS | LONG_NUMBERS | st.decimals().map(str),
    "decimal(38,38)": LONG_NUMBERS | st.decimals(-1, 1).map(str),
    "date": DAYS | MOMENTS | st.dates().map(str),
    "timestamp": MOMENTS | st.datetimes().map(str) | st.dates().map(str),
    "string": st.nothing(),
    "binary": st.text("0123456789abcdefABCDEFgx\\ ", max_size=8),
    "json": st.sampled_from(['{"a":1}', "[1,", "NaN", '"a"', "1.0", "{}x", ""]),
}


ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Africa/Casablanca",
    "America/Sao_Paulo",
    "Europe/Dublin",
    "Etc/GMT+12",
)
ANY_MOMENT = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59)).map(str)
NEAR_CHANGES = st.builds(
    "{}-{} {:02d}:{:02d}:00{}".format,
    st.sampled_from([1883, 1918, 1945, 1990, 2011, 2024, 2036, 2037, 2038, 2400]),
    st.sampled_from(["03-10", "03-31", "04-07", "10-06", "10-27", "11-03", "11-18", "12-29", "12-30"]),
    st.integers(0, 4),
    st.sampled_from([0, 15, 30, 59]),
    st.sampled_from(["", "", "", "Z", "+05:30"]),
)


def by_definition(values: list[SourceValue], column_type: ColumnType, reading: ValueReading = PLAIN) -> Any:
    """Return the answer of `scalar` by value: the converted list, or the rejected positions with reasons."""
    converted, reasons = [], {}
    for position, value in enumerate(values):
        try:
            converted.append(scalar(value, column_type, reading))
        except ValueError as error:
            reasons[position] = str(error)
    return reasons or repr(pa.array(converted, column_type.arrow).to_pylist())


def by_convert(values: list[SourceValue], column_type: ColumnType, reading: ValueReading = PLAIN) -> Any:
    try:
        return repr(convert(values, column_type, reading).to_pylist())
    except BadValues as error:
        return error.reasons


@pytest.mark.parametrize("declared", TEXTS)
@given(data=st.data())
def test_a_list_of_texts_is_converted_as_its_texts_are(declared: str, data: st.DataObject) -> None:
    column_type = ColumnType.parse(declared)
    texts: list[SourceValue] = data.draw(st.lists(st.none() | TEXTS[declared] | ANY_TEXT, max_size=8))
    single = [by_definition([text], column_type) for text in texts]
    assert [by_convert([text], column_type) for text in texts] == single
    fitting = [text for text, answer in zip(texts, single, strict=True) if isinstance(answer, str)]
    for values in (texts, fitting):
        assert by_convert(values, column_type) == by_definition(values, column_type)


WHOLE = st.none() | st.integers(-(2**65), 2**65)
JSON_VALUES = st.none() | st.integers() | st.booleans() | NUMBERS | st.decimals(allow_nan=False)


@pytest.mark.parametrize("declared", ["int16", "int32", "int64", "float64", "decimal(5,2)", "string", "boolean"])
@given(values=st.lists(JSON_VALUES, max_size=3) | st.lists(WHOLE, max_size=3))
def test_a_list_of_json_values_is_converted_as_its_values_are(declared: str, values: list[SourceValue]) -> None:
    column_type = ColumnType.parse(declared)
    assert by_convert(values, column_type) == by_definition(values, column_type)


@pytest.mark.parametrize("zone", ZONES)
@given(texts=st.lists(st.none() | MOMENTS | ANY_MOMENT | NEAR_CHANGES, max_size=5))
@example(texts=["2024-03-31 02:30:00"])
@example(texts=["2024-10-27 02:30:00"])
@example(texts=["0001-01-01 00:00:00", "9999-12-31 23:59:59"])
@example(texts=["2037-01-01 00:00:00", "2038-07-01 00:00:00"])
def test_timestamps_of_a_zone_are_converted_alike_on_both_ways(zone: str, texts: list[SourceValue]) -> None:
    column_type, reading = ColumnType.parse("timestamp"), ValueReading(zone)
    single = [by_definition([text], column_type, reading) for text in texts]
    assert [by_convert([text], column_type, reading) for text in texts] == single
    fitting = [text for text, answer in zip(texts, single, strict=True) if isinstance(answer, str)]
    for values in (texts, fitting):
        assert by_convert(values, column_type, reading) == by_definition(values, column_type, reading)


@given(values=st.lists(st.none() | st.binary(max_size=9), max_size=3), encoding=st.sampled_from(BinaryEncoding))
def test_bytes_are_read_back_from_their_text(values: list[bytes | None], encoding: BinaryEncoding) -> None:
    write = bytes.hex if encoding is BinaryEncoding.HEX else lambda value: base64.b64encode(value).decode()
    texts: list[SourceValue] = [None if value is None else write(value) for value in values]
    assert convert(texts, ColumnType.parse("binary"), ValueReading(binary=encoding)).to_pylist() == values


@given(text=st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr))
@example(text="1.00000005960464477539062500000001")
def test_a_float32_is_rounded_alike_as_text_and_as_number(text: str) -> None:
    column_type = ColumnType.parse("float32")
    assert by_convert([text], column_type) == by_convert([Decimal(text)], column_type)


@given(number=st.decimals(allow_nan=False, allow_infinity=False))
@example(number=Decimal("857205310596256614370212635018389"))
def test_a_decimal_is_kept_exactly_or_rejected(number: Decimal) -> None:
    column_type = ColumnType.parse("decimal(38,10)")
    try:
        kept = convert([str(number)], column_type).to_pylist()
    except BadValues:
        return
    assert kept == [number]


@pytest.mark.parametrize(
    "text", ["1e-100000000", "0e-10000000", "0." + "0" * 3_000_000, "1" + "0" * 50_000 + "e-50000"]
)
def test_a_decimal_beyond_the_powers_of_ten_that_arrow_knows_does_not_end_the_process(text: str) -> None:
    column_type = ColumnType.parse("decimal(10,2)")
    assert by_convert([text], column_type) == by_definition([text], column_type)
