"""Random histories, mirrored: the Delta tables equal the independent model at every version."""

import random
from pathlib import Path

import pytest

from app.domain.mirror_report import MirrorState
from app.mirror.table_mirror import MirrorLimits
from tests.mirror.model.history import Mirror, file_sizes, open_histories


def run_history(place: Path, seed: int, changes: int, mean: int) -> list[str]:
    """Mirror one history file by file, and again with several files a commit; return what was compared."""
    source = random.Random(seed)
    in_step = Mirror(place / "zone", place / "in step")
    behind = Mirror(place / "zone", place / "behind", MirrorLimits(max_files=7))
    histories = open_histories(source, place / "zone")
    for changes_of_file in file_sizes(source, changes, mean):
        table = source.choice(histories)
        if table.current.files and source.random() < 0.03:
            behind.advance(table.writer)  # generations are counted by who sees them
            table.recreate()
        table.step(changes_of_file)
        report = in_step.catch_up(table.writer)
        assert (report.state, report.file_number) == (MirrorState.IN_STEP, len(table.current.files)), report
        if source.random() < 0.1:
            behind.catch_up(table.writer)
    compared = []
    for table in histories:
        behind.catch_up(table.writer)
        of_table = table.check(in_step)
        assert [each.versions for each in of_table] == [len(each.files) for each in table.generations]
        compared += [f"{table.writer.table}: {each}" for each in of_table]
        compared += [f"{table.writer.table}, catching up: {each}" for each in table.check(behind)]
    return compared


def test_every_version_equals_the_model(tmp_path: Path) -> None:
    assert run_history(tmp_path, seed=1, changes=6_000, mean=100)


@pytest.mark.thorough
@pytest.mark.timeout(3_600)
def test_every_version_of_200_000_changes_equals_the_model(tmp_path: Path) -> None:
    assert run_history(tmp_path, seed=15, changes=200_000, mean=400)
