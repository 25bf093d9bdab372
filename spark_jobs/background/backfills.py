"""Runs the requested backfills of row images in a thread beside the drain's loop.

Each step is a transaction that stores its place, so a drain that dies or stops leaves a backfill that the next one
continues.
"""

from uuid import UUID

import structlog

from app.domain.model.table import TableId
from app.errors import RejectedInput
from app.staging.connection.database import Connection, Engine
from app.staging.images.backfill.progress import Backfill, Overtaken, note_detail
from app.staging.images.backfill.replay import run_backfill
from spark_jobs.background.work import BackgroundWork, Stopped

log = structlog.get_logger()


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
            raise Stopped
