"""Reads the states of mirroring from answers of Fabric's API, as values of `app.domain.fabric`."""

from collections.abc import Mapping
from datetime import UTC, datetime

from app.domain.fabric.states import DatabaseStatus, FabricFault, TableMirroring, parse_state, whose_fault


def parse_database_status(answer: Mapping[str, object]) -> DatabaseStatus:
    """Read an answer of getMirroringStatus."""
    raw = str(answer.get("status") or "")
    return DatabaseStatus(parse_state(raw), raw, parse_fault(answer.get("error")))


def parse_table(entry: Mapping[str, object]) -> TableMirroring:
    """Read one entry of getTablesMirroringStatus."""
    metrics = entry.get("metrics")
    counts: Mapping[str, object] = metrics if isinstance(metrics, Mapping) else {}
    return TableMirroring(
        schema=str(entry.get("sourceSchemaName") or ""),
        name=str(entry.get("sourceTableName") or ""),
        state=str(entry.get("status") or ""),
        processed_rows=_count(counts.get("processedRows")),
        processed_bytes=_count(counts.get("processedBytes")),
        last_sync=_moment(counts.get("lastSyncDateTime")),
        error=parse_fault(entry.get("error")),
    )


def parse_fault(error: object) -> FabricFault | None:
    """Read an `ErrorResponse`; None for none. The first of `moreDetails` replaces a code that says nothing."""
    if not isinstance(error, Mapping) or not (error.get("errorCode") or error.get("message")):
        return None
    code, message = str(error.get("errorCode") or "unknown"), str(error.get("message") or "")
    details = error.get("moreDetails")
    first = details[0] if isinstance(details, list) and details and isinstance(details[0], Mapping) else {}
    if code.casefold() in ("unknown", "unknownerror") and first.get("errorCode"):
        code, message = str(first["errorCode"]), str(first.get("message") or message)
    return FabricFault(code, message, whose_fault(str(error.get("errorType") or ""), code))


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _moment(value: object) -> datetime | None:
    """Read a time in UTC; None for none, and for the year 1, which .NET writes for a time that is not set."""
    if not isinstance(value, str):
        return None
    try:
        parsed = datetime.fromisoformat(value)
    except ValueError:
        return None
    return None if parsed.year == 1 else parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
