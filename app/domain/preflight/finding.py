"""What a check of the installation found, and whether the gateway may run on it."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Self


class Outcome(StrEnum):
    """The outcome of a check. *Unsafe*: rows could be lost, repeated or mixed up, or a receipt could be undone."""

    OK = "ok"
    WARNING = "warning"
    UNSAFE = "unsafe"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check; `check` is a stable name, the remedy says what an operator can do."""

    check: str
    outcome: Outcome
    detail: str
    remedy: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the finding as it is reported."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Read a reported finding."""
        return cls(stored["check"], Outcome(stored["outcome"]), stored["detail"], stored["remedy"])


def unsafe_among(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings with which the gateway must not run."""
    return [finding for finding in findings if finding.outcome is Outcome.UNSAFE]


def judged(check: str, outcome: Outcome, *, good: str, bad: str | None, remedy: str) -> Finding:
    """Return an OK finding with the text `good`, or one with `outcome` and `remedy` if there is a text `bad`."""
    return Finding(check, Outcome.OK, good) if bad is None else Finding(check, outcome, bad, remedy)
