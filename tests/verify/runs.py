"""Runs of the checks over a folder, as the command makes them."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from app.landing.local_zone import LocalZone
from mirrorgate_zone.verify.codes import Finding, FindingCode
from mirrorgate_zone.verify.table_verification import ROW_CHECKS, RowCheckFactory, ZoneVerification


def findings(
    root: Path,
    *,
    tables: Sequence[str] = (),
    now: datetime | None = None,
    row_checks: Sequence[RowCheckFactory] = ROW_CHECKS,
) -> list[Finding]:
    """Check a zone once."""
    verification = ZoneVerification(LocalZone(root), tables=tables, row_checks=row_checks)
    return list(verification.run(now or datetime.now(UTC), lambda *_: None))


def codes(root: Path, *, now: datetime | None = None) -> set[FindingCode]:
    """Check a zone once and return the codes of its findings."""
    return {finding.code for finding in findings(root, now=now)}
