"""The doctor: each check of this process, of Postgres and of the landing zone, what is wrong first."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from app.domain.preflight.finding import Finding, Outcome

PATH: Final = "/console/doctor"

_ORDER: Final = (Outcome.UNSAFE, Outcome.WARNING, Outcome.OK)


@dataclass(frozen=True, slots=True)
class FindingRow:
    """A finding as the page shows it."""

    label: str
    outcome: str
    detail: str
    remedy: str


@dataclass(frozen=True, slots=True)
class DoctorView:
    """The findings, and whether the landing zone was among what was examined."""

    rows: tuple[FindingRow, ...]
    zone: str | None
    """The address of the landing zone that this process has; None without one."""
    zone_examined: bool

    @property
    def troubles(self) -> int:
        """Return how many findings are not ok."""
        return sum(row.outcome != Outcome.OK for row in self.rows)


def doctor_view(findings: Iterable[Finding], zone: str | None, *, zone_examined: bool) -> DoctorView:
    """Return the findings, unsafe ones first."""
    ordered = sorted(findings, key=lambda finding: _ORDER.index(finding.outcome))
    rows = (
        FindingRow(finding.check.replace("_", " "), finding.outcome, finding.detail, finding.remedy or "")
        for finding in ordered
    )
    return DoctorView(tuple(rows), zone, zone_examined)
