"""Long work beside the drain's loop: how several kinds of it end."""

import threading

import sqlalchemy as sa

from app.domain.model.table import TableId
from app.staging.connection.database import Connection
from spark_jobs.background import BackgroundWork, stop_all


class Step(BackgroundWork):
    """Work whose step ends once something is set."""

    def __init__(self, engine: sa.Engine, until: threading.Event | None = None) -> None:
        super().__init__("step", engine)
        self.until, self.has_begun, self.has_ended = until or self._stopping, threading.Event(), threading.Event()

    def run(self, table_id: TableId) -> bool:
        assert table_id
        self.has_begun.set()
        if self.until.wait(timeout=30):
            self.has_ended.set()
        return True

    def note(self, connection: Connection, table_id: TableId, detail: str) -> None:
        raise AssertionError(connection, table_id, detail)


def test_all_work_is_asked_to_stop_before_the_first_is_waited_for(engine: sa.Engine) -> None:
    second = Step(engine)
    first = Step(engine, until=second.has_ended)
    for work in (first, second):
        work.start(TableId(1))
        assert work.has_begun.wait(timeout=30)
    stop_all((first, second))
    assert first.has_ended.is_set()
