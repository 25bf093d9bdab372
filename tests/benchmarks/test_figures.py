"""The arithmetic of figures, growth and sizing: medians, ratios run by run, goals, exponents, resources."""

from pathlib import Path

import msgspec
import pytest

from benchmarks.bench import Bench
from benchmarks.loads.driver import percentile
from benchmarks.reports.figure import BenchmarkFailed, Figure, Goal, Measured, Of, readable
from benchmarks.reports.growth_results import exponent, read_growth, write_growth
from benchmarks.reports.sizing import BUSY, RATES, Sizing, find_costs, sizing_tables
from tests.benchmarks.results_samples import costs, figure, growth, results


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


@pytest.mark.parametrize("power", [-0.5, 0.0, 1.0, 2.0])
def test_the_exponent_of_a_power_of_the_size_is_found(power: float) -> None:
    assert exponent([(size, 7 * size**power) for size in (1, 10, 100, 1_000)]) == pytest.approx(power, abs=1e-9)


def test_growth_is_read_as_written(tmp_path: Path) -> None:
    write_growth(tmp_path / "growth.json", growth())
    assert read_growth(tmp_path / "growth.json") == growth()


def test_a_file_without_growth_is_rejected_by_name(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(BenchmarkFailed, match=r"other\.json holds no growth"):
        read_growth(tmp_path / "other.json")


def test_cores_include_the_reserve() -> None:
    sizing = Sizing(costs(), 700_000)
    assert BUSY == 0.7
    assert sizing.drain_cores == 4
    assert sizing.postgres_cores == 3, "2.5 rounded up"


def test_the_processor_time_of_a_change_is_that_of_all_parts() -> None:
    assert costs().processors == 16.5


def test_the_tables_have_costs_sizes_and_the_figures_that_were_measured() -> None:
    assert RATES == (1_000, 5_000, 20_000, 100_000)
    measured = msgspec.structs.replace(figure("costs"), costs=costs())
    run = results(measured, figure("bulk", value=(100_000,), limit=(1,)), figure("freshness"))
    text = sizing_tables(run, [run])
    assert "| API, processor time | 10.0 µs |" in text
    assert "| changes per second | 1,000 | 5,000 | 20,000 | 100,000 |" in text
    assert "| API processes, requests of 1,000 changes | 1 | 1 | 1 | 2 |" in text
    assert "| network into the API, uncompressed | 8 Mbit/s | 40 Mbit/s | 160 Mbit/s | 800 Mbit/s |" in text
    assert "| log of Postgres | 100 kB/s | 500 kB/s | 2 MB/s | 10 MB/s |" in text
    assert "| landed in a day | 1.73 GB | 8.64 GB | 34.6 GB | 173 GB |" in text
    assert "| outage of drains until 429 (128 GiB of backlog) | 20 days | 4 days | 24 hours | 5 hours |" in text
    assert "One table accepts at most 500,000 changes/s and publishes at most 2,000,000 rows/s." in text
    assert "Title of freshness: 60 changes/s" in text
    assert "requests of 10 changes |" not in text, "was not measured"


def test_results_without_costs_are_rejected() -> None:
    with pytest.raises(BenchmarkFailed, match="costs"):
        find_costs(results(figure()))
