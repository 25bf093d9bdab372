"""Runs of the checks: followed, interrupted, and beside what cannot be read."""

import errno
import json
import re
import shutil
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from app.landing.local_zone import LocalZone
from app.landing.zone import Entry
from mirrorgate_zone.verify import checks
from mirrorgate_zone.verify.checks import files
from mirrorgate_zone.verify.codes import Finding, FindingCode, guarded
from mirrorgate_zone.verify.file_reading import CheckedFile
from mirrorgate_zone.verify.table_verification import ZoneVerification
from tests.support.processes import read_line, started
from tests.support.publishers import parquet_name
from tests.verify.runs import RecordingRows, findings, run_once
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


class FailingZone(LocalZone):
    """A folder of which some files cannot be read, or some folders cannot be listed."""

    def __init__(self, root: Path, path: str, error: OSError) -> None:
        super().__init__(root)
        self._path, self._error = path, error

    def read_file(self, path: str) -> AbstractContextManager[BinaryIO]:
        if path == self._path:
            raise self._error
        return super().read_file(path)

    def entries(self, folder: str) -> dict[str, Entry]:
        if folder == self._path:
            raise self._error
        return super().entries(folder)


@pytest.fixture
def tables(zone: Zone) -> Zone:
    """Give a zone of three tables, of which the last one has a fault."""
    for name in ("a", "b"):
        zone.clean(name)
    zone.table("c").file(2, rows(1))
    return zone


LATER = FindingCode.FIRST_FILE_MISSING
"""What is found in the last table, after the others."""


@pytest.mark.parametrize(
    ("path", "error", "found"),
    [
        (f"b/{parquet_name(1)}", PermissionError(errno.EACCES, "Permission denied"), FindingCode.CANNOT_READ),
        ("a", OSError(errno.EIO, "Input/output error"), FindingCode.CANNOT_READ),
        ("a/_metadata.json", PermissionError(errno.EACCES, "Permission denied"), FindingCode.CANNOT_READ),
        (f"a/{parquet_name(2)}", FileNotFoundError(errno.ENOENT, "consumed meanwhile"), FindingCode.NOT_CHECKED),
    ],
    ids=["file", "folder", "metadata", "consumed file"],
)
def test_what_cannot_be_read_is_a_finding_and_the_run_continues(
    tables: Zone, path: str, error: OSError, found: FindingCode
) -> None:
    first, later = findings(FailingZone(tables.root, path, error), row_checks=())
    named = path if path.endswith(".parquet") else None
    assert (first.code, first.table, first.file) == (found, path[0], named)
    assert (later.code, later.table, later.file) == (LATER, "c", f"c/{parquet_name(2)}")


def test_an_error_in_a_check_is_a_finding_without_its_text(tables: Zone, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> Iterator[Finding]:
        raise ZeroDivisionError("a value of a row")

    monkeypatch.setattr("mirrorgate_zone.verify.table_verification.FOLDER_CHECKS", (*checks.FOLDER_CHECKS, broken))
    found = findings(tables.root, row_checks=())
    assert [finding.code for finding in found].count(FindingCode.CHECK_FAILED) == 3
    assert {finding.detail for finding in found if finding.code is FindingCode.CHECK_FAILED} == {
        "broken: ZeroDivisionError"
    }
    assert LATER in {finding.code for finding in found}


class BrokenRows(RecordingRows):
    """Row checks that fail at one file."""

    def add_file(self, file: CheckedFile) -> Iterator[Finding]:
        yield from super().add_file(file)
        if file.file.number == 1:
            raise OSError(errno.EIO, "Input/output error")
        yield Finding(FindingCode.NOT_CHECKED, f"files {self.seen}", file=file.file.path)


def test_row_checks_that_fail_at_a_file_see_the_later_ones(zone: Zone) -> None:
    zone.clean()
    found = findings(zone.root, row_checks=(BrokenRows,))
    assert [(finding.code, finding.file) for finding in found] == [
        (FindingCode.CANNOT_READ, f"t/{parquet_name(1)}"),
        (FindingCode.NOT_CHECKED, f"t/{parquet_name(2)}"),
    ]


def test_a_row_group_over_the_limit_is_advice(zone: Zone, monkeypatch: pytest.MonkeyPatch) -> None:
    zone.clean()
    monkeypatch.setattr(files, "MAX_GROUP_BYTES", 10)
    assert FindingCode.LARGE_ROW_GROUP in {finding.code for finding in findings(zone.root)}


def test_delimited_text_over_the_limit_is_not_checked(zone: Zone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirrorgate_zone.verify.file_reading.MAX_TEXT_BYTES", 10)
    table = zone.table(fileFormat="CSV", schemaDefinition={"Columns": [{"Name": "id", "DataType": "Int64"}]})
    table.raw(f"{1:020}.csv", b"id\r\n" + b"1\r\n" * 10)
    assert [finding.code for finding in findings(zone.root)] == [FindingCode.NOT_CHECKED]


def test_ctrl_c_during_a_query_ends_the_run() -> None:
    def interrupted() -> Iterator[Finding]:
        raise RuntimeError("Query interrupted")  # what DuckDB makes of KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(guarded(interrupted, "rows"))
