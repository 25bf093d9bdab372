"""The replicator: applies landing files to Delta tables by Fabric's rules, and cleans up behind itself.

`app.mirror` folds the files. This module adds what Fabric does around it: applied files move away, tables without a
schema are in the default schema, tables disappear with their folders, and the REST API and `tables.json` show states.
`mirrorgate_zone.emulator.emulator` has the sources.

A process that dies anywhere loses nothing: the Delta tables know their last file (decision 0037).
"""

import json
import shutil
import threading
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import structlog

from app.domain.mirror_report import MirrorState, TableReport
from app.landing.landed_state import CONSUMED_FOLDERS
from app.landing.local_zone import LocalZone
from app.mirror.inspection.history import read_history
from app.mirror.table_mirror import MirrorLimits, advance_table
from app.mirror.target import MirrorTarget
from app.published.table_files import PublishedTable, list_files, list_tables
from app.published.table_metadata import read_metadata
from mirrorgate.errors import Code, InvariantBroken, MirrorgateError
from mirrorgate_zone.emulator.fabric_api import Database, FabricService
from mirrorgate_zone.emulator.onelake import OneLake

log = structlog.get_logger()

DEFAULT_SCHEMA: Final = "dbo"
RETENTION_SECONDS: Final = 7 * 86_400.0
_PROCESSED, _READY_TO_DELETE = CONSUMED_FOLDERS
_MAX_COMMITS: Final = 16
"""Of one table in a row, so that other tables have their turn."""
_MONITORING_SECONDS: Final = 1.0
"""Between two writes of `tables.json`."""
_FABRIC_CODES: Final = {
    Code.LANDING_METADATA_UNREADABLE: "InvalidMetadata",
    Code.SCHEMA_MERGE_FAILURE: "SchemaMergeFailure",
    Code.MIRROR_TYPE_UNSUPPORTED: "SchemaMergeFailure",
}
"""Fabric's words for what stops a table; other stops have the mirror's code."""


@dataclass
class _Progress:
    """What the replicator has done for one table."""

    version: int = -1
    rows: int = 0
    bytes: int = 0
    status: dict[str, Any] = field(default_factory=dict)


class Replicator:
    """Applies what has landed in the running databases of a service. Threads share it."""

    def __init__(
        self, onelake: OneLake, service: FabricService, *, retention_seconds: float = RETENTION_SECONDS
    ) -> None:
        self._onelake, self._service = onelake, service
        self._retention = retention_seconds
        self._limits = MirrorLimits(replace_old=True)
        self._progress: dict[tuple[str, PublishedTable], _Progress] = {}
        self._starts: dict[str, int] = {}
        self._monitored_at: dict[str, float] = {}
        self._lock = threading.Lock()

    def run_once(self) -> None:
        """Look at each database once. A file that vanishes meanwhile is looked for again the next time."""
        with self._lock:
            for database in [*self._service.databases.values()]:
                if not self._service.faults.is_paused and database.polled().startswith("Running"):
                    self._replicate(database)

    def _replicate(self, database: Database) -> None:
        root = self._onelake.tree.root / database.id
        zone, target = LocalZone(root / "Files" / "LandingZone"), MirrorTarget(str(root / "Tables"))
        if self._starts.setdefault(database.id, database.started) != database.started:
            self._starts[database.id] = database.started
            self._forget(database, root)
        schema = database.default_schema or DEFAULT_SCHEMA
        tables = [replace(table, schema=table.schema or schema) for table in list_tables(zone)]
        for known in [table for identity, table in self._progress if identity == database.id and table not in tables]:
            del self._progress[database.id, known]
            shutil.rmtree(target.uri(known), ignore_errors=True)
        folders: dict[str, str] = {}
        for table in tables:
            progress = self._progress.setdefault((database.id, table), _Progress())
            if (first := folders.setdefault(str(table), table.folder)) != table.folder:
                progress.status = _state(table, _second(table, first), progress)
                continue
            try:
                progress.status = self._advance(database, zone, target, table, progress)
            except (OSError, MirrorgateError) as error:  # for example, its publisher has deleted the folder
                log.warning("emulator_table_failed", table=str(table), detail=str(error))
        states = [status for table in tables if (status := self._progress[database.id, table].status)]
        database.tables = states
        now = time.monotonic()
        is_due = now - self._monitored_at.get(database.id, -_MONITORING_SECONDS) >= _MONITORING_SECONDS
        if is_due and (states or database.id in self._monitored_at):
            self._monitored_at[database.id] = now
            content = json.dumps({"tables": [_monitored(state) for state in states]}).encode()
            self._onelake.tree.write_inside(f"{database.id}/Files/Monitoring/tables.json", content)

    def _forget(self, database: Database, root: Path) -> None:
        """Delete the Delta tables of a database that was stopped and started, so that all files are applied again."""
        shutil.rmtree(root / "Tables", ignore_errors=True)
        (root / "Tables").mkdir(exist_ok=True)
        for key in [key for key in self._progress if key[0] == database.id]:
            del self._progress[key]

    def _advance(
        self, database: Database, zone: LocalZone, target: MirrorTarget, table: PublishedTable, progress: _Progress
    ) -> dict[str, Any]:
        """Apply the files of a table, and return its state as the REST API shows it."""
        for _ in range(_MAX_COMMITS):
            report = advance_table(zone, target, table, self._limits)
            self._count(zone, target, table, report, progress)
            if report.state is not MirrorState.BEHIND:
                break
        self._clean_up(database, zone, table, report)
        return _state(table, report, progress)

    def _count(
        self, zone: LocalZone, target: MirrorTarget, table: PublishedTable, report: TableReport, progress: _Progress
    ) -> None:
        """Add the rows and bytes of the commits since the last call."""
        delta = target.open(table) if report.version not in (None, progress.version) else None
        if delta is None or report.version is None:
            return
        sizes = {file.number: _size(zone, file.path) for file in list_files(zone, table).numbered.values()}
        for entry in read_history(target, delta, max(report.version - progress.version, 1)):
            progress.rows += sum((entry.rows or {}).values())
            first, last = entry.files or (1, 0)
            progress.bytes += sum(sizes.get(number, 0) for number in range(first, last + 1))
        progress.version = report.version

    def _clean_up(self, database: Database, zone: LocalZone, table: PublishedTable, report: TableReport) -> None:
        """Move applied files away, all but the last one, and delete old ones."""
        try:
            metadata = read_metadata(zone, table)
        except InvariantBroken:
            return
        if metadata.is_ordered_by_time or metadata.is_partitioned or not report.file_number:
            return
        now, tree = time.time(), self._onelake.tree
        landing = f"{database.id}/Files/LandingZone"
        for number, file in list_files(zone, table).numbered.items():
            place, path = tree.root / landing / file.path, f"{landing}/{file.path}"
            if number >= report.file_number:
                break
            age = now - place.stat().st_mtime
            folder = file.path.split("/")[-2]
            if age > self._retention:
                tree.remove_inside(path)
            elif folder not in CONSUMED_FOLDERS:
                tree.move_inside(path, f"{landing}/{table.folder}/{_PROCESSED}/{file.name}")
            elif folder == _PROCESSED and age > self._retention / 2:
                tree.move_inside(path, f"{landing}/{table.folder}/{_READY_TO_DELETE}/{file.name}")


def _size(zone: LocalZone, path: str) -> int:
    with zone.read_file(path) as file:
        return file.seek(0, 2)


def _second(table: PublishedTable, first: str) -> TableReport:
    """Return the report of the second folder that is one table in Fabric, as `t` and `dbo.schema/t` are."""
    detail = f"the folders {first} and {table.folder} are one table, {table}: give one of them another name"
    stopped = TableReport(str(table), MirrorState.STOPPED, generation=0)
    return stopped.because(InvariantBroken(Code.MIRROR_TARGET_FOREIGN, detail))


def _state(table: PublishedTable, report: TableReport, progress: _Progress) -> dict[str, Any]:
    """Return one entry of getTablesMirroringStatus."""
    status = "Replicating" if report.version is not None else "Initialized"
    error: dict[str, Any] = {}
    if report.state is MirrorState.STOPPED:
        status = "Failed"
        code = _FABRIC_CODES.get(Code(report.code), report.code) if report.code else "InternalError"
        error = {"error": {"errorCode": code, "message": report.detail}}
    metrics: dict[str, Any] = {"processedBytes": progress.bytes, "processedRows": progress.rows}
    if report.committed_at is not None:
        synced = datetime.now(UTC) if report.state is MirrorState.IN_STEP else report.committed_at
        metrics |= {"lastSyncDateTime": synced.isoformat(), "lastSyncLatencyInSeconds": 0}
    named = {"sourceObjectType": "Table", "sourceSchemaName": table.schema, "sourceTableName": table.name}
    return {**named, "status": status, "metrics": metrics, **error}


def _monitored(state: dict[str, Any]) -> dict[str, Any]:
    """Return the entry of `tables.json` for an entry of the REST API."""
    metrics, error = state["metrics"], state.get("error", {})
    return {
        "sourceSchemaName": state["sourceSchemaName"],
        "sourceTableName": state["sourceTableName"],
        "status": state["status"],
        "processedRowCount": metrics["processedRows"],
        "processedByte": metrics["processedBytes"],
        "lastSyncTimeUtc": metrics.get("lastSyncDateTime"),
        "errorCode": error.get("errorCode"),
        "errorMessage": error.get("message"),
    }
