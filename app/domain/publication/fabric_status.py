"""Fabric's replication status of the mirrored tables: from `Files/Monitoring/tables.json`, or from its API.

Microsoft's documentation names the keys and shows no file; the REST API's answer with the same content has some of
them in `metrics`, under other names. Both forms are read, and unknown keys are ignored.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from app.domain.fabric.states import TableMirroring, Whose, has_failed, whose_fault
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
    whose: Whose | None = None
    """Who can correct the error, as far as Fabric says it."""

    @property
    def has_failed(self) -> bool:
        """Whether Fabric has given the table up until somebody acts."""
        return has_failed(self.state, has_error=self.error is not None)


def parse_tables(content: bytes) -> list[MirroredTable]:
    """Return the tables that the file lists; entries without a table name are ignored.

    Raises ValueError for content that is not JSON or has no list.
    """
    read = json.loads(content.decode("utf-8-sig"))
    if isinstance(read, Mapping):
        read = next((read[name] for name in _LISTS if isinstance(read.get(name), list)), None)
    if not isinstance(read, list):
        raise ValueError("there is no list of tables")
    return [_table(entry) for entry in read if isinstance(entry, Mapping) and stored_text(entry.get("sourceTableName"))]


def mirrored_table(found: TableMirroring) -> MirroredTable:
    """Return what the API says about a table, with texts that Postgres can store."""
    return MirroredTable(
        schema=stored_text(found.schema) or "",
        table=stored_text(found.name) or "",
        state=stored_text(found.state),
        error=stored_text(str(found.error)) if found.error else None,
        processed_rows=_bounded(found.processed_rows),
        processed_bytes=_bounded(found.processed_bytes),
        last_sync=found.last_sync,
        whose=found.error.whose if found.error else None,
    )


class MirroredTables:
    """The tables that Fabric lists, by name in any letter case; of several with one name, the latest synced."""

    def __init__(self, tables: Iterable[MirroredTable], default_schema: str = _DEFAULT_SCHEMA) -> None:
        """Look up tables without a schema under `default_schema` too."""
        self._default = default_schema.casefold()
        by_time = sorted(tables, key=lambda table: table.last_sync or datetime.min.replace(tzinfo=UTC))
        self._tables = {(table.schema.casefold(), table.table.casefold()): table for table in by_time}

    def find(self, name: TableName) -> MirroredTable | None:
        """Return the entry of a table, None if Fabric does not list it."""
        table = name.table.casefold()
        if name.schema:
            return self._tables.get((name.schema.casefold(), table))
        return self._tables.get(("", table)) or self._tables.get((self._default, table))


def _table(entry: Mapping[str, Any]) -> MirroredTable:
    metrics = entry.get("metrics")
    values = {**(metrics if isinstance(metrics, Mapping) else {}), **entry}
    error, whose = _error(entry)
    return MirroredTable(
        schema=stored_text(entry.get("sourceSchemaName")) or "",
        table=stored_text(entry.get("sourceTableName")) or "",
        state=stored_text(entry.get("status")),
        error=error,
        processed_rows=_count(values, _ROWS),
        processed_bytes=_count(values, _BYTES),
        last_sync=_moment(values),
        whose=whose,
    )


def _error(entry: Mapping[str, Any]) -> tuple[str | None, Whose | None]:
    """Return `code: message`, or the one that is present, and whose fault it is."""
    inner = entry.get("error")
    values = {**(inner if isinstance(inner, Mapping) else {}), **entry}
    code = stored_text(values.get("errorCode", values.get("code")))
    message = stored_text(values.get("errorMessage", values.get("message")))
    text = ": ".join(part for part in (code, message) if part) or None
    return text, whose_fault(stored_text(values.get("errorType")) or "", code or "") if text else None


def stored_text(value: object) -> str | None:
    """Return a text that Postgres can store, shortened if it is long; None if there is no text."""
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        return None
    return str(value).replace("\0", "").encode(errors="replace").decode()[:_MAX_TEXT_CHARACTERS] or None


def _count(values: Mapping[str, Any], names: Sequence[str]) -> int | None:
    for name in names:
        value = values.get(name)
        if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and (count := _bounded(value)) is not None:
            return count
    return None


def _bounded(value: int | None) -> int | None:
    """Return a count that Postgres can store, else None."""
    return value if value is not None and 0 <= value < 2**63 else None


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
