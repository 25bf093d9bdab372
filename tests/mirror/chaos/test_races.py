"""Two mirrors that do the same work at the same moment, with no lock: the Delta log takes each file once."""

import random
from pathlib import Path

import pytest

from app.domain.mirror_report import MirrorState
from app.mirror.table_mirror import MirrorLimits
from tests.mirror.chaos.killed_mirror import STYLES
from tests.mirror.chaos.mirror_process import CommandedMirror
from tests.mirror.model.history import Mirror, open_histories


def race_and_check(place: Path, seed: int, rounds: int) -> int:
    """Let two mirrors apply the same files so many times; return how many attempts did nothing."""
    mirror = Mirror(place / "zone", place / "mirror", MirrorLimits(max_files=1))
    histories = open_histories(random.Random(seed), mirror.root, STYLES)
    lost = 0
    with CommandedMirror(mirror) as one, CommandedMirror(mirror) as other:
        for _ in range(rounds):
            table = histories[0].source.choice(histories)
            if table.current.files and table.source.random() < 0.2:
                table.recreate()
            table.step(table.source.choice((0, 1, 50)))
            expected = (len(table.generations), len(table.current.files))
            for rival in (one, other):
                rival.begin(table.writer)
            reached = [rival.result() for rival in (one, other)]
            assert expected in reached
            lost += reached.count(None)
    for table in histories:
        if table.current.files:
            assert mirror.catch_up(table.writer).state is MirrorState.IN_STEP
            assert [each.versions for each in table.check(mirror)] == [len(each.files) for each in table.generations]
    return lost


def test_two_mirrors_at_the_same_moment_apply_each_file_once(tmp_path: Path) -> None:
    assert race_and_check(tmp_path, seed=4, rounds=100) > 0


@pytest.mark.thorough
@pytest.mark.timeout(3_600)
def test_two_mirrors_in_1_000_races_apply_each_file_once(tmp_path: Path) -> None:
    assert race_and_check(tmp_path, seed=5, rounds=1_000) > 0
