"""The database's clock is set back, so that earlier entries lie in the future."""

from uuid import uuid4

import sqlalchemy as sa

from app.domain.preflight import Outcome, judge_database
from app.domain.publication import FileLimits
from app.staging.connection.schema_revision import database_facts
from app.staging.ledger.leases import due_tables, live_workers
from app.staging.ledger.reports import claim_reading
from app.staging.tables.operations import request_flush
from app.staging.tables.status import BacklogReader
from tests.support.postgres import sql
from tests.support.postgres.ledger import Owned, claim, counts_of, owned_table, plan

PATIENT = FileLimits(payload_bytes=2**30, rows=2**30, max_delay_seconds=3600)


def set_clock_back(engine: sa.Engine) -> None:
    """Let all that is written be five hours ahead of the clock."""
    sql.run(engine, "UPDATE mirrorgate.staged_blocks SET staged_at = staged_at + interval '5 hours'")
    sql.run(
        engine,
        """UPDATE mirrorgate.workers
        SET heartbeat_at = heartbeat_at + interval '5 hours', lease_until = lease_until + interval '5 hours'""",
    )


def is_due(engine: sa.Engine, owned: Owned) -> bool:
    return owned.table.table_id in sql.call(engine, due_tables, owned.worker, PATIENT, limit=10)


def test_a_batch_from_the_future_is_due_at_once(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1, 2])
    assert not is_due(engine, owned)
    set_clock_back(engine)
    assert is_due(engine, owned)
    assert [file.identity.rows for file in plan(engine, owned, PATIENT)] == [2]


def test_a_flush_publishes_batches_from_the_future(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1, 2])
    sql.call(engine, request_flush, owned.table.name, owned.table.generation, "test")
    set_clock_back(engine)
    assert [file.identity.rows for file in plan(engine, owned, PATIENT)] == [2]


def test_a_lease_from_the_future_is_not_honored(engine: sa.Engine) -> None:
    owned = owned_table(engine)
    set_clock_back(engine)
    assert sql.call(engine, live_workers) == 0
    assert claim(engine, owned.table.table_id, uuid4()) == 2


def test_a_lease_is_honored_for_its_own_length_at_the_most(engine: sa.Engine) -> None:
    owned = owned_table(engine)
    sql.run(engine, "UPDATE mirrorgate.workers SET lease_until = lease_until + interval '5 hours'")
    assert sql.call(engine, live_workers) == 0
    assert claim(engine, owned.table.table_id, uuid4()) == 2


def test_no_age_is_shown_below_zero(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1, 2])
    set_clock_back(engine)
    assert counts_of(engine, owned.table).oldest_seconds == 0
    [lagging] = BacklogReader().read(engine, 0.0).values()
    assert lagging.oldest_seconds == 0


def test_fabric_is_asked_again_after_a_step(engine: sa.Engine) -> None:
    assert [sql.call(engine, claim_reading, 60.0) for _ in range(2)] == [True, False]
    sql.run(engine, "UPDATE mirrorgate.fabric_readings SET read_at = read_at + interval '5 hours'")
    assert sql.call(engine, claim_reading, 60.0)


def test_doctor_names_batches_from_the_future(engine: sa.Engine) -> None:
    owned_table(engine, [1, 2])
    set_clock_back(engine)
    [finding] = [found for found in judge_database(database_facts(engine)) if found.check == "postgres_clock_steps"]
    assert (finding.outcome, "set back" in finding.detail) == (Outcome.WARNING, True)
