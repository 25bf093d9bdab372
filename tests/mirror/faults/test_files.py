"""A damaged, missing or vanished landing file stops its table alone, and nothing is applied twice or left out."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from app.domain.mirror_report import MirrorState
from app.mirror.table_mirror import MirrorLimits, advance_table
from mirrorgate.errors import Code
from tests.mirror.faults.conftest import ActingZone, FaultyTable, some_file
from tests.mirror.model.history import Mirror
from tests.mirror.model.landed import INSERT, UPDATE, Column, LandedFile, Metadata, Row, rows_file
from tests.mirror.model.zone_writer import TableWriter, write_landing_file


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _overwrite(path: Path, start: int, end: int) -> None:
    content = bytearray(path.read_bytes())
    content[start:end] = b"\xff" * len(content[start:end])
    path.write_bytes(content)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut": _cut,
    "emptied": lambda path: path.write_bytes(b""),
    "garbage": lambda path: path.write_bytes(os.urandom(path.stat().st_size)),
    "its footer": lambda path: _overwrite(path, -40, -12),
    "its pages": lambda path: _overwrite(path, 4, 120),
    "a text": lambda path: path.write_text("Id,name\n1,a\n"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_stops_its_table_until_it_is_repaired(
    table: FaultyTable, other: FaultyTable, damage: str
) -> None:
    before = table.rows()
    table.land(some_file(3))
    DAMAGES[damage](table.path(3))
    for _ in range(2):
        report = table.advance()
        assert (report.state, report.file_number) == (MirrorState.STOPPED, 2)
        assert table.path(3).name in str(report.detail)
        assert report.remedy
    assert table.rows() == before
    assert other.catch_up().state is MirrorState.IN_STEP
    write_landing_file(table.path(3), some_file(3))
    table.finish()


def test_a_file_that_vanishes_before_it_is_read_is_waited_for(table: FaultyTable) -> None:
    before = table.rows()
    table.land(some_file(3))
    zone = ActingZone(table.mirror.root, table.path(3).name, lambda: table.path(3).unlink(missing_ok=True))
    with pytest.raises(OSError, match=table.path(3).name):
        advance_table(zone, table.mirror.target, table.writer.table, MirrorLimits())
    assert table.rows() == before
    table.land(some_file(4))
    report = table.advance()
    assert (report.state, report.file_number) == (MirrorState.WAITING, 2)
    assert "3" in str(report.detail)
    write_landing_file(table.path(3), some_file(3))
    table.finish()


def test_a_gap_waits_and_is_named_until_it_is_filled(table: FaultyTable, other: FaultyTable) -> None:
    table.land(*(some_file(number) for number in range(3, 8)))
    aside = table.path(5).rename(table.writer.path / "_aside")
    for _ in range(3):
        report = table.catch_up()
    assert (report.state, report.file_number, report.last_file) == (MirrorState.WAITING, 4, 7)
    assert (report.code, "waits for file 5" in str(report.detail)) == (Code.LANDING_FILE_GAP, True)
    assert table.mirror.inspect(table.writer) == report
    assert other.catch_up().state is MirrorState.IN_STEP
    aside.rename(table.path(5))
    table.finish()


def test_a_table_without_file_1_waits_for_it(other: FaultyTable) -> None:
    other.land(some_file(2))
    aside = other.path(1).rename(other.writer.path / "_aside")
    report = other.advance()
    assert (report.state, report.file_number, report.version) == (MirrorState.WAITING, 0, None)
    assert "1" in str(report.detail)
    aside.rename(other.path(1))
    other.finish()


def test_files_that_fabric_has_consumed_are_still_mirrored(table: FaultyTable) -> None:
    table.land(*(some_file(number) for number in range(3, 9)))
    for number, folder in ((1, "_ProcessedFiles"), (3, "_ProcessedFiles"), (4, "_FilesReadyToDelete")):
        (table.writer.path / folder).mkdir(exist_ok=True)
        table.path(number).rename(table.writer.path / folder / table.path(number).name)
    table.finish()


def test_purged_files_are_not_missed(table: FaultyTable) -> None:
    for number in (1, 2):
        table.path(number).unlink()
    table.finish()


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"keyColumns": "Id"}', '{"keyColumns": [1]}', "\ufeff\x00"])
def test_metadata_that_is_damaged_later_stops_its_table(table: FaultyTable, other: FaultyTable, damage: str) -> None:
    before = table.rows()
    table.land(some_file(3))
    (table.writer.path / "_metadata.json").write_text(damage, encoding="utf-8")
    report = table.advance()
    assert report.state is MirrorState.STOPPED
    assert "_metadata.json" in str(report.detail)
    assert table.rows() == before
    assert other.catch_up().state is MirrorState.IN_STEP
    table.writer.register(table.generations[-1].metadata)
    table.finish()


def test_metadata_that_disappears_stops_its_table(table: FaultyTable) -> None:
    table.land(some_file(3))
    (table.writer.path / "_metadata.json").unlink()
    report = table.advance()
    assert (report.state, report.code) == (MirrorState.STOPPED, Code.LANDING_METADATA_UNREADABLE)
    table.writer.register(table.generations[-1].metadata)
    table.finish()


def test_a_link_in_place_of_a_file_is_not_followed(table: FaultyTable) -> None:
    table.land(some_file(3), some_file(4))
    aside = table.path(3).rename(table.writer.path / "_aside")
    table.path(3).symlink_to(aside)
    report = table.advance()
    assert (report.state, report.file_number) == (MirrorState.WAITING, 2)
    table.path(3).unlink()
    aside.rename(table.path(3))
    table.finish()


def test_a_table_folder_that_is_a_link_is_mirrored(other: FaultyTable) -> None:
    aside = other.writer.path.rename(other.mirror.root.parent / "elsewhere")
    other.writer.path.symlink_to(aside)
    other.finish()


@pytest.mark.parametrize("kind", ["int64 to int32", "string to int64", "decimal", "date to timestamp"])
def test_a_changed_type_stops_the_table_with_fabrics_words(other: FaultyTable, kind: str) -> None:
    before, after = {
        "int64 to int32": ("int64", "int32"),
        "string to int64": ("string", "int64"),
        "decimal": ("decimal(9,2)", "decimal(18,4)"),
        "date to timestamp": ("date", "timestamp"),
    }[kind]
    key = Column("Id", "int64", required=True)
    other.land(LandedFile((key, Column("extra", before)), (Row({"Id": 7}, INSERT),)))
    other.catch_up()
    path = other.writer.land(3, LandedFile((key, Column("EXTRA", after)), (Row({"Id": 8}, INSERT),)))
    report = other.advance()
    assert (report.state, report.file_number) == (MirrorState.STOPPED, 2)
    assert "SchemaMergeFailure" in str(report.detail)
    path.unlink()
    other.finish()


def test_a_missing_required_column_stops_the_table(table: FaultyTable) -> None:
    table.writer.land(3, LandedFile((Column("name", "string"),), (Row({"name": "a"}, INSERT),)))
    report = table.advance()
    assert (report.state, report.code, report.file_number) == (MirrorState.STOPPED, Code.SCHEMA_MERGE_FAILURE, 2)
    assert "SchemaMergeFailure" in str(report.detail)
    assert "required column Id is missing" in str(report.detail)
    table.path(3).unlink()
    table.finish()


@pytest.mark.parametrize("marker", [3, -1, 5, None])
def test_a_marker_that_fabric_does_not_know_stops_the_table(table: FaultyTable, marker: int | None) -> None:
    table.writer.land(3, rows_file((INSERT, 1, None), (marker, 9, None)))
    report = table.advance()
    assert (report.state, report.file_number) == (MirrorState.STOPPED, 2)
    table.path(3).unlink()
    table.finish()


def test_an_update_in_a_table_without_keys_stops_it_until_it_has_one(mirror: Mirror) -> None:
    keyless = FaultyTable(mirror, TableWriter(mirror.root, "keyless"))
    keyless.begin(rows_file((INSERT, 1, None)), metadata=Metadata())
    assert keyless.catch_up().state is MirrorState.IN_STEP
    keyless.writer.land(2, rows_file((UPDATE, 1, None)))
    report = keyless.advance()
    assert (report.state, report.file_number) == (MirrorState.STOPPED, 1)
    keyless.writer.register(Metadata(("Id",)))
    assert keyless.advance().state is MirrorState.IN_STEP
