"""The reader thread: reads what waits together, and hands each request to the group commit.

Two bodies that share an interpreter take longer in parallel than in sequence, and more memory (docs/decisions/0035).
Invariant: nothing here waits for Postgres, so no body holds up the others.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Final, TypeAlias

from app.domain.model.request_identity import RequestIdentity
from app.ingest.columnar.reading import ColumnarRequest, Outcome, ReadBatches, read_together
from app.ingest.table_cache import TableCache
from app.staging.writer.waiting_request import Waiter

Stage: TypeAlias = Callable[[Waiter, ReadBatches, RequestIdentity | None], None]

MAX_SHORT_BYTES: Final = 2**16
"""Bytes of a body that waits until the staging thread rests. A longer one is better read beside a transaction."""

MAX_BYTES_TOGETHER: Final = 2**20
"""Bytes of the bodies that are read together; a longer body is read alone."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    request: ColumnarRequest
    identity: RequestIdentity | None
    waiter: Waiter


class ColumnarReader:
    """Reads the waiting bodies, up to MAX_BYTES_TOGETHER at a time.

    A short body first waits in `gather`, so that those that arrive meanwhile are read with it. Typed requests go to
    `stage`, which must not wait. A waiter gets what that gives it: its receipts after COMMIT. If
    the caller has to do something else, it gets Declined or NotCached, or what `stage` raises.
    """

    def __init__(self, table_cache: TableCache, stage: Stage, gather: Callable[[], None] = lambda: None) -> None:
        self._table_cache = table_cache
        self._gather = gather
        self._stage = stage
        self._queue: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._next: _Waiting | None = None
        """A request that no longer fitted into the last group."""
        self._thread = threading.Thread(target=self._run, name="columnar-reader", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Read what was submitted, then stop the thread."""
        self._queue.put(None)
        self._thread.join()

    def submit(self, request: ColumnarRequest, identity: RequestIdentity | None, waiter: Waiter) -> None:
        """Queue a request to be read and staged."""
        self._queue.put(_Waiting(request, identity, waiter))

    def _run(self) -> None:
        while (first := self._next or self._queue.get()) is not None:
            self._next = None
            if len(first.request.body) <= MAX_SHORT_BYTES:
                self._gather()
            group = [waiting for waiting in self._group(first) if waiting.waiter.set_running_or_notify_cancel()]
            if group:
                self._read(group)

    def _group(self, first: _Waiting) -> list[_Waiting]:
        """Return a request and those that wait behind it, up to MAX_BYTES_TOGETHER."""
        group, size = [first], len(first.request.body)
        while size < MAX_BYTES_TOGETHER:
            try:
                following = self._queue.get_nowait()
            except Empty:
                break
            if following is None:  # `close` was called, and nothing is submitted after it
                self._queue.put(None)
                break
            size += len(following.request.body)
            if size > MAX_BYTES_TOGETHER:
                self._next = following
                break
            group.append(following)
        return group

    def _read(self, group: Sequence[_Waiting]) -> None:
        outcomes: Sequence[Outcome | BaseException]
        try:
            outcomes = read_together([waiting.request for waiting in group], self._table_cache)
        except Exception as error:  # noqa: BLE001  # any error must reach the waiting callers
            outcomes = [error] * len(group)
        for waiting, outcome in zip(group, outcomes, strict=True):
            try:
                if isinstance(outcome, BaseException):
                    raise outcome
                self._stage(waiting.waiter, outcome, waiting.identity)
            except Exception as error:  # noqa: BLE001  # the same
                waiting.waiter.set_exception(error)
