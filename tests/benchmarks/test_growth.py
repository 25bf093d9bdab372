"""The exponent that fits a series, and growth files."""

from pathlib import Path

import pytest

from benchmarks.reports.figure import BenchmarkFailed
from benchmarks.reports.growth_results import exponent, read_growth, write_growth
from tests.benchmarks.results_samples import growth


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
