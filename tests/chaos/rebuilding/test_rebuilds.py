"""Rebuilds whose drains are killed at every step: the rows that land are those of the source, each once."""

from pathlib import Path

import pytest

from tests.chaos.rebuilding.drain_process import POINTS
from tests.chaos.rebuilding.history import Cause, rebuild_history


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
