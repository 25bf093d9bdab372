"""What a check of the installation found, and whether the gateway may run on it."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Self


class Outcome(StrEnum):
    """*Unsafe*: rows could be lost, repeated or mixed up, or a power cut could take back what was acknowledged."""

    OK = "ok"
    WARNING = "warning"
    UNSAFE = "unsafe"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check's result; `check` is a stable name, the remedy says what an operator can do."""

    check: str
    outcome: Outcome
    detail: str
    remedy: str | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        return cls(stored["check"], Outcome(stored["outcome"]), stored["detail"], stored["remedy"])


def unsafe_among(findings: Iterable[Finding]) -> list[Finding]:
    """Those on which the gateway must not run."""
    return [finding for finding in findings if finding.outcome is Outcome.UNSAFE]


def judged(check: str, outcome: Outcome, good: str, bad: str | None, remedy: str) -> Finding:
    """`good` where there is nothing `bad` to say, else that, with this outcome and remedy."""
    return Finding(check, Outcome.OK, good) if bad is None else Finding(check, outcome, bad, remedy)
