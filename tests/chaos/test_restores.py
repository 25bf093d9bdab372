"""Restores of older databases from fixed seeds: no file number is published twice."""

from collections import Counter
from pathlib import Path

import pytest

from tests.chaos.faults.restores import RestoredHistory


@pytest.mark.parametrize("seed", [1, 2])
def test_after_a_restore_no_number_is_published_twice_whatever_mirroring_consumed(
    database_url: str, tmp_path: Path, seed: int
) -> None:
    history = RestoredHistory(database_url, tmp_path, seed)
    history.run()
    assert history.outcomes.total() == 4
    assert history.outcomes <= Counter({"goes on": 4, "ledger_behind_zone": 4})
