"""The decisions of a writer, without input or output, threads or a clock: callers pass the time and the answers.

Rows wait in one queue. A request is a run of rows at its front, which remain there until the answer is known: so no row
can be lost or overtaken. Invariant: at most one request is open, and `settled` rows are durable or were handed to the
caller as rejected.
"""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from threading import TIMEOUT_MAX
from typing import Any, Final, TypeAlias

from mirrorgate.errors import Code, MirrorgateError, RejectedInput
from mirrorgate.errors.codes import KEPT
from mirrorgate.http import RejectedByGateway
from mirrorgate.producer import ChangeRequest

_OF_ONE_ROW: Final = KEPT | {
    Code.DUPLICATE_MEMBER,
    Code.MALFORMED_JSON,
    Code.MALFORMED_MESSAGE,
    Code.UNSTORABLE,
    Code.VALUE_TOO_LARGE,
}
"""Codes of problems that leave the other rows of a request acceptable."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The changes that a generation of a table accepted; `sequence` is that of the last batch."""

    table: str
    generation: int
    sequence: int
    changes: int
    rows: int


@dataclass(frozen=True, slots=True)
class Accepted:
    """A durable request of a writer: the handles of its rows, in their order, and its answer."""

    handles: Sequence[Any]
    receipts: Sequence[Receipt]
    ignored: int
    duplicates: int
    dead_letters: int
    replayed: bool
    """True if an earlier attempt was durable, whose answer was lost."""


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """A row that the gateway rejected, and the first reason."""

    handle: Any
    """Handle that was given to `write` with the row; by default `number`."""
    number: int
    """Number of rows that were written before this one."""
    index: int
    """Index of the row in the request."""
    code: str
    detail: str
    remedy: str
    pointer: str | None
    """JSON Pointer of the value at fault."""


class RowsRejected(MirrorgateError):
    """The gateway rejected rows, and the writer has stopped: rows after them must not overtake them.

    `rows` are the rejected ones. `unsent` counts all rows that were written and are not durable, with them.
    """

    def __init__(self, rows: Sequence[RejectedRow], cause: MirrorgateError, unsent: int) -> None:
        first = rows[0]
        others = f", and {len(rows) - 1} more rows" if len(rows) > 1 else ""
        super().__init__(cause.code, f"row {first.number}{others}: {first.detail}", remedy=cause.remedy)
        self.rows = tuple(rows)
        self.unsent = unsent


def accepted_of(handles: Sequence[Any], answer: Mapping[str, Any]) -> Accepted:
    """Return what the answer to a request says about these rows."""
    receipts = tuple(
        Receipt(one["table"], one["generation"], one["sequence"], one["changes"], one["rows"])
        for one in answer["receipts"]
    )
    counts = {name: answer.get(name, 0) for name in ("ignored", "duplicates", "dead_letters")}
    return Accepted(handles, receipts, **counts, replayed=answer["replayed"])


def first_problems(error: RejectedByGateway) -> dict[int, Mapping[str, Any]]:
    """Return the first problem of each message that an answer names, by its index in the request."""
    found: dict[int, Mapping[str, Any]] = {}
    for problem in error.errors:
        if "index" in problem:
            found.setdefault(problem["index"], problem)
    return found


def concerns_one_row(problem: Mapping[str, Any]) -> bool:
    """Return True if other rows of the request could be accepted without this one."""
    return problem.get("code") in _OF_ONE_ROW


def merged(receipts: Mapping[tuple[str, int], Receipt], new: Sequence[Receipt]) -> dict[tuple[str, int], Receipt]:
    """Return one receipt per table and generation, with the sums of the counts."""
    result = dict(receipts)
    for receipt in new:
        key = receipt.table, receipt.generation
        if earlier := result.get(key):
            changes, rows = earlier.changes + receipt.changes, earlier.rows + receipt.rows
            receipt = Receipt(*key, receipt.sequence, changes, rows)
        result[key] = receipt
    return result


ROW_OVERHEAD_BYTES: Final = 200
"""Memory of a waiting row beyond its text."""
_TOO_LARGE: Final = frozenset({Code.BODY_TOO_LARGE, Code.TOO_MANY_MESSAGES, Code.TOO_MANY_NESTED_VALUES})


@dataclass(frozen=True, slots=True)
class BufferLimits:
    """Limits of a request, and of the waiting rows. Raises RejectedInput `bad_request` for a limit of 0 or infinity."""

    request_bytes: int = 2**20
    """A request is due when its rows have this many bytes, and has no more unless one row does."""
    request_rows: int = 20_000
    """A request is due when it has this many rows, and never has more."""
    max_age: float = 0.5
    """A request is due when its first row has waited this many seconds."""
    buffer_bytes: int = 2**24
    """Memory of all waiting rows; `write` waits for room beyond it."""

    def __post_init__(self) -> None:
        """Check the limits."""
        if min(self.request_bytes, self.request_rows, self.buffer_bytes) < 1 or not 0 <= self.max_age <= TIMEOUT_MAX:
            raise RejectedInput(Code.BAD_REQUEST, "a limit of a writer's buffer is not positive, or infinite")


_Row: TypeAlias = tuple[bytes, Any, int, str | None, float]
"""Text, handle, number, position and time of a row; plain, because a named tuple takes as long as encoding the row."""


class WriterCore:
    """The queue of one writer and its open request. The caller serializes all calls."""

    def __init__(
        self, source_format: str, parameters: Mapping[str, str], limits: BufferLimits, *, hands_over: bool
    ) -> None:
        """Begin empty. With `hands_over`, rejected rows are returned by `reject`, and the others are sent again."""
        self.written = 0
        self.settled = 0
        self._next = ChangeRequest(source_format, b"", parameters)
        self._limits = limits
        self._hands_over = hands_over
        self._rows: deque[_Row] = deque()
        self._text_bytes = 0
        self._request_bytes = limits.request_bytes
        self._open_rows = 0
        self._leaving: Collection[int] = ()
        """Indexes in the open request of the rows that `settle` removes."""
        self._flush_until = 0
        self._is_repeating = False
        self._receipts: dict[tuple[str, int], Receipt] = {}

    def has_room(self, body: bytes) -> bool:
        """Return True if a row can wait; the first one always can."""
        waiting = self._text_bytes + (len(self._rows) + 1) * ROW_OVERHEAD_BYTES
        return waiting + len(body) <= self._limits.buffer_bytes or not self._rows

    def add(self, body: bytes, handle: Any, position: str | None, now: float) -> bool:
        """Append a row. Return True if that can change when a request is due."""
        self._rows.append((body, self.written if handle is None else handle, self.written, position, now))
        before, self._text_bytes = self._text_bytes, self._text_bytes + len(body)
        self.written += 1
        return before < self._request_bytes <= self._text_bytes or len(self._rows) in (1, self._limits.request_rows)

    def is_open(self) -> bool:
        """Return True while a request has no answer."""
        return self._open_rows > 0

    def flush(self) -> int:
        """Make all rows due that were written by now. Return a mark: they are settled once `settled` reaches it."""
        self._flush_until = self.written
        return self.written

    def is_full(self) -> bool:
        """Return True if the next request would not grow by waiting."""
        return self._text_bytes >= self._request_bytes or len(self._rows) >= self._limits.request_rows

    def seconds_until_due(self, now: float) -> float | None:
        """Return how long to wait before `next_request`; 0 or less for a request that is due, None without rows."""
        if not self._rows:
            return None
        if self._is_repeating or self.settled < self._flush_until or self.is_full():
            return 0.0
        *_, written_at = self._rows[0]
        return written_at + self._limits.max_age - now

    def next_request(self) -> ChangeRequest:
        """Open a request with the rows at the front, as many as fit; then call `accept` or `reject`, and `settle`."""
        size = 0
        bodies: list[bytes] = []
        last = None
        for body, _, _, position, _ in islice(self._rows, self._limits.request_rows):
            size += len(body) + 1
            if size > self._request_bytes and bodies:
                break
            bodies.append(body)
            last = last if position is None else position
        self._open_rows = len(bodies)
        return replace(self._next, body=b"\n".join(bodies), position=last)

    def accept(self, answer: Mapping[str, Any]) -> Accepted:
        """Return what the answer says about the rows of the open request; `settle` removes them."""
        accepted = accepted_of([handle for _, handle, _, _, _ in self._open()], answer)
        self._receipts = merged(self._receipts, accepted.receipts)
        self._leaving = range(self._open_rows)
        self._is_repeating = False
        return accepted

    def reject(self, error: RejectedByGateway) -> Sequence[RejectedRow]:
        """Return the rejected rows of the open request, of which nothing is durable; `settle` removes them.

        The others are due again, in smaller requests if this one was too large. Raises RowsRejected or the error itself
        if the writer has to stop.
        """
        rows, problems = self._open(), first_problems(error)
        if error.code in _TOO_LARGE:
            if len(rows) > 1:
                self._request_bytes = sum(len(body) + 1 for body, *_ in rows) // 2
                self._leaving, self._is_repeating = (), True
                return []
            problems = {0: {"code": Code.VALUE_TOO_LARGE, "detail": error.detail}}
        rejected = [_rejected(rows[index], index, problems[index], error) for index in sorted(problems)]
        if not rejected:
            raise error
        if not (self._hands_over and all(map(concerns_one_row, problems.values()))):
            raise RowsRejected(rejected, error, self.written - self.settled) from error
        self._leaving, self._is_repeating = set(problems), True
        return rejected

    def settle(self) -> None:
        """Close the open request: remove its rows that are durable or were handed over."""
        kept = []
        for index in range(self._open_rows):
            row = self._rows.popleft()
            if index in self._leaving:
                self._text_bytes -= len(row[0])
            else:
                kept.append(row)
        self._rows.extendleft(reversed(kept))
        self.settled += len(self._leaving)
        self._open_rows = 0

    def take_receipts(self) -> tuple[Receipt, ...]:
        """Return the receipts since the last call: one per table and generation, with the sums of the counts."""
        receipts, self._receipts = tuple(self._receipts.values()), {}
        return receipts

    def _open(self) -> list[_Row]:
        return list(islice(self._rows, self._open_rows))


def _rejected(row: _Row, index: int, problem: Mapping[str, Any], error: MirrorgateError) -> RejectedRow:
    _, handle, number, *_ = row
    code, detail = str(problem.get("code", error.code)), str(problem.get("detail", error.detail))
    return RejectedRow(handle, number, index, code, detail, error.remedy, problem.get("pointer"))
