"""The mirror's progress for each table of a landing zone: tables of the zone, and those that only the target has."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from app.domain.mirror_report import MirrorState, TableReport
from app.domain.model.landing_file import file_name
from app.domain.model.table import FileNumber
from app.landing.parquet_file import read_identity
from app.landing.zone import LandingZone, PathKind
from app.mirror.inspection.history import OPTIMIZE, read_history
from app.mirror.inspection.opening import reading
from app.mirror.table_mirror import inspect_table
from app.mirror.target import KEPT, MirrorTarget, vacuum_time
from app.published.table_files import SCHEMA_SUFFIX, PublishedTable, list_tables
from mirrorgate.errors import Code

FAULTS: Final = frozenset({MirrorState.WAITING, MirrorState.STOPPED})
"""States that need a person."""

_READERS: Final = 8
_UPKEEP_VERSIONS: Final = 100
"""Versions among which the last compaction is looked for: by default, 64 small files cause one."""


def published_tables(zone: LandingZone, target: MirrorTarget) -> list[PublishedTable]:
    """List the tables of the zone and the tables that only the target has, sorted by name; no kept generation.

    Raises TemporarilyUnavailable `mirror_away` if the zone or the target cannot be read.
    """
    with reading(target.location):
        found = {str(table): table for table in list_tables(zone)}
        for name in target.tables():
            if name not in found and KEPT not in name:
                found[name] = _dropped_table(name)
    return [found[name] for name in sorted(found)]


def inspect_tables(zone: LandingZone, target: MirrorTarget, tables: list[PublishedTable]) -> Iterator[TableReport]:
    """Inspect tables, in their order, several at a time. Raises TemporarilyUnavailable `mirror_away`.

    A table of a gateway whose last file is not the gateway's is stopped: that drain publishes nothing there either.
    """
    with reading(target.location), ThreadPoolExecutor(_READERS) as pool:
        yield from pool.map(partial(_inspect, zone, target), tables)


def _inspect(zone: LandingZone, target: MirrorTarget, table: PublishedTable) -> TableReport:
    report = inspect_table(zone, target, table)
    if report.state is not MirrorState.IN_STEP or report.owner is None or not report.last_file:
        return report
    path = f"{table.folder}/{file_name(FileNumber(report.last_file))}"
    if zone.kind(path) is not PathKind.FILE:  # consumed since the listing
        return report
    with zone.read_file(path) as file:
        identity = read_identity(file)
    if identity is not None and identity.number == report.last_file:
        return report
    return replace(
        report,
        state=MirrorState.STOPPED,
        code=str(Code.FOREIGN_FILE),
        detail=f"{path} is applied and is not a file of the gateway that the folder belongs to",
        remedy=Code.FOREIGN_FILE.remedy,
    )


@dataclass(frozen=True, slots=True)
class LastUpkeep:
    """Times of a table's last compaction and of the last vacuum that deleted files; None if its log does not say."""

    compacted_at: datetime | None = None
    vacuumed_at: datetime | None = None


def read_upkeep(target: MirrorTarget, names: Sequence[str]) -> dict[str, LastUpkeep]:
    """Return the last upkeep of tables, as their newest versions say. Raises TemporarilyUnavailable `mirror_away`."""
    with reading(target.location), ThreadPoolExecutor(_READERS) as pool:
        return dict(zip(names, pool.map(partial(_read_upkeep, target), names), strict=True))


def _read_upkeep(target: MirrorTarget, name: str) -> LastUpkeep:
    delta = target.open(name)
    if delta is None:
        return LastUpkeep()
    newest = read_history(target, delta, _UPKEEP_VERSIONS)
    return LastUpkeep(next((one.time for one in newest if one.operation == OPTIMIZE), None), vacuum_time(delta))


def report_to_json(report: TableReport, upkeep: LastUpkeep) -> dict[str, Any]:
    """Return a report as `mirror status --json` prints it, with the names that the API uses."""
    reason = {"code": report.code, "detail": report.detail, "remedy": report.remedy}
    return {
        "table": report.table,
        "state": report.state,
        "version": report.version,
        "generation": report.generation,
        "file_number": report.file_number,
        "last_file": report.last_file,
        "pending_files": report.pending_files,
        "lag_seconds": round(lag_seconds(report), 3),
        "reason": None if report.code is None else reason,
        "committed_at": report.committed_at,
        "compacted_at": upkeep.compacted_at,
        "vacuumed_at": upkeep.vacuumed_at,
    }


def lag_seconds(report: TableReport) -> float:
    """Return the age of the oldest file that is not applied, 0 in step."""
    if report.oldest_pending_at is None:
        return 0.0
    return max(0.0, (datetime.now(UTC) - report.oldest_pending_at).total_seconds())


def _dropped_table(name: str) -> PublishedTable:
    schema, dot, table = name.partition(".")
    return (
        PublishedTable(schema, table, f"{schema}{SCHEMA_SUFFIX}/{table}") if dot else PublishedTable(None, name, name)
    )
