"""Rebuilds whose drain dies at every step: the rows that land are those of the source, each once."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.chaos.rebuilding import rebuild_history


@pytest.mark.parametrize("kills", [4, pytest.param(100, marks=[pytest.mark.thorough, pytest.mark.timeout(1_800)])])
def test_rows_land_once_whatever_dies_while_a_table_is_rebuilt(
    engine: sa.Engine, database_url: str, tmp_path: Path, kills: int
) -> None:
    with rebuild_history(engine, database_url, tmp_path / "zone", seed=kills) as history:
        history.run(kills)
        assert history.kills == kills
        assert history.table.generation > kills
