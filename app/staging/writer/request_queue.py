"""The queue in front of the staging thread: requests to read or to stage in groups, and queries between two groups.

Any thread may put; only the staging thread takes groups and queries. A closed queue takes nothing more, but gives out
everything that it holds.

A group that fails because of one of its requests is split and staged in parts (`parts_of`).
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, Self, TypeAlias

import sqlalchemy as sa

from app.domain.model.table import TableId
from app.observability.tracing import TraceParent, current_trace
from app.staging.batches.batch import Receipt, StagingRequest
from mirrorgate.errors import Code, TemporarilyUnavailable


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


@dataclass(slots=True, eq=False)
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
        """Return the requests to stage from these and this one. Waiters of rejected requests get the rejection.

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


MAX_GROUP_REQUESTS: Final = 1_000
"""Requests of one group."""

MAX_GROUP_ROWS: Final = 500_000
"""Rows of one group, unless its first request alone has more."""

MAX_GROUP_BYTES: Final = 64 * 2**20
"""Bytes of the landing rows of one group, unless its first request alone has more: a group is a block of each table,
which a drain decodes as a whole."""

MAX_BYTES_TOGETHER: Final = 2**20
"""Bytes of the bodies that are read together; a longer body is read alone."""

Query: TypeAlias = Callable[[sa.Connection, sa.RootTransaction], None]


class RequestQueue:
    """A thread-safe queue."""

    def __init__(self) -> None:
        self._unread: deque[UnreadRequest] = deque()
        self._requests: deque[WaitingRequest] = deque()
        self._queries: list[tuple[Query, Future[None]]] = []
        self._condition = threading.Condition()
        self.is_closed = False

    def close(self) -> None:
        """Reject later requests and queries."""
        with self._condition:
            self.is_closed = True
            self._condition.notify()

    def put(self, *requests: WaitingRequest) -> None:
        """Add requests. Raises TemporarilyUnavailable `shutting_down` once the queue is closed."""
        with self._condition:
            self._require_open()
            self._requests.extend(requests)
            self._condition.notify()

    def put_unread(self, requests: Sequence[UnreadRequest]) -> None:
        """Add requests that are to be read. Raises TemporarilyUnavailable `shutting_down` once the queue is closed."""
        with self._condition:
            self._require_open()
            self._unread.extend(requests)
            self._condition.notify()

    def put_query(self, query: Query) -> "Future[None]":
        """Add a query and return its future. Raises TemporarilyUnavailable `shutting_down` once the queue is closed."""
        future: Future[None] = Future()
        with self._condition:
            self._require_open()
            self._queries.append((query, future))
            self._condition.notify()
        return future

    def wait_for_work(self) -> bool:
        """Wait until there is a request or a query; return false once the queue is closed and empty."""
        with self._condition:
            self._condition.wait_for(lambda: self._unread or self._requests or self._queries or self.is_closed)
            return bool(self._unread or self._requests or self._queries)

    def take_queries(self) -> list[tuple[Query, "Future[None]"]]:
        """Take all queries."""
        with self._condition:
            queries, self._queries = self._queries, []
        return queries

    def read_waiting(self) -> bool:
        """Read the requests that wait for it, up to MAX_BYTES_TOGETHER at a time; return True if there are any.

        A closed queue keeps what is read.
        """
        with self._condition:
            waiting, self._unread = self._unread, deque()
        has_short = bool(waiting)
        while waiting:
            together = [waiting.popleft()]
            size = together[0].size
            while waiting and (size := size + waiting[0].size) <= MAX_BYTES_TOGETHER:
                together.append(waiting.popleft())
            read = together[0].read(together)
            with self._condition:
                self._requests.extend(read)
        return has_short

    def take_group(self) -> list[WaitingRequest]:
        """Take the waiting requests in order, up to the limits of a group.

        A request whose client has left is dropped. From here on the future of a request can no longer be canceled.
        """
        group: list[WaitingRequest] = []
        rows = size = 0
        with self._condition:
            while self._requests and len(group) < MAX_GROUP_REQUESTS:
                request = self._requests[0]
                landed = request.landed_bytes
                if group and (rows + request.rows > MAX_GROUP_ROWS or size + landed > MAX_GROUP_BYTES):
                    break
                self._requests.popleft()
                if request.waiter.set_running_or_notify_cancel():
                    group.append(request)
                    rows, size = rows + request.rows, size + landed
        return group

    def take_submitted_before(self, moment: float) -> list[WaitingRequest | UnreadRequest]:
        """Take the requests that were submitted before a monotonic time, read or not."""
        expired: list[WaitingRequest | UnreadRequest] = []
        with self._condition:
            queues: tuple[deque[Any], ...] = (self._requests, self._unread)
            for queue in queues:
                while queue and queue[0].submitted_at < moment:
                    expired.append(queue.popleft())
        return expired

    def waiting(self) -> tuple[int, float | None]:
        """Return the number of waiting requests, and when the oldest one was submitted."""
        with self._condition:
            oldest = [queue[0].submitted_at for queue in (self._requests, self._unread) if queue]
            return len(self._requests) + len(self._unread), min(oldest, default=None)

    def _require_open(self) -> None:
        if self.is_closed:
            raise TemporarilyUnavailable(Code.SHUTTING_DOWN, "this API process is stopping")
