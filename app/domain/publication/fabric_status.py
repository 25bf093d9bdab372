"""What Fabric says of the tables it mirrors: `Files/Monitoring/tables.json`, read with patience.

Its documentation names the members and shows no file; the REST API's answer of the same content groups some of them
in `metrics` and names them otherwise. Either is taken, and anything unknown is passed over.
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
"""Where Fabric shows tables whose folder lies in no schema."""
_MAX_TEXT_CHARACTERS: Final = 1_000


@dataclass(frozen=True, slots=True)
class MirroredTable:
    """One table as Fabric sees it; None is what it does not say."""

    schema: str
    table: str
    state: str | None = None
    error: str | None = None
    processed_rows: int | None = None
    processed_bytes: int | None = None
    last_sync: datetime | None = None


def parse_tables(content: bytes) -> list[MirroredTable]:
    """The tables that the file lists; entries without a table's name are passed over.

    Raises ValueError for what is no JSON or holds no list.
    """
    read = json.loads(content.decode("utf-8-sig"))
    if isinstance(read, Mapping):
        read = next((read[name] for name in _LISTS if isinstance(read.get(name), list)), None)
    if not isinstance(read, list):
        raise ValueError("there is no list of tables")
    return [_table(entry) for entry in read if isinstance(entry, Mapping) and _text(entry.get("sourceTableName"))]


def find_mirrored(tables: Iterable[MirroredTable], name: TableName) -> MirroredTable | None:
    """What is said of this table; letter case does not matter, and of two entries the later sync counts."""
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
    members = {**(metrics if isinstance(metrics, Mapping) else {}), **entry}
    return MirroredTable(
        schema=_text(entry.get("sourceSchemaName")) or "",
        table=_text(entry.get("sourceTableName")) or "",
        state=_text(entry.get("status")),
        error=_error(entry),
        processed_rows=_count(members, _ROWS),
        processed_bytes=_count(members, _BYTES),
        last_sync=_moment(members),
    )


def _error(entry: Mapping[str, Any]) -> str | None:
    """`code: message`, of what there is of both."""
    inner = entry.get("error")
    members = {**(inner if isinstance(inner, Mapping) else {}), **entry}
    code = _text(members.get("errorCode", members.get("code")))
    message = _text(members.get("errorMessage", members.get("message")))
    return ": ".join(part for part in (code, message) if part) or None


def _text(value: object) -> str | None:
    """A text without what Postgres cannot keep, not too long; None for none."""
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        return None
    return str(value).replace("\0", "").encode(errors="replace").decode()[:_MAX_TEXT_CHARACTERS] or None


def _count(members: Mapping[str, Any], names: Sequence[str]) -> int | None:
    for name in names:
        value = members.get(name)
        if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63:
            return value
    return None


def _moment(members: Mapping[str, Any]) -> datetime | None:
    """The last sync; one without an offset is in UTC."""
    for name in _LAST_SYNC:
        value = members.get(name)
        if isinstance(value, str):
            try:
                moment = datetime.fromisoformat(value)
                return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
            except (ValueError, OverflowError):
                continue
    return None
