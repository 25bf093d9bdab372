"""The arithmetic of figures: medians, ratios run by run, goals."""

from pathlib import Path

import pytest

from benchmarks.bench import Bench
from benchmarks.loads.driver import percentile
from benchmarks.reports.figure import Figure, Goal, Measured, Of, readable
from tests.benchmarks.results_samples import figure


def test_a_quantity_is_its_median_with_its_lowest_and_highest_run() -> None:
    measured = Measured.of([3.0, 1.0, 2.0])
    assert (measured.median, measured.low, measured.high) == (2.0, 1.0, 3.0)


def test_a_quantity_without_a_run_is_rejected() -> None:
    with pytest.raises(ValueError, match="at least one run"):
        Measured.of([])


def test_a_ratio_is_taken_run_by_run() -> None:
    """In the second run, the machine is half as fast for both."""
    assert figure(value=(50, 25), limit=(100, 50)).ratio == Measured.of([0.5, 0.5])


def test_a_figure_whose_limit_has_another_number_of_runs_has_no_ratio() -> None:
    with pytest.raises(ValueError, match="zip"):
        _ = figure(value=(50, 25), limit=(100,)).ratio


@pytest.mark.parametrize(
    ("goal", "reached"),
    [
        (Goal(0.6, at_least=True), True),
        (Goal(0.61, at_least=True), False),
        (Goal(0.6, at_least=False), True),
        (Goal(0.59, at_least=False), False),
        (Goal(60, at_least=True, of=Of.VALUE), True),
        (Goal(59, at_least=False, of=Of.VALUE), False),
        (None, None),
    ],
)
def test_a_goal_bounds_the_median_ratio_or_the_median_value(goal: Goal | None, reached: bool | None) -> None:
    assert figure(value=(50, 60, 100), limit=(100, 100, 100), goal=goal).reached is reached


def test_a_count_has_a_goal_and_no_limit() -> None:
    count = Figure("f", "Functions", "functions", Measured.of([71]), goal=Goal(70, at_least=False, of=Of.VALUE))
    assert (count.ratio, count.reached, str(count.goal)) == (None, False, "value ≤ 70")


def test_a_ratio_without_a_limit_reaches_no_goal() -> None:
    with pytest.raises(ValueError, match="no limit"):
        _ = Figure("f", "Functions", "functions", Measured.of([71]), goal=Goal(0.5, at_least=True)).reached


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [((1, 2), (3, 4), True), ((3, 4), (1, 2), True), ((1, 3), (2, 4), False), ((1, 2), (2, 3), False)],
)
def test_quantities_are_disjoint_when_their_runs_do_not_overlap(
    one: tuple[float, ...], other: tuple[float, ...], apart: bool
) -> None:
    assert Measured.of(one).is_disjoint_from(Measured.of(other)) is apart


@pytest.mark.parametrize(("share", "expected"), [(0.0, 1.0), (0.5, 2.0), (0.51, 3.0), (0.99, 4.0), (1.0, 4.0)])
def test_a_percentile_is_one_of_the_values(share: float, expected: float) -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], share) == expected


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.1234, "0.1"),
        (56.78, "56.8"),
        (22, "22"),
        (1_234, "1,234"),
        (45_678, "45,700"),
        (234_567, "235,000"),
        (2.5e6, "2,500,000"),
    ],
)
def test_values_are_shown_in_one_notation(number: float, text: str) -> None:
    assert readable(number) == text


@pytest.mark.parametrize(("scale", "size"), [(0.1, 15_000), (0.8, 24_000), (1, 30_000), (3, 30_000)])
def test_a_backlog_grows_with_the_scale_within_its_limits(tmp_path: Path, scale: float, size: int) -> None:
    bench = Bench(1, 1, scale, tmp_path, print)
    assert bench.scaled(30_000, least=15_000, most=30_000) == size
