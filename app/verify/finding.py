"""What a check reports: one deviation from the rules of open mirroring, at one place."""

from dataclasses import dataclass

from app.verify.codes import FindingCode, Severity


@dataclass(frozen=True, slots=True)
class Finding:
    """One deviation. Severity and remedy follow from the code."""

    code: FindingCode
    detail: str
    """What is wrong, with names and numbers and without a row value."""
    table: str | None = None
    """`schema.table` or `table`; None for a finding about the zone."""
    file: str | None = None
    """Path below the zone's root; None for a finding about the table or the zone."""

    @property
    def severity(self) -> Severity:
        """How bad it is."""
        return self.code.severity

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return self.code.remedy

    def to_json(self) -> dict[str, str | None]:
        """Return the finding as `verify --json` prints it."""
        return {
            "code": self.code,
            "severity": self.severity,
            "table": self.table,
            "file": self.file,
            "detail": self.detail,
            "remedy": self.remedy,
        }
