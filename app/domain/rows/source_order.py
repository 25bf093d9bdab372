"""Table option `source_order=enforce`: accepts each change of a source's log once, in the order of the log.

A format says where a change is in its log (`LogPosition`); this module compares positions and knows no format.
Positions are kept by log, source task and, if the request names it, partition: changes of another partition can arrive
later with lower positions.

A position below the last accepted one is a repeat. If several changes can have one position, one equal to it is a
repeat only if the row is the same. A repeat that the source made after everything that was accepted is no
repeat: the log has begun again, and nothing is dropped by mistake.

Invariant: a change is dropped only if its position was accepted before; in doubt it lands again.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from itertools import groupby
from operator import itemgetter, le, lt
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from app.domain.model.change import SEPARATOR, Change, LogPosition, Operation, SourceTime
from app.domain.model.names import ROW_MARKER
from app.domain.rows.landing_rows import LandingRows
from app.domain.rows.row_facts import source_times, time_of_number
from app.domain.rows.row_rules import LogRun, ShapedChanges
from mirrorgate.errors import Code, Problem, RejectedInput

MAX_PARTITION_CHARACTERS: Final = 128
MAX_KEPT_ROWS: Final = 1_000
"""Rows at the last position that are recognized when they are repeated; of more, the latest."""

Identify: TypeAlias = Callable[[Sequence[Change]], Sequence[str]]
"""Returns what tells the landing rows of changes apart. Raises RejectedInput for changes that cannot land."""


def order_key(task: str, partition: str | None) -> str:
    """Return the key of a task's positions; without a partition, its own name. A log is named before it."""
    name = task.replace(SEPARATOR, " ")
    return name if partition is None else f"{name}{SEPARATOR}{partition}"


def position_key(change: Change, task: str) -> str | None:
    """Return the key under which the position of a change is kept, None if it has no position."""
    return None if change.log_position is None else change.log_position.log + task


@dataclass(frozen=True, slots=True)
class Reached:
    """The accepted position of a log."""

    position: str
    rows: frozenset[str] = frozenset()
    """Identities of the accepted rows at this position."""
    newest: datetime | None = None
    """The latest time of an accepted change, as its source gives it."""

    def then(self, later: "Reached") -> "Reached":
        """Return how far the log is accepted after these changes too."""
        times = [time for time in (self.newest, later.newest) if time is not None]
        if later.position > self.position:
            return Reached(later.position, later.rows, max(times, default=None))
        rows = self.rows | later.rows if later.position == self.position else self.rows
        return Reached(self.position, rows if len(rows) <= MAX_KEPT_ROWS else later.rows, max(times, default=None))


class Advance(NamedTuple):
    """The move of a log's position by the changes of a batch."""

    key: str
    first: str
    """The lowest position."""
    seen: Reached | None
    """Position up to which the log was accepted when duplicates were dropped; None on the columnar path."""
    to: Reached

    def follows(self, present: Reached | None) -> bool:
        """Return True if the changes can be accepted where the log is accepted so far."""
        return present is None or present.position < self.first or present == self.seen


@dataclass(frozen=True, slots=True)
class OrderedChanges:
    """The changes of a request that were not accepted before, and how many were."""

    accepted: Sequence[Change]
    duplicates: int
    by_key: Mapping[str, Sequence[Change]]
    """The accepted changes by the key of their position, where they have one."""

    def advances(self, reached: Mapping[str, Reached], identify: Identify) -> Sequence[Advance]:
        """Return how the accepted changes move the positions."""
        return [_advance(key, changes, reached.get(key), identify) for key, changes in self.by_key.items() if changes]


def in_source_order(
    changes: Sequence[tuple[str, Change]], reached: Mapping[str, Reached], identify: Identify
) -> OrderedChanges:
    """Drop the changes of a table that were accepted before; each has its task.

    Raises RejectedInput `out_of_order` where one is below another before it and was not accepted before,
    `bad_sequence` where a change of the log has no position, `position_restarted` where one that seems accepted was
    made later than all that were.
    """
    order = _Order(reached, identify)
    for task, change in changes:
        order.add(position_key(change, task), change)
    order.check_times()
    if order.problems:
        raise RejectedInput.of(tuple(sorted(order.problems, key=lambda problem: problem.index or 0)))
    return OrderedChanges(order.accepted, order.duplicates, order.by_key)


@dataclass(slots=True)
class _Order:
    reached: Mapping[str, Reached]
    identify: Identify
    accepted: list[Change] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    duplicates: int = 0
    by_key: dict[str, list[Change]] = field(default_factory=dict)
    _at: dict[tuple[str, str], list[Change]] = field(default_factory=dict)
    """The changes of the request at each position."""
    _dropped: dict[str, list[Change]] = field(default_factory=dict)

    def add(self, key: str | None, change: Change) -> None:
        where = change.log_position
        if key is None or where is None:
            if change.operation is not Operation.SNAPSHOT:
                detail = "the change has no position that can be compared with others of its source"
                self.problems.append(Problem(Code.BAD_SEQUENCE, detail, change.index, change.position_at))
            else:
                self.accepted.append(change)
            return
        before, known = self.reached.get(key), self._at.setdefault((key, where.position), [])
        if before is not None and self._is_accepted(change, where, before):
            self._dropped.setdefault(key, []).append(change)
            self.duplicates += 1
        elif known and (not where.shared or self._identity(change) in {*map(self._identity, known)}):
            self.duplicates += 1
        elif not known and self._is_late(key, where):
            detail = "the position of the change is below that of an earlier change of the request"
            self.problems.append(Problem(Code.OUT_OF_ORDER, detail, change.index, change.position_at))
        else:
            known.append(change)
            self.accepted.append(change)
            self.by_key.setdefault(key, []).append(change)

    def check_times(self) -> None:
        """Add a problem for each dropped change that its source made after all that were accepted."""
        for key, changes in self._dropped.items():
            newest = self.reached[key].newest
            if newest is None:
                continue
            for change, time in zip(changes, _times([change.source_time for change in changes]), strict=True):
                if time is not None and time > newest:
                    detail = "the position was accepted before, but the source made the change after all that were"
                    self.problems.append(Problem(Code.POSITION_RESTARTED, detail, change.index, change.position_at))

    def _is_accepted(self, change: Change, where: LogPosition, before: Reached) -> bool:
        if where.position == before.position:
            return not where.shared or self._identity(change) in before.rows
        return where.position < before.position and not where.is_unclear(before.position)

    def _is_late(self, key: str, where: LogPosition) -> bool:
        accepted = self.by_key.get(key)
        highest = accepted[-1].log_position if accepted else None
        return highest is not None and where.position < highest.position and not where.is_unclear(highest.position)

    def _identity(self, change: Change) -> str:
        try:
            return self.identify([change])[0]
        except RejectedInput:
            return ""  # it will be rejected where it is typed


def _advance(key: str, changes: Sequence[Change], seen: Reached | None, identify: Identify) -> Advance:
    positions = [change.log_position.position for change in changes if change.log_position is not None]
    last = max(positions)
    final = [change for change, position in zip(changes, positions, strict=True) if position == last]
    is_shared = any(change.log_position is not None and change.log_position.shared for change in final)
    rows = frozenset(identify(final[-MAX_KEPT_ROWS:])) if is_shared else frozenset()
    times = _times([change.source_time for change in changes])
    to = Reached(last, rows, max((time for time in times if time is not None), default=None))
    return Advance(key, min(positions), seen, to if seen is None else seen.then(to))


def advances_of_shaped(changes: ShapedChanges, rows: LandingRows, task: str) -> Sequence[Advance] | None:
    """Return how changes of the columnar path move the position of their log.

    None if only the exact path can tell: a change has no position, they are of several logs, or repeat or are out of
    order within the request.
    """
    run = changes.log() if changes.log is not None else None
    if run is None or rows.has_snapshots:
        return () if run is None and (rows.has_snapshots or not changes.shapes) else None
    last = _rows_at_last(run.positions, rows, is_shared=run.last.shared)
    if last is None:
        return None
    reached = Reached(run.last.position, last, _newest(run.times))
    return [Advance(run.first.log + task, run.first.position, None, reached)]


def run_of(positions: Sequence[LogPosition | None], times: Sequence[SourceTime]) -> LogRun | None:
    """Return the positions of a request; None if one is missing or they are of several logs."""
    known = [position for position in positions if position is not None]
    if not known or len(known) < len(positions) or len({position.log for position in known}) > 1:
        return None
    return LogRun(known[0], known[-1], [position.position for position in known], times)


def _rows_at_last(positions: Sequence[Any], rows: LandingRows, *, is_shared: bool) -> frozenset[str] | None:
    """Return the rows at the last position; None if positions fall, or rows at one position are not told apart."""
    if all(map(lt, positions, positions[1:])):
        return frozenset(row_identities(rows.batch, [rows.rows - 1]) if is_shared else ())
    if not is_shared or rows.rows != len(positions) or not all(map(le, positions, positions[1:])):
        return None
    at: Sequence[int] = ()
    for _, run in groupby(enumerate(positions), itemgetter(1)):
        at = [number for number, _ in run]
        if len(at) > 1 and len({*row_identities(rows.batch, at)}) < len(at):
            return None
    return frozenset(row_identities(rows.batch, at[-MAX_KEPT_ROWS:]))


def _newest(times: Sequence[SourceTime]) -> datetime | None:
    """Return the latest time; where times sort as they are written, only one is read."""
    written: Sequence[Any] = times
    kinds = {*map(type, times)}
    if kinds == {int}:
        lowest, highest = min(written), max(written)
        if len(str(lowest)) == len(str(highest)) <= _DIGITS_OF_64_BITS:
            return time_of_number(highest)
    elif kinds == {str} and _sort_as_texts(written):
        times = [max(written)]
    newest: datetime | None = pc.max(source_times(times)).as_py()
    return newest


_DIGITS_OF_64_BITS: Final = 18


def _sort_as_texts(times: Sequence[str]) -> bool:
    """Return True if times differ in digits only, and have no offset from UTC."""
    form = times[0].translate(_DIGITS)
    return (
        form.isascii()
        and "+" not in form
        and form.count("-") <= _OF_A_DATE
        and len({*map(len, times)}) == 1
        and ",".join(times).translate(_DIGITS) == ",".join([form] * len(times))
    )


_DIGITS: Final = dict.fromkeys(map(ord, "0123456789"))
_OF_A_DATE: Final = 2
"""Hyphens of a date; another one is the sign of an offset."""


def row_identities(batch: pa.RecordBatch, rows: Collection[int]) -> list[str]:
    """Return a digest of each of these landing rows, which options and new columns of the table do not change."""
    # A slice takes a tenth of the time of `take`.
    chosen = batch.slice(*rows, 1) if len(rows) == 1 else batch.take(pa.array(rows, pa.int64()))
    told = ({name: v for name, v in row.items() if v is not None and name[0] != "\0"} for row in chosen.to_pylist())
    return [sha256(repr(row | {ROW_MARKER: row[ROW_MARKER] % 4}).encode()).hexdigest()[:32] for row in told]


def _times(written: Sequence[SourceTime]) -> Sequence[datetime | None]:
    times: Sequence[datetime | None] = source_times(written).to_pylist()
    return times
