"""Stores for operators what Fabric says of the mirrored database and its tables, and finds tables it still lists (R5).

It exists because the landing zone does not show whether Fabric reads it: a paused capacity and a failed table stop
mirroring silently. There are two sources: Fabric's API, where the settings name the database, and the file
`Monitoring/tables.json` beside the landing zone, which counts while the API has not answered for some minutes. One
drain reads each at a time. Invariant: nothing that Fabric does or fails to do reaches the publication of files.
"""

import threading
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Final

import structlog

from app.domain.fabric import DatabaseState, DatabaseStatus, MirroredTables, TableMirroring, parse_tables, sync_error
from app.domain.model.names import TableName
from app.domain.model.table import Table
from app.domain.publication import described
from app.fabric import FabricClient
from app.fabric.client import is_configured, open_fabric
from app.landing.open_zone import ZoneAddress, read_tables_json
from app.observability.periodic_thread import PeriodicThread
from app.settings import Settings
from app.staging.connection.database import Connection, Engine, translated_errors
from app.staging.ledger.reports import (
    claim_poll,
    claim_reading,
    forget_database,
    has_published_files,
    record_fabric_status,
    store_answer,
    store_problem,
    store_refresh,
    unrefreshed_tables,
)
from app.staging.tables.events import record_event
from app.staging.tables.registry import list_tables
from mirrorgate.errors import TemporarilyUnavailable

log = structlog.get_logger()

_ATTEMPTS_PER_PERIOD: Final = 4
"""Number of checks in a period whether a source is due."""

_MIN_PAUSE_SECONDS: Final = 1.0

_PATIENCE_SECONDS: Final = 15.0
"""Seconds for which a request to the API is repeated; the next period asks again anyway."""

_REFRESH_SECONDS: Final = 120.0
"""Seconds that a drain waits for a refresh of the SQL endpoint; one that takes longer is asked for again."""

FAILED_IN_FABRIC: Final = "failed in Fabric"
RECOVERED_IN_FABRIC: Final = "recovered in Fabric"
"""Actions of a table's events."""


@dataclass
class FabricWatcher:
    """Watcher of Fabric's API with one client, which keeps its token, and gets a new one after a failure."""

    engine: Engine
    open_client: Callable[[], FabricClient]
    seconds: float
    """Time between two questions of all drains together."""
    starts: bool = False
    """True: start mirroring once the first table is ready. Only a database that has never been started is started: what
    was stopped or paused is an operator's decision."""
    refreshes_sql: bool = False
    """True: refresh the SQL analytics endpoint after Fabric has synchronized a table."""
    _client: FabricClient | None = None
    _default_schema: str | None = None

    def poll(self) -> bool:
        """Ask and store the answer, unless a drain did so within the period; return whether it was stored.

        Without an answer, the reason is stored beside the former status, whose age shows. A process that dies inside
        leaves the former status until the next period. Raise only what Postgres raises.
        """
        with translated_errors(), self.engine.begin() as connection:
            if not claim_poll(connection, self.seconds, refreshes_sql=self.refreshes_sql):
                return False
            # List the tables before Fabric does: its list cannot be about a generation that starts meanwhile.
            tables = list_tables(connection)
            is_ready = self.starts and has_published_files(connection)
        try:
            status, listed = self._ask(is_ready=is_ready)
        except Exception as error:  # noqa: BLE001  # an unknown error of the SDK or a proxy must not end the watch
            self.close()
            self._store_problem(error)
            return False
        self._store_answer(status, tables, listed)
        if self.refreshes_sql and listed is not None:
            self._refresh_sql()
        return True

    def close(self) -> None:
        """Close the connection to Fabric. A later poll opens another one."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _ask(self, *, is_ready: bool) -> tuple[DatabaseStatus, MirroredTables | None]:
        """Return the state of the database, and of its tables while it runs. Start it if it `is_ready` and never ran.

        A process that dies after the start changes nothing: the next question finds the database starting or running.
        """
        if self._client is None:
            self._client = self.open_client()
            self._default_schema = self._client.database().default_schema
        status = self._client.database_status()
        if is_ready and status.state is DatabaseState.INITIALIZED:
            self._client.start()
            log.info("fabric_mirroring_started")
            status = self._client.database_status()
        if not status.state.is_running:
            return status, None
        return status, MirroredTables(self._client.tables_status(), self._default_schema)

    def _store_answer(self, status: DatabaseStatus, tables: list[Table], listed: MirroredTables | None) -> None:
        with translated_errors(), self.engine.begin() as connection:
            before = store_answer(connection, status, has_tables=listed is not None)
            if listed is not None:
                _record_tables(connection, tables, listed)
        if before != status.raw:
            error = str(status.error) if status.error else None
            log.info("fabric_state_changed", state=status.raw, before=before, error=error)

    def _refresh_sql(self) -> None:
        """Refresh the SQL endpoint if Fabric has synchronized a table since, and store for which tables that worked.

        A refresh shows at least what Fabric had synchronized before it began, so that time is stored. A process that
        dies before the commit repeats the refresh.
        """
        with translated_errors(), self.engine.begin() as connection:
            due = unrefreshed_tables(connection)
        if not due:
            return
        try:
            client = self._client = self._client or self.open_client()
            syncs = client.refresh_sql_endpoint()
            results = [(table, sync_error(syncs, table.name, self._default_schema)) for table in due]
        except Exception as error:  # noqa: BLE001  # an unknown error of the SDK or a proxy must not end the watch
            self.close()
            failure = described(error)
            results = [(table, f"{failure.code}: {failure.detail}") for table in due]
        with translated_errors(), self.engine.begin() as connection:
            store_refresh(connection, results)
        for table, reason in results:
            if reason is not None and table.error is None:
                log.warning("fabric_refresh_failed", table=str(table.name), detail=reason)

    def _store_problem(self, error: Exception) -> None:
        failure = described(error)
        wait = float(error.retry_after) if isinstance(error, TemporarilyUnavailable) else 0.0
        with translated_errors(), self.engine.begin() as connection:
            before = store_problem(connection, failure, wait)
        if before != failure.code:
            log.warning("fabric_poll_failed", **asdict(failure))


def fabric_watcher(engine: Engine, settings: Settings) -> FabricWatcher | None:
    """Return a watcher of the database that the settings name; None, and no former status, where they name none."""
    if settings.fabric_poll_seconds and is_configured(settings):
        return FabricWatcher(
            engine,
            lambda: open_fabric(settings, patience=_PATIENCE_SECONDS, wait_seconds=_REFRESH_SECONDS),
            settings.fabric_poll_seconds,
            starts=settings.fabric_start,
            refreshes_sql=settings.fabric_refresh_sql,
        )
    with translated_errors(), engine.begin() as connection:
        forget_database(connection)
    return None


def store_listed_tables(engine: Engine, address: ZoneAddress, seconds: float) -> bool:
    """Read and store the file, unless a drain did so within these seconds or the API answers; return whether it was.

    If it cannot be read or understood, the earlier status remains, and its age shows that. A process that dies inside
    leaves the earlier status until the next period.
    """
    with translated_errors(), engine.begin() as connection:
        if not claim_reading(connection, seconds):
            return False
        # List the tables before the file is read: its content cannot be about a generation that starts meanwhile.
        tables = list_tables(connection)
    listed = _read_listed(address)
    if listed is None:
        return False
    with translated_errors(), engine.begin() as connection:
        _record_tables(connection, tables, MirroredTables(listed))
    return True


def is_listed_by_fabric(address: ZoneAddress, name: TableName) -> bool:
    """Return whether Fabric is known, by the file, to have the table still."""
    listed = _read_listed(address)
    return listed is not None and MirroredTables(listed).find(name) is not None


@dataclass
class FabricStatusReader:
    """Both sources, read when they are due; a failure of one is logged and disturbs nothing."""

    engine: Engine
    settings: Settings
    address: ZoneAddress
    _api: FabricWatcher | None = None
    _is_api_known: bool = False

    def store(self) -> None:
        """Ask the API and read the file, as far as each is configured and due."""
        for read in (self._ask_api, self._read_file):
            try:
                read()
            except Exception as error:  # noqa: BLE001  # a missing status stops no publication
                log.warning("fabric_watch_failed", **asdict(described(error)))

    def watch(self, stopping: threading.Event) -> PeriodicThread:
        """Keep the stored status as young as the settings say, in a separate thread, until `stopping` is set."""
        periods = [one for one in (self.settings.fabric_poll_seconds, self.settings.monitoring_seconds) if one]
        pause = max(min(periods, default=60.0) / _ATTEMPTS_PER_PERIOD, _MIN_PAUSE_SECONDS)
        thread = PeriodicThread("fabric-status", pause, self.store, at_end=self.close, ended=stopping)
        thread.start()
        return thread

    def close(self) -> None:
        """Close the connection to Fabric."""
        if self._api is not None:
            self._api.close()

    def _ask_api(self) -> None:
        if not self._is_api_known:
            self._api = fabric_watcher(self.engine, self.settings)
            self._is_api_known = True
        if self._api is not None:
            self._api.poll()

    def _read_file(self) -> None:
        if self.settings.monitoring_seconds:
            store_listed_tables(self.engine, self.address, self.settings.monitoring_seconds)


def _record_tables(connection: Connection, tables: Iterable[Table], listed: MirroredTables) -> None:
    """Store what Fabric lists of these tables, with an event for each that has failed or recovered."""
    found = {table.table_id: (table, mirrored) for table in tables if (mirrored := listed.find(table.name)) is not None}
    changed = record_fabric_status(
        connection, {(table.table_id, table.generation): mirrored for table, mirrored in found.values()}
    )
    for table, mirrored in map(found.__getitem__, changed):
        action = FAILED_IN_FABRIC if mirrored.has_failed else RECOVERED_IN_FABRIC
        error = str(mirrored.error) if mirrored.error else None
        record_event(connection, table, "drain", action, error, {"state": mirrored.state})
        log.warning("fabric_table_changed", table=str(table.name), state=mirrored.state, error=error)


def _read_listed(address: ZoneAddress) -> list[TableMirroring] | None:
    """Return the tables that the file lists now; None if there is none, or none that can be read, which is logged."""
    try:
        content = read_tables_json(address)
        return None if content is None else parse_tables(content)
    except (OSError, ValueError, RecursionError) as error:
        detail = str(error) if isinstance(error, OSError) else type(error).__name__
        log.warning("fabric_status_read_failed", detail=detail)
        return None
