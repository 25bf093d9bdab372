"""One faulty table, an unreadable file, or an error in a check never ends a run."""

import errno
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO

import pytest

from app.landing.local_zone import LocalZone
from app.landing.zone import Entry
from mirrorgate_zone.verify import checks
from mirrorgate_zone.verify.checks import files
from mirrorgate_zone.verify.codes import Finding, FindingCode, guarded
from mirrorgate_zone.verify.file_reading import CheckedFile
from tests.support.publishers import parquet_name
from tests.verify.runs import RecordingRows, findings
from tests.verify.zones import Zone, rows


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
