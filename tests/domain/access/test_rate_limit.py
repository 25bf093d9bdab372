"""Token buckets: at most the rate on average, and at most the quota in a burst."""

import random

import pytest

from app.domain.access.api_key import NO_LIMITS, RateLimits, TokenBucket


@pytest.mark.parametrize(("rate", "quota", "window"), [(50, 50, 1), (1, 1, 1), (0.1, 1, 10), (2.5, 2, 1), (0.4, 1, 3)])
def test_the_quota_is_what_one_window_brings_and_one_at_least(rate: float, quota: int, window: int) -> None:
    bucket = TokenBucket(rate, 0.0)
    assert (bucket.quota, bucket.window) == (quota, window)


@pytest.mark.parametrize("rate", [0.3, 1.0, 7.0, 250.0])
def test_a_bucket_allows_its_rate_on_average_and_its_quota_at_once(rate: float) -> None:
    source, now, spent = random.Random(1), 0.0, 0
    bucket = TokenBucket(rate, now)
    for _ in range(5_000):
        now += source.expovariate(3 * rate)
        if bucket.seconds_to_wait(now) == 0:
            bucket.spend(1)
            spent += 1
        assert spent <= bucket.quota + now * rate + 1e-6
    assert spent >= 0.7 * now * rate


def test_a_caller_that_waits_as_told_is_accepted() -> None:
    source, now = random.Random(2), 0.0
    bucket = TokenBucket(3.0, now)
    for _ in range(100):
        bucket.spend(source.randrange(1, 20))
        now += bucket.seconds_to_wait(now) + 1e-9
        assert bucket.seconds_to_wait(now) == 0


def test_more_than_the_quota_may_be_spent_at_once_and_is_waited_for_afterwards() -> None:
    bucket = TokenBucket(100.0, 0.0)
    assert bucket.seconds_to_wait(0.0) == 0
    bucket.spend(1_000)
    assert (bucket.left, bucket.seconds_to_full) == (0, 10)
    assert bucket.seconds_to_wait(0.0) == pytest.approx(9.01)
    assert bucket.seconds_to_wait(9.02) == 0


def test_a_clock_that_does_not_move_refills_nothing() -> None:
    bucket = TokenBucket(1.0, 5.0)
    bucket.spend(1)
    assert bucket.seconds_to_wait(5.0) == bucket.seconds_to_wait(5.0) == 1


def test_limits_of_a_key_go_before_the_defaults() -> None:
    defaults = RateLimits(10.0, 1_000.0)
    assert NO_LIMITS.or_else(defaults) == defaults
    assert RateLimits(bytes_per_second=5.0).or_else(defaults) == RateLimits(10.0, 5.0)
    assert RateLimits(1.0, 2.0).or_else(defaults) == RateLimits(1.0, 2.0)
