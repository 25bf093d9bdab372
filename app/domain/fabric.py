"""The meaning of Fabric's states: of a mirrored database and of its tables, as its API and monitoring file report.

States may be added to Fabric's API at any time, so their raw text is kept. The tables are listed in
`Files/Monitoring/tables.json` and in answers of the API, which has some of the keys in `metrics`, under other names:
one reader takes both forms and ignores unknown keys.

Sources: the definitions `MirroringStatusResponse`, `TableMirroringStatusResponse` and `ErrorResponse` of Fabric's REST
API specification, version v1; Microsoft Learn, "Monitor Fabric mirrored database replication" and "Troubleshoot Fabric
mirrored databases". docs/operate/fabric-database.md has the same table of states.

`split_address` splits the address of an item in OneLake.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, Literal
from urllib.parse import SplitResult, urlsplit

from app.domain.model.names import TableName
from mirrorgate.errors import Code

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
        """True if Fabric reads the landing zone."""
        return self in (DatabaseState.RUNNING, DatabaseState.RUNNING_WITH_WARNING)

    @property
    def is_passing(self) -> bool:
        """True if Fabric leaves this state without help."""
        return self in (DatabaseState.INITIALIZING, DatabaseState.STARTING, DatabaseState.STOPPING)


class MirroringState(StrEnum):
    """State of one table in a mirrored database."""

    INITIALIZED = "initialized"
    SNAPSHOTTING = "snapshotting"
    REPLICATING = "replicating"
    RESEEDING = "reseeding"
    STOPPED = "stopped"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class FabricFault:
    """A fault that Fabric reports, and who can correct it, as far as the answer shows that."""

    code: str
    message: str
    whose: Whose

    def __str__(self) -> str:
        return ": ".join(part for part in (self.code, self.message) if part)


@dataclass(frozen=True, slots=True)
class DatabaseStatus:
    """State of a mirrored database; `raw` is Fabric's own word for it."""

    state: DatabaseState
    raw: str
    error: FabricFault | None = None


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
    """Return the state of Fabric's word for a database, however it is cased and spaced."""
    folded = "".join(letter for letter in raw.casefold() if letter.isalpha())
    return next((state for state in DatabaseState if state.replace("_", "") == folded), DatabaseState.UNKNOWN)


def has_failed(raw: str | None, *, has_error: bool) -> bool:
    """Return whether Fabric has given up a table with this word for its state."""
    folded = (raw or "").casefold()
    return folded == MirroringState.FAILED or (has_error and folded == MirroringState.STOPPED)


def parse_mirroring_state(raw: str | None, *, has_error: bool) -> MirroringState:
    """Return the state of Fabric's word for a table; a stopped table with an error has failed."""
    if has_failed(raw, has_error=has_error):
        return MirroringState.FAILED
    folded = (raw or "").casefold()
    return MirroringState(folded) if folded in set(MirroringState) else MirroringState.UNKNOWN


def whose_fault(kind: str, code: str) -> Whose:
    """Return who can correct a fault: by Fabric's `errorType` where it is given, else by the words in the code."""
    for text in (kind.casefold(), code.casefold()):
        if text.startswith("user") or "usererror" in text or text in _USER_CODES:
            return "user"
        if text.startswith(("system", "internal")) or "systemerror" in text:
            return "system"
    return "unknown"


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
        """True if Fabric retries the table only after an operator acts."""
        return has_failed(self.state, has_error=self.error is not None)


@dataclass(frozen=True, slots=True)
class TableSync:
    """The SQL analytics endpoint's answer about one table after its metadata was refreshed, in Fabric's words."""

    name: str
    """`table` or `schema.table`, as Fabric writes it."""
    status: str
    """`Success`, `Failure` or `NotRun`: nothing was new."""
    synced: datetime | None = None
    """Time at which the endpoint last took over the table's newest version."""
    error: FabricFault | None = None

    @property
    def has_failed(self) -> bool:
        """True if the endpoint shows an older version because of an error."""
        return self.status.casefold() == "failure" or self.error is not None


def parse_table_sync(entry: Mapping[str, object]) -> TableSync:
    """Read one entry of an answer of refreshMetadata."""
    return TableSync(
        stored_text(entry.get("tableName")) or "",
        stored_text(entry.get("status")) or "",
        moment_of(entry.get("lastSuccessfulSyncDateTime")),
        parse_fault(entry.get("error")),
    )


def sync_error(syncs: Iterable[TableSync], name: TableName, default_schema: str | None = None) -> str | None:
    """Return why the endpoint does not show a table's newest version; None if it does.

    The answer names tables with or without their schema. Where the bare name is that of several tables, an error of one
    counts for each of them.
    """
    names = {name.table.casefold(), f"{name.schema or default_schema or _DEFAULT_SCHEMA}.{name.table}".casefold()}
    found = [sync for sync in syncs if sync.name.casefold() in names]
    if not found:
        return "the SQL analytics endpoint does not list the table"
    failed = next((sync for sync in found if sync.has_failed), None)
    return None if failed is None else str(failed.error or failed.status)


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
    """Return a string that Postgres can store, shortened if it is long; None if there is no text."""
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
    """Return the time of the last sync in UTC."""
    return next((moment for name in _LAST_SYNC if (moment := moment_of(values.get(name))) is not None), None)


def moment_of(value: object) -> datetime | None:
    """Return a time as Fabric writes it, in UTC. .NET writes the year 1 for a time that is not set."""
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC) if moment.year > 1 else None
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The meaning of a state, and its remedy; None if none is needed."""

    meaning: str
    remedy: str | None = None


STATES: Final[Mapping[DatabaseState, Explanation]] = {
    DatabaseState.INITIALIZING: Explanation(
        "Fabric provisions the SQL endpoint; mirroring cannot start yet", "Wait some minutes."
    ),
    DatabaseState.INITIALIZED: Explanation(
        "the database is ready and mirroring has not started",
        "Register a table: its first file starts mirroring if MIRRORGATE_FABRIC_START is set. Otherwise run "
        "`mirrorgate fabric start`.",
    ),
    DatabaseState.STARTING: Explanation("mirroring starts", "Wait some minutes."),
    DatabaseState.RUNNING: Explanation("Fabric reads the landing zone"),
    DatabaseState.RUNNING_WITH_WARNING: Explanation(
        "Fabric reads the landing zone, and at least one table has a problem",
        "Read the errors of the tables; `mirrorgate fabric status` shows each with its remedy.",
    ),
    DatabaseState.STOPPING: Explanation("mirroring stops", "Wait some minutes."),
    DatabaseState.STOPPED: Explanation(
        "mirroring has been stopped; files in the landing zone wait",
        "Run `mirrorgate fabric start`. Fabric then reads every table from its first file, and files that it has "
        "purged since are missing: recreate tables older than 7 days and load them again.",
    ),
    DatabaseState.PAUSED: Explanation(
        "mirroring is paused: the capacity was paused, or a table had no data for about two weeks; files wait",
        "Resume the capacity, then select Resume replication on the database's page in the Fabric portal. Publish a "
        "file for every empty table (`seed_file=true`).",
    ),
    DatabaseState.FAILED: Explanation(
        "mirroring has failed",
        "Read the error. After correcting it, select Resume replication in the Fabric portal, or stop and start.",
    ),
    DatabaseState.UNKNOWN: Explanation(
        "Fabric names a state that this version of Mirrorgate does not know",
        "Look at the database in the Fabric portal.",
    ),
}
"""Every state."""


def remedy_for(whose: Whose) -> str:
    """Return what to do about a table's fault, by who can correct it."""
    match whose:
        case "user":
            return "Correct what the error names; for a bad file, `mirrorgate tables repair` publishes it again."
        case "system":
            return "The fault is Fabric's: wait, then stop and start mirroring, or ask Microsoft's support."
    return "Look at the table under Monitor replication in the Fabric portal, which shows more than the API."


def table_trouble(table: TableMirroring) -> str | None:
    """Return the state and the error of a table that has failed or has an error, None for one that has not."""
    if not table.has_failed and table.error is None:
        return None
    return f"{table.state}: {table.error}" if table.error else str(table.state)


MAX_STATUS_AGE_SECONDS: Final = 900.0
"""A status that is older says nothing about the present. The alert for Prometheus has the same limit."""

_PASSING_CODES: Final = (Code.FABRIC_THROTTLED, Code.FABRIC_UNAVAILABLE)
"""Codes of questions that fail for a while without a fault of anybody here."""

_CODES: Final[Mapping[DatabaseState, str]] = {
    DatabaseState.PAUSED: "fabric_paused",
    DatabaseState.STOPPED: "fabric_stopped",
    DatabaseState.FAILED: "fabric_failed",
    DatabaseState.INITIALIZED: "fabric_not_started",
    DatabaseState.UNKNOWN: "fabric_state_unknown",
}
"""States that Fabric does not leave by itself, and in which it does not read the landing zone."""

_WARNINGS: Final = ("fabric_not_started", "fabric_state_unknown")
_HOW_TO_ASK: Final = (
    "Check that a drain runs and reaches MIRRORGATE_FABRIC_API; `fabric_poll_failed` in its log has the reason. "
    "`mirrorgate fabric doctor` finds the step that fails."
)


@dataclass(frozen=True, slots=True)
class FabricFacts:
    """The facts of the mirrored database in Postgres. `answer_seconds` is by the clock of Postgres."""

    state: str | None
    """Fabric's own word; None before the first answer."""
    error: str | None
    answer_seconds: float
    """Age of the last answer, or since the first question without one."""
    problem_code: str | None
    """Reason why the last question failed; None if it was answered."""
    problem_detail: str | None
    problem_remedy: str | None


@dataclass(frozen=True, slots=True)
class FabricTrouble:
    """The reason that mirroring needs an operator, apart from single tables."""

    code: str
    detail: str
    remedy: str
    is_critical: bool
    summary: str
    """The detail without Fabric's own strings, which can have names: for callers without a key."""


def fabric_trouble(facts: FabricFacts | None) -> FabricTrouble | None:
    """Return what is wrong with the mirrored database; None if nothing is, or if no drain asks.

    A fault of the request precedes the state, which is then old. A service that is throttled or away for some
    minutes is not a fault.
    """
    if facts is None:
        return None
    if facts.problem_code is not None and facts.problem_code not in _PASSING_CODES:
        is_away = facts.problem_code == Code.FABRIC_NOT_FOUND
        summary = f"Fabric's API rejects requests about the mirrored database: {facts.problem_code}"
        detail = facts.problem_detail or summary
        return FabricTrouble(facts.problem_code, detail, facts.problem_remedy or "", is_away, summary)
    if facts.answer_seconds > MAX_STATUS_AGE_SECONDS:
        why = f" ({facts.problem_detail})" if facts.problem_detail else ""
        summary = f"no answer of Fabric's API for {facts.answer_seconds / 60:.0f} minutes"
        return FabricTrouble("fabric_status_old", f"{summary}{why}", _HOW_TO_ASK, is_critical=False, summary=summary)
    return None if facts.state is None else _of_state(facts.state, facts.error)


def _of_state(raw: str, error: str | None) -> FabricTrouble | None:
    state = parse_state(raw)
    if (code := _CODES.get(state)) is None:
        return None
    known = STATES[state]
    summary = f"the mirrored database is {raw or 'in no state'}: {known.meaning}"
    detail = f"{summary} ({error})" if error else summary
    return FabricTrouble(code, detail, known.remedy or "", code not in _WARNINGS, summary)


def split_address(address: str) -> SplitResult:
    """Split an address whose names can have brackets, which `urlsplit` alone takes for those of an IPv6 host."""
    return urlsplit(address.replace("[", "%5B").replace("]", "%5D"))
