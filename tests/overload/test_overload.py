"""A short run of `python -m tests.overload`."""

import pytest
import sqlalchemy as sa

from tests.overload.run import EXPECTED, overload


@pytest.mark.thorough
def test_under_ten_times_the_load_nothing_accepted_is_lost_and_memory_stays_within_its_bound(
    database_url: str, engine: sa.Engine
) -> None:
    outcome = overload(database_url, engine, seconds=3)
    assert outcome.violations == []
    assert outcome.answers.keys() >= {*EXPECTED}
    assert outcome.accepted["healthy"] > 0
    assert all(outcome.waits.values())
    assert outcome.peak_bytes < outcome.most_bytes
