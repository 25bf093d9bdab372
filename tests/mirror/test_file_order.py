"""Tables whose files are ordered by time, or numbered in each partition."""

import os
import shutil
from pathlib import Path

import pytest

from app.domain.mirror_report import MirrorState
from app.mirror.table_mirror import MirrorLimits
from mirrorgate.errors import Code
from tests.mirror.small_zone import Change, SmallZone, noted

ALL = MirrorLimits()


@pytest.fixture
def timed(tmp_path: Path) -> SmallZone:
    zone = SmallZone(tmp_path)
    zone.declare(fileDetectionStrategy="LastUpdateTimeFileDetection")
    return zone


@pytest.fixture
def partitioned(tmp_path: Path) -> SmallZone:
    zone = SmallZone(tmp_path)
    zone.declare(isPartitionEnabled="true")
    return zone


def land(zone: SmallZone, name: str, seconds: int, *rows: Change) -> Path:
    """Write a file under any name, with this time after 2020."""
    path = zone.land(name, rows)
    os.utime(path, (1_577_836_800 + seconds,) * 2)
    return path


def test_a_zone_of_last_update_time_is_mirrored_in_the_order_of_time(timed: SmallZone) -> None:
    land(timed, "b.parquet", 1, (1, "a", 0), (2, "b", 0))
    land(timed, "a.parquet", 2, (1, "A", 1))
    land(timed, f"{1:020}.parquet", 3, (2, None, 2))
    assert [timed.advance().state for _ in range(3)] == [MirrorState.BEHIND, MirrorState.BEHIND, MirrorState.IN_STEP]
    assert timed.rows() == noted((1, "A"))
    land(timed, "0.parquet", 4, (3, "c", 4))
    report = timed.advance()
    assert (report.state, report.code, report.file_number, report.last_file) == (MirrorState.IN_STEP, None, 4, 4)
    assert timed.rows() == noted((1, "A"), (3, "c"))


def test_files_of_the_same_time_are_applied_by_name_and_reported(timed: SmallZone) -> None:
    land(timed, "b.parquet", 1, (1, "b", 4))
    land(timed, "a.parquet", 1, (1, "a", 4))
    assert [timed.advance().code for _ in range(2)] == [Code.LANDING_TIME_TIES] * 2
    report = timed.inspect()
    assert (report.state, timed.rows()) == (MirrorState.IN_STEP, noted((1, "b")))
    assert "first a.parquet and b.parquet" in (report.detail or "")


def test_purged_files_move_no_other_file(timed: SmallZone) -> None:
    first = land(timed, "a.parquet", 1, (1, "a", 0))
    land(timed, "b.parquet", 2, (2, "b", 0))
    timed.advance(ALL)
    first.unlink()
    land(timed, "c.parquet", 3, (3, "c", 0))
    assert timed.advance(ALL).file_number == 3
    assert timed.rows() == noted((1, "a"), (2, "b"), (3, "c"))


@pytest.mark.parametrize("seconds", [0, 2], ids=["older", "same time"])
def test_a_file_that_comes_before_an_applied_one_stops_the_table(timed: SmallZone, seconds: int) -> None:
    land(timed, "c.parquet", 2, (1, "a", 0))
    timed.advance(ALL)
    land(timed, "b.parquet", seconds, (2, "b", 0))
    report = timed.advance(ALL)
    assert (report.state, report.code) == (MirrorState.STOPPED, Code.LANDING_ORDER_UNSUPPORTED)
    assert timed.rows() == noted((1, "a"))


def test_a_recreated_folder_of_files_by_time_begins_a_generation(timed: SmallZone) -> None:
    land(timed, "a.parquet", 1, (1, "a", 0))
    land(timed, "b.parquet", 2, (2, "b", 0))
    timed.advance(ALL)
    shutil.rmtree(timed.folder)
    timed.declare(fileDetectionStrategy="LastUpdateTimeFileDetection")
    land(timed, "c.parquet", 3, (9, "z", 0))
    assert timed.advance(ALL).generation == 2
    assert timed.rows() == noted((9, "z"))


def test_a_partitioned_zone_is_mirrored_with_the_numbers_of_each_partition(partitioned: SmallZone) -> None:
    for region in ("east", "we%20st"):
        land(partitioned, f"region={region}/{1:020}.parquet", 0, (len(region), region, 0))
    land(partitioned, f"region=east/{2:020}.parquet", 0, (4, "east again", 1))
    assert [partitioned.advance().state for _ in range(3)][-1] is MirrorState.IN_STEP
    expected = [
        {"id": 4, "note": "east again", "region": "east"},
        {"id": 7, "note": "we%20st", "region": "we st"},
    ]
    assert partitioned.rows() == expected
    report = partitioned.inspect()
    assert (report.file_number, report.last_file, report.pending_files) == (3, 3, 0)
    assert report.is_partitioned

    land(partitioned, f"region=we%20st/{2:020}.parquet", 0, (7, None, 2))
    land(partitioned, f"region=north/year=2026/{1:020}.parquet", 0, (9, "north", 4))
    assert partitioned.advance(ALL).file_number == 5
    assert partitioned.rows() == [
        {"id": 4, "note": "east again", "region": "east", "year": None},
        {"id": 9, "note": "north", "region": "north", "year": "2026"},
    ]


def test_a_gap_in_one_partition_holds_up_no_other(partitioned: SmallZone) -> None:
    land(partitioned, f"p=1/{1:020}.parquet", 0, (1, "a", 0))
    land(partitioned, f"p=1/{3:020}.parquet", 0, (1, "c", 4))
    land(partitioned, f"p=2/{1:020}.parquet", 0, (2, "b", 0))
    report = partitioned.advance(ALL)
    assert (report.state, report.code, report.file_number) == (MirrorState.WAITING, Code.LANDING_FILE_GAP, 2)
    assert "partition p=1" in (report.detail or "")
    land(partitioned, f"p=1/{2:020}.parquet", 0, (1, "b", 4))
    assert partitioned.advance(ALL).state is MirrorState.IN_STEP
    assert [row["note"] for row in partitioned.rows()] == ["c", "b"]


def test_a_recreated_folder_of_partitions_begins_a_generation(partitioned: SmallZone) -> None:
    for number in (1, 2):
        land(partitioned, f"p=1/{number:020}.parquet", 0, (number, "a", 0))
    partitioned.advance(ALL)
    shutil.rmtree(partitioned.folder)
    partitioned.declare(isPartitionEnabled="true")
    land(partitioned, f"p=1/{1:020}.parquet", 0, (9, "z", 0))
    assert partitioned.advance(ALL).generation == 2
    assert [row["id"] for row in partitioned.rows()] == [9]
