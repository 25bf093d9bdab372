"""The thread that reads plain bodies, one process's one after the other, and small ones together.

Two bodies that share one interpreter take longer side by side than one after the other, and more memory. None waits
for the database here, so none holds the others up.
"""

from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeAlias

from app.ingest.columnar_requests import PlainRequest, read_plain
from app.ingest.loop_bridge import Waiter
from app.ingest.table_cache import TableDirectory
from app.staging.batches.batch import Batch

MOST_BYTES: Final = 2**20
"""Of bodies that are read together; a longer one is read alone."""

PlainWaiter: TypeAlias = Waiter[Batch | None]
_Waiting: TypeAlias = tuple[PlainRequest, PlainWaiter]


class PlainReader:
    """Reads what waits for it, as much at a time as stays small."""

    def __init__(self, directory: TableDirectory) -> None:
        self._directory = directory
        self._waiting: deque[_Waiting] = deque()
        self._thread = ThreadPoolExecutor(1, "plain-reader")

    def submit(self, request: PlainRequest, waiter: PlainWaiter) -> None:
        """The waiter gets the request's batch, None for one that is not plain, or NotRemembered."""
        self._waiting.append((request, waiter))
        self._thread.submit(self._read)

    def _read(self) -> None:
        """Called once for each request: those that were read with others leave it nothing to do."""
        group = self._next_group()
        if not group:
            return
        outcomes: Sequence[Batch | BaseException | None]
        try:
            outcomes = read_plain([request for request, _ in group], self._directory)
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
            if group and size > MOST_BYTES:
                break
            waiting = self._waiting.popleft()
            if waiting[1].set_running_or_notify_cancel():
                group.append(waiting)
        return group
