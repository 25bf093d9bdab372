"""The spans of a publication: each file continues the trace of the requests whose rows it has.

One Spark job builds the files of several tables, and one transaction records several, so the times are those of the
whole worker slot. Spans are made from the times after everything else is recorded. That costs one query, which gets a
second at most; a fault of tracing is logged and fails nothing.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import structlog

from app.domain.model.landing_file import PlannedFile
from app.domain.model.table import TableId
from app.domain.publication.failure import described
from app.observability.tracing import TRACING, TraceParent, mark_failed, traceparent_of
from app.staging.batches.block_traces import find_traces
from app.staging.connection.database import Engine, answer_within, translated_errors
from spark_jobs.steps.publishing import ClaimedTable

log = structlog.get_logger()

_QUERY_SECONDS: Final = 1.0
"""How long the worker slot waits for Postgres before the spans are given up."""


class PublicationTrace:
    """The times of one publication. Does nothing while tracing is off."""

    def __init__(self, engine: Engine, clock: Callable[[], int] = time.time_ns) -> None:
        self._engine = engine
        self._clock = clock
        self._started = self._built = self._published = clock()

    def built(self) -> None:
        """Note that the files are built."""
        self._built = self._clock()

    def published(self) -> None:
        """Note that the files are published, or have failed."""
        self._published = self._clock()

    def send(self, claimed: Sequence[ClaimedTable], failures: Mapping[TableId, Exception]) -> None:
        """Make the spans of the files of these tables. Call it last, because it queries Postgres.

        A process that dies before or inside loses the spans and nothing else.
        """
        if not TRACING.is_on:
            return
        try:
            files = [file for entry in claimed for file in entry.files]
            with translated_errors(), answer_within(_QUERY_SECONDS), self._engine.begin() as connection:
                traces = find_traces(connection, files)
            for file, causes in traces.items():
                self._make_spans(file, causes, failures)
        except Exception as error:  # noqa: BLE001  # a missing trace stops no publication
            log.warning("traces_not_sent", code=described(error).code)

    def _make_spans(
        self, file: PlannedFile, causes: Sequence[TraceParent], failures: Mapping[TableId, Exception]
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
        for name, start, end in (("build", self._started, self._built), ("make visible", self._built, self._published)):
            part = TRACING.begin(name, parent=above, started_ns=start)
            if part is not None:
                part.end(end)
        if file.table_id in failures:
            mark_failed(whole, described(failures[file.table_id]).code)
        whole.end(self._published)
