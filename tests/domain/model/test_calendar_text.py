"""Counts since 1970 as texts: what `datetime` writes within its years, and what databases mean beyond them."""

from datetime import date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.model.written_values import date_text, timestamp_text

UNITS = {3: 1_000, 6: 1_000_000, 9: 1_000_000_000}


@given(st.dates())
def test_a_day_of_the_calendar_is_written_as_datetime_writes_it(day: date) -> None:
    assert date_text((day - date(1970, 1, 1)).days) == day.isoformat()


@given(st.datetimes(), st.sampled_from([*UNITS]))
def test_a_moment_of_the_calendar_is_written_as_datetime_writes_it(moment: datetime, digits: int) -> None:
    moment = moment.replace(microsecond=moment.microsecond // 10 ** max(0, 6 - digits) * 10 ** max(0, 6 - digits))
    count = (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1) * UNITS[digits] // 1_000_000
    text = timestamp_text(count, UNITS[digits])
    assert datetime.fromisoformat(text) == moment
    assert text.partition(".")[2] in ("", f"{moment.microsecond:06}000"[:digits])


@given(st.dates(), st.integers(-10_000, 10_000))
def test_a_day_of_another_cycle_of_400_years_has_another_year_alone(day: date, cycles: int) -> None:
    year, rest = date_text((day - date(1970, 1, 1)).days + cycles * 146_097)[:-6], f"-{day.month:02}-{day.day:02}"
    assert date_text((day - date(1970, 1, 1)).days + cycles * 146_097).endswith(rest)
    assert int(year) == day.year + cycles * 400


@pytest.mark.parametrize(
    ("days", "text"),
    [
        (2_932_896, "9999-12-31"),
        (2_932_897, "+10000-01-01"),
        (3_663_382, "+12000-01-01"),
        (2_145_042_905, "+5874897-12-31"),
        (-719_162, "0001-01-01"),
        (-719_163, "0000-12-31"),
        (-735_160, "-0043-03-15"),
        (-2_440_550, "-4712-01-01"),
        (-2_147_472_692, "infinity"),
        (-2_147_472_691, "-infinity"),
        (-622_191_234, "infinity"),
        (-625_821_272, "-infinity"),
    ],
)
def test_days_beyond_the_calendar_are_written_as_iso_8601_and_those_of_infinity_as_such(days: int, text: str) -> None:
    assert date_text(days) == text


@pytest.mark.parametrize(
    ("count", "digits", "text"),
    [
        (253_402_300_799_999_999, 6, "9999-12-31 23:59:59.999999"),
        (253_402_300_800_000_000, 6, "+10000-01-01 00:00:00"),
        (316_516_204_800_001, 3, "+12000-01-01 00:00:00.001"),
        (-63_517_824_000_000_000, 6, "-0043-03-15 00:00:00"),
        (-62_135_596_800_001, 3, "0000-12-31 23:59:59.999"),
        (9_223_372_036_825_200, 3, "infinity"),
        (-9_223_372_036_832_400, 3, "-infinity"),
        (9_223_372_036_825_200_000, 6, "infinity"),
        (-9_223_372_036_832_400_000, 6, "-infinity"),
        (2**63 - 1, 6, "infinity"),
        (2**63 - 1, 9, "infinity"),
        (9_223_372_036_825_200_000, 9, "2262-04-11 23:47:16.825200000"),
        (-(2**63), 9, "-infinity"),
        (2**63 - 808, 9, "2262-04-11 23:47:16.854775000"),
    ],
)
def test_moments_beyond_the_calendar_are_written_as_iso_8601_and_those_of_infinity_as_such(
    count: int, digits: int, text: str
) -> None:
    assert timestamp_text(count, UNITS[digits]) == text
