"""Columns that are converted at once, and the kernels that do it."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from app.domain.model.change import SourceValue
from app.domain.model.table_schema import ColumnType
from app.domain.rows import conversion
from app.domain.rows.conversion import (
    PLAIN,
    BadValues,
    ValueReading,
    beyond_calendar,
    convert,
    convert_texts,
    hold_any,
    scalar,
)
from tests.support.samples.case_names import case_name

TINY = Decimal("1E-38")

ACCEPTED: dict[str, list[tuple[SourceValue, Any]]] = {
    "boolean": [
        ("true", True),
        ("FALSE", False),
        ("1", True),
        ("0", False),
        (True, True),
        (False, False),
        (1, True),
        (0, False),
        (None, None),
    ],
    "int16": [
        ("-32768", -(2**15)),
        ("32767", 2**15 - 1),
        (-(2**15), -(2**15)),
        (2**15 - 1, 2**15 - 1),
        ("+7", 7),
        (Decimal("-32768"), -(2**15)),
        ("0e21", 0),
        ("-0.0E+99999", 0),
        (Decimal("0e400"), 0),
    ],
    "int32": [("-2147483648", -(2**31)), ("2147483647", 2**31 - 1), (2**31 - 1, 2**31 - 1), ("007", 7), ("-0", 0)],
    "int64": [
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775807", 2**63 - 1),
        (2**63 - 1, 2**63 - 1),
        ("9007199254740993", 9007199254740993),
        ("9223372036854775807.0", 2**63 - 1),
        ("1e3", 1000),
        ("12.000", 12),
        (Decimal("1.2E+1"), 12),
        (None, None),
    ],
    "float32": [
        ("1.5", 1.5),
        ("3.4028234e38", 3.4028234663852886e38),
        ("-1e-45", -1.401298464324817e-45),
        ("0e-60", 0.0),
        ("0e999999", 0.0),
        ("1.0000000596046447753906251", 1.0000001192092896),
        (Decimal("1.0000000596046447753906251"), 1.0000001192092896),
        ("1e-45", 1.401298464324817e-45),
        ("0.1", 0.10000000149011612),
        ("-Infinity", -math.inf),
        (16777217, 16777216.0),
    ],
    "float64": [
        ("1.7976931348623157e308", 1.7976931348623157e308),
        ("4.9e-324", 5e-324),
        ("0.1", 0.1),
        (Decimal("0.1"), 0.1),
        (".5", 0.5),
        ("5.", 5.0),
        ("+5", 5.0),
        ("inf", math.inf),
        ("+Infinity", math.inf),
        ("-iNf", -math.inf),
        ("0e-9999", 0.0),
        ("0e" + "9" * 30, 0.0),
        ("1e00005", 100_000.0),
        (7, 7.0),
    ],
    "decimal(12,2)": [
        ("7." + "0" * 128, Decimal("7.00")),
        ("9999999999.99", Decimal("9999999999.99")),
        ("-9999999999.99", Decimal("-9999999999.99")),
        ("1", Decimal("1.00")),
        ("1.100", Decimal("1.10")),
        ("1e2", Decimal("100.00")),
        ("0001.5", Decimal("1.50")),
        ("0e99", Decimal("0.00")),
        ("0e99999", Decimal("0.00")),
        (Decimal("0e9999"), Decimal("0.00")),
        (Decimal("0.10"), Decimal("0.10")),
        (12, Decimal("12.00")),
    ],
    "decimal(38,0)": [
        ("9" * 38, Decimal("9" * 38)),
        ("-" + "9" * 38, Decimal("-" + "9" * 38)),
        (2**63, Decimal(2**63)),
    ],
    "decimal(38,10)": [("9" * 28 + ".5", Decimal("9" * 28 + ".5")), ("1e27", Decimal("1e27"))],
    "decimal(38,38)": [("0." + "9" * 38, Decimal("0." + "9" * 38)), ("1e-38", TINY), (TINY, TINY)],
    "date": [
        ("0001-01-01", date.min),
        ("9999-12-31", date.max),
        ("2024-02-29", date(2024, 2, 29)),
        ("1900-02-28", date(1900, 2, 28)),
    ],
    "timestamp": [
        ("0001-01-01 00:00:00", datetime.min.replace(tzinfo=UTC)),
        ("9999-12-31 23:59:59.999999", datetime.max.replace(tzinfo=UTC)),
        ("2024-02-29T01:02:03", datetime(2024, 2, 29, 1, 2, 3, tzinfo=UTC)),
        ("2024-02-29 01:02:03.1", datetime(2024, 2, 29, 1, 2, 3, 100000, tzinfo=UTC)),
        ("2024-02-29 01:02:03.123456000", datetime(2024, 2, 29, 1, 2, 3, 123456, tzinfo=UTC)),
        ("2024-02-29 01:02:03Z", datetime(2024, 2, 29, 1, 2, 3, tzinfo=UTC)),
        ("2024-03-01 00:30:00+01:00", datetime(2024, 2, 29, 23, 30, tzinfo=UTC)),
        ("2024-02-29 23:30:00-0530", datetime(2024, 3, 1, 5, 0, tzinfo=UTC)),
        ("2024-02-29 12:00:00+14", datetime(2024, 2, 28, 22, 0, tzinfo=UTC)),
        ("2024-02-29", datetime(2024, 2, 29, tzinfo=UTC)),
        ("2024-02-29 01:02", datetime(2024, 2, 29, 1, 2, tzinfo=UTC)),
        ("2024-01-02 03:04:05.6789", datetime(2024, 1, 2, 3, 4, 5, 678900, UTC)),
        ("2024-01-02 03:04+01:59", datetime(2024, 1, 2, 1, 5, tzinfo=UTC)),
        ("2024-01-02 03:04-1234", datetime(2024, 1, 2, 15, 38, tzinfo=UTC)),
        ("2024-01-02 03:04+2359", datetime(2024, 1, 1, 3, 5, tzinfo=UTC)),
        ("2024-01-02 03+05", datetime(2024, 1, 1, 22, tzinfo=UTC)),
        ("2024-01-02 03:04 Z", datetime(2024, 1, 2, 3, 4, tzinfo=UTC)),
    ],
    "string": [
        ("", ""),
        ("null", "null"),
        ("é\U0001f600", "é\U0001f600"),
        (True, "true"),
        (False, "false"),
        (7, "7"),
        (Decimal("1.50"), "1.50"),
        ({"b": Decimal("1.50"), "a": [None, "é"]}, '{"b":1.50,"a":[null,"é"]}'),
    ],
    "binary": [("", b""), ("00ff", b"\x00\xff"), ("DeadBeef", b"\xde\xad\xbe\xef"), ("\\x00Ff", b"\x00\xff")],
    "json": [
        ('{"a": [1, 2.50]}', '{"a": [1, 2.50]}'),
        ("null", "null"),
        ({"b": Decimal("1.50"), "a": [None, "é", True]}, '{"b":1.50,"a":[null,"é",true]}'),
        (' {"a": 1} ', ' {"a": 1} '),
        (Decimal("1.50"), "1.50"),
        ([], "[]"),
        (10**30, str(10**30)),
        (None, None),
    ],
}

REJECTED: dict[str, list[SourceValue]] = {
    "boolean": ["", "tr", "yes", "on", "2", " true", "tru", 2, -1, Decimal("1"), {}],
    "int16": ["32768", "-32769", 2**15, "0x1F", "1_0", "1.5", "", " 1", "1 ", "one", "١٢", True, [], "1e5"],
    "int32": ["2147483648", -(2**31) - 1, "0X1f", "１", "--1", "1e9999", Decimal("0.5")],
    "int64": ["9223372036854775808", 2**63, "-9223372036854775809", "1e19", "0x7FFFFFFFFFFFFFFF", "1.0000001", "NaN"],
    "float32": ["3.5e38", "-1e39", "1_0", "0x1p3", "1f", "", "١.٥", True, 10**39],
    "float64": ["1e309", "-1e400", Decimal("1e400"), "nan(1)", "1d", "e5", ".", "+", "1__0", " 1", {}],
    "decimal(12,2)": ["10000000000", "1.001", "0.001", "", ".", "NaN", "inf", "1_0", "0x1", "١", "1e10", True, []],
    "decimal(38,0)": ["1" + "0" * 38, "0.1", 10**38, Decimal("1E+38")],
    "decimal(38,10)": ["857205310596256614370212635018389", "1e33", "9" * 29],
    "decimal(38,38)": ["1", "0." + "9" * 39, "1e-39"],
    "date": [
        "0000-00-00",
        "0000-01-01",
        "2023-02-29",
        "1900-02-29",
        "2024-13-01",
        "2024-1-1",
        "20240101",
        "2024-01-01 00:00:01",
        "10000-01-01",
        "-001-01-01",
        " 2024-01-01",
        "٢٠٢٤-٠١-٠١",
        20240101,
        "",
    ],
    "timestamp": [
        "0000-00-00 00:00:00",
        "2023-02-29 00:00:00",
        "2024-01-01 24:00:00",
        "2024-01-01 00:60:00",
        "2024-01-01 00:00:60",
        "2024-01-01 00:00:00.1234567",
        "2024-01-01 00:00:00.",
        "2024-01-01 00:00:00+24:00",
        "2024-01-01 00:00:00+01:60",
        "2024-01-01 00:00:00+1",
        "2024-01-01 00:00:00 UTC",
        "2024-01-01Z",
        "0001-01-01 00:00:00+00:01",
        "9999-12-31 23:59:59-00:01",
        "2024-01-01  00:00:00",
        "1704067200",
        1704067200,
        "",
    ],
    "binary": ["0", "\\x0", "\\X00", "0x00", "zz", "00 ff", "é0", 0, [], True],
    "json": ["", "{", "{'a':1}", "NaN", "[1,]", "undefined", "[" * 100_000 + "]" * 100_000],
}


def cases(table: dict[str, list[Any]]) -> list[tuple[str, Any]]:
    return [(declared, case) for declared, column in table.items() for case in column]


@pytest.mark.parametrize(("declared", "case"), cases(ACCEPTED), ids=case_name)
def test_a_value_of_the_type_is_kept_exactly(declared: str, case: tuple[SourceValue, Any]) -> None:
    column_type = ColumnType.parse(declared)
    given, kept = case
    assert convert([given], column_type).to_pylist() == [kept]
    assert convert([given], column_type).type == column_type.arrow
    assert pa.array([scalar(given, column_type)], column_type.arrow).to_pylist() == [kept]


@pytest.mark.parametrize(("declared", "value"), cases(REJECTED), ids=case_name)
def test_any_other_value_is_rejected_by_its_position(declared: str, value: SourceValue) -> None:
    column_type, fitting = ColumnType.parse(declared), ACCEPTED[declared][0][0]
    for values, rejected in (([value], [0]), ([fitting, value, None, value], [1, 3])):
        with pytest.raises(BadValues) as rejection:
            convert(values, column_type)
        assert list(rejection.value.reasons) == rejected


@pytest.mark.parametrize("declared", ACCEPTED)
def test_a_column_of_many_kinds_of_values_is_converted_in_order(declared: str) -> None:
    given, kept = zip(*ACCEPTED[declared], (None, None), strict=True)
    assert convert(given, ColumnType.parse(declared)).to_pylist() == list(kept)


@pytest.mark.parametrize("declared", ACCEPTED)
def test_a_column_without_values_has_its_type(declared: str) -> None:
    column_type = ColumnType.parse(declared)
    assert convert([], column_type).type == column_type.arrow
    assert convert([None, None], column_type).null_count == 2


def test_not_a_number_is_a_float() -> None:
    for declared in ("float32", "float64"):
        assert all(map(math.isnan, convert(["NaN", "nan", "1e0"], ColumnType.parse(declared)).to_pylist()[:2]))


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        ("boolean", "canary-7391"),
        ("int16", "7391739"),
        ("int64", "canary-7391"),
        ("float32", "7391e39"),
        ("float64", "canary-7391"),
        ("decimal(4,2)", "73917391"),
        ("decimal(4,2)", "0.7391"),
        ("date", "7391-99-99"),
        ("timestamp", "7391-99-99 00:00:00"),
        ("binary", "canary-7391"),
        ("json", "canary-7391"),
    ],
)
def test_a_reason_never_repeats_the_value(declared: str, value: SourceValue) -> None:
    with pytest.raises(BadValues) as rejection:
        convert([value], ColumnType.parse(declared))
    assert "7391" not in str(rejection.value.reasons)


NEW_YEAR = datetime(2024, 1, 1, tzinfo=UTC)
ELEVEN = datetime(2023, 12, 31, 23, tzinfo=UTC)
FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
BERLIN = ValueReading("Europe/Berlin")


@pytest.fixture
def defined(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Give the values that the definition was asked for."""
    asked: list[Any] = []
    scalar = conversion.scalar

    def noted(value: SourceValue, *how: Any) -> Any:
        asked.append(value)
        return scalar(value, *how)

    monkeypatch.setattr(conversion, "scalar", noted)
    return asked


@pytest.mark.parametrize(
    ("declared", "values", "reading", "typed"),
    [
        ("boolean", ["true", "FALSE", "1", None, "0"], PLAIN, [True, False, True, None, False]),
        ("boolean", [True, None, False], PLAIN, [True, None, False]),
        ("int16", ["-32768", "007", None], PLAIN, [-(2**15), 7, None]),
        ("int16", [-(2**15), None, 7], PLAIN, [-(2**15), None, 7]),
        ("int64", [2**63 - 1, None], PLAIN, [2**63 - 1, None]),
        ("float32", ["0.1", "-2e3", "0", "0.00", None], PLAIN, [0.10000000149011612, -2000.0, 0.0, 0.0, None]),
        ("float64", ["0.1", "-2e3", "0e5", "0E5"], PLAIN, [0.1, -2000.0, 0.0, 0.0]),
        ("float64", [None], PLAIN, [None]),
        ("decimal(9,2)", ["1.5", "-0.25", "12", None], PLAIN, [Decimal("1.5"), Decimal("-0.25"), Decimal(12), None]),
        ("decimal(38,10)", ["9" * 28, "9" * 28 + ".5"], PLAIN, [Decimal("9" * 28), Decimal("9" * 28 + ".5")]),
        ("decimal(9,2)", [None], PLAIN, [None]),
        ("date", ["0001-01-01", "9999-12-31", None], PLAIN, [date.min, date.max, None]),
        ("date", [None], PLAIN, [None]),
        ("string", ["", "x", None], PLAIN, ["", "x", None]),
        ("timestamp", ["2024-01-01", "2024-01-01T00:00:00.000000", None], PLAIN, [NEW_YEAR, NEW_YEAR, None]),
        ("timestamp", ["2024-01-01 00:00Z", "2024-01-01 00:00", None], PLAIN, [NEW_YEAR, NEW_YEAR, None]),
        ("timestamp", ["2024-01-01 01:00+01:00", "2023-12-31 23:00-0100"], PLAIN, [NEW_YEAR, NEW_YEAR]),
        ("timestamp", ["2023-12-31 23:00-01:00", "2024-01-01"], PLAIN, [NEW_YEAR, NEW_YEAR]),
        ("timestamp", ["2024-01-01", "2024-01-01 00:00Z", "2024-01-01 00:00+01"], BERLIN, [ELEVEN, NEW_YEAR, ELEVEN]),
        ("timestamp", ["2037-01-01"], BERLIN, [datetime(2036, 12, 31, 23, tzinfo=UTC)]),
        ("timestamp", ["2024-10-27 02:30"], BERLIN, [datetime(2024, 10, 27, 0, 30, tzinfo=UTC)]),
        ("timestamp", ["0001-01-01", "9999-12-31 23:59:59.999999"], PLAIN, [FIRST, LAST]),
    ],
)
def test_usual_values_are_typed_by_kernels_alone(
    defined: list[Any], declared: str, values: list[SourceValue], reading: ValueReading, typed: list[Any]
) -> None:
    found = convert(values, ColumnType.parse(declared), reading)
    assert (found.to_pylist(), found.type) == (typed, ColumnType.parse(declared).arrow)
    assert defined == []


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        ("int32", "0x1F"),
        ("int32", "0X1F"),
        ("int32", "1e3"),
        ("float64", "inf"),
        ("float64", "1e-400"),
        ("float32", "-0.1e-60"),
        ("decimal(38,10)", "1" + "0" * 28),
        ("decimal(38,10)", "1" + "0" * 28 + ".5"),
        ("decimal(9,2)", "1e2"),
        ("decimal(9,2)", "1E2"),
        ("decimal(9,2)", "7." + "0" * 128),
        ("date", "-0001-01-01"),
        ("timestamp", "-0001-01-01 00:00:00"),
        ("timestamp", "10000-01-01 00:00:00"),
        ("timestamp", "9999-12-31 23:59-01:00"),
        ("binary", "00"),
        ("json", "{}"),
    ],
)
def test_where_a_kernel_could_accept_more_the_definition_decides(defined: list[Any], declared: str, text: str) -> None:
    try:
        convert([None, text], ColumnType.parse(declared))
    except BadValues as bad:
        assert str(bad) == "1 values do not fit"
    assert defined == [None, text]


def test_local_times_after_2037_are_left_to_the_definition_because_the_kernel_knows_no_rules_then(
    defined: list[Any],
) -> None:
    summer = ["2038-07-01 12:00", "2024-07-01 12:00"]
    found = convert(summer, ColumnType.parse("timestamp"), BERLIN).to_pylist()
    assert [moment.hour for moment in found] == [10, 10]
    assert defined == summer


def test_a_slice_of_texts_is_typed_by_its_own_texts_alone(defined: list[Any]) -> None:
    texts = pa.array(["0x1", "7", "8", "1e9", None, ""])
    assert convert_texts(texts.slice(1, 2), ColumnType.parse("int64")).to_pylist() == [7, 8]
    assert defined == []
    assert [hold_any(texts.slice(start, 2), b"xX") for start in range(5)] == [True, False, False, False, False]
    assert hold_any(texts.slice(0, 0), b"x") is hold_any(pa.array([None], pa.string()), b"x") is False
    assert hold_any(texts, [b"zz", b"1e"]) is True


def test_times_outside_the_years_1_to_9999_are_told_apart() -> None:
    days = pa.array([date.min, date.max, None], pa.date32())
    numbers = pa.array([-719_163, 2_932_897], pa.int32()).cast(pa.date32())
    assert beyond_calendar(days).to_pylist() == [False, False, None]
    assert beyond_calendar(numbers).to_pylist() == [True, True]
    for unit in ("s", "us"):
        moments = pa.array([datetime.min, datetime(9999, 12, 31, 23, 59, 59)], pa.timestamp(unit))
        assert beyond_calendar(moments).to_pylist() == [False, False]
    seconds = pa.array([-62_135_596_801, 253_402_300_800], pa.int64()).cast(pa.timestamp("s"))
    assert beyond_calendar(seconds).to_pylist() == [True, True]
