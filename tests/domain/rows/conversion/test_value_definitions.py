"""What each declared type takes, and what it rejects or clips beyond its range."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from app.domain.model.change import SourceValue
from app.domain.model.table_options import BinaryEncoding, OutOfRange, PartialUpdates, TableOptions
from app.domain.model.table_schema import ColumnType
from app.domain.rows.conversion import PLAIN, BadValues, ValueReading, convert, reading_of, scalar
from mirrorgate.errors import Code
from tests.support.rejections import rejected
from tests.support.samples.case_names import case_name

BASE64 = ValueReading(binary=BinaryEncoding.BASE64)
SATURATES = ValueReading(saturates=True)
BERLIN = ValueReading("Europe/Berlin")
BEYOND = "is outside the years 1 to 9999 in UTC; see the option out_of_range"
BEYOND_ANY_ZONE = "is outside the years 1 to 9999; see the option out_of_range"
TIMESTAMP_FORM = "is not a timestamp YYYY-MM-DD [HH:MM[:SS[.ffffff]]][Z|+HH:MM]"


@pytest.mark.parametrize(
    ("declared", "value", "reason"),
    [
        ("boolean", "yes", "is not true, false, 1 or 0"),
        ("int64", True, "is not a number"),
        ("int64", [], "is not a number"),
        ("int64", "1_0", "is not a decimal number"),
        ("int16", 2**15, "does not fit a 16-bit integer"),
        ("int32", -(2**31) - 1, "does not fit a 32-bit integer"),
        ("int64", Decimal("1e9999"), "does not fit a 64-bit integer"),
        ("int64", Decimal("-1e9999"), "does not fit a 64-bit integer"),
        ("int16", "0.5", "is not a whole number"),
        ("float64", "1e309", "is beyond the range of float64"),
        ("float32", "-3.5e38", "is beyond the range of float32"),
        ("float64", "1e-400", "is too close to zero for float64"),
        ("float64", "1e" + "9" * 30, "has an exponent that no type can have"),
        ("float64", "1e99999", "is beyond the range of float64"),
        ("int64", "1e99999", "does not fit a 64-bit integer"),
        ("int64", "-1E-99999", "is not a whole number"),
        ("decimal(5,2)", "1e99999", "has too many digits for decimal(5,2)"),
        ("float32", Decimal("1e-60"), "is too close to zero for float32"),
        ("decimal(5,2)", "0.001", "has more than 2 digits after the point"),
        ("decimal(5,2)", "1000", "has too many digits for decimal(5,2)"),
        ("decimal(38,10)", "1e30", "has too many digits for decimal(38,10)"),
        ("decimal(38,10)", "9" * 29, "has too many digits for decimal(38,10)"),
        ("date", 20240101, "is not a date YYYY-MM-DD"),
        ("date", "20240101", "is not a date YYYY-MM-DD"),
        ("date", "2023-02-29", "is not a day of the calendar"),
        ("timestamp", 1704067200, TIMESTAMP_FORM),
        ("timestamp", "infinity", BEYOND_ANY_ZONE),
        ("timestamp", "10000-01-01 00:00:00", BEYOND_ANY_ZONE),
        ("date", "-infinity", BEYOND_ANY_ZONE),
        ("timestamp", "now", TIMESTAMP_FORM),
        ("timestamp", "2024-01-01 00:00:00.1234567", "has more than six digits of a second"),
        ("timestamp", "2024-01-01 24:00", "is not a moment of the calendar"),
        ("timestamp", "2024-01-01 00:00+24:00", "has an offset that is not between -23:59 and +23:59"),
        ("timestamp", "2024-01-01 00:00-0160", "has an offset that is not between -23:59 and +23:59"),
        ("timestamp", "9999-12-31 23:59-00:01", BEYOND),
        ("binary", "0", "is not an even number of hexadecimal digits"),
        ("binary", 7, "is not an even number of hexadecimal digits"),
        ("json", "{", "is not JSON text"),
        ("json", "\ud800", "is not JSON text"),
        ("json", "[" * 100_000, "is JSON nested too deeply"),
    ],
    ids=case_name,
)
def test_a_value_that_does_not_fit_is_told_why(declared: str, value: SourceValue, reason: str) -> None:
    with pytest.raises(ValueError) as error:
        scalar(value, ColumnType.parse(declared))
    assert str(error.value) == reason


def test_bytes_and_their_reason_depend_on_how_the_column_is_read() -> None:
    assert scalar("AAH/", ColumnType.parse("binary"), BASE64) == b"\x00\x01\xff"
    assert scalar("\\xAAFF", ColumnType.parse("binary"), BASE64) == b"\xaa\xff"
    for value in ("AA=", "AA==\n", "\\xAA=", "é", 7):
        with pytest.raises(ValueError, match=r"^is not base64 text$"):
            scalar(value, ColumnType.parse("binary"), BASE64)
    with pytest.raises(ValueError, match=r"^does not exist: the clocks of source_timezone skip it$"):
        scalar("2024-03-31 02:30", ColumnType.parse("timestamp"), BERLIN)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("-infinity", True),
        ("-INFINITY", True),
        ("0000-00-00", True),
        ("0000-00-00 00:00:00", True),
        ("-4713-11-24", True),
        ("-4713-11-24 12:00:00+00", True),
        ("infinity", False),
        ("+Infinity", False),
        ("10000-01-01", False),
        ("294276-12-31 23:59:59.999999+00", False),
        ("5874897-12-31", False),
        ("1000000-01-01", False),
        ("+12000-01-01T00:00:00.000000Z", False),
        ("+12000-01-01", False),
        ("+294247-01-10T04:00:25.2Z", False),
        ("+999999999-12-31T23:59:59.999999999Z", False),
        ("-0043-03-15T12:00:00.000000Z", True),
        ("-0044-03-15T00:00:00Z", True),
        ("-290308-12-21T19:59:27.6Z", True),
        ("0044-03-15 BC", True),
        ("0044-03-15 12:00:00+00:53:28 BC", True),
        ("10000-01-01 BC", True),
    ],
)
def test_what_databases_write_beyond_the_calendar_saturates_only_if_the_options_say_so(text: str, first: bool) -> None:
    day, moment = ColumnType.parse("date"), ColumnType.parse("timestamp")
    assert scalar(text, day, SATURATES) == (date.min if first else date.max)
    assert scalar(text, moment, SATURATES) == (datetime.min if first else datetime.max).replace(tzinfo=UTC)
    for declared in (day, moment):
        with pytest.raises(ValueError, match=r"^is (not a|outside)"):
            scalar(text, declared)


@pytest.mark.parametrize(
    "text",
    [
        *("infinityx", "x-infinity", "0000-00-001", "10000-1-1", "100000101", "10000-13-01", "-0044-03-32"),
        *("+2026-01-05", "10000-01-01 noon", "2026-01-05 BCE", "BC", "+12000-01-01T00:00:00Z+01:00"),
    ],
)
def test_other_texts_never_saturate(text: str) -> None:
    for declared in ("date", "timestamp"):
        for value in (text, 20240101):
            with pytest.raises(ValueError, match=r"^is not a"):
                scalar(value, ColumnType.parse(declared), SATURATES)


def test_a_moment_that_its_offset_moves_out_of_the_calendar_saturates_at_that_end() -> None:
    declared = ColumnType.parse("timestamp")
    assert scalar("0001-01-01 00:00+00:01", declared, SATURATES) == datetime.min.replace(tzinfo=UTC)
    assert scalar("9999-12-31 23:59-00:01", declared, SATURATES) == datetime.max.replace(tzinfo=UTC)
    assert scalar("0001-01-01 00:01+00:01", declared) == datetime.min.replace(tzinfo=UTC)


def test_a_local_time_is_one_of_the_zone_and_the_earlier_one_where_it_is_repeated() -> None:
    declared = ColumnType.parse("timestamp")
    assert scalar("2024-07-01 12:00", declared, BERLIN) == datetime(2024, 7, 1, 10, tzinfo=UTC)
    assert scalar("2024-07-01 12:00Z", declared, BERLIN) == datetime(2024, 7, 1, 12, tzinfo=UTC)
    assert scalar("2024-10-27 02:30", declared, BERLIN) == datetime(2024, 10, 27, 0, 30, tzinfo=UTC)


@pytest.mark.usefixtures("in_tokyo")
def test_the_time_zone_of_the_machine_changes_no_timestamp() -> None:
    found = scalar("9999-12-31 23:59", ColumnType.parse("timestamp"))
    assert repr(found) == repr(datetime(9999, 12, 31, 23, 59, tzinfo=UTC))


def test_null_fits_every_type() -> None:
    assert [scalar(None, ColumnType.parse(declared)) for declared in ("boolean", "int16", "json")] == [None] * 3


def test_a_column_is_read_as_the_options_of_its_table_say() -> None:
    assert reading_of("c", TableOptions()) == PLAIN == ValueReading("UTC", BinaryEncoding.HEX, saturates=False)
    options = TableOptions(source_timezone="Europe/Berlin", out_of_range=OutOfRange.SATURATE)
    assert reading_of("c", options) == ValueReading("Europe/Berlin", BinaryEncoding.HEX, saturates=True)
    assert str(reading_of("c", options).zone_info) == "Europe/Berlin"
    encoded = TableOptions.parse({"columns": {"b": {"encoding": "base64"}}})
    assert [reading_of(name, encoded) for name in "bc"] == [BASE64, PLAIN]


FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
SENTINELS = [
    ("timestamp", "9999-12-31 23:59:59", "America/New_York", LAST),
    ("timestamp", "9999-12-31 23:59:59-05:00", "UTC", LAST),
    ("timestamp", "0001-01-01 00:00:00", "Europe/Berlin", FIRST),
    ("timestamp", "infinity", "UTC", LAST),
    ("timestamp", "-Infinity", "UTC", FIRST),
    ("timestamp", "0000-00-00 00:00:00", "UTC", FIRST),
    ("timestamp", "294276-12-31 23:59:59", "UTC", LAST),
    ("date", "infinity", "UTC", date.max),
    ("date", "-infinity", "UTC", date.min),
    ("date", "0000-00-00", "UTC", date.min),
    ("date", "10000-01-01", "UTC", date.max),
]


@pytest.mark.parametrize(("declared", "text", "zone", "landed"), SENTINELS)
def test_a_moment_beyond_the_calendar_is_rejected_or_lands_as_the_first_or_last_one(
    declared: str, text: str, zone: str, landed: date
) -> None:
    column_type = ColumnType.parse(declared)
    for ordinary in ([], ["2026-01-05"]):
        with pytest.raises(BadValues):
            convert([*ordinary, text], column_type, reading_of("c", TableOptions(source_timezone=zone)))
        saturating = TableOptions(source_timezone=zone, out_of_range=OutOfRange.SATURATE)
        assert convert([*ordinary, text], column_type, reading_of("c", saturating)).to_pylist()[-1] == landed


@pytest.mark.parametrize(
    ("declared", "text", "landed"),
    [
        ("date", "2026-01-05 00:00:00", date(2026, 1, 5)),
        ("date", "2026-01-05T00:00:00.000", date(2026, 1, 5)),
        ("date", "2026-01-05T00:00:00Z", date(2026, 1, 5)),
        ("date", "2026-01-05 00:00:00.000000+00:00", date(2026, 1, 5)),
        ("timestamp", "1890-01-01 12:00:00+00:53:28", datetime(1890, 1, 1, 11, 6, 32, tzinfo=UTC)),
        ("timestamp", "1890-01-01T12:00:00-005328", datetime(1890, 1, 1, 12, 53, 28, tzinfo=UTC)),
        ("timestamp", "2026-01-05 02:00:00 +02:00", datetime(2026, 1, 5, tzinfo=UTC)),
        ("timestamp", "2026-01-05 00:00:00 Z", datetime(2026, 1, 5, tzinfo=UTC)),
    ],
)
def test_forms_that_lose_nothing_are_taken(declared: str, text: str, landed: date) -> None:
    assert convert([text, None], ColumnType.parse(declared)).to_pylist() == [landed, None]


@pytest.mark.parametrize(
    "text",
    [
        *("2026-01-05 00:00:01", "2026-01-05 12:00:00", "2026-01-05 00:00:00.1", "2026-01-05 ", "2026-01-05Z"),
        *("2026-01-05T00:00:00+02:00", "2026-01-05 00:00:00-00:30", "2026-01-05T12:00:00Z"),
    ],
)
def test_a_date_with_a_time_is_rejected(text: str) -> None:
    with pytest.raises(BadValues):
        convert([text], ColumnType.parse("date"))


def test_values_that_images_keep_stay_readable() -> None:
    keeping = TableOptions(partial_updates=PartialUpdates.COMPLETE, out_of_range=OutOfRange.SATURATE)
    with rejected() as rejection:
        TableOptions(partial_updates=PartialUpdates.COMPLETE).check_change(keeping)
    assert [(code, pointer) for code, _, pointer, _ in rejection.places] == [(Code.BAD_OPTION, "/options/out_of_range")]
    keeping.check_change(TableOptions(partial_updates=PartialUpdates.COMPLETE))
