"""Reads Fabric's replication status of the mirrored tables: `Files/Monitoring/tables.json`.

Microsoft's documentation names the keys and shows no file; the REST API's answer with the same content has some of
them in `metrics`, under other names. Both forms are read, and unknown keys are ignored.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from app.domain.model.names import TableName

_ROWS: Final = ("processedRowCount", "processedRows")
_BYTES: Final = ("processedByte", "processedBytes")
_LAST_SYNC: Final = ("lastSyncTimeUtc", "lastSyncDateTime", "lastSyncTime")
_LISTS: Final = ("tables", "data", "value")
_DEFAULT_SCHEMA: Final = "dbo"
"""The schema in which Fabric shows tables whose folder is in no schema."""
_MAX_TEXT_CHARACTERS: Final = 1_000


@dataclass(frozen=True, slots=True)
class MirroredTable:
    """One table as Fabric reports it; None for what it does not report."""

    schema: str
    table: str
    state: str | None = None
    error: str | None = None
    processed_rows: int | None = None
    processed_bytes: int | None = None
    last_sync: datetime | None = None


def parse_tables(content: bytes) -> list[MirroredTable]:
    """Return the tables that the file lists; entries without a table name are ignored.

    Raises ValueError for content that is not JSON or has no list.
    """
    read = json.loads(content.decode("utf-8-sig"))
    if isinstance(read, Mapping):
        read = next((read[name] for name in _LISTS if isinstance(read.get(name), list)), None)
    if not isinstance(read, list):
        raise ValueError("there is no list of tables")
    return [_table(entry) for entry in read if isinstance(entry, Mapping) and _text(entry.get("sourceTableName"))]


def find_mirrored(tables: Iterable[MirroredTable], name: TableName) -> MirroredTable | None:
    """Return the entry of a table, in any letter case; of several, the one with the latest sync."""
    listed = list(tables)
    schemas = [name.schema or ""] if name.schema else ["", _DEFAULT_SCHEMA]
    for schema in schemas:
        wanted = (schema.casefold(), name.table.casefold())
        found = [table for table in listed if (table.schema.casefold(), table.table.casefold()) == wanted]
        if found:
            return max(found, key=lambda table: table.last_sync or datetime.min.replace(tzinfo=UTC))
    return None


def _table(entry: Mapping[str, Any]) -> MirroredTable:
    metrics = entry.get("metrics")
    values = {**(metrics if isinstance(metrics, Mapping) else {}), **entry}
    return MirroredTable(
        schema=_text(entry.get("sourceSchemaName")) or "",
        table=_text(entry.get("sourceTableName")) or "",
        state=_text(entry.get("status")),
        error=_error(entry),
        processed_rows=_count(values, _ROWS),
        processed_bytes=_count(values, _BYTES),
        last_sync=_moment(values),
    )


def _error(entry: Mapping[str, Any]) -> str | None:
    """Return `code: message`, or the one that is present."""
    inner = entry.get("error")
    values = {**(inner if isinstance(inner, Mapping) else {}), **entry}
    code = _text(values.get("errorCode", values.get("code")))
    message = _text(values.get("errorMessage", values.get("message")))
    return ": ".join(part for part in (code, message) if part) or None


def _text(value: object) -> str | None:
    """Return a text that Postgres can store, shortened if it is long; None if there is no text."""
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        return None
    return str(value).replace("\0", "").encode(errors="replace").decode()[:_MAX_TEXT_CHARACTERS] or None


def _count(values: Mapping[str, Any], names: Sequence[str]) -> int | None:
    for name in names:
        value = values.get(name)
        if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63:
            return value
    return None


def _moment(values: Mapping[str, Any]) -> datetime | None:
    """Return the time of the last sync; a time without an offset is in UTC."""
    for name in _LAST_SYNC:
        value = values.get(name)
        if isinstance(value, str):
            try:
                moment = datetime.fromisoformat(value)
                return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
            except (ValueError, OverflowError):
                continue
    return None
