"""Dates and timestamps outside the years 1 to 9999, and other values with a lossless form."""

from datetime import UTC, date, datetime

import pytest

from app.domain.model.table_options import OutOfRange, PartialUpdates, TableOptions
from app.domain.model.table_schema import ColumnType
from app.domain.rows.conversion import BadValues, convert, reading_of
from app.errors import Code
from tests.support.rejections import rejected

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


@pytest.mark.parametrize(("declared", "text"), [("date", "infinite"), ("timestamp", "2026-13-01"), ("date", "x")])
def test_what_is_no_moment_at_all_is_rejected_whatever_the_option_says(declared: str, text: str) -> None:
    with pytest.raises(BadValues):
        convert([text], ColumnType.parse(declared), reading_of("c", TableOptions(out_of_range=OutOfRange.SATURATE)))


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
