"""W5 to W9 for the built files of several tables: folder, nomination, rename, record.

One transaction nominates a file of each of several tables, and one records those that have become visible. A table's
next file comes only after that; what fails for one table is that table's alone.
"""

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeVar
from uuid import UUID

import structlog

from app.domain.model.landing_file import BuiltFile, PlannedFile
from app.domain.model.table import Epoch, Table, TableId
from app.errors import Code, InvariantBroken
from app.landing.claimed_zone import ClaimedZone
from app.landing.publish import Scratch, make_visible, prepare_folder
from app.landing.zone import LandingZone
from app.observability.drain_metrics import LAST_PUBLISHED, PUBLISHED_FILES, PUBLISHED_ROWS
from app.staging.connection.database import Engine, translated_errors
from app.staging.ledger.files import record_published, register_builds
from spark_jobs.build_files import BuildFailure

log = structlog.get_logger()
Result = TypeVar("Result")
Failures = MutableMapping[TableId, Exception]

TOGETHER: Final = 16
"""Tables that share a transaction at the most: it is as durable for all of them as for one."""


@dataclass(frozen=True, slots=True)
class ClaimedTable:
    """A table that this worker owns under an epoch, with the files to build next."""

    table: Table
    epoch: Epoch
    files: list[PlannedFile]

    @property
    def table_id(self) -> TableId:
        return self.table.table_id

    @property
    def rows(self) -> int:
        return sum(file.identity.rows for file in self.files)


@dataclass(frozen=True, slots=True)
class Publishing:
    """Makes built files visible in one landing zone, and records it in one database."""

    engine: Engine
    zone: LandingZone
    claimed_zone: ClaimedZone
    installation_id: UUID
    together: int
    """Tables whose files become visible between a transaction that nominates and one that records: a store where that
    takes long, or is tried again for long, must not keep one table waiting for another."""

    def publish(
        self, claimed: Sequence[ClaimedTable], built: Mapping[TableId, Sequence[BuiltFile | BuildFailure]]
    ) -> dict[TableId, Exception]:
        """Publish the files of each table in order, as far as they were built; why tables failed.

        A process that dies inside leaves at most one visible file of each table unrecorded.
        """
        failures: dict[TableId, Exception] = {}
        for number in range(max(map(len, built.values()), default=0)):
            entries = [entry for entry in claimed if number < len(built[entry.table_id])]
            for start in range(0, len(entries), self.together):
                part = entries[start : start + self.together]
                if number == 0:
                    self._prepare_folders(part, failures)
                results = [(entry, built[entry.table_id][number]) for entry in part if entry.table_id not in failures]
                self._publish_one_of_each(results, failures)
        return failures

    def record(self, files: Mapping[PlannedFile, Epoch]) -> None:
        """W8: the files are visible."""
        with translated_errors(), self.engine.begin() as connection:
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
        for entry in entries:
            scratch = Scratch(entry.table_id, entry.epoch)
            published_before = entry.files[0].identity.number > 1
            with _kept(failures, entry.table_id):
                self.claimed_zone.require()
                prepare_folder(self.zone, entry.table, self.installation_id, scratch, published_before=published_before)

    def _publish_one_of_each(
        self, results: Sequence[tuple[ClaimedTable, BuiltFile | BuildFailure]], failures: Failures
    ) -> None:
        tables, files = {entry.table_id: entry.table for entry, _ in results}, []
        for entry, result in results:
            with _kept(failures, entry.table_id):
                if isinstance(result, BuildFailure):
                    raise InvariantBroken(result.code, result.detail, remedy=result.remedy)
                files.append(result)
        nominated = set().union(*_together(self._nominate, files, failures))
        visible = []
        for file in files:
            table_id = file.planned.table_id
            if table_id not in failures:
                with _kept(failures, table_id):
                    if table_id not in nominated:
                        detail = "another temp is nominated for this number in this epoch"
                        raise InvariantBroken(Code.STALE_EPOCH, detail)
                    self.claimed_zone.require()
                    make_visible(self.zone, tables[table_id].name, file)
                    visible.append(file)
        _together(self._record, visible, failures)

    def _nominate(self, files: Sequence[BuiltFile]) -> set[TableId]:
        with translated_errors(), self.engine.begin() as connection:
            return register_builds(connection, files)

    def _record(self, files: Sequence[BuiltFile]) -> None:
        self.record({file.planned: file.epoch for file in files})


def _together(
    step: Callable[[Sequence[BuiltFile]], Result], files: Sequence[BuiltFile], failures: Failures
) -> list[Result]:
    """What a step answers for all files at once; where it fails, for each of them alone."""
    if not files:
        return []
    try:
        return [step(files)]
    except Exception as error:  # noqa: BLE001  # whatever it is, it is one table's
        if len(files) == 1:
            failures[files[0].planned.table_id] = error
            return []
    return [result for file in files for result in _together(step, [file], failures)]


@contextmanager
def _kept(failures: Failures, table_id: TableId) -> Iterator[None]:
    """Keep whatever goes wrong with one table, so that the others go on."""
    try:
        yield
    except Exception as error:  # noqa: BLE001
        failures[table_id] = error
