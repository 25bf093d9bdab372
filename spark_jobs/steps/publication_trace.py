"""The spans of a publication: each file continues the trace of the requests whose rows it has.

One Spark job builds the files of several tables, and one transaction records several, so the times are those of the
whole worker slot. Spans are made afterwards, from the times: publication never waits for tracing, and a fault of
tracing is logged and fails nothing.
"""

import time
from collections.abc import Callable, Mapping, Sequence

import structlog

from app.domain.model.landing_file import PlannedFile
from app.domain.model.table import TableId
from app.domain.publication.failure import described
from app.observability.tracing import TRACING, TraceParent, mark_failed, traceparent_of
from app.staging.batches.block_traces import find_traces
from app.staging.connection.database import Engine, translated_errors
from spark_jobs.steps.publishing import ClaimedTable

log = structlog.get_logger()


class PublicationTrace:
    """The times of one publication. Does nothing while tracing is off."""

    def __init__(self, engine: Engine, clock: Callable[[], int] = time.time_ns) -> None:
        self._engine = engine
        self._clock = clock
        self._started = self._built = clock()

    def built(self) -> None:
        """Note that the files are built."""
        self._built = self._clock()

    def end(self, claimed: Sequence[ClaimedTable], failures: Mapping[TableId, Exception]) -> None:
        """Make the spans of the files of these tables."""
        if not TRACING.is_on:
            return
        ended = self._clock()
        try:
            files = [file for entry in claimed for file in entry.files]
            with translated_errors(), self._engine.begin() as connection:
                traces = find_traces(connection, files)
            for file, causes in traces.items():
                self._make_spans(file, causes, failures, ended)
        except Exception as error:  # noqa: BLE001  # a missing trace stops no publication
            log.warning("traces_not_sent", code=described(error).code)

    def _make_spans(
        self, file: PlannedFile, causes: Sequence[TraceParent], failures: Mapping[TableId, Exception], ended: int
    ) -> None:
        identity = file.identity
        attributes: dict[str, str | int] = {
            "mirrorgate.table": identity.table,
            "mirrorgate.generation": identity.generation,
            "mirrorgate.file_number": identity.number,
            "mirrorgate.first_sequence": identity.first_sequence,
            "mirrorgate.last_sequence": identity.last_sequence,
            "mirrorgate.rows": identity.rows,
        }
        whole = TRACING.begin(
            "publish file", parent=causes[0], links=causes[1:], started_ns=self._started, attributes=attributes
        )
        if whole is None:
            return
        above = traceparent_of(whole)
        for name, start, end in (("build", self._started, self._built), ("make visible", self._built, ended)):
            part = TRACING.begin(name, parent=above, started_ns=start)
            if part is not None:
                part.end(end)
        if file.table_id in failures:
            mark_failed(whole, described(failures[file.table_id]).code)
        whole.end(ended)
