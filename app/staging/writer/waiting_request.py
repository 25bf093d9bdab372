"""Requests that wait for the writer: what each holds, and how a group of them is divided when it fails."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from app.domain.model.table import TableId
from app.errors import Code, TemporarilyUnavailable
from app.staging.batches.batch import Receipt, StagingRequest
from app.staging.batches.pending_request import PendingRequest, type_pending_requests

MAX_ROWS_PER_CHANGE: Final = 2
"""An update that changes the key deletes one row and inserts another."""


class Waiter(Protocol):
    """Where the outcome of a request goes: a Future, or what takes its place."""

    def set_running_or_notify_cancel(self) -> bool: ...

    def done(self) -> bool: ...

    def set_result(self, result: list[Receipt], /) -> None: ...

    def set_exception(self, exception: BaseException, /) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class WaitingRequest:
    """A request, whom its outcome goes to, and when it came."""

    content: StagingRequest | PendingRequest
    waiter: Waiter
    submitted_at: float
    """Monotonic, in seconds."""

    @property
    def table_ids(self) -> frozenset[TableId]:
        if isinstance(self.content, PendingRequest):
            return frozenset({self.content.table.table_id})
        return frozenset(table.table_id for table in self.content.tables)

    @property
    def rows(self) -> int:
        if isinstance(self.content, PendingRequest):
            return MAX_ROWS_PER_CHANGE * len(self.content.changes)
        return sum(batch.rows.rows for batch in self.content.batches)


def typed_requests(group: Sequence[WaitingRequest]) -> list[tuple[WaitingRequest, StagingRequest]]:
    """The group with its untyped requests typed, without those whose callers must type them alone."""
    together = type_pending_requests([r.content for r in group if isinstance(r.content, PendingRequest)])
    typed = []
    for request in group:
        content = together[request.content] if isinstance(request.content, PendingRequest) else request.content
        if isinstance(content, StagingRequest):
            typed.append((request, content))
        else:
            request.waiter.set_exception(content)
    return typed


def parts_of(group: Sequence[WaitingRequest], cause: Exception) -> list[Sequence[WaitingRequest]]:
    """How to divide a group that failed; one part where each request would fail alike, as without a database.

    A table that is locked fails only what shares a request with it. For any other cause the halves are staged each
    alone: of a thousand requests, one that fails is found in about twenty transactions.
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
