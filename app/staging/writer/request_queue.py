"""The queue in front of the staging thread: requests to read, to stage in groups, and queries between two groups.

Any thread may put; only the staging thread takes groups and queries. A closed queue takes nothing more, but gives out
everything that it holds.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Final, TypeAlias

import sqlalchemy as sa

from app.errors import Code, TemporarilyUnavailable
from app.staging.writer.waiting_request import UnreadRequest, WaitingRequest

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

    def read_waiting(self) -> None:
        """Read the requests that wait for it, up to MAX_BYTES_TOGETHER at a time. A closed queue keeps what is read."""
        with self._condition:
            waiting, self._unread = self._unread, deque()
        for together in _by_bytes(waiting):
            read = together[0].read(together)
            with self._condition:
                self._requests.extend(read)

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


def _by_bytes(waiting: deque[UnreadRequest]) -> Iterator[Sequence[UnreadRequest]]:
    """Cut what waits into parts of at most MAX_BYTES_TOGETHER, or of one longer body."""
    part: list[UnreadRequest] = []
    size = 0
    for request in waiting:
        size += request.size
        if part and size > MAX_BYTES_TOGETHER:
            yield part
            part, size = [], request.size
        part.append(request)
    if part:
        yield part
