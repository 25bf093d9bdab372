"""The reader thread: decodes columnar bodies one after the other, and small ones together.

Two bodies that share an interpreter take longer in parallel than in sequence, and more memory (docs/decisions/0020).
Invariant: nothing here waits for Postgres, so no body holds up the others.
"""

from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeAlias

from app.ingest.fast_path.columnar_requests import ColumnarRequest, read_columnar
from app.ingest.loop_bridge import LoopFuture
from app.ingest.table_cache import TableCache
from app.staging.batches.batch import Batch

MAX_BYTES_TOGETHER: Final = 2**20
"""Bytes of the bodies that are read together; a longer body is read alone."""

BatchFuture: TypeAlias = LoopFuture[Batch | None]
_Waiting: TypeAlias = tuple[ColumnarRequest, BatchFuture]


class ColumnarReader:
    """Reads the waiting bodies, up to MAX_BYTES_TOGETHER at a time."""

    def __init__(self, table_cache: TableCache) -> None:
        self._table_cache = table_cache
        self._waiting: deque[_Waiting] = deque()
        self._thread = ThreadPoolExecutor(1, "columnar-reader")

    def close(self) -> None:
        """Read what was submitted, then stop the thread."""
        self._thread.shutdown()

    def submit(self, request: ColumnarRequest, waiter: BatchFuture) -> None:
        """Queue a request. Its future gets the batch, None if the body does not qualify, or the exception NotCached."""
        self._waiting.append((request, waiter))
        self._thread.submit(self._read)

    def _read(self) -> None:
        """Read the next group. Runs once per request, so it finds nothing after a group of several."""
        group = self._next_group()
        if not group:
            return
        outcomes: Sequence[Batch | BaseException | None]
        try:
            outcomes = read_columnar([request for request, _ in group], self._table_cache)
        except Exception as error:  # noqa: BLE001  # any error must reach the waiting callers
            outcomes = [error] * len(group)
        for (_, waiter), outcome in zip(group, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                waiter.set_exception(outcome)
            else:
                waiter.set_result(outcome)

    def _next_group(self) -> list[_Waiting]:
        """Return the next requests whose callers still wait."""
        group: list[_Waiting] = []
        size = 0
        while self._waiting:
            size += len(self._waiting[0][0].body)
            if group and size > MAX_BYTES_TOGETHER:
                break
            waiting = self._waiting.popleft()
            if waiting[1].set_running_or_notify_cancel():
                group.append(waiting)
        return group
