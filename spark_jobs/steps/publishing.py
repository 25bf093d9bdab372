"""W5 to W9 for the built files of several tables: register the build, folder, rename, record.

`Publishing` registers a file of each of several tables in one transaction, and records those that have become visible
in another one. The next file of a table follows only after that (W9), so at most one visible file of a table is
unrecorded. After a crash between rename and record, W3 of the next owner finds that file and records it
(`Reconciliation` of `take_over`). A failure of one table stops that table alone.

`PublicationTrace` makes the spans of a publication: each file continues the trace of the requests whose rows it has.
"""

import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

import structlog

from app.domain.model.landing_file import BuiltFile, PlannedFile
from app.domain.model.table import Epoch, FileNumber, Table, TableId
from app.domain.publication import described
from app.landing.landed_state import find_file, require_last_files
from app.landing.publish import Scratch, make_visible, prepare_folder
from app.observability.drain_metrics import LAST_PUBLISHED, PUBLISHED_FILES, PUBLISHED_ROWS
from app.observability.tracing import TRACING, TraceParent, mark_failed, traceparent_of
from app.staging.batches.staged_blocks import find_traces
from app.staging.connection.database import Engine, answer_within, translated_errors
from app.staging.ledger.files import numbers_to_repair, record_published, register_builds
from mirrorgate.errors import Code, InvariantBroken
from spark_jobs.build_files import BuildFailure, BuildResult
from spark_jobs.steps.context import DrainContext

log = structlog.get_logger()
Result = TypeVar("Result")
Failures: TypeAlias = MutableMapping[TableId, Exception]

MAX_TABLES_PER_TRANSACTION: Final = 16
"""Tables that share a transaction: it is as durable for all of them as for one."""


@dataclass(frozen=True, slots=True)
class ClaimedTable:
    """A table that this drain owns under an epoch, with the files to build next."""

    table: Table
    epoch: Epoch
    files: list[PlannedFile]

    @property
    def table_id(self) -> TableId:
        """The table's id."""
        return self.table.table_id

    @property
    def rows(self) -> int:
        """The rows of all files to build, by which tables are balanced."""
        return sum(file.identity.rows for file in self.files)


@dataclass(frozen=True, slots=True)
class Publishing:
    """Publication of built files: visible in the landing zone, then recorded in the ledger."""

    context: DrainContext
    batch_size: int
    """Tables whose files share the transactions that register and record. A store that is slow, or is retried for
    long, must not keep one table waiting for another."""

    def publish(
        self, claimed: Sequence[ClaimedTable], built: Mapping[TableId, Sequence[BuildResult]]
    ) -> dict[TableId, Exception]:
        """Publish the built files of each table in order; return the errors of the tables that failed.

        A process that dies inside leaves at most one visible file of each table unrecorded.
        """
        failures: dict[TableId, Exception] = {}
        for position in range(max(map(len, built.values()), default=0)):
            entries = [entry for entry in claimed if position < len(built[entry.table_id])]
            for start in range(0, len(entries), self.batch_size):
                batch = entries[start : start + self.batch_size]
                if position == 0:
                    self._prepare_folders(batch, failures)
                results = [
                    (entry, built[entry.table_id][position]) for entry in batch if entry.table_id not in failures
                ]
                self._publish_one_of_each(results, failures)
        return failures

    def record(self, files: Mapping[PlannedFile, Epoch]) -> None:
        """W8: record that the files are visible. If the process dies before the commit, W3 of the next owner does it.

        Raise InvariantBroken `stale_epoch` once an epoch is over.
        """
        with translated_errors(), self.context.engine.begin() as connection:
            record_published(connection, files)
        PUBLISHED_FILES.inc(len(files))
        PUBLISHED_ROWS.inc(sum(file.identity.rows for file in files))
        LAST_PUBLISHED.set_to_current_time()
        for file in files:
            identity = file.identity
            log.info(
                "file_published",
                table=identity.table,
                generation=identity.generation,
                number=identity.number,
                rows=identity.rows,
                first_sequence=identity.first_sequence,
                last_sequence=identity.last_sequence,
            )

    def _prepare_folders(self, entries: Sequence[ClaimedTable], failures: Failures) -> None:
        """W6 for each table."""
        context = self.context
        for entry in entries:
            scratch = Scratch(entry.table_id, entry.epoch)
            last = FileNumber(entry.files[0].identity.number - 1)
            with _contained(failures, entry.table_id):
                context.claimed_zone.require()
                prepare_folder(context.zone, entry.table, context.installation_id, scratch, published_before=last > 0)
                if last > 0 and find_file(context.zone, entry.table.name, last) is None:
                    with translated_errors(), context.engine.begin() as connection:
                        repaired = numbers_to_repair(connection, entry.table, after=FileNumber(0))
                    require_last_files(context.zone, entry.table.name, last, repaired)

    def _publish_one_of_each(self, results: Sequence[tuple[ClaimedTable, BuildResult]], failures: Failures) -> None:
        """Register, rename (W7) and record (W8) one file of each table; a process that dies may leave any step undone.

        What was renamed and not recorded, the next owner finds and records in W3.
        """
        tables, files = {entry.table_id: entry.table for entry, _ in results}, []
        for entry, result in results:
            with _contained(failures, entry.table_id):
                if isinstance(result, BuildFailure):
                    raise result.error()
                files.append(result)
        registered = set().union(*_for_all_or_each(self._register_builds, files, failures))
        visible = []
        for file in files:
            table_id = file.planned.table_id
            if table_id not in failures:
                with _contained(failures, table_id):
                    if table_id not in registered:
                        detail = "another build is registered for this number in this epoch"
                        raise InvariantBroken(Code.STALE_EPOCH, detail)
                    self.context.claimed_zone.require()
                    make_visible(self.context.zone, tables[table_id].name, file)
                    visible.append(file)
        _for_all_or_each(self._record, visible, failures)

    def _register_builds(self, files: Sequence[BuiltFile]) -> set[TableId]:
        with translated_errors(), self.context.engine.begin() as connection:
            return register_builds(connection, files)

    def _record(self, files: Sequence[BuiltFile]) -> None:
        self.record({file.planned: file.epoch for file in files})


def _for_all_or_each(
    step: Callable[[Sequence[BuiltFile]], Result], files: Sequence[BuiltFile], failures: Failures
) -> list[Result]:
    """Run a step for all files at once; if it fails, run it for each file alone. Return the step's results."""
    if not files:
        return []
    try:
        return [step(files)]
    except Exception as error:  # noqa: BLE001  # any error is recorded for its table alone
        if len(files) == 1:
            failures[files[0].planned.table_id] = error
            return []
    return [result for file in files for result in _for_all_or_each(step, [file], failures)]


@contextmanager
def _contained(failures: Failures, table_id: TableId) -> Iterator[None]:
    """Keep whatever fails in the block as the table's failure, so that the other tables continue."""
    try:
        yield
    except Exception as error:  # noqa: BLE001
        failures[table_id] = error


_QUERY_SECONDS: Final = 1.0
"""Seconds for which the worker slot waits for Postgres before the spans are given up."""


class PublicationTrace:
    """The times of one publication. Does nothing while tracing is off.

    One Spark job builds the files of several tables, and one transaction records several, so the times are those of the
    whole worker slot. Spans are made from the times after everything else is recorded. That costs one query, which gets
    a second at most; a fault of tracing is logged and fails nothing.
    """

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
