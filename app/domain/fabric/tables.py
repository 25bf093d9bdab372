"""The mirrored tables as Fabric reports them: in `Files/Monitoring/tables.json`, and in answers of its API.

Microsoft's documentation names the keys of the file and shows none; the API's answer with the same content has some of
them in `metrics`, under other names. One reader takes both forms and ignores unknown keys.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from app.domain.fabric.states import DatabaseStatus, FabricFault, has_failed, parse_state, whose_fault
from app.domain.model.names import TableName

_ROWS: Final = ("processedRowCount", "processedRows")
_BYTES: Final = ("processedByte", "processedBytes")
_LAST_SYNC: Final = ("lastSyncTimeUtc", "lastSyncDateTime", "lastSyncTime")
_LISTS: Final = ("tables", "data", "value")
_DEFAULT_SCHEMA: Final = "dbo"
"""The schema in which Fabric shows tables whose folder is in no schema."""
_MAX_TEXT_CHARACTERS: Final = 1_000


@dataclass(frozen=True, slots=True)
class TableMirroring:
    """One table as Fabric reports it, in Fabric's words. Counts are cumulative; None: it has not reported it."""

    schema: str
    name: str
    state: str | None = None
    processed_rows: int | None = None
    processed_bytes: int | None = None
    last_sync: datetime | None = None
    error: FabricFault | None = None

    @property
    def has_failed(self) -> bool:
        """Whether Fabric has given the table up until somebody acts."""
        return has_failed(self.state, has_error=self.error is not None)


class MirroredTables:
    """The tables that Fabric lists, by name in any letter case; of several with one name, the latest synced."""

    def __init__(self, tables: Iterable[TableMirroring], default_schema: str | None = None) -> None:
        """Look up tables without a schema under `default_schema` too."""
        self._default = (default_schema or _DEFAULT_SCHEMA).casefold()
        by_time = sorted(tables, key=lambda table: table.last_sync or datetime.min.replace(tzinfo=UTC))
        self._tables = {(table.schema.casefold(), table.name.casefold()): table for table in by_time}

    def find(self, name: TableName) -> TableMirroring | None:
        """Return the entry of a table, None if Fabric does not list it."""
        table = name.table.casefold()
        if name.schema:
            return self._tables.get((name.schema.casefold(), table))
        return self._tables.get(("", table)) or self._tables.get((self._default, table))


def parse_database_status(answer: Mapping[str, object]) -> DatabaseStatus:
    """Read an answer of getMirroringStatus."""
    raw = str(answer.get("status") or "")
    return DatabaseStatus(parse_state(raw), raw, parse_fault(answer.get("error")))


def parse_tables(content: bytes) -> list[TableMirroring]:
    """Return the tables that the file lists; entries without a table name are ignored.

    Raises ValueError for content that is not JSON or has no list.
    """
    read = json.loads(content.decode("utf-8-sig"))
    if isinstance(read, Mapping):
        read = next((read[name] for name in _LISTS if isinstance(read.get(name), list)), None)
    if not isinstance(read, list):
        raise ValueError("there is no list of tables")
    return [table for entry in read if isinstance(entry, Mapping) and (table := parse_table(entry)).name]


def parse_table(entry: Mapping[str, Any]) -> TableMirroring:
    """Read one entry of the file, or of getTablesMirroringStatus."""
    metrics, error = entry.get("metrics"), entry.get("error")
    values = {**(metrics if isinstance(metrics, Mapping) else {}), **entry}
    return TableMirroring(
        schema=stored_text(entry.get("sourceSchemaName")) or "",
        name=stored_text(entry.get("sourceTableName")) or "",
        state=stored_text(entry.get("status")),
        processed_rows=_count(values, _ROWS),
        processed_bytes=_count(values, _BYTES),
        last_sync=_moment(values),
        error=parse_fault({**(error if isinstance(error, Mapping) else {}), **entry}),
    )


def stored_text(value: object) -> str | None:
    """Return a text that Postgres can store, shortened if it is long; None if there is no text."""
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        return None
    return str(value).replace("\0", "").encode(errors="replace").decode()[:_MAX_TEXT_CHARACTERS] or None


def parse_fault(values: object) -> FabricFault | None:
    """Read an error; None for none. The first of `moreDetails` replaces a code that says nothing."""
    if not isinstance(values, Mapping) or not any(_error_texts(values)):
        return None
    code, message = _error_texts(values)
    details = values.get("moreDetails")
    first = details[0] if isinstance(details, list) and details and isinstance(details[0], Mapping) else {}
    if (code or "").casefold() in ("", "unknown", "unknownerror") and (better := _error_texts(first))[0]:
        code, message = better[0], better[1] or message
    return FabricFault(code or "", message or "", whose_fault(stored_text(values.get("errorType")) or "", code or ""))


def _error_texts(values: Mapping[str, Any]) -> tuple[str | None, str | None]:
    code = stored_text(values.get("errorCode", values.get("code")))
    return code, stored_text(values.get("errorMessage", values.get("message")))


def _count(values: Mapping[str, Any], names: Sequence[str]) -> int | None:
    """Return the first count that Postgres can store."""
    for name in names:
        value = values.get(name)
        if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63:
            return value
    return None


def _moment(values: Mapping[str, Any]) -> datetime | None:
    """Return the time of the last sync in UTC. .NET writes the year 1 for a time that is not set."""
    for name in _LAST_SYNC:
        value = values.get(name)
        if isinstance(value, str):
            try:
                moment = datetime.fromisoformat(value)
                if moment.year > 1:
                    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
            except (ValueError, OverflowError):
                continue
    return None
