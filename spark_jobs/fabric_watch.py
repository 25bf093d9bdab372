"""Reading what Fabric says of its tables: now and then for the status, and before a dropped folder is made anew."""

import threading
from dataclasses import asdict
from typing import Final

import structlog

from app.domain.model.names import TableName
from app.domain.publication.fabric_status import MirroredTable, find_mirrored, parse_tables
from app.domain.publication.failure import described
from app.landing.monitoring import read_tables_json
from app.landing.open_zone import ZoneAddress
from app.staging.connection.database import Engine, translated_errors
from app.staging.ledger.fabric_status import claim_reading, record_fabric_status
from app.staging.tables.registry import list_tables

log = structlog.get_logger()

_TURNS: Final = 4
"""How often in a period a drain asks whether it is its turn."""


def note_mirror_states(engine: Engine, address: ZoneAddress, seconds: float) -> bool:
    """Read and store Fabric's view, unless some drain did within these seconds; whether it was stored.

    What cannot be read or understood leaves the earlier view, whose age is shown.
    """
    with translated_errors(), engine.begin() as connection:
        if not claim_reading(connection, seconds):
            return False
        # Listed before the file is read: what it says may be of this generation, not of one that begins meanwhile.
        tables = [(table.table_id, table.generation, table.name) for table in list_tables(connection)]
    listed = read_mirrored(address)
    if listed is None:
        return False
    found = {
        (table_id, generation): mirrored
        for table_id, generation, name in tables
        if (mirrored := find_mirrored(listed, name)) is not None
    }
    with translated_errors(), engine.begin() as connection:
        record_fabric_status(connection, found)
    return True


def read_mirrored(address: ZoneAddress) -> list[MirroredTable] | None:
    """What Fabric says now; None where it says nothing that can be read, which is logged unless there is no file."""
    try:
        content = read_tables_json(address)
        return None if content is None else parse_tables(content)
    except (OSError, ValueError, RecursionError) as error:
        detail = str(error) if isinstance(error, OSError) else type(error).__name__
        log.warning("fabric_status_read_failed", detail=detail)
        return None


def is_mirrored(address: ZoneAddress, name: TableName) -> bool:
    """Whether Fabric is known to have the table still."""
    listed = read_mirrored(address)
    return listed is not None and find_mirrored(listed, name) is not None


def watch_mirror(engine: Engine, address: ZoneAddress, seconds: float, stopping: threading.Event) -> None:
    """Keep the stored view about `seconds` old from a thread of its own, until `stopping`."""

    def watch() -> None:
        while not stopping.is_set():
            try:
                note_mirror_states(engine, address, seconds)
            except Exception as error:  # noqa: BLE001  # a view that is missing stops no publication
                log.warning("fabric_status_write_failed", **asdict(described(error)))
            stopping.wait(seconds / _TURNS)

    threading.Thread(target=watch, name="mirror-watch", daemon=True).start()
