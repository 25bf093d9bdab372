"""The alerts that the gateway has found and told, so that one API process tells each of them once.

A process that dies between a message and its record here tells the same alerts again, with the same ids.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import sqlalchemy as sa

from app.domain.health.alerts import KnownAlert
from app.domain.health.troubles import Kind, Severity, Trouble
from app.staging.connection.advisory_locks import AdvisoryLock, try_lock_for_session, unlock_session

SELECT_ALERTS = sa.text("""
    SELECT kind, subject, severity, code, detail, remedy, since, code_since, told_code FROM mirrorgate.alerts""")
"""Read all alerts."""

UPSERT_ALERT = sa.text("""
    INSERT INTO mirrorgate.alerts (kind, subject, severity, code, detail, remedy, since, code_since, told_code)
    VALUES (:kind, :subject, :severity, :code, :detail, :remedy, :since, :code_since, :told_code)
    ON CONFLICT (kind, subject) DO UPDATE SET severity = excluded.severity, code = excluded.code,
        detail = excluded.detail, remedy = excluded.remedy, code_since = excluded.code_since,
        told_code = excluded.told_code""")
"""Store an alert; one that is known keeps the time since when it lasts."""

DELETE_ALERTS = sa.text("""
    DELETE FROM mirrorgate.alerts WHERE kind || ':' || subject = ANY(:keys)""")
"""Forget alerts that are over."""


@contextmanager
def alerts_claimed(engine: sa.Engine) -> Iterator[bool]:
    """Give true to one process at a time. The claim belongs to the session, so it ends with a process that dies."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as session:
        if not try_lock_for_session(session, AdvisoryLock.ALERTS):
            yield False
            return
        try:
            yield True
        finally:
            if not session.invalidated:
                unlock_session(session, AdvisoryLock.ALERTS)


def known_alerts(connection: sa.Connection) -> Mapping[str, KnownAlert]:
    """Return the alerts that an earlier look found, by key."""
    found = [
        KnownAlert(
            Trouble(Kind(row.kind), row.subject, Severity(row.severity), row.code, row.detail, row.remedy),
            row.since,
            row.code_since,
            row.told_code,
        )
        for row in connection.execute(SELECT_ALERTS)
    ]
    return {known.alert.key: known for known in found}


def store_alerts(connection: sa.Connection, kept: Iterable[KnownAlert], forgotten: Sequence[str]) -> None:
    """Store these alerts, and forget those with these keys."""
    rows = [
        {
            "kind": known.alert.kind,
            "subject": known.alert.subject,
            "severity": known.alert.severity,
            "code": known.alert.code,
            "detail": known.alert.detail,
            "remedy": known.alert.remedy,
            "since": known.since,
            "code_since": known.code_since,
            "told_code": known.told_code,
        }
        for known in kept
    ]
    if rows:
        connection.execute(UPSERT_ALERT, rows)
    if forgotten:
        connection.execute(DELETE_ALERTS, {"keys": list(forgotten)})
