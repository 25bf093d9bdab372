"""The queue in front of the staging thread: requests to stage in groups, and queries to run between two groups.

Any thread may put; only the staging thread takes groups and queries. A closed queue takes nothing more, but gives out
everything that it holds.
"""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, TypeAlias

import sqlalchemy as sa

from app.errors import Code, TemporarilyUnavailable
from app.staging.writer.waiting_request import WaitingRequest

MAX_GROUP_REQUESTS: Final = 1_000
"""Requests of one group."""

MAX_GROUP_ROWS: Final = 500_000
"""Rows of one group, unless its first request alone has more."""

MAX_GROUP_BYTES: Final = 64 * 2**20
"""Bytes of the landing rows of one group, unless its first request alone has more: a group is a block of each table,
which a drain decodes as a whole."""

Query: TypeAlias = Callable[[sa.Connection, sa.RootTransaction], None]


class RequestQueue:
    """A thread-safe queue."""

    def __init__(self) -> None:
        self._requests: deque[WaitingRequest] = deque()
        self._queries: list[tuple[Query, Future[None]]] = []
        self._condition = threading.Condition()
        self.is_closed = False

    def close(self) -> None:
        """Reject later requests and queries."""
        with self._condition:
            self.is_closed = True
            self._condition.notify()

    def put(self, request: WaitingRequest) -> None:
        """Add a request. Raises TemporarilyUnavailable `shutting_down` once the queue is closed."""
        with self._condition:
            self._require_open()
            self._requests.append(request)
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
            self._condition.wait_for(lambda: self._requests or self._queries or self.is_closed)
            return bool(self._requests or self._queries)

    def take_queries(self) -> list[tuple[Query, "Future[None]"]]:
        """Take all queries."""
        with self._condition:
            queries, self._queries = self._queries, []
        return queries

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

    def take_submitted_before(self, moment: float) -> list[WaitingRequest]:
        """Take the requests that were submitted before a monotonic time."""
        expired: list[WaitingRequest] = []
        with self._condition:
            while self._requests and self._requests[0].submitted_at < moment:
                expired.append(self._requests.popleft())
        return expired

    def waiting(self) -> tuple[int, float | None]:
        """Return the number of waiting requests, and when the oldest one was submitted."""
        with self._condition:
            return len(self._requests), self._requests[0].submitted_at if self._requests else None

    def _require_open(self) -> None:
        if self.is_closed:
            raise TemporarilyUnavailable(Code.SHUTTING_DOWN, "this API process is stopping")
