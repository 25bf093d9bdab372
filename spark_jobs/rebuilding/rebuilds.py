"""The rebuilds that are due, in a thread beside the drain's loop; the table that is rebuilt is published too."""

from app.domain.model.table import TableId
from app.staging.connection.database import Connection
from app.staging.rebuild.progress import AttemptIsOver, find_rebuild, note_detail
from spark_jobs.background.work import BackgroundWork
from spark_jobs.build_files import FileBuilder
from spark_jobs.rebuilding.rebuild_run import RebuildRun
from spark_jobs.steps.context import DrainContext


class Rebuilds(BackgroundWork):
    """The rebuilds of one drain. The next drain begins each of them again."""

    def __init__(self, context: DrainContext, builder: FileBuilder) -> None:
        """Start no thread yet."""
        super().__init__("rebuild", context.engine)
        self._run = RebuildRun(context, builder, self._stopping.is_set)

    def run(self, table_id: TableId) -> bool:
        """Make one attempt; return whether it was not replaced by another one."""
        try:
            self._run.run(table_id)
        except AttemptIsOver:
            return False
        return True

    def note(self, connection: Connection, table_id: TableId, detail: str) -> None:
        """Store why an attempt failed."""
        rebuild = find_rebuild(connection, table_id)
        if rebuild is not None and rebuild.phase.is_due:
            note_detail(connection, rebuild, detail)
