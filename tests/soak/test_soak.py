"""A minute of the soak run, so that its own parts work; growth shows only in hours."""

from pathlib import Path

import pytest

from tests.soak.__main__ import soak


@pytest.mark.thorough
@pytest.mark.spark
def test_under_steady_load_every_row_lands_and_is_mirrored(tmp_path: Path) -> None:
    outcome = soak(tmp_path / "gateway", seconds=40, rate=3, seed=7)
    assert outcome.rows > 2_000
    assert outcome.mirrored > 500
    assert 300 < outcome.chain_bytes / outcome.chain_blocks < 3_000
    assert {"API memory MB", "drain JVM memory MB", "database connections"} <= {one.name for one in outcome.growth}
