"""When a backlog is full, and the wait that a producer is told."""

import pytest

from app.domain.publication import MAX_WAIT_SECONDS, Amount, Backlog, BacklogLimit, Rate
from app.errors import Code, TemporarilyUnavailable


def wait_of(limit: BacklogLimit, backlog: Backlog) -> int | None:
    """Return the seconds of Retry-After; None if the producer may continue."""
    try:
        limit.check("t has", backlog)
    except TemporarilyUnavailable as error:
        assert error.code is Code.BACKLOG_FULL
        return error.retry_after
    return None


@pytest.mark.parametrize(
    ("limit", "backlog", "full"),
    [
        (BacklogLimit(), Backlog(Amount(2**60, 2**60), 1e9), False),
        (BacklogLimit(bytes=100), Backlog(Amount(99, 10**9), 1e9), False),
        (BacklogLimit(bytes=100), Backlog(Amount(100, 0)), True),
        (BacklogLimit(rows=5), Backlog(Amount(10**9, 4)), False),
        (BacklogLimit(rows=5), Backlog(Amount(0, 5)), True),
        (BacklogLimit(seconds=60), Backlog(Amount(1, 1), 59.9), False),
        (BacklogLimit(seconds=60), Backlog(Amount(1, 1), 60), True),
    ],
)
def test_a_backlog_is_full_once_one_of_its_limits_is_reached(limit: BacklogLimit, backlog: Backlog, full: bool) -> None:
    assert (wait_of(limit, backlog) is not None) == full


@pytest.mark.parametrize(
    ("pending", "rate", "wait"),
    [(100, 50, 1), (150, 50, 1), (200, 50, 2), (210, 50, 3), (100, 0, MAX_WAIT_SECONDS), (10**9, 1, MAX_WAIT_SECONDS)],
)
def test_the_wait_is_what_publishing_the_excess_takes_within_bounds(pending: int, rate: float, wait: int) -> None:
    assert wait_of(BacklogLimit(bytes=100), Backlog(Amount(pending, 0), 0.0, Rate(rate, 0))) == wait


def test_of_several_limits_the_longest_wait_counts_and_all_reasons_are_told() -> None:
    backlog = Backlog(Amount(300, 30), 10.0, Rate(100, 1))
    with pytest.raises(TemporarilyUnavailable) as raised:
        BacklogLimit(bytes=100, rows=10, seconds=5).check("table t has", backlog)
    assert raised.value.retry_after == 20
    assert raised.value.detail == "table t has 300 bytes and 30 rows and a batch of 10 s not yet published"


def test_the_rate_comes_near_what_is_published_and_forgets_when_nothing_is() -> None:
    rate = Rate()
    for _ in range(300):
        rate = rate.after(Amount(1_000, 10), 1.0)
    assert (rate.bytes, rate.rows) == (pytest.approx(1_000, rel=0.01), pytest.approx(10, rel=0.01))
    for _ in range(300):
        rate = rate.after(Amount(), 1.0)
    assert rate.bytes == pytest.approx(0, abs=1)


def test_readings_at_any_pace_give_the_same_rate() -> None:
    in_one, in_many = Rate().after(Amount(6_000, 60), 6.0), Rate()
    for _ in range(6):
        in_many = in_many.after(Amount(1_000, 10), 1.0)
    assert (in_many.bytes, in_many.rows) == (pytest.approx(in_one.bytes), pytest.approx(in_one.rows))


def test_amounts_are_added_and_subtracted_part_by_part() -> None:
    assert Amount(5, 7) + Amount(1, 2) == Amount(6, 9)
    assert Amount(5, 7) - Amount(1, 2) == Amount(4, 5)


def test_the_share_is_that_of_the_nearest_limit() -> None:
    backlog = Backlog(Amount(50, 30), 6.0)
    assert BacklogLimit(100, 100, 10.0).share(backlog) == 0.6
    assert BacklogLimit(bytes=100).share(backlog) == 0.5
    assert BacklogLimit(rows=60).share(backlog) == 0.5
    assert BacklogLimit().share(backlog) == 0.0


def test_after_the_memory_has_passed_the_new_rate_counts_for_most() -> None:
    rate = Rate().after(Amount(300, 30), 30.0)
    assert (round(rate.bytes, 2), round(rate.rows, 3)) == (6.32, 0.632)
