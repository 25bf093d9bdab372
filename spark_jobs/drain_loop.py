"""The drain's loop: due tables go, in balanced bins, to threads that each build and publish."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Final

import structlog

from app.domain.model.table import TableId
from app.domain.publication.failure import described
from spark_jobs.drain_cycle import DrainCycle
from spark_jobs.publishing import TOGETHER, ClaimedTable
from spark_jobs.worker_slots import MAX_WORKER_SLOTS, balance

log = structlog.get_logger()

_FIRST_BACKOFF: Final = 0.5
_LONGEST_BACKOFF: Final = 30.0
_LONGEST_DATABASE_BACKOFF: Final = 5.0
"""Short: what waits for Postgres is everything, and one question costs little."""
_CLAIMS: Final = 4
"""Tables that are claimed and planned at the same time: nearly all of that is waiting for Postgres."""
_CLAIMED_AT_ONCE: Final = 256
"""Of many due tables, so many are being built while the next are claimed."""


class Drain:
    """Finds due tables and hands them, in balanced bins, to threads that each build and publish."""

    def __init__(self, cycle: DrainCycle, *, bins: int | None, stopping: threading.Event | None = None) -> None:
        """`bins` None: as many as Spark runs tasks at a time, which changes with a cluster's executors."""
        self._cycle = cycle
        self._bins = bins
        self._threads = ThreadPoolExecutor(bins or MAX_WORKER_SLOTS, thread_name_prefix="bin")
        self._claims = ThreadPoolExecutor(_CLAIMS, thread_name_prefix="claim")
        self._lock = threading.Lock()
        self._busy: set[TableId] = set()
        self._shares: set[Future[None]] = set()
        self._not_before: dict[TableId, tuple[float, float]] = {}
        """Per table that failed: when to try again, and how long to wait the time after."""
        self.stopping = stopping or threading.Event()

    def drain_pending(self) -> set[TableId]:
        """Publish until nothing is due, for `--once`; the tables that could not be published now."""
        while not self.stopping.is_set() and self._start_due():
            wait(self._shares)
        return set(self._not_before)

    def run(self, wake: threading.Event, poll_seconds: float) -> None:
        """Publish what is due at each wake and at least every `poll_seconds`, until `stopping` is set."""
        pause = _FIRST_BACKOFF
        while not self.stopping.is_set():
            wake.wait(poll_seconds)
            wake.clear()
            try:
                self._start_due()
                self._cycle.waits_for = None
                pause = _FIRST_BACKOFF
            except Exception as error:  # noqa: BLE001  # such as a database that has failed over: it is asked again
                self._wait(error, pause)
                pause = min(2 * pause, _LONGEST_DATABASE_BACKOFF)
        self._threads.shutdown(wait=True)
        self._claims.shutdown(wait=True)

    def _start_due(self) -> bool:
        now = time.monotonic()
        due = self._cycle.due()
        with self._lock:
            waiting = {table_id for table_id, (moment, _) in self._not_before.items() if moment > now}
            ready = [table_id for table_id in due if table_id not in self._busy | waiting]
            slots = self._slots(len(ready) + len(self._busy))
        bins = self._bins or min(self._cycle.slots, MAX_WORKER_SLOTS)
        any_claimed = False
        for part in (ready[start : start + _CLAIMED_AT_ONCE] for start in range(0, len(ready), _CLAIMED_AT_ONCE)):
            claimed, failed = self._prepared(part, slots, self._claims.map)
            for table_id in failed:
                self._back_off(table_id)
            any_claimed = any_claimed or bool(claimed)
            for share in balance(claimed, lambda entry: entry.rows, bins):
                with self._lock:
                    self._busy |= {entry.table_id for entry in share}
                self._shares.add(self._threads.submit(self._drain_share, share))
        self._shares -= {share for share in self._shares if share.done()}
        return any_claimed

    def _slots(self, tables: int) -> int:
        """How many tasks each of so many tables may take."""
        return max(1, self._cycle.slots // max(1, tables))

    def _prepared(
        self, table_ids: Sequence[TableId], slots: int, each: Callable[..., Iterable[Any]]
    ) -> tuple[list[ClaimedTable], list[TableId]]:
        """What there is to build of these tables, and which of them failed: those that this worker holds are looked
        at together, the others each alone. `each` is `map`, or one that does several at the same time."""
        parts = [table_ids[start : start + TOGETHER] for start in range(0, len(table_ids), TOGETHER)]
        claimed: list[ClaimedTable] = []
        alone: list[TableId] = []
        for entries, left in each(lambda part: self._cycle.prepare_held(part, slots=slots), parts):
            claimed += entries
            alone += left
        entries = list(each(lambda table_id: self._cycle.prepare(table_id, slots=slots), alone))
        failed = [
            table_id
            for table_id, entry in zip(alone, entries, strict=True)
            if entry is None and (table_id not in self._cycle.held or table_id in self._cycle.waiting)
        ]
        return claimed + [entry for entry in entries if entry is not None], failed

    def _drain_share(self, share: list[ClaimedTable]) -> None:
        """Publish a share of tables, and what has become due for them meanwhile, until they are done."""
        tables = {entry.table_id for entry in share}
        try:
            while share and not self.stopping.is_set():
                published = self._cycle.build_and_publish(share)
                with self._lock:
                    for table_id in published:
                        self._not_before.pop(table_id, None)
                    slots = self._slots(len(self._busy))
                for entry in share:
                    if entry.table_id not in published:
                        self._back_off(entry.table_id)
                share = self._prepare_again(published, slots)
        except Exception as error:  # noqa: BLE001  # a thread must not die silently; the tables are tried again
            failure = described(error)
            log.warning("worker_slot_failed", tables=len(tables), code=failure.code, detail=failure.detail)
            for table_id in tables:
                self._cycle.held.pop(table_id, None)
                self._back_off(table_id)
        finally:
            with self._lock:
                self._busy -= tables

    def _prepare_again(self, published: set[TableId], slots: int) -> list[ClaimedTable]:
        """Those of the tables that are due again; what cannot be known now is left to the next look."""
        try:
            due = self._cycle.due()
        except Exception as error:  # noqa: BLE001  # the loop looks again
            self._wait(error, 0.0)
            return []
        # In this thread: the tables that others claim or drop may take long. What fails is found at the next look.
        again, _ = self._prepared([table_id for table_id in due if table_id in published], slots, map)
        return again

    def _wait(self, error: Exception, seconds: float) -> None:
        """Leave time for what keeps the drain from finding due tables to pass."""
        failure = described(error)
        self._cycle.waits_for = failure.code
        log.warning("drain_waiting", code=failure.code, detail=failure.detail, remedy=failure.remedy)
        self.stopping.wait(seconds)

    def _back_off(self, table_id: TableId) -> None:
        with self._lock:
            _, pause = self._not_before.get(table_id, (0.0, _FIRST_BACKOFF))
            self._not_before[table_id] = (time.monotonic() + pause, min(2 * pause, _LONGEST_BACKOFF))
