"""Programs of two versions beside each other, from a fixed seed."""

from pathlib import Path

import pytest

from tests.chaos.mixed_versions import run_mixed_versions


@pytest.mark.thorough
def test_programs_of_two_versions_serve_one_database_without_loss(tmp_path: Path) -> None:
    result = run_mixed_versions(tmp_path / "history", seed=7, seconds=0)
    assert result.violation is None
    assert result.events["looks"] >= 4
    assert result.events["repeated at the other version"] >= 1
