"""A mirror that is killed anywhere neither repeats nor skips a file."""

import re
from pathlib import Path

import pytest

from tests.mirror.chaos.killed_mirror import kill_and_check


@pytest.mark.timeout(600)
def test_a_killed_mirror_neither_repeats_nor_skips_a_file(tmp_path: Path) -> None:
    assert re.search(r"versions=\d+", kill_and_check(tmp_path, seed=1, kills=30))


@pytest.mark.thorough
@pytest.mark.timeout(3_600)
def test_300_kills_neither_repeat_nor_skip_a_file(tmp_path: Path) -> None:
    assert re.search(r"versions=\d+", kill_and_check(tmp_path, seed=2, kills=300))


@pytest.mark.timeout(600)
def test_two_mirrors_without_a_lock_apply_each_file_once(tmp_path: Path) -> None:
    assert re.search(r"versions=\d+", kill_and_check(tmp_path, seed=3, kills=5, mirrors=2))
