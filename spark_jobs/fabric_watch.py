"""Asks Fabric's API for the state of the mirrored database and its tables, and stores it for operators.

It exists because the landing zone does not show whether Fabric reads it: a paused capacity and a failed table stop
mirroring silently. One drain asks at a time. Invariant: nothing that Fabric's API does or fails to do reaches the
publication of files.
"""

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from typing import Final

import structlog

from app.domain.fabric.states import DatabaseStatus
from app.domain.model.table import Table
from app.domain.publication.fabric_status import MirroredTables, mirrored_table
from app.domain.publication.failure import described
from app.errors import TemporarilyUnavailable
from app.fabric import FabricClient
from app.fabric.opening import is_configured, open_fabric
from app.observability.periodic_thread import PeriodicThread
from app.settings import Settings
from app.staging.connection.database import Engine, translated_errors
from app.staging.ledger.fabric_database import claim_poll, forget_database, store_answer, store_problem
from app.staging.tables.registry import list_tables
from spark_jobs.fabric_status import record_tables

log = structlog.get_logger()

_ATTEMPTS_PER_PERIOD: Final = 4
"""How often in a period a drain looks whether a question is due."""

_MIN_PAUSE_SECONDS: Final = 1.0

_PATIENCE_SECONDS: Final = 15.0
"""How long one request is repeated; the next period asks again anyway."""


class FabricWatcher:
    """Asks with one client, which keeps its token, and takes a new one after a failure."""

    def __init__(self, engine: Engine, open_client: Callable[[], FabricClient], seconds: float) -> None:
        """Ask every `seconds`, in total over all drains."""
        self._engine = engine
        self._open = open_client
        self._seconds = seconds
        self._client: FabricClient | None = None
        self._default_schema: str | None = None

    def poll(self) -> bool:
        """Ask and store the answer, unless a drain did so within the period; return whether it was stored.

        Without an answer, the reason is stored beside the former status, whose age shows. A process that dies inside
        leaves the former status until the next period. Raise only what Postgres raises.
        """
        with translated_errors(), self._engine.begin() as connection:
            if not claim_poll(connection, self._seconds):
                return False
            # List the tables before Fabric does: its list cannot be about a generation that starts meanwhile.
            tables = list_tables(connection)
        try:
            status, listed = self._ask()
        except Exception as error:  # noqa: BLE001  # whatever a proxy or the SDK does, the next period asks again
            self.close()
            self._store_problem(error)
            return False
        self._store_answer(status, tables, listed)
        return True

    def close(self) -> None:
        """Close the connection to Fabric. A later poll opens another one."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _ask(self) -> tuple[DatabaseStatus, MirroredTables | None]:
        """Return the state of the database, and of its tables while it runs."""
        if self._client is None:
            self._client = self._open()
            self._default_schema = self._client.database().default_schema
        status = self._client.database_status()
        if not status.state.is_running:
            return status, None
        listed = map(mirrored_table, self._client.tables_status())
        return status, MirroredTables(listed, self._default_schema) if self._default_schema else MirroredTables(listed)

    def _store_answer(self, status: DatabaseStatus, tables: list[Table], listed: MirroredTables | None) -> None:
        with translated_errors(), self._engine.begin() as connection:
            before = store_answer(connection, status, has_tables=listed is not None)
            if listed is not None:
                record_tables(connection, tables, listed)
        if before != status.raw:
            error = str(status.error) if status.error else None
            log.info("fabric_state_changed", state=status.raw, before=before, error=error)

    def _store_problem(self, error: Exception) -> None:
        failure = described(error)
        wait = float(error.retry_after) if isinstance(error, TemporarilyUnavailable) else 0.0
        with translated_errors(), self._engine.begin() as connection:
            before = store_problem(connection, failure, wait)
        if before != failure.code:
            log.warning("fabric_poll_failed", **asdict(failure))


def fabric_watcher(engine: Engine, settings: Settings) -> FabricWatcher | None:
    """Return a watcher of the database that the settings name; None, and no former status, where they name none."""
    if settings.fabric_poll_seconds and is_configured(settings):
        return FabricWatcher(
            engine, lambda: open_fabric(settings, patience=_PATIENCE_SECONDS), settings.fabric_poll_seconds
        )
    with translated_errors(), engine.begin() as connection:
        forget_database(connection)
    return None


def watch_fabric(engine: Engine, settings: Settings, stopping: threading.Event) -> PeriodicThread:
    """Keep the stored status as young as the settings say, from a thread of its own, until `stopping` is set.

    The thread ends at once where the settings name no database.
    """
    watcher: FabricWatcher | None = None

    def watch() -> bool:
        nonlocal watcher
        watcher = watcher or fabric_watcher(engine, settings)
        if watcher is not None:
            watcher.poll()
        return watcher is not None

    def close() -> None:
        if watcher is not None:
            watcher.close()

    thread = PeriodicThread(
        "fabric-watch",
        max(settings.fabric_poll_seconds / _ATTEMPTS_PER_PERIOD, _MIN_PAUSE_SECONDS),
        watch,
        on_failure=lambda error: log.warning("fabric_watch_failed", **asdict(described(error))),
        at_end=close,
        ended=stopping,
    )
    thread.start()
    return thread


def ask_fabric(engine: Engine, settings: Settings) -> None:
    """Ask once, if a question is due; a failure is logged, not raised."""
    try:
        if (watcher := fabric_watcher(engine, settings)) is not None:
            with closing(watcher):
                watcher.poll()
    except Exception as error:  # noqa: BLE001  # as in the thread
        log.warning("fabric_watch_failed", **asdict(described(error)))
