"""The verdict of a soak run: a measure is flat if its late level is near its early one."""

import pytest

from tests.soak.growth import Allowance, growth_of
from tests.soak.measures import ALLOWED


def test_what_fills_in_the_first_quarter_and_then_stays_is_flat() -> None:
    values = [10, 50, 90, 100, *[100, 101] * 6]
    (growth,) = growth_of([{"API memory MB": value} for value in values], {"MB": Allowance(1)})
    assert growth.is_flat
    assert growth.peak == 101


def test_a_slow_leak_is_not_flat() -> None:
    samples = [{"API memory MB": 100.0 + step, "API threads": 4.0} for step in range(40)]
    grown = {
        growth.name: growth.is_flat for growth in growth_of(samples, {"MB": Allowance(1), "threads": Allowance(0)})
    }
    assert grown == {"API memory MB": False, "API threads": True}


def test_a_part_that_starts_late_has_grown() -> None:
    samples: list[dict[str, float]] = [{} for _ in range(20)] + [{"drain memory MB": 300.0} for _ in range(20)]
    (growth,) = growth_of(samples, {"MB": Allowance(24)})
    assert not growth.is_flat


def test_too_few_samples_are_no_verdict() -> None:
    with pytest.raises(ValueError, match="7 samples are too few"):
        growth_of([{"API threads": 4.0}] * 7, {"threads": Allowance(0)})


@pytest.mark.parametrize(
    ("levels", "is_flat"),
    [
        ((185, 222, 240, 293), False),
        ((288, 288, 296, 305), False),
        ((40, 60, 66, 70), True),
        ((290, 300, 288, 294), True),
    ],
)
def test_threads_that_become_more_and_more_are_growth_however_many_there_are(
    levels: tuple[int, ...], is_flat: bool
) -> None:
    samples = [{"mirror workers threads": float(level)} for level in levels for _ in range(20)]
    (growth,) = growth_of(samples, ALLOWED)
    assert growth.is_flat is is_flat
