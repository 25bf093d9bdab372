"""A full or lost target is "try again": the mirror raises OSError, changes nothing, and continues when it can."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.domain.mirror_report import MirrorState
from app.mirror.target import DamagedTable
from tests.mirror.chaos.mirror_process import CommandedMirror
from tests.mirror.faults.conftest import FaultyTable, some_file
from tests.mirror.model.history import Mirror
from tests.mirror.model.landed import INSERT, LandedFile, rows_file


def wide_file(number: int) -> LandedFile:
    return rows_file(*((INSERT, number * 10_000 + row, f"{row:060d}" * 3) for row in range(2_000)))


@pytest.mark.parametrize("max_bytes", [0, 200, 2_000, 8_000])
def test_a_target_that_cannot_take_the_data_keeps_what_it_has(table: FaultyTable, max_bytes: int) -> None:
    before = table.rows()
    table.land(wide_file(3))
    for _ in range(2):
        with CommandedMirror(table.mirror, max_bytes) as mirror:
            mirror.begin(table.writer)
            assert mirror.result() is None
        assert table.rows() == before
    table.finish()


@contextmanager
def small_file_system(path: Path) -> Iterator[None]:
    """Mount a file system of 1 MiB."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(path)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        yield
    finally:
        subprocess.run(["umount", str(path)], check=True)


def test_a_full_disk_stops_nothing_for_good(mirror: Mirror, other: FaultyTable) -> None:
    with small_file_system(mirror.location):
        other.catch_up()
        filler = mirror.location / "filler"
        with pytest.raises(OSError, match="No space"), filler.open("wb", buffering=0) as full:
            while full.write(b"\0" * 4_096):
                pass
        other.land(wide_file(2))
        for _ in range(2):
            with pytest.raises(OSError, match="other"):
                other.advance()
            assert other.check().last_file == 1
        filler.unlink()
        other.finish()


def test_a_target_that_becomes_read_only_is_tried_again(mirror: Mirror, table: FaultyTable, tmp_path: Path) -> None:
    table.land(some_file(3))
    before = table.rows()
    small = tmp_path / "small"
    with small_file_system(small):
        subprocess.run(["cp", "-a", str(mirror.location), str(small / "mirror")], check=True)
        mirror.location = small / "mirror"
        subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
        with pytest.raises(OSError, match="Order Lines"):
            table.advance()
        assert table.rows() == before
        subprocess.run(["mount", "-o", "remount,rw", str(small)], check=True)
        table.finish()


def test_a_lost_target_is_tried_again(mirror: Mirror, table: FaultyTable, tmp_path: Path) -> None:
    table.land(some_file(3))
    aside = mirror.location.rename(tmp_path / "aside")
    mirror.location.write_bytes(b"")
    with pytest.raises(OSError, match=r".+"):
        table.advance()
    mirror.location.unlink()
    aside.rename(mirror.location)
    table.finish()


def test_a_lost_zone_is_a_dropped_table_until_it_is_back(mirror: Mirror, table: FaultyTable, tmp_path: Path) -> None:
    before = table.rows()
    table.land(some_file(3))
    aside = mirror.root.rename(tmp_path / "aside")
    assert table.advance().state is MirrorState.DROPPED
    assert table.rows() == before
    aside.rename(mirror.root)
    table.finish()


def test_a_log_with_a_broken_commit_does_not_start_the_table_anew(table: FaultyTable) -> None:
    log = Path(table.mirror.target.uri(table.writer.table)) / "_delta_log"
    last = max(log.glob("*.json"))
    whole = last.read_bytes()
    last.write_bytes(whole[: len(whole) // 2])
    table.land(some_file(3))
    with pytest.raises(DamagedTable, match="Order Lines"):
        table.advance()
    last.write_bytes(whole)
    table.finish()


@pytest.mark.parametrize("damaged", [None, b"", b"PAR1" * 5_000])
def test_a_lost_or_damaged_data_file_is_a_damaged_table(table: FaultyTable, damaged: bytes | None) -> None:
    data = list(Path(table.mirror.target.uri(table.writer.table)).glob("*.parquet"))
    whole = {path: path.read_bytes() for path in data}
    for path in data:
        path.unlink() if damaged is None else path.write_bytes(damaged[: len(whole[path])])
    table.land(some_file(3))
    with pytest.raises(DamagedTable, match="Order Lines is damaged"):
        table.advance()
    for path in data:
        path.write_bytes(whole[path])
    table.finish()
