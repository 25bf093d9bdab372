"""One faulty table, an unreadable file, or an error in a check never ends a run."""

import errno
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import pytest

from app.landing.local_zone import LocalZone
from app.landing.zone import Entry, LandingZone
from app.published.table_files import PublishedTable
from app.published.table_metadata import TableMetadata
from mirrorgate_zone.verify import checks
from mirrorgate_zone.verify.checks import files
from mirrorgate_zone.verify.codes import Finding, FindingCode, guarded
from mirrorgate_zone.verify.file_reading import CheckedFile
from mirrorgate_zone.verify.table_verification import RowChecks, ZoneVerification
from tests.verify.runs import findings
from tests.verify.zones import Zone, file_name, rows


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


def found_in(zone: LandingZone) -> list[tuple[FindingCode, str | None, str | None]]:
    run = ZoneVerification(zone, row_checks=()).run(datetime.now(UTC), lambda *_: None)
    return [(finding.code, finding.table, finding.file) for finding in run]


@pytest.fixture
def zone(tmp_path: Path) -> Zone:
    made = Zone.create(tmp_path / "zone")
    for name in ("a", "b"):
        made.clean(name)
    made.table("c").file(2, rows(1))
    return made


LATER = (FindingCode.FIRST_FILE_MISSING, "c", f"c/{file_name(2)}")
"""What is found in the last table, after the others."""


def test_a_file_that_cannot_be_read_is_a_finding_and_the_run_continues(zone: Zone) -> None:
    path = f"b/{file_name(1)}"
    broken = FailingZone(zone.root, path, PermissionError(errno.EACCES, "Permission denied"))
    assert found_in(broken) == [(FindingCode.CANNOT_READ, "b", path), LATER]


def test_a_folder_that_cannot_be_listed_is_a_finding_and_the_run_continues(zone: Zone) -> None:
    broken = FailingZone(zone.root, "a", OSError(errno.EIO, "Input/output error"))
    assert found_in(broken) == [(FindingCode.CANNOT_READ, "a", None), LATER]


def test_metadata_that_cannot_be_read_is_a_finding_and_the_run_continues(zone: Zone) -> None:
    broken = FailingZone(zone.root, "a/_metadata.json", PermissionError(errno.EACCES, "Permission denied"))
    assert found_in(broken) == [(FindingCode.CANNOT_READ, "a", None), LATER]


def test_a_file_that_is_consumed_while_it_is_read_is_not_checked(zone: Zone) -> None:
    path = f"a/{file_name(2)}"
    broken = FailingZone(zone.root, path, FileNotFoundError(errno.ENOENT, "No such file or directory"))
    assert found_in(broken) == [(FindingCode.NOT_CHECKED, "a", path), LATER]


def test_an_error_in_a_check_is_a_finding_without_its_text(zone: Zone, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> Iterator[Finding]:
        raise ZeroDivisionError("a value of a row")

    monkeypatch.setattr("mirrorgate_zone.verify.table_verification.FOLDER_CHECKS", (*checks.FOLDER_CHECKS, broken))
    found = findings(zone.root, row_checks=())
    assert [finding.code for finding in found].count(FindingCode.CHECK_FAILED) == 3
    assert {finding.detail for finding in found if finding.code is FindingCode.CHECK_FAILED} == {
        "broken: ZeroDivisionError"
    }
    assert LATER[0] in {finding.code for finding in found}


class BrokenRows:
    """Row checks that fail at one file."""

    def __init__(self, zone: LandingZone, table: PublishedTable, metadata: TableMetadata | None) -> None:
        self.seen: list[int | None] = []

    def add_file(self, file: CheckedFile) -> Iterator[Finding]:
        self.seen.append(file.file.number)
        if file.file.number == 1:
            raise OSError(errno.EIO, "Input/output error")
        yield Finding(FindingCode.NOT_CHECKED, f"files {self.seen}", file=file.file.path)

    def finish(self) -> Iterator[Finding]:
        return iter(())

    def close(self) -> None:
        pass


def test_row_checks_that_fail_at_a_file_see_the_later_ones(tmp_path: Path) -> None:
    zone = Zone.create(tmp_path / "zone")
    zone.clean()

    def factory(zone: LandingZone, table: PublishedTable, metadata: TableMetadata | None) -> RowChecks:
        return BrokenRows(zone, table, metadata)

    found = findings(zone.root, row_checks=(factory,))
    assert [(finding.code, finding.file) for finding in found] == [
        (FindingCode.CANNOT_READ, f"t/{file_name(1)}"),
        (FindingCode.NOT_CHECKED, f"t/{file_name(2)}"),
    ]


def test_a_row_group_over_the_limit_is_advice(zone: Zone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_GROUP_BYTES", 10)
    assert FindingCode.LARGE_ROW_GROUP in {finding.code for finding in findings(zone.root)}


def test_delimited_text_over_the_limit_is_not_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirrorgate_zone.verify.file_reading.MAX_TEXT_BYTES", 10)
    zone = Zone.create(tmp_path / "zone")
    table = zone.table(fileFormat="CSV", schemaDefinition={"Columns": [{"Name": "id", "DataType": "Int64"}]})
    table.raw(f"{1:020}.csv", b"id\r\n" + b"1\r\n" * 10)
    assert [finding.code for finding in findings(zone.root)] == [FindingCode.NOT_CHECKED]


def test_ctrl_c_during_a_query_ends_the_run() -> None:
    def interrupted() -> Iterator[Finding]:
        raise RuntimeError("Query interrupted")  # what DuckDB makes of KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(guarded(interrupted, "rows"))
