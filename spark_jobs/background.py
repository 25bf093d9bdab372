"""Long work beside the drain's loop: table ids -> attempts, in a thread for each kind of work.

One thread takes one table at a time; the next waits. Nothing here is durable: the database says which work is due, and
the loop starts it again until it has ended. Backfills of row images are one kind: each step is a transaction that
stores its place, so a drain that dies leaves a backfill that the next one continues. `spark_jobs.rebuilding` is
another.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final
from uuid import UUID

import structlog

from app.domain.model.table import TableId
from app.domain.publication import described
from app.staging.connection.database import Connection, Engine, translated_errors
from app.staging.images import Backfill, Overtaken, note_detail, run_backfill
from mirrorgate.errors import RejectedInput

log = structlog.get_logger()

RETRY_SECONDS: Final = 5.0
"""Pause after an attempt that failed, for example because Postgres failed over."""


class DrainStopped(Exception):
    """The drain stops; the next one continues or begins again."""


class BackgroundWork(ABC):
    """One kind of work of one drain."""

    def __init__(self, kind: str, engine: Engine) -> None:
        """Start no thread yet. `kind` names the thread and the log lines."""
        self._kind = kind
        self._engine = engine
        self._stopping = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=kind)
        self._lock = threading.Lock()
        self._running: dict[TableId, Future[bool]] = {}

    @abstractmethod
    def run(self, table_id: TableId) -> bool:
        """Make one attempt; return whether it has ended. Raises Stopped, and any error of the work itself."""

    @abstractmethod
    def note(self, connection: Connection, table_id: TableId, detail: str) -> None:
        """Store why an attempt failed, for those who wait."""

    def start(self, table_id: TableId) -> None:
        """Begin to work on a table unless that is under way."""
        with self._lock:
            running = self._running.get(table_id)
            if (running is None or running.done()) and not self._stopping.is_set():
                self._running[table_id] = self._thread.submit(self._attempt, table_id)

    def wait(self) -> bool:
        """Wait for the running attempts; return whether one of them has ended its work."""
        with self._lock:
            running = list(self._running.values())
            self._running.clear()
        wait(running)
        return any(attempt.result() for attempt in running if not attempt.cancelled())

    def ask_to_stop(self) -> None:
        """Let the work end after the step that is under way; it remains due."""
        self._stopping.set()

    def stop(self) -> None:
        """End the work after the step that is under way, and wait for that; it remains due."""
        self.ask_to_stop()
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _attempt(self, table_id: TableId) -> bool:
        """Make one attempt; return whether it has ended."""
        try:
            with translated_errors():
                return self.run(table_id)
        except DrainStopped:
            return False
        except Exception as error:  # noqa: BLE001  # a failed attempt must not end the thread; the loop starts the next
            failure = described(error)
            log.warning(f"{self._kind}_attempt_failed", table_id=table_id, code=failure.code, detail=failure.detail)
            self._note(table_id, f"{failure.code}: {failure.detail}; the drain retries")
            self._stopping.wait(RETRY_SECONDS)
            return False

    def _note(self, table_id: TableId, detail: str) -> None:
        """Store why the attempt failed; without Postgres those who wait see nothing anyway."""
        try:
            with translated_errors(), self._engine.begin() as connection:
                self.note(connection, table_id, detail)
        except Exception as error:  # noqa: BLE001  # the next attempt notes its own failure
            log.info(f"{self._kind}_detail_lost", table_id=table_id, code=described(error).code)


def stop_all(kinds: Sequence[BackgroundWork]) -> None:
    """End several kinds of work, and wait for the steps that are under way at the same time."""
    for work in kinds:
        work.ask_to_stop()
    for work in kinds:
        work.stop()


class Backfills(BackgroundWork):
    """The backfills of one drain."""

    def __init__(self, engine: Engine, worker_id: UUID) -> None:
        """Start no thread yet."""
        super().__init__("backfill", engine)
        self._worker_id = worker_id

    def run(self, table_id: TableId) -> bool:
        """Make one attempt; return whether the backfill has ended or was taken over."""
        try:
            run_backfill(self._engine, table_id, self._worker_id, self._look)
        except RejectedInput as error:  # stored with the backfill
            log.warning("backfill_ended", table_id=table_id, code=error.code, detail=error.detail)
        except Overtaken:
            log.info("backfill_overtaken", table_id=table_id)
        return True

    def note(self, connection: Connection, table_id: TableId, detail: str) -> None:
        """Store why an attempt failed."""
        note_detail(connection, table_id, detail)

    def _look(self, _: Backfill) -> None:
        """End the attempt between two steps if the drain stops."""
        if self._stopping.is_set():
            raise DrainStopped
