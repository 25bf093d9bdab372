"""A table that is dropped and recreated starts a new Delta table; the old one is kept as it was."""

from pathlib import Path

import pytest

from app.domain.mirror_report import MirrorState
from app.mirror.table_mirror import MirrorLimits, advance_table
from tests.mirror.faults.conftest import ActingZone, FaultyTable, some_file
from tests.mirror.model.landed import INSERT, LandedFile, rows_file
from tests.mirror.model.zone_writer import write_landing_file


@pytest.mark.parametrize(
    "files",
    [
        *([rows_file((INSERT, 100 + number, "second life")) for number in range(files)] for files in (1, 2, 5)),
        [some_file(1)],
    ],
    ids=["fewer files", "as many files", "more files", "the same first file"],
)
def test_a_recreated_table_is_a_new_generation(table: FaultyTable, files: list[LandedFile]) -> None:
    table.recreate(*files)
    assert table.catch_up().generation == 2
    table.finish()
    assert table.check(generation=1).last_file == 2


@pytest.mark.parametrize("number", [1, 2])
def test_an_applied_file_that_is_overwritten_changes_nothing(table: FaultyTable, number: int) -> None:
    write_landing_file(table.path(number), rows_file((INSERT, 77, "too late")))
    assert table.catch_up().generation == 1
    table.finish()


def test_a_dropped_table_keeps_its_rows(table: FaultyTable) -> None:
    before = table.rows()
    table.writer.drop()
    for _ in range(2):
        assert table.advance().state is MirrorState.DROPPED
    assert table.rows() == before


def test_a_table_of_many_lives_keeps_them_all(table: FaultyTable) -> None:
    for life in range(2, 6):
        table.recreate(rows_file((INSERT, life, f"life {life}")))
        assert table.catch_up().generation == life
    for life in range(1, 5):
        table.check(generation=life)
    table.finish()


def test_a_dropped_generation_is_deleted_if_asked(table: FaultyTable) -> None:
    table.mirror.limits = MirrorLimits(replace_old=True)
    table.recreate(rows_file((INSERT, 9, "second life")))
    assert table.catch_up().generation == 2
    assert not Path(table.mirror.target.uri(table.writer.table, generation=1)).exists()
    table.finish()


def test_a_file_of_the_next_generation_is_never_applied_to_the_old_table(table: FaultyTable) -> None:
    table.land(some_file(3))

    def recreate() -> None:
        if len(table.generations) == 1:
            table.recreate(*(rows_file((INSERT, 500 + number, "second life")) for number in range(9)))

    zone = ActingZone(table.mirror.root, table.path(3).name, recreate)
    advance_table(zone, table.mirror.target, table.writer.table, MirrorLimits())
    assert table.catch_up().generation == 2
    assert table.check(generation=1).last_file in (2, 3)
    table.finish()
