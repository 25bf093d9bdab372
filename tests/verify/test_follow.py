"""`--follow` prints each new finding once, reads only new or changed files again, and ends cleanly."""

import json
import re
import shutil
import signal
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from app.landing.local_zone import LocalZone
from mirrorgate_zone.verify.codes import FindingCode
from mirrorgate_zone.verify.table_verification import ZoneVerification
from tests.support.processes import read_line, started
from tests.support.publishers import parquet_name
from tests.verify.runs import RecordingRows, run_once
from tests.verify.zones import Zone, age, rows


class CountingZone(LocalZone):
    """A folder that records which data files are opened."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.read: list[str] = []

    def read_file(self, path: str) -> AbstractContextManager[BinaryIO]:
        if path.endswith(".parquet"):
            self.read.append(Path(path).name)
        return super().read_file(path)


class Following:
    """Rounds of `--follow` that record which data files are opened, and which ones row checks are given."""

    def __init__(self, root: Path) -> None:
        self.zone = CountingZone(root)
        self.row_checks: list[RecordingRows] = []
        self.verification = ZoneVerification(self.zone, row_checks=(self._check_rows,), keep=True)

    def _check_rows(self, *about: Any, **more: Any) -> RecordingRows:
        self.row_checks.append(RecordingRows(*about, **more))
        return self.row_checks[-1]

    def codes(self) -> list[FindingCode]:
        """Check the zone once more, and return the codes of its findings."""
        return [finding.code for finding in run_once(self.verification)]

    def read(self) -> list[str]:
        """Return the data files that were opened since the last look."""
        read, self.zone.read = self.zone.read, []
        return read

    def seen(self) -> list[list[int | None]]:
        """Return the files that each row check was given."""
        return [one.seen for one in self.row_checks]


@pytest.fixture
def following(zone: Zone) -> Following:
    return Following(zone.root)


def test_only_new_or_changed_files_are_read_again(zone: Zone, following: Following) -> None:
    table = zone.clean()
    following.codes()
    assert following.read() == [parquet_name(1), parquet_name(2)]
    following.codes()
    assert following.read() == []
    table.file(3, rows(3))
    following.codes()
    assert following.read() == [parquet_name(3)]
    assert following.seen() == [[1, 2, 3]]


def test_a_file_that_fabric_has_moved_is_not_read_again(zone: Zone, following: Following) -> None:
    table = zone.clean()
    following.codes()
    following.read()
    (table.path / "_ProcessedFiles").mkdir()
    moved = (table.path / parquet_name(1)).rename(table.path / "_ProcessedFiles" / parquet_name(1))
    following.codes()
    moved.unlink()
    table.file(3, rows(3))
    assert following.codes() == []
    assert following.read() == [parquet_name(3)]
    assert following.seen() == [[1, 2, 3]]


def test_row_checks_start_again_when_a_file_that_they_have_seen_changes(zone: Zone, following: Following) -> None:
    table = zone.clean()
    following.codes()
    age(table.file(1, rows(1, 7)), timedelta(minutes=1))
    following.codes()
    assert following.seen() == [[1, 2], [1, 2]]
    assert [one.is_closed for one in following.row_checks] == [True, False]


def test_row_checks_start_again_when_a_gap_is_filled(zone: Zone, following: Following) -> None:
    table = zone.clean()
    table.file(4, rows(4))
    assert following.codes() == [FindingCode.NUMBER_GAP]
    table.file(3, rows(3))
    assert following.codes() == []
    assert following.seen() == [[1, 2, 4], [1, 2, 3, 4]]


def test_a_dropped_table_is_forgotten(zone: Zone, following: Following) -> None:
    zone.clean("a")
    table = zone.clean("b")
    following.codes()
    shutil.rmtree(table.path)
    following.codes()
    assert [one.is_closed for one in following.row_checks] == [False, True]
    following.verification.close()
    assert all(one.is_closed for one in following.row_checks)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_prints_new_findings_as_they_appear_and_ends_cleanly(zone: Zone, number: int) -> None:
    table = zone.clean()
    table.raw("notes.md", b"x")
    with started("mirrorgate.cli", "verify", zone.root, "--follow", "--json") as process:
        assert json.loads(read_line(process))["code"] == "foreign_file"
        table.file(4, rows(4))
        assert json.loads(read_line(process))["code"] == "number_gap"
        table.raw(parquet_name(5), b"")
        assert json.loads(read_line(process))["code"] == "zero_byte_file"
        process.send_signal(number)
        output, errors = process.communicate(timeout=30)
    assert (process.returncode, output, errors) == (1, "", "")


def test_people_see_each_new_finding_with_its_remedy_and_a_summary(zone: Zone) -> None:
    table = zone.clean()
    table.raw(parquet_name(3), b"")
    with started("mirrorgate.cli", "verify", zone.root, "--follow") as process:
        assert read_line(process) == f"error    zero_byte_file t t/{parquet_name(3)}"
        assert [read_line(process), read_line(process)[:12]] == ["the file has 0 bytes", "-> Put a val"]
        table.file(3, rows(3))
        for name in ("notes.md", "more.md"):  # the second one appears after a whole round
            table.raw(name, b"x")
            line = ""
            while name not in line:
                line = read_line(process)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    assert re.fullmatch("1 table, 3 files: 0 errors, [12] warnings?, 0 advice", output.splitlines()[-1])
    assert "Ctrl-C ends it" in errors
    assert "Traceback" not in errors


def test_a_zone_that_is_away_is_reported_once_and_watched_further(zone: Zone, tmp_path: Path) -> None:
    zone.clean().raw("notes.md", b"x")
    with started("mirrorgate.cli", "verify", zone.root, "--follow", "--table", "t", "--json") as process:
        read_line(process)
        away = zone.root.rename(tmp_path / "away")
        assert process.stderr is not None
        assert "not checked: the zone has no table t" in process.stderr.readline()
        away.rename(zone.root)
        zone.folder("t").raw("more.md", b"x")
        assert json.loads(read_line(process))["file"] == "t/more.md"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, "")
