"""Runs the rebuilds that are due in one thread, beside the drain's loop.

The loop goes on publishing all tables, the one that is rebuilt included. A rebuild can take minutes; the next waits.
"""

import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final

import structlog

from app.domain.model.table import TableId
from app.domain.publication.failure import described
from app.staging.connection.database import translated_errors
from app.staging.rebuild.progress import AttemptIsOver, find_rebuild, note_detail
from spark_jobs.build_files import FileBuilder
from spark_jobs.rebuilding.rebuild_run import RebuildRun, Stopped
from spark_jobs.steps.context import DrainContext

log = structlog.get_logger()

RETRY_SECONDS: Final = 5.0
"""Pause after an attempt that failed, for example because Postgres failed over."""


class Rebuilds:
    """The rebuilds of one drain. Nothing here is durable: the next drain begins each of them anew."""

    def __init__(self, context: DrainContext, builder: FileBuilder) -> None:
        """Start no thread yet."""
        self._context = context
        self._stopping = threading.Event()
        self._run = RebuildRun(context, builder, self._stopping.is_set)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rebuild")
        self._lock = threading.Lock()
        self._running: dict[TableId, Future[bool]] = {}

    def start(self, table_id: TableId) -> None:
        """Begin to rebuild a table unless that is under way."""
        with self._lock:
            running = self._running.get(table_id)
            if (running is None or running.done()) and not self._stopping.is_set():
                self._running[table_id] = self._thread.submit(self._attempt, table_id)

    def wait(self) -> bool:
        """Wait for the rebuilds that are under way; return whether one has come to its end."""
        with self._lock:
            running = list(self._running.values())
            self._running.clear()
        wait(running)
        return any(attempt.result() for attempt in running if not attempt.cancelled())

    def stop(self) -> None:
        """End the rebuilds after the parts that are being copied; they stay due."""
        self._stopping.set()
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _attempt(self, table_id: TableId) -> bool:
        """Make one attempt; return whether it came to its end."""
        try:
            with translated_errors():
                self._run.run(table_id)
        except (Stopped, AttemptIsOver):
            return False
        except Exception as error:  # noqa: BLE001  # a failed attempt must not end the thread; the loop starts the next
            failure = described(error)
            log.warning("rebuild_attempt_failed", table_id=table_id, code=failure.code, detail=failure.detail)
            self._note(table_id, f"{failure.code}: {failure.detail}; tried again")
            self._stopping.wait(RETRY_SECONDS)
            return False
        return True

    def _note(self, table_id: TableId, detail: str) -> None:
        """Store why the attempt failed, for those who wait; without Postgres they see nothing anyway."""
        try:
            with translated_errors(), self._context.engine.begin() as connection:
                rebuild = find_rebuild(connection, table_id)
                if rebuild is not None and rebuild.phase.is_due:
                    note_detail(connection, rebuild, detail)
        except Exception as error:  # noqa: BLE001  # the next attempt notes its own failure
            log.info("rebuild_detail_lost", table_id=table_id, code=described(error).code)
