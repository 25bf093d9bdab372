"""Resources for a rate of changes, calculated from the costs of one change."""

import msgspec
import pytest

from benchmarks.reports.figure import BenchmarkFailed
from benchmarks.reports.sizing import BUSY, RATES, Sizing, find_costs, sizing_tables
from tests.benchmarks.results_samples import costs, figure, results


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
