"""The shape of an entry of the catalogue."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    """Fabric stops the table, or its rows are wrong."""
    WARNING = "warning"
    """It can go wrong, or works only by chance."""
    ADVICE = "advice"
    """It works, and could be cheaper, faster or safer."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Severity, meaning and remedy of a code."""

    severity: Severity
    meaning: str
    remedy: str


def error(meaning: str, remedy: str) -> Entry:
    """Return an entry for what stops a table or makes its rows wrong."""
    return Entry(Severity.ERROR, meaning, remedy)


def warning(meaning: str, remedy: str) -> Entry:
    """Return an entry for what can go wrong."""
    return Entry(Severity.WARNING, meaning, remedy)


def advice(meaning: str, remedy: str) -> Entry:
    """Return an entry for what could be better."""
    return Entry(Severity.ADVICE, meaning, remedy)
