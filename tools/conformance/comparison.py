"""Fabric's Delta tables against the landing zone, by the code of `mirrorgate verify --against`."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial

from app.landing.zone import LandingZone
from app.published.table_files import list_tables
from app.verify.codes import FindingCode, Severity
from app.verify.comparison.compare_zone import compare_zone
from app.verify.finding import Finding, guarded
from app.verify.table_verification import ROW_CHECKS
from app.verify.zone_verification import ZoneVerification


def wrong_in_zone(zone: LandingZone) -> list[Finding]:
    """Return what breaks a rule of open mirroring in the zone."""
    verification = ZoneVerification(zone, tables=(), row_checks=ROW_CHECKS)
    found = verification.run(datetime.now(UTC), lambda *_: None)
    return [finding for finding in found if finding.severity is not Severity.ADVICE]


def differences(zone: LandingZone, tables: str, storage_options: Mapping[str, str]) -> list[Finding]:
    """Return what differs between the zone and the Delta tables at an address, also that those are behind."""
    compared = partial(compare_zone, zone, tables, storage_options=storage_options)
    found = guarded(compared, "comparison")
    return [one for one in found if one.severity is not Severity.ADVICE or one.code is FindingCode.AGAINST_BEHIND]


def table_names(zone: LandingZone) -> list[str]:
    """Return the tables of the zone."""
    return [str(table) for table in list_tables(zone)]


def in_words(findings: list[Finding], most: int = 3) -> str:
    """Return the first findings as one string."""
    texts = [f"{one.table or ''} {one.code}: {one.detail}".strip() for one in findings[:most]]
    return "; ".join(texts) + (f"; and {len(findings) - most} more" if len(findings) > most else "")
