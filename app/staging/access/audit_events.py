"""The audit: operations on keys and tables, and rejected calls (decision 0058).

`record_operation` stores an event in the transaction of its operation, so that neither exists without the other.
Operations on tables are stored as table events; the audit shows both kinds in the order of their ids, which have one
sequence.

`AuditWriter` writes the uses of keys and the rejected calls in the background.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import sqlalchemy as sa
import structlog

from app.domain.access.rejections import CountedRejection, Rejection, RejectionCounter
from app.domain.model.names import TableName
from app.observability.periodic_thread import PeriodicThread
from app.observability.telemetry import current_request_id
from app.staging.access.api_keys import note_use
from app.staging.connection.page_turn import Turn, read_turn

INSERT_OPERATION = sa.text("""
    INSERT INTO mirrorgate.audit_events (request_id, subject, action, folded_name, details)
    VALUES (:request_id, :subject, :action, :folded_name, CAST(:details AS jsonb))""")
"""Store an operation."""

COUNT_REJECTIONS = sa.text("""
    INSERT INTO mirrorgate.audit_events AS e
        (happened_at, request_id, subject, action, folded_name, status, code, times)
    VALUES (:minute, :request_id, :subject, :action, :table, :status, :code, :times)
    ON CONFLICT (happened_at, action, subject, folded_name, status, code) WHERE code IS NOT NULL
    DO UPDATE SET times = e.times + excluded.times""")
"""Add to the count of a rejection in its minute."""

_SELECT_EVENTS = """
    SELECT event_id, happened_at, request_id, subject, action, folded_name, generation, reason, status, code, times,
        details
    FROM (
        SELECT event_id, happened_at, request_id, subject, action, folded_name, CAST(NULL AS integer) AS generation,
            CAST(NULL AS text) AS reason, status, code, times, details
        FROM mirrorgate.audit_events
        UNION ALL
        SELECT event_id, happened_at, request_id, actor, action, folded_name, generation, reason,
            CAST(NULL AS smallint), CAST(NULL AS text), CAST(1 AS bigint), details
        FROM mirrorgate.table_events) e"""
"""Read audit events and table events; the beginning of three statements."""

SELECT_AUDIT = sa.text(f"""{_SELECT_EVENTS}
    WHERE event_id > :after
      AND (CAST(:since AS timestamptz) IS NULL OR happened_at >= date_trunc('minute', CAST(:since AS timestamptz)))
      AND (CAST(:until AS timestamptz) IS NULL OR happened_at < CAST(:until AS timestamptz))
      AND (CAST(:subject AS text) IS NULL OR subject = :subject
           OR subject IN (SELECT key_id FROM mirrorgate.key_names WHERE name = :subject))
      AND (CAST(:folded_name AS text) IS NULL OR folded_name = :folded_name)
      AND (CAST(:rejected AS boolean) IS NULL OR (code IS NOT NULL) = :rejected)
    ORDER BY event_id LIMIT :limit""")  # noqa: S608  # constant text
"""Read a page of audit events and table events that match a filter."""

_CONTAINS = """
    WHERE (CAST(:subject AS text) IS NULL OR strpos(lower(subject), :subject) > 0
           OR subject IN (SELECT key_id FROM mirrorgate.key_names WHERE strpos(lower(name), :subject) > 0))
      AND (CAST(:table AS text) IS NULL OR strpos(folded_name, :table) > 0)
      AND (CAST(:action AS text) IS NULL OR strpos(lower(action), :action) > 0)
      AND (CAST(:rejected AS boolean) IS NULL OR (code IS NOT NULL) = :rejected)"""
"""Select events by parts of their strings; a condition of two statements."""

SELECT_OLDER = sa.text(f"{_SELECT_EVENTS} {_CONTAINS} AND event_id < :before ORDER BY event_id DESC LIMIT :limit")
"""Read matching events before an event, newest first."""

SELECT_NEWER = sa.text(f"{_SELECT_EVENTS} {_CONTAINS} AND event_id > :after ORDER BY event_id LIMIT :limit")
"""Read matching events after an event, oldest first."""

SELECT_WRITTEN_NAMES = sa.text("""
    SELECT DISTINCT ON (folded_name) folded_name, name FROM mirrorgate.tables
    WHERE folded_name = ANY(:folded_names) ORDER BY folded_name, table_id DESC""")
"""Read the names of tables as they are registered, or were last."""

PURGE_AUDIT = sa.text("""
    DELETE FROM mirrorgate.audit_events WHERE event_id = ANY(ARRAY(
        SELECT event_id FROM mirrorgate.audit_events
        WHERE happened_at < clock_timestamp() - make_interval(secs => :seconds)
        ORDER BY happened_at LIMIT :limit))""")
"""Delete the oldest events that are past their retention."""


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """An operation, or the rejections of one minute; `status` and `code` are None for an operation."""

    event_id: int
    happened_at: datetime
    request_id: str | None
    subject: str | None
    action: str
    table: str | None
    generation: int | None
    reason: str | None
    status: int | None
    code: str | None
    times: int
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """The events to list; None matches everything.

    `subject` is also the name of a key. `since` matches whole minutes, by which rejections are counted.
    """

    since: datetime | None = None
    until: datetime | None = None
    subject: str | None = None
    table: TableName | None = None
    rejected: bool | None = None


@dataclass(frozen=True, slots=True)
class AuditSearch:
    """The events to find by parts of their strings, in any letter case; None matches everything."""

    subject: str | None = None
    table: str | None = None
    action: str | None = None
    rejected: bool | None = None


def record_operation(
    connection: sa.Connection,
    subject: str,
    action: str,
    table: TableName | None = None,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Record an operation in its own transaction, with the id of the present request."""
    parameters = {
        "request_id": current_request_id(),
        "subject": subject,
        "action": action,
        "folded_name": None if table is None else table.folded,
        "details": json.dumps(details or {}),
    }
    connection.execute(INSERT_OPERATION, parameters)


def count_rejections(connection: sa.Connection, rejections: Sequence[CountedRejection]) -> None:
    """Add rejections to the counts of their minute, which all processes share; in one order, to prevent deadlocks.

    Dying before COMMIT adds nothing. Rejections that are written again after a lost COMMIT may count twice.
    """
    rows = [
        {
            **asdict(counted.rejection),
            "minute": counted.minute,
            "request_id": counted.request_id,
            "times": counted.times,
        }
        for counted in sorted(rejections, key=lambda counted: (counted.minute, repr(counted.rejection)))
    ]
    if rows:
        connection.execute(COUNT_REJECTIONS, rows)


def list_audit(connection: sa.Connection, wanted: AuditFilter, *, after: int, limit: int) -> list[AuditEvent]:
    """Return up to `limit` matching events after event `after`, in order."""
    parameters = {
        "after": after,
        "limit": limit,
        "since": wanted.since,
        "until": wanted.until,
        "subject": wanted.subject,
        "folded_name": None if wanted.table is None else wanted.table.folded,
        "rejected": wanted.rejected,
    }
    return _events(connection, connection.execute(SELECT_AUDIT, parameters).all())


def newest_audit(connection: sa.Connection, wanted: AuditSearch, turn: Turn, limit: int) -> list[AuditEvent]:
    """Return up to `limit` matching events of a page, newest first."""
    parameters = {
        "subject": None if wanted.subject is None else wanted.subject.lower(),
        "table": None if wanted.table is None else wanted.table.casefold(),
        "action": None if wanted.action is None else wanted.action.lower(),
        "rejected": wanted.rejected,
        "limit": limit,
    }
    return _events(connection, read_turn(connection, SELECT_OLDER, SELECT_NEWER, turn, parameters))


def _events(connection: sa.Connection, rows: Sequence[Sequence[Any]]) -> list[AuditEvent]:
    """Return events with the names of their tables as registered; a name that never was one has no letter case."""
    events = [AuditEvent(*row) for row in rows]
    folded = {event.table for event in events if event.table is not None}
    if not folded:
        return events
    found = connection.execute(SELECT_WRITTEN_NAMES, {"folded_names": sorted(folded)}).all()
    names: dict[str | None, str] = {row.folded_name: row.name for row in found}
    return [replace(event, table=names.get(event.table, event.table)) for event in events]


log = structlog.get_logger()

MIN_SECONDS_BETWEEN_USES: Final = 60.0
"""The shortest time between two writes of a key's use by one process."""

_MAX_REMEMBERED_KEYS: Final = 10_000
"""Keys whose last write is remembered."""


class AuditWriter(PeriodicThread):
    """The writer of one API process. Its end writes what is noted, if the database answers.

    Uses of keys and rejected calls are noted in memory, and a thread writes them about once a second, so that no
    request waits for it or fails because of it. A process that dies loses the last second of them. Operations on tables
    and keys are never among them: `record_operation` records them in their own transaction.
    """

    def __init__(
        self,
        engine: sa.Engine,
        *,
        pause: float = 1.0,
        pause_after_failure: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        pauses = {False: pause_after_failure, True: pause}
        super().__init__(
            "audit-writer", lambda: pauses[self._is_written], self._write, waits_first=True, at_end=self._write
        )
        self._engine = engine
        self._is_written = True
        self._clock = clock
        self._lock = threading.Lock()
        self._rejections = RejectionCounter()
        self._used: set[str] = set()
        self._noted: dict[str, float] = {}

    def note_key_use(self, key_id: str) -> None:
        """Note that a stored key was used with a valid secret."""
        now = self._clock()
        if now - self._noted.get(key_id, float("-inf")) < MIN_SECONDS_BETWEEN_USES:
            return
        with self._lock:
            if len(self._noted) >= _MAX_REMEMBERED_KEYS:
                self._noted.clear()
            self._noted[key_id] = now
            self._used.add(key_id)

    def note_rejection(self, rejection: Rejection) -> None:
        """Note a rejected call, under the request that is being served."""
        with self._lock:
            self._rejections.note(rejection, datetime.now(UTC), current_request_id())

    def _write(self) -> None:
        """Write what is noted; what could not be written is kept for the next attempt."""
        with self._lock:
            used, self._used = self._used, set()
            rejections = self._rejections.take()
        try:
            if used or rejections:
                with self._engine.begin() as connection:
                    note_use(connection, used)
                    count_rejections(connection, rejections)
            self._is_written = True
        except sa.exc.SQLAlchemyError as error:
            log.warning("audit_write_failed", error=type(error).__name__)
            with self._lock:
                self._used |= used
                self._rejections.put_back(rejections)
            self._is_written = False
