"""Requests that wait for the staging thread, and the rule that splits a group of them after a failure."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self

from app.domain.model.table import TableId
from app.errors import Code, TemporarilyUnavailable
from app.observability.tracing import TraceParent, current_trace
from app.staging.batches.batch import Receipt, StagingRequest


class Waiter(Protocol):
    """The receiver of a request's outcome: a Future, or an object with these of its methods."""

    def set_running_or_notify_cancel(self) -> bool:
        """Return false if the caller has left; otherwise it can no longer cancel."""

    def done(self) -> bool:
        """Return true once there is an outcome."""

    def set_result(self, result: list[Receipt], /) -> None:
        """Give the receipts to the caller."""

    def set_exception(self, exception: BaseException, /) -> None:
        """Raise the exception for the caller."""


@dataclass(frozen=True, slots=True, eq=False)
class WaitingRequest:
    """A request, the receiver of its outcome, and the time of its submission."""

    content: StagingRequest
    waiter: Waiter
    submitted_at: float = field(default_factory=time.monotonic)
    """Monotonic, in seconds."""
    trace: TraceParent | None = field(default_factory=current_trace)
    """The context of the request's span, if that is recorded."""

    @property
    def table_ids(self) -> frozenset[TableId]:
        """Return the ids of the request's tables."""
        return self.content.table_ids

    @property
    def rows(self) -> int:
        """Return the number of landing rows."""
        return sum(batch.rows.rows for batch in self.content.batches)

    @property
    def landed_bytes(self) -> int:
        """Return the most bytes that the rows take as they land."""
        return sum([batch.rows.nbytes + batch.row_memory for batch in self.content.batches])


class UnreadRequest(Protocol):
    """A request whose body the staging thread reads, together with those that wait beside it."""

    @property
    def waiter(self) -> Waiter:
        """The receiver of the outcome."""

    @property
    def submitted_at(self) -> float:
        """The time of the submission, monotonic, in seconds."""

    @property
    def size(self) -> int:
        """The bytes of the body."""

    def read(self, together: Sequence[Self], /) -> list[WaitingRequest]:
        """Return what is to be staged of these requests, this one among them. The waiters of the others get why not.

        It never raises, and waits for nothing.
        """


def parts_of(group: Sequence[WaitingRequest], cause: Exception) -> list[Sequence[WaitingRequest]]:
    """Return the parts in which to stage a failed group; one part if each request would fail alike.

    If the database does not answer, all requests would fail. If a table is locked, the parts are the requests with
    the same tables, so that only those of the locked table fail. For any other cause the parts are halves, which find
    one bad request among a thousand in about twenty transactions.
    """
    if len(group) < 2 or (isinstance(cause, TemporarilyUnavailable) and cause.code is not Code.TABLE_BUSY):
        return [group]
    if isinstance(cause, TemporarilyUnavailable):
        by_tables: dict[frozenset[TableId], list[WaitingRequest]] = {}
        for request in group:
            by_tables.setdefault(request.table_ids, []).append(request)
        return [*by_tables.values()]
    middle = len(group) // 2
    return [group[:middle], group[middle:]]
