"""`--follow` prints each new finding once, reads only new or changed files again, and ends cleanly."""

import json
import re
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO, ClassVar

import pytest

from app.landing.local_zone import LocalZone
from app.landing.zone import LandingZone
from app.published.table_files import PublishedTable
from app.published.table_metadata import TableMetadata
from mirrorgate_zone.verify.codes import Finding, FindingCode
from mirrorgate_zone.verify.file_reading import CheckedFile
from mirrorgate_zone.verify.table_verification import ZoneVerification
from tests.support.processes import read_line, started
from tests.verify.zones import Zone, age, file_name, rows


class CountingZone(LocalZone):
    """A folder that records which data files are opened."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.read: list[str] = []

    def read_file(self, path: str) -> AbstractContextManager[BinaryIO]:
        if path.endswith(".parquet"):
            self.read.append(Path(path).name)
        return super().read_file(path)

    def taken(self) -> list[str]:
        read, self.read = self.read, []
        return read


class CountingRows:
    """Row checks that record which files they are given."""

    made: ClassVar[list["CountingRows"]]

    def __init__(self, zone: LandingZone, table: PublishedTable, metadata: TableMetadata | None) -> None:
        self.seen: list[int | None] = []
        self.is_closed = False
        self.made.append(self)

    def add_file(self, file: CheckedFile) -> Iterator[Finding]:
        self.seen.append(file.file.number)
        return iter(())

    def finish(self) -> Iterator[Finding]:
        return iter(())

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def counting() -> type[CountingRows]:
    class Fresh(CountingRows):
        made: ClassVar[list[CountingRows]] = []

    return Fresh


def once(verification: ZoneVerification) -> list[Finding]:
    return list(verification.run(datetime.now(UTC), lambda *_: None))


def test_only_new_or_changed_files_are_read_again(tmp_path: Path, counting: type[CountingRows]) -> None:
    made = Zone.create(tmp_path / "zone")
    table = made.clean()
    zone = CountingZone(made.root)
    verification = ZoneVerification(zone, row_checks=(counting,), keep=True)
    once(verification)
    assert zone.taken() == [file_name(1), file_name(2)]
    once(verification)
    assert zone.taken() == []
    table.file(3, rows(3))
    once(verification)
    assert zone.taken() == [file_name(3)]
    assert [one.seen for one in counting.made] == [[1, 2, 3]]


def test_a_file_that_fabric_has_moved_is_not_read_again(tmp_path: Path, counting: type[CountingRows]) -> None:
    made = Zone.create(tmp_path / "zone")
    table = made.clean()
    zone = CountingZone(made.root)
    verification = ZoneVerification(zone, row_checks=(counting,), keep=True)
    once(verification)
    zone.taken()
    (table.path / "_ProcessedFiles").mkdir()
    (table.path / file_name(1)).rename(table.path / "_ProcessedFiles" / file_name(1))
    once(verification)
    (table.path / "_ProcessedFiles" / file_name(1)).unlink()
    table.file(3, rows(3))
    assert once(verification) == []
    assert zone.taken() == [file_name(3)]
    assert [one.seen for one in counting.made] == [[1, 2, 3]]


def test_row_checks_start_again_when_a_file_that_they_have_seen_changes(
    tmp_path: Path, counting: type[CountingRows]
) -> None:
    made = Zone.create(tmp_path / "zone")
    table = made.clean()
    verification = ZoneVerification(LocalZone(made.root), row_checks=(counting,), keep=True)
    once(verification)
    age(table.file(1, rows(1, 7)), timedelta(minutes=1))
    once(verification)
    assert [(one.seen, one.is_closed) for one in counting.made] == [([1, 2], True), ([1, 2], False)]


def test_row_checks_start_again_when_a_gap_is_filled(tmp_path: Path, counting: type[CountingRows]) -> None:
    made = Zone.create(tmp_path / "zone")
    table = made.clean()
    table.file(4, rows(4))
    verification = ZoneVerification(LocalZone(made.root), row_checks=(counting,), keep=True)
    assert [finding.code for finding in once(verification)] == [FindingCode.NUMBER_GAP]
    table.file(3, rows(3))
    assert once(verification) == []
    assert [one.seen for one in counting.made] == [[1, 2, 4], [1, 2, 3, 4]]


def test_a_dropped_table_is_forgotten(tmp_path: Path, counting: type[CountingRows]) -> None:
    made = Zone.create(tmp_path / "zone")
    made.clean("a")
    table = made.clean("b")
    verification = ZoneVerification(LocalZone(made.root), row_checks=(counting,), keep=True)
    once(verification)
    for path in table.path.iterdir():
        path.unlink()
    table.path.rmdir()
    once(verification)
    assert [one.is_closed for one in counting.made] == [False, True]
    verification.close()
    assert all(one.is_closed for one in counting.made)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_prints_new_findings_as_they_appear_and_ends_cleanly(tmp_path: Path, number: int) -> None:
    made = Zone.create(tmp_path / "zone")
    table = made.clean()
    table.raw("notes.md", b"x")
    with started("mirrorgate.cli", "verify", made.root, "--follow", "--json") as process:
        assert json.loads(read_line(process))["code"] == "foreign_file"
        table.file(4, rows(4))
        assert json.loads(read_line(process))["code"] == "number_gap"
        table.raw(file_name(5), b"")
        assert json.loads(read_line(process))["code"] == "zero_byte_file"
        process.send_signal(number)
        output, errors = process.communicate(timeout=30)
    assert (process.returncode, output, errors) == (1, "", "")


def test_people_see_each_new_finding_with_its_remedy_and_a_summary(tmp_path: Path) -> None:
    made = Zone.create(tmp_path / "zone")
    table = made.clean()
    table.raw(file_name(3), b"")
    with started("mirrorgate.cli", "verify", made.root, "--follow") as process:
        assert read_line(process) == f"error    zero_byte_file t t/{file_name(3)}"
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


def test_a_zone_that_is_away_is_reported_once_and_watched_further(tmp_path: Path) -> None:
    made = Zone.create(tmp_path / "zone")
    made.clean().raw("notes.md", b"x")
    with started("mirrorgate.cli", "verify", made.root, "--follow", "--table", "t", "--json") as process:
        read_line(process)
        away = made.root.rename(tmp_path / "away")
        assert process.stderr is not None
        assert "not checked: the zone has no table t" in process.stderr.readline()
        away.rename(made.root)
        made.folder("t").raw("more.md", b"x")
        assert json.loads(read_line(process))["file"] == "t/more.md"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, "")
