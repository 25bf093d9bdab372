"""States of mirroring as Fabric reports them: values, and how the wire shapes are read.

Source: the definitions `MirroringStatusResponse`, `TableMirroringStatusResponse` and `ErrorResponse` of Fabric's REST
API specification, version v1. States may be added to it at any time, so the raw text is kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, Literal

Whose = Literal["user", "system", "unknown"]


class DatabaseState(StrEnum):
    """State of a mirrored database. The portal has two that the API's specification lacks: with warning, and failed."""

    INITIALIZING = "initializing"
    INITIALIZED = "initialized"
    STARTING = "starting"
    RUNNING = "running"
    RUNNING_WITH_WARNING = "running_with_warning"
    STOPPING = "stopping"
    STOPPED = "stopped"
    PAUSED = "paused"
    FAILED = "failed"
    UNKNOWN = "unknown"

    @property
    def is_running(self) -> bool:
        """Whether Fabric reads the landing zone."""
        return self in (DatabaseState.RUNNING, DatabaseState.RUNNING_WITH_WARNING)

    @property
    def is_passing(self) -> bool:
        """Whether Fabric leaves this state without help."""
        return self in (DatabaseState.INITIALIZING, DatabaseState.STARTING, DatabaseState.STOPPING)


@dataclass(frozen=True, slots=True)
class FabricFault:
    """What Fabric says is wrong, and who can correct it, as far as the answer shows that."""

    code: str
    message: str
    whose: Whose

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" if self.message else self.code


@dataclass(frozen=True, slots=True)
class DatabaseStatus:
    """State of a mirrored database; `raw` is Fabric's own word for it."""

    state: DatabaseState
    raw: str
    error: FabricFault | None = None


@dataclass(frozen=True, slots=True)
class TableMirroring:
    """State of one table, in Fabric's own words. Counts are cumulative; None: Fabric has not reported them."""

    schema: str
    name: str
    state: str
    processed_rows: int | None
    processed_bytes: int | None
    last_sync: datetime | None
    error: FabricFault | None

    @property
    def has_failed(self) -> bool:
        """Whether Fabric has given the table up until somebody acts."""
        return self.state.casefold() == "failed" or (self.error is not None and self.state.casefold() == "stopped")


_USER_CODES: Final = frozenset(
    {
        "schemamergefailure",
        "invalidrowmarker",
        "invalidmetadata",
        "landingzonefilenotfound",
        "mirroringdefinitionmissing",
        "pathnotfound",
    }
)
"""Codes that a publisher causes, although their names do not say so."""


def parse_state(raw: str) -> DatabaseState:
    """Return the state of Fabric's word for it, however it is cased and spaced."""
    folded = "".join(letter for letter in raw.casefold() if letter.isalpha())
    return next((state for state in DatabaseState if state.replace("_", "") == folded), DatabaseState.UNKNOWN)


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
    return FabricFault(code, message, _whose(str(error.get("errorType") or ""), code))


def _whose(kind: str, code: str) -> Whose:
    """Tell who can correct a fault: by Fabric's `errorType` where it is given, else by the words in the code."""
    for text in (kind.casefold(), code.casefold()):
        if text.startswith("user") or "usererror" in text or text in _USER_CODES:
            return "user"
        if text.startswith(("system", "internal")) or "systemerror" in text:
            return "system"
    return "unknown"


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
