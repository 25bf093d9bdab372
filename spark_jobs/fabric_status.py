"""Fabric's monitoring file: stored for `mirrorgate status`, and read before a drop finishes (R5).

Where drains ask Fabric's API (`fabric_watch`), its answer counts, and the file is stored only without one.
"""

import threading
from collections.abc import Iterable
from dataclasses import asdict
from typing import Final

import structlog

from app.domain.model.names import TableName
from app.domain.model.table import Table
from app.domain.publication.fabric_status import MirroredTable, MirroredTables, parse_tables
from app.domain.publication.failure import described
from app.landing.monitoring import read_tables_json
from app.landing.open_zone import ZoneAddress
from app.observability.periodic_thread import PeriodicThread
from app.staging.connection.database import Connection, Engine, translated_errors
from app.staging.ledger.fabric_status import claim_reading, record_fabric_status
from app.staging.tables.events import record_event
from app.staging.tables.registry import list_tables

log = structlog.get_logger()

_ATTEMPTS_PER_PERIOD: Final = 4
"""How often in a period a drain asks whether no other drain has read the status."""

FAILED_IN_FABRIC: Final = "failed in Fabric"
RECOVERED_IN_FABRIC: Final = "recovered in Fabric"
"""Actions of a table's events."""


def store_fabric_status(engine: Engine, address: ZoneAddress, seconds: float) -> bool:
    """Read and store the file, unless a drain did so within these seconds or the API answers; return whether it was.

    If it cannot be read or understood, the earlier status stays, and its age shows that. A process that dies inside
    leaves the earlier status until the next period.
    """
    with translated_errors(), engine.begin() as connection:
        if not claim_reading(connection, seconds):
            return False
        # List the tables before the file is read: its content cannot be about a generation that starts meanwhile.
        tables = list_tables(connection)
    listed = read_fabric_tables(address)
    if listed is None:
        return False
    with translated_errors(), engine.begin() as connection:
        record_tables(connection, tables, MirroredTables(listed))
    return True


def record_tables(connection: Connection, tables: Iterable[Table], listed: MirroredTables) -> None:
    """Store what Fabric lists of these tables, with an event for each that has failed or recovered."""
    found = {table.table_id: (table, mirrored) for table in tables if (mirrored := listed.find(table.name)) is not None}
    changed = record_fabric_status(
        connection, {(table.table_id, table.generation): mirrored for table, mirrored in found.values()}
    )
    for table, mirrored in map(found.__getitem__, changed):
        action = FAILED_IN_FABRIC if mirrored.has_failed else RECOVERED_IN_FABRIC
        record_event(connection, table, "drain", action, mirrored.error, {"state": mirrored.state})
        log.warning("fabric_table_changed", table=str(table.name), state=mirrored.state, error=mirrored.error)


def read_fabric_tables(address: ZoneAddress) -> list[MirroredTable] | None:
    """Return the tables that Fabric lists now; None if there is no file, or none that can be read, which is logged."""
    try:
        content = read_tables_json(address)
        return None if content is None else parse_tables(content)
    except (OSError, ValueError, RecursionError) as error:
        detail = str(error) if isinstance(error, OSError) else type(error).__name__
        log.warning("fabric_status_read_failed", detail=detail)
        return None


def is_listed_by_fabric(address: ZoneAddress, name: TableName) -> bool:
    """Return whether Fabric is known to have the table still."""
    listed = read_fabric_tables(address)
    return listed is not None and MirroredTables(listed).find(name) is not None


def watch_fabric_status(engine: Engine, address: ZoneAddress, seconds: float, stopping: threading.Event) -> None:
    """Keep the stored status at most about `seconds` old, from a thread of its own, until `stopping` is set."""

    def store() -> None:
        store_fabric_status(engine, address, seconds)

    PeriodicThread(
        "fabric-status",
        seconds / _ATTEMPTS_PER_PERIOD,
        store,
        on_failure=lambda error: log.warning("fabric_status_write_failed", **asdict(described(error))),
        ended=stopping,
    ).start()
