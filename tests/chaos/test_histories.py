"""A short history of each kind from fixed seeds: whatever dies or fails, everything acknowledged lands once."""

import time
from collections import Counter
from pathlib import Path

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from spark_jobs.scheduling import RetrySchedule
from tests.chaos.checks.oracle import Result
from tests.chaos.faults.failovers import run_failover
from tests.chaos.faults.restores import RestoredHistory
from tests.chaos.mixed_versions import run_mixed_versions
from tests.chaos.parts.light_drain import MAX_BACKOFF, short_pauses
from tests.chaos.rebuilding.drain_process import POINTS
from tests.chaos.rebuilding.history import Cause, rebuild_history
from tests.chaos.simulation import simulation


def test_whatever_dies_or_fails_everything_acknowledged_lands_once_and_in_order(
    engine: sa.Engine, database_url: str, tmp_path: Path
) -> None:
    """Drains die and pause everywhere and storage fails, in one process without Spark."""
    with simulation(engine, database_url, tmp_path, seed=4) as history:
        history.run(steps=150)
        events = history.drains.events
        assert history.oracle.rows_checked > 400
        assert sum(count for event, count in events.items() if event.startswith("killed")) > 10
        assert sum(count for event, count in events.items() if event.startswith("storage")) > 10
        assert sum(count for event, count in events.items() if event.startswith("unforeseen")) > 5
        assert events["clock set back"] > 2
        assert events["zone lost"] > 4


def test_a_drain_of_a_history_soon_tries_a_failed_table_again() -> None:
    with short_pauses():
        schedule = RetrySchedule[str]()
        for _ in range(9):
            schedule.back_off("t")
        assert schedule.postponed(time.monotonic())
        assert not schedule.postponed(time.monotonic() + MAX_BACKOFF)


@pytest.mark.parametrize("kills", [4, pytest.param(100, marks=[pytest.mark.thorough, pytest.mark.timeout(1_800)])])
def test_rows_land_once_whatever_is_killed_while_a_table_is_rebuilt(
    database_url: str, tmp_path: Path, kills: int
) -> None:
    with rebuild_history(database_url, tmp_path, seed=kills) as history:
        history.run(kills)
    assert history.kills.total() >= kills
    if kills >= len(POINTS):
        assert history.kills.keys() == set(Cause)
        assert history.killed_at.keys() == set(POINTS)


@pytest.mark.parametrize("seed", [1, 2])
def test_after_a_restore_no_number_is_published_twice_whatever_mirroring_consumed(
    database_url: str, tmp_path: Path, seed: int
) -> None:
    history = RestoredHistory(database_url, tmp_path, seed)
    history.run()
    assert history.outcomes.total() == 4
    assert history.outcomes <= Counter({"goes on": 4, "ledger_behind_zone": 4})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("synchronous", "keeps_last"),
    [
        pytest.param(False, False, id="async_all"),
        pytest.param(False, True, id="async_keep_last", marks=pytest.mark.thorough),
        pytest.param(True, True, id="sync_keep_last", marks=pytest.mark.thorough),
    ],
)
def test_after_a_failover_no_number_is_published_twice_and_each_lost_file_stops_its_table(
    tmp_path: Path, *, synchronous: bool, keeps_last: bool
) -> None:
    """What the standby has lands once."""
    result = Result()
    with capture_logs():
        run_failover(tmp_path / "history", 7, result, synchronous=synchronous, keeps_last=keeps_last)
    assert result.violation is None
    assert (result.events["failed over: ledger_behind_zone"] > 0) == (not synchronous)


@pytest.mark.thorough
def test_programs_of_two_versions_serve_one_database_without_loss(tmp_path: Path) -> None:
    result = run_mixed_versions(tmp_path / "history", seed=7, seconds=0)
    assert result.violation is None
    assert result.events["looks"] >= 4
    assert result.events["repeated at the other version"] >= 1
