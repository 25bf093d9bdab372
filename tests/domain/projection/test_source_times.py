"""Times of changes are read however the source writes them, and what is not a time is NULL."""

from datetime import UTC, datetime
from typing import Any

import pytest

from app.domain.rows.projection.row_facts import source_times

MOMENT = datetime(2026, 1, 5, 8, 0, 0, 250_000, UTC)


@pytest.mark.parametrize(
    "written",
    [
        [1_767_600_000_250, 1_767_600_000_250_000, 1_767_600_000_250_000_000],
        ["2026-01-05T08:00:00.25", "2026-01-05 09:00:00.250+01:00", "2026-01-05T08:00:00.2500009Z"],
        ["1767600000250", 1_767_600_000_250],
        ["1767600000250000000", 1_767_600_000_250_000_000, "2026-01-05T08:00:00.25"],
    ],
)
def test_texts_and_numbers_of_any_unit_are_the_same_moment(written: list[Any]) -> None:
    assert source_times(written).to_pylist() == [MOMENT] * len(written)


def test_a_number_of_seconds_is_a_moment_too() -> None:
    assert source_times([1_767_600_000]).to_pylist() == [MOMENT.replace(microsecond=0)]


def test_a_moment_before_1970_is_one_beside_texts_too() -> None:
    before = datetime(1938, 4, 24, 22, 13, 20, tzinfo=UTC)
    written = [-1_000_000_000, "-1000000000000", "-1000000000000000000", "1938-04-24T22:13:20"]
    assert source_times(written).to_pylist() == [before] * len(written)


def test_what_is_no_time_is_null_and_hides_no_other() -> None:
    written = [None, "", 0, "yesterday", "2026-13-05T00:00:00", "9" * 30, 10**30, "2026-01-05T08:00:00.25"]
    assert source_times(written).to_pylist() == [*[None] * 7, MOMENT]
    assert source_times([]).to_pylist() == []
