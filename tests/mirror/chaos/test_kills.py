"""A mirror that is killed anywhere neither repeats nor skips a file."""

from pathlib import Path

import pytest

from tests.mirror.chaos.killed_mirror import kill_and_check


def versions_after(place: Path, seed: int, kills: int) -> int:
    checked = kill_and_check(place, seed, kills)
    return sum(generation.versions for generations in checked.values() for generation in generations)


@pytest.mark.timeout(600)
def test_a_killed_mirror_neither_repeats_nor_skips_a_file(tmp_path: Path) -> None:
    assert versions_after(tmp_path, seed=1, kills=30) >= 30


@pytest.mark.thorough
@pytest.mark.timeout(3_600)
def test_300_kills_neither_repeat_nor_skip_a_file(tmp_path: Path) -> None:
    assert versions_after(tmp_path, seed=2, kills=300) >= 300
