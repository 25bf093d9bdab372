"""Usual values are typed by Arrow kernels alone; the definition, which takes them one by one, is far slower."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from app.domain.model.change import SourceValue
from app.domain.model.table_schema import ColumnType
from app.domain.rows import conversion
from app.domain.rows.conversion import PLAIN, BadValues, ValueReading, beyond_calendar, convert, convert_texts, hold_any

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
