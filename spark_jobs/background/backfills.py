"""Runs the requested backfills of row images in a thread beside the drain's loop.

Each step is a transaction that stores its place, so a drain that dies or stops leaves a backfill that the next one
continues. It reads payloads from the database, and rows of the Delta mirror from `MIRRORGATE_MIRROR_TARGET`.
"""

from collections.abc import Mapping
from uuid import UUID

import structlog

from app.domain.model.names import TableName
from app.domain.model.table import TableId
from app.errors import Code, Misconfigured, RejectedInput
from app.extras import require_extras
from app.staging.connection.database import Connection, Engine
from app.staging.images.backfill.mirrored import MirroredRows, MirrorReader
from app.staging.images.backfill.progress import Backfill, note_detail
from app.staging.images.backfill.run import run_asked
from spark_jobs.background.work import BackgroundWork, Stopped

log = structlog.get_logger()


class Backfills(BackgroundWork):
    """The backfills of one drain."""

    def __init__(self, engine: Engine, worker_id: UUID, mirror: MirrorReader | None) -> None:
        """Start no thread yet. Without `mirror` only staged payloads are read."""
        super().__init__("backfill", engine)
        self._worker_id = worker_id
        self._mirror = mirror

    def run(self, table_id: TableId) -> bool:
        """Make one attempt; return whether the backfill has ended or was taken over."""
        try:
            run_asked(self._engine, table_id, self._worker_id, self._look, self._mirror)
        except RejectedInput as error:  # stored with the backfill
            log.warning("backfill_ended", table_id=table_id, code=error.code, detail=error.detail)
        return True

    def note(self, connection: Connection, table_id: TableId, detail: str) -> None:
        """Store why an attempt failed."""
        note_detail(connection, table_id, detail)

    def _look(self, _: Backfill) -> None:
        """End the attempt between two steps if the drain stops."""
        if self._stopping.is_set():
            raise Stopped


def mirror_reader(location: str, storage_options: Mapping[str, str]) -> MirrorReader:
    """Return what opens the mirrored tables of a target. The packages that read them are imported with the first.

    It raises RejectedInput `not_mirrored` in a drain that lacks them.
    """

    def opened(table: TableName, version: int | None) -> MirroredRows:
        try:
            require_extras("drain", "rows")
        except Misconfigured as error:
            detail = f"this drain cannot read Delta tables: {error.detail}"
            raise RejectedInput(Code.NOT_MIRRORED, detail, remedy=error.remedy) from None
        from app.mirror.target import MirrorTarget
        from app.mirror.typed_rows import version_reader

        return version_reader(MirrorTarget(location, storage_options))(table, version)

    return opened
