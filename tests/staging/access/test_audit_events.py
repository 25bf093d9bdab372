"""The audit log in the database: operations, and rejections per minute, in one order."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
import structlog

from app.domain.access.rejections import CountedRejection, Rejection
from app.domain.model.names import TableName
from app.domain.model.table import Generation, TableState
from app.staging.access.audit_events import (
    MIN_SECONDS_BETWEEN_USES,
    AuditEvent,
    AuditFilter,
    AuditWriter,
    count_rejections,
    list_audit,
    record_operation,
)
from app.staging.tables.operations import set_publishing
from tests.support.gateway_parts import registered
from tests.support.postgres import sql
from tests.support.postgres.retention import AT_ONCE, purge
from tests.support.samples.schemas import schema_of
from tests.support.waiting import Clock, wait_until

NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
T = TableName.parse("Sales.Orders")
READ = Rejection("GET /v1/tables/{table}", 404, "unknown_table", "0011aabb", "hr.people")
ANONYMOUS = Rejection("GET /v1/tables", 401, "unauthenticated")


def reject(engine: sa.Engine, rejection: Rejection, times: int = 1, minute: datetime = NOON) -> None:
    sql.call(engine, count_rejections, [CountedRejection(minute, rejection, times, "r")])


def audit(engine: sa.Engine, after: int = 0, limit: int = 100, **wanted: Any) -> list[AuditEvent]:
    return sql.call(engine, list_audit, AuditFilter(**wanted), after=after, limit=limit)


def test_rejections_of_one_minute_are_one_row_from_any_process(engine: sa.Engine) -> None:
    for times in (3, 4):
        reject(engine, READ, times)
        reject(engine, ANONYMOUS, times)
    reject(engine, READ, minute=NOON + timedelta(minutes=1))
    found = [(event.happened_at, event.action, event.subject, event.table, event.times) for event in audit(engine)]
    assert found == [
        (NOON, READ.action, "0011aabb", "hr.people", 7),
        (NOON, ANONYMOUS.action, None, None, 7),
        (NOON + timedelta(minutes=1), READ.action, "0011aabb", "hr.people", 1),
    ]


@pytest.fixture
def history(engine: sa.Engine) -> None:
    """Give an act on a key, one on a table, a rejection."""
    registered(engine, str(T), schema_of({"id": "int64"}, ["id"]))
    with structlog.contextvars.bound_contextvars(request_id="one"), engine.begin() as connection:
        record_operation(connection, "0011aabb", "create_key", details={"key": "ccddeeff"})
    with structlog.contextvars.bound_contextvars(request_id="two"), engine.begin() as connection:
        set_publishing(connection, T, Generation(1), TableState.PAUSED, "0011aabb")
    reject(engine, READ)


@pytest.mark.usefixtures("history")
def test_acts_on_tables_and_all_else_are_read_in_the_order_in_which_they_happened(engine: sa.Engine) -> None:
    events = audit(engine)
    assert [(event.request_id, event.action, event.table, event.code) for event in events] == [
        ("one", "create_key", None, None),
        ("two", "pause", "Sales.Orders", None),
        ("r", READ.action, "hr.people", "unknown_table"),
    ]
    assert events[0].details == {"key": "ccddeeff"}
    pages = [audit(engine, after=after, limit=1) for after in (0, *(event.event_id for event in events))]
    assert [event for page in pages for event in page] == events


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize(
    ("wanted", "actions"),
    [
        ({"subject": "0011aabb"}, 3),
        ({"subject": "0011"}, 0),
        ({"table": T}, 1),
        ({"rejected": True}, 1),
        ({"rejected": False}, 2),
        ({"since": NOON + timedelta(seconds=59)}, 3),
        ({"since": NOON + timedelta(seconds=60)}, 2),
        ({"until": NOON}, 0),
        ({"until": NOON + timedelta(seconds=1)}, 1),
        ({"subject": "0011aabb", "rejected": True, "table": T}, 0),
    ],
)
def test_events_are_found_by_what_is_asked_of_them(engine: sa.Engine, wanted: dict[str, Any], actions: int) -> None:
    assert len(audit(engine, **wanted)) == actions


def test_an_act_that_is_rolled_back_leaves_no_event(engine: sa.Engine) -> None:
    with engine.connect() as connection, connection.begin() as transaction:
        record_operation(connection, "0011aabb", "create_key")
        transaction.rollback()
    assert audit(engine) == []


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO mirrorgate.audit_events (action, status) VALUES ('GET /', 401)",
        "INSERT INTO mirrorgate.audit_events (action) VALUES ('create_key')",
        "INSERT INTO mirrorgate.audit_events (action, subject, times) VALUES ('create_key', 'a', 2)",
        "INSERT INTO mirrorgate.audit_events (action, status, code, happened_at)"
        " VALUES ('GET /', 401, 'unauthenticated', '2026-01-01 00:00:01Z')",
    ],
)
def test_the_database_takes_no_event_that_is_neither_an_act_nor_counted_rejections(
    engine: sa.Engine, statement: str
) -> None:
    with pytest.raises(sa.exc.IntegrityError):
        sql.run(engine, statement)


def test_retention_purges_old_events_and_keeps_the_others_and_those_of_tables(engine: sa.Engine) -> None:
    registered(engine, str(T), schema_of({"id": "int64"}, ["id"]))
    with engine.begin() as connection:
        set_publishing(connection, T, Generation(1), TableState.PAUSED, "0011aabb")
        record_operation(connection, "0011aabb", "create_key")
    reject(engine, READ)
    sql.run(engine, "UPDATE mirrorgate.table_events SET happened_at = happened_at - interval '99 days'")
    assert purge(engine).purged_audit_events == 1
    assert [event.action for event in audit(engine)] == ["pause", "create_key"]
    assert AT_ONCE.audit_seconds == 90 * 86_400


@pytest.fixture
def writer(engine: sa.Engine) -> Iterator[AuditWriter]:
    writer = AuditWriter(engine, pause=0.011, pause_after_failure=0.01)
    writer.start()
    yield writer
    writer.close()


def test_a_rejection_is_written_soon_with_the_id_of_its_request(engine: sa.Engine, writer: AuditWriter) -> None:
    with structlog.contextvars.bound_contextvars(request_id="mine"):
        writer.note_rejection(READ)
    [event] = wait_until(lambda: audit(engine), within=30, what="the rejection is written")
    assert (event.request_id, event.status, event.times) == ("mine", 404, 1)
    assert event.happened_at.second == 0


def test_what_the_database_could_not_take_is_written_when_it_can(engine: sa.Engine, writer: AuditWriter) -> None:
    sql.run(engine, "ALTER TABLE mirrorgate.audit_events RENAME TO away")
    with structlog.testing.capture_logs() as logs:
        writer.note_rejection(READ)
        wait_until(lambda: logs, within=30, what="a failure is logged")
        sql.run(engine, "ALTER TABLE mirrorgate.away RENAME TO audit_events")
        writer.note_rejection(READ)
        wait_until(lambda: sum(event.times for event in audit(engine)) == 2, within=30, what="both are written")
    assert {line["event"] for line in logs} == {"audit_write_failed"}


def test_what_was_noted_before_the_end_is_written(engine: sa.Engine) -> None:
    writer = AuditWriter(engine, pause=3600)
    writer.start()
    writer.note_rejection(READ)
    writer.close()
    assert [event.times for event in audit(engine)] == [1]


def test_the_use_of_a_key_is_written_at_most_once_a_minute(engine: sa.Engine) -> None:
    insert = "INSERT INTO mirrorgate.api_keys (key_id, secret_hash, rights, table_patterns)"
    sql.run(engine, insert + " VALUES ('0011aabb', sha256('s'), '{read}', '{*}')")
    last_used = "SELECT last_used_at FROM mirrorgate.api_keys"
    clock = Clock()
    writer = AuditWriter(engine, pause=0.01, clock=clock)
    writer.start()
    with sql.counted(engine, "UPDATE mirrorgate.api_keys") as updates:
        writer.note_key_use("0011aabb")
        first = wait_until(lambda: sql.value(engine, last_used), within=30, what="the use is written")
        clock.now += MIN_SECONDS_BETWEEN_USES - 0.1
        writer.note_key_use("0011aabb")
        clock.now += 0.1
        writer.note_key_use("0011aabb")
        wait_until(lambda: sql.value(engine, last_used) > first, within=30, what="the later use is written")
        writer.note_key_use("0011aabb")
        writer.close()
    assert len(updates) == 2


def test_a_used_key_that_is_gone_is_no_failure(engine: sa.Engine) -> None:
    writer = AuditWriter(engine, pause=0.01)
    writer.start()
    with structlog.testing.capture_logs() as logs:
        writer.note_key_use("ffffffff")
        writer.close()
    assert logs == []
