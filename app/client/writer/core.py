"""What a writer decides, without input or output, threads or a clock: callers pass the time and the answers.

Rows wait in one queue. A request is a run of rows at its front, which stay there until the answer is known: so no row
can be lost or overtaken. Invariant: at most one request is open, and `settled` rows are durable or were handed to the
caller as rejected.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NamedTuple

from app.client.http import RejectedByGateway
from app.client.request_names import ChangeRequest
from app.client.writer.outcome import (
    Accepted,
    Receipt,
    RejectedRow,
    RowsRejected,
    accepted_of,
    concerns_one_row,
    first_problems,
    merged,
)
from app.errors import Code, MirrorgateError, RejectedInput

ROW_OVERHEAD_BYTES: Final = 200
"""Memory of a waiting row beyond its text."""
_TOO_LARGE: Final = frozenset({Code.BODY_TOO_LARGE, Code.TOO_MANY_MESSAGES, Code.TOO_MANY_NESTED_VALUES})


@dataclass(frozen=True, slots=True)
class BufferLimits:
    """When a request is sent, and how much may wait. Raises RejectedInput `bad_request` for a limit of 0."""

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
        if min(self.request_bytes, self.request_rows, self.buffer_bytes) < 1 or self.max_age < 0:
            raise RejectedInput(Code.BAD_REQUEST, "a limit of a writer's buffer is not positive")


class _Row(NamedTuple):
    body: bytes
    handle: Any
    number: int
    position: str | None
    written_at: float


class WriterCore:
    """The queue of one writer and its open request. The caller serializes all calls."""

    def __init__(
        self, source_format: str, parameters: Mapping[str, str], limits: BufferLimits, *, hands_over: bool
    ) -> None:
        """Begin empty. With `hands_over`, rejected rows are returned by `reject`, and the others are sent again."""
        self.written = 0
        self.settled = 0
        self._source_format = source_format
        self._parameters = parameters
        self._limits = limits
        self._hands_over = hands_over
        self._rows: deque[_Row] = deque()
        self._text_bytes = 0
        self._request_bytes = limits.request_bytes
        self._open_rows = 0
        self._leaving: set[int] = set()
        """Indexes in the open request of the rows that `settle` removes."""
        self._flush_until = 0
        self._is_repeating = False
        self._receipts: dict[tuple[str, int], Receipt] = {}

    def has_room(self, body: bytes) -> bool:
        """Return True if a row can wait; the first one always can."""
        waiting = self._text_bytes + len(self._rows) * ROW_OVERHEAD_BYTES
        return not self._rows or waiting + len(body) + ROW_OVERHEAD_BYTES <= self._limits.buffer_bytes

    def add(self, body: bytes, handle: Any, position: str | None, now: float) -> None:
        """Append a row."""
        self._rows.append(_Row(body, self.written if handle is None else handle, self.written, position, now))
        self._text_bytes += len(body)
        self.written += 1

    def flush(self) -> int:
        """Make all rows due that were written by now. Return a mark: they are settled once `settled` reaches it."""
        self._flush_until = self.written
        return self.written

    def is_full(self) -> bool:
        """Return True if the next request would not grow by waiting."""
        return self._text_bytes >= self._request_bytes or len(self._rows) >= self._limits.request_rows

    def is_worth_a_look(self) -> bool:
        """Return True if the row that was just added can change when a request is due."""
        return len(self._rows) == 1 or self.is_full()

    def seconds_until_due(self, now: float) -> float | None:
        """Return how long to wait before `next_request`; 0 or less for a request that is due, None without rows."""
        if not self._rows:
            return None
        if self._is_repeating or self.settled < self._flush_until or self.is_full():
            return 0.0
        return self._rows[0].written_at + self._limits.max_age - now

    def next_request(self) -> ChangeRequest:
        """Open a request with the rows at the front, as many as fit; then call `accept` or `reject`, and `settle`."""
        size = 0
        self._open_rows = 0
        for row in islice(self._rows, self._limits.request_rows):
            size += len(row.body) + 1
            if size > self._request_bytes and self._open_rows:
                break
            self._open_rows += 1
        rows = self._open()
        position = next((row.position for row in reversed(rows) if row.position is not None), None)
        body = b"\n".join([row.body for row in rows])
        return ChangeRequest(self._source_format, body, self._parameters, position=position)

    def accept(self, answer: Mapping[str, Any]) -> Accepted:
        """Return what the answer says about the rows of the open request; `settle` removes them."""
        accepted = accepted_of([row.handle for row in self._open()], answer)
        self._receipts = merged(self._receipts, accepted.receipts)
        self._leaving = set(range(self._open_rows))
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
                self._request_bytes = sum(len(row.body) + 1 for row in rows) // 2
                self._leaving, self._is_repeating = set(), True
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
        rows = [self._rows.popleft() for _ in range(self._open_rows)]
        self._rows.extendleft(reversed([row for index, row in enumerate(rows) if index not in self._leaving]))
        self._text_bytes -= sum(len(rows[index].body) for index in self._leaving)
        self.settled += len(self._leaving)
        self._open_rows = 0

    def take_receipts(self) -> tuple[Receipt, ...]:
        """Return the receipts since the last call: one per table and generation, with the sums of the counts."""
        receipts, self._receipts = tuple(self._receipts.values()), {}
        return receipts

    def _open(self) -> list[_Row]:
        return list(islice(self._rows, self._open_rows))


def _rejected(row: _Row, index: int, problem: Mapping[str, Any], error: MirrorgateError) -> RejectedRow:
    code, detail = str(problem.get("code", error.code)), str(problem.get("detail", error.detail))
    return RejectedRow(row.handle, row.number, index, code, detail, error.remedy, problem.get("pointer"))
