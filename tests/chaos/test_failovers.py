"""Failovers to a real standby from fixed seeds: no number is published twice, and what the standby has lands once."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.chaos.faults.failovers import run_failover
from tests.chaos.history import Result


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
    result = Result()
    with capture_logs() as logs:
        run_failover(tmp_path / "history", 7, result, synchronous=synchronous, keeps_last=keeps_last)
    assert result.violation is None
    assert any(line["event"] == "database_run_changed" for line in logs)
    assert (result.events["failed over: ledger_behind_zone"] > 0) == (not synchronous)
