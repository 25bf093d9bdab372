"""The thread that reads plain bodies, one process's one after the other, and small ones together.

Two bodies that share one interpreter take longer side by side than one after the other, and more memory. None waits
for the database here, so none holds the others up.
"""

from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeAlias

from app.ingest.columnar_requests import ColumnarRequest, read_columnar
from app.ingest.loop_bridge import LoopFuture
from app.ingest.table_cache import TableCache
from app.staging.batches.batch import Batch

MAX_BYTES_TOGETHER: Final = 2**20
"""Of bodies that are read together; a longer one is read alone."""

BatchFuture: TypeAlias = LoopFuture[Batch | None]
_Waiting: TypeAlias = tuple[ColumnarRequest, BatchFuture]


class ColumnarReader:
    """Reads what waits for it, as much at a time as stays small."""

    def __init__(self, table_cache: TableCache) -> None:
        self._table_cache = table_cache
        self._waiting: deque[_Waiting] = deque()
        self._thread = ThreadPoolExecutor(1, "columnar-reader")

    def submit(self, request: ColumnarRequest, waiter: BatchFuture) -> None:
        """The waiter gets the request's batch, None for one that is not plain, or NotCached."""
        self._waiting.append((request, waiter))
        self._thread.submit(self._read)

    def _read(self) -> None:
        """Called once for each request: those that were read with others leave it nothing to do."""
        group = self._next_group()
        if not group:
            return
        outcomes: Sequence[Batch | BaseException | None]
        try:
            outcomes = read_columnar([request for request, _ in group], self._table_cache)
        except Exception as error:  # noqa: BLE001  # whatever it is, those who wait must hear of it
            outcomes = [error] * len(group)
        for (_, waiter), outcome in zip(group, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                waiter.set_exception(outcome)
            else:
                waiter.set_result(outcome)

    def _next_group(self) -> list[_Waiting]:
        """Without the requests whose callers have gone."""
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
