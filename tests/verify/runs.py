"""Runs of the checks over a zone, as the command makes them."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from app.landing.local_zone import LocalZone
from app.landing.zone import LandingZone
from app.published.table_files import PublishedTable
from app.published.table_metadata import TableMetadata
from mirrorgate_zone.verify.codes import Finding, FindingCode
from mirrorgate_zone.verify.file_reading import CheckedFile
from mirrorgate_zone.verify.table_verification import ROW_CHECKS, RowCheckFactory, ZoneVerification


def run_once(verification: ZoneVerification, now: datetime | None = None) -> list[Finding]:
    """Check a zone once more."""
    return list(verification.run(now or datetime.now(UTC), lambda *_: None))


def findings(
    zone: Path | LandingZone, *, now: datetime | None = None, row_checks: Sequence[RowCheckFactory] = ROW_CHECKS
) -> list[Finding]:
    """Check a zone once."""
    return run_once(ZoneVerification(LocalZone(zone) if isinstance(zone, Path) else zone, row_checks=row_checks), now)


def codes(root: Path) -> set[FindingCode]:
    """Check a zone once and return the codes of its findings."""
    return {finding.code for finding in findings(root)}


class RecordingRows:
    """Row checks that find nothing and record which files they are given."""

    def __init__(self, zone: LandingZone, table: PublishedTable, metadata: TableMetadata | None) -> None:
        self.seen: list[int | None] = []
        self.is_closed = False

    def add_file(self, file: CheckedFile) -> Iterator[Finding]:
        self.seen.append(file.file.number)
        return iter(())

    def finish(self) -> Iterator[Finding]:
        return iter(())

    def close(self) -> None:
        self.is_closed = True
