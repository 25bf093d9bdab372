"""The progress of a source as its changes report it: its time, the tool's own lag, and Arcion's counts of operations.

Arcion's `operationcount` counts the operations that it has processed. Whether it counts them per table is not
documented, so a jump counts as lost messages only once the counts of a table have grown by one for each change for a
while; see docs/contribute/decisions/0078-operation-counts.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, NamedTuple

from app.domain.model.change import Change, SourceTime

PROVEN_CHANGES: Final = 100
"""Changes in a row with consecutive counts, after which a jump means that messages are missing."""

_MAX_SECONDS: Final = 10**11
_MAX_MILLIS: Final = 10**14
_MAX_MICROS: Final = 10**17
_MAX_COUNT: Final = 2**62


def seconds_of(time: SourceTime) -> float | None:
    """Return a time of the source as seconds since 1970, as `source_times` reads it; None if it is none."""
    if isinstance(time, str):
        text = time.strip()
        if not text.lstrip("-").isdecimal():
            try:
                read = datetime.fromisoformat(text)
            except ValueError:
                return None
            return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
        time = int(text) if len(text) <= len(str(_MAX_COUNT)) else 0
    if not time:
        return None
    size = abs(time)
    if size < _MAX_SECONDS:
        return float(time)
    if size < _MAX_MILLIS:
        return time / 1e3
    return time / 1e6 if size < _MAX_MICROS else time / 1e9


class OperationCounts(NamedTuple):
    """Arcion's counts of operations at the first and the last message of a request, and how many messages it has."""

    first: int
    last: int
    messages: int


class SourceProgress(NamedTuple):
    """The source's progress at the last change of a request."""

    committed: float | None = None
    """Time at which the source made the change, in seconds since 1970."""
    extraction_seconds: float | None = None
    """Seconds from then until the tool read it, if the tool tells."""
    counts: OperationCounts | None = None


NO_PROGRESS: Final = SourceProgress()


def progress(committed: SourceTime, extracted: SourceTime, counts: OperationCounts | None = None) -> SourceProgress:
    """Return the progress that times and counts tell."""
    made, read = seconds_of(committed), seconds_of(extracted)
    return SourceProgress(made, None if made is None or read is None else max(0.0, read - made), counts)


def progress_of(changes: Sequence[Change]) -> SourceProgress:
    """Return the progress that changes tell. Counts are those of all messages, see `counts_of`."""
    last = next((change for change in reversed(changes) if change.source_time is not None), None)
    return NO_PROGRESS if last is None else progress(last.source_time, last.extracted_time)


def counts_of(changes: Sequence[Change], set_aside: int = 0) -> OperationCounts | None:
    """Return the counts of the messages of a request for one table, with those that are set aside."""
    if not changes:
        return None
    first, last = changes[0].operation_count, changes[-1].operation_count
    return None if first is None or last is None else OperationCounts(first, last, len(changes) + set_aside)


@dataclass(frozen=True, slots=True)
class Counted:
    """The counts of a table's operations so far."""

    last: int | None = None
    """The highest count; None before the first."""
    run: int = 0
    """Changes in a row with consecutive counts."""
    missing: int = 0
    """Changes that are missing, since the table's generation began or was loaded completely."""

    @property
    def is_proven(self) -> bool:
        """True if the counts have been those of this table alone for a while."""
        return self.run >= PROVEN_CHANGES

    def then(self, counts: OperationCounts) -> "Counted":
        """Return the counts after a request. A repeat changes nothing; a count from 1 on begins again."""
        inside = counts.last - counts.first - (counts.messages - 1)
        if self.last is None or counts.first == 1 or inside < 0:
            begun = self.last if inside < 0 and self.last is not None else 0
            return replace(self, last=max(begun, counts.last), run=counts.messages if inside == 0 else 0)
        if counts.last <= self.last:
            return self
        gap = max(0, counts.first - self.last - 1) + inside
        run = min(counts.last - self.last, counts.messages)
        if gap == 0:
            return replace(self, last=counts.last, run=min(self.run + run, PROVEN_CHANGES))
        missing = gap if self.is_proven else 0
        return Counted(counts.last, run if inside == 0 else 0, self.missing + missing)


NOT_COUNTED: Final = Counted()
