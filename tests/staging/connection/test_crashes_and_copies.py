"""What a crash, a backup, a restore and a step of the clock leave of the database."""

import os
import re
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
import sqlalchemy as sa

from app.domain.preflight import Outcome, judge_database
from app.domain.publication import FileLimits
from app.local.embedded import PrivatePostgres
from app.local.embedded.postgres import find_programs
from app.staging.batches.batch import StagingRequest
from app.staging.batches.staged_blocks import SELECT_STATUS, current_transaction_id
from app.staging.connection.database import installation_id, open_engine
from app.staging.connection.schema_revision import database_facts, migrate, require_migrated
from app.staging.ledger.leases import claim_table, due_tables, live_workers
from app.staging.ledger.reports import claim_reading
from app.staging.tables.operations import request_flush
from app.staging.tables.status import BacklogReader, count_tables
from app.staging.writer.group_commit import GroupCommit
from mirrorgate.errors import Code, InvariantBroken, TemporarilyUnavailable
from tests.support.gateway_parts import current, inserts, registered, stage, stage_keys, staged_ids, typed
from tests.support.postgres import sql
from tests.support.postgres.crashing_postgres import CrashingPostgres
from tests.support.postgres.databases import create_database
from tests.support.postgres.ledger import Owned, claim, counts_of, owned_table, plan, publish, publish_all
from tests.support.postgres.retention import AT_ONCE, partition_states, partitions_of_payloads, purge
from tests.support.processes import REPOSITORY, finished
from tests.support.samples.schemas import schema_of
from tests.support.waiting import wait_until


def run_page(program: str, **environment: str) -> None:
    """Run the only command of this program in docs/operate/backup.md as it is printed, with the tests' own Postgres."""
    page = (REPOSITORY / "docs" / "operate" / "backup.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```$", page, re.MULTILINE | re.DOTALL)
    [command] = [block for block in blocks if block.strip().startswith(f"{program} ")]
    path = f"{find_programs()}:{os.environ['PATH']}"
    ran = finished("sh", "-eu", "-c", command, environment={**os.environ, **environment, "PATH": path})
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.fixture
def empty_url(postgres: PrivatePostgres, request: pytest.FixtureRequest) -> str:
    name = f"restored_{abs(hash(request.node.name))}"
    return create_database(postgres.url, name)


@pytest.fixture
def owned(engine: sa.Engine) -> Owned:
    """Give an owned table after retention: one batch is purged, two are published and kept, two are pending."""
    owned = owned_table(engine, [1])
    publish(engine, owned, plan(engine, owned)[0])
    purge(engine)
    stage_keys(engine, owned.table, [2], [3])
    publish_all(engine, owned)
    stage_keys(engine, owned.table, [4], [5])
    return owned


@pytest.fixture
def restored(database_url: str, empty_url: str, owned: Owned, tmp_path: Path) -> Iterator[sa.Engine]:
    run_page("pg_dump", MIRRORGATE_DATABASE_URL=database_url, BACKUP=str(tmp_path / "dump"))
    run_page("pg_restore", RESTORED_DATABASE_URL=empty_url, BACKUP=str(tmp_path / "dump"))
    engine = open_engine(empty_url)
    yield engine
    engine.dispose()


def test_a_restored_database_is_the_dumped_one(
    engine: sa.Engine, restored: sa.Engine, empty_url: str, owned: Owned
) -> None:
    migrate(empty_url)
    require_migrated(restored)
    of_this_run = current(restored, "t").database_run
    assert current(restored, "t") == replace(current(engine, "t"), database_run=of_this_run)
    assert partitions_of_payloads(restored) == partitions_of_payloads(engine)
    assert partition_states(restored) == partition_states(engine)
    assert staged_ids(restored, owned.table) == [2, 3, 4, 5]
    with engine.begin() as one, restored.begin() as two:
        assert installation_id(one) == installation_id(two)
        here, there = (count_tables(connection, [owned.table.table_id]) for connection in (one, two))
    [(mine, theirs)] = zip(here.values(), there.values(), strict=True)
    assert (mine.staged_rows, mine.published_rows, mine.pending_rows) == (5, 3, 2)
    assert (theirs.staged_rows, theirs.published_rows, theirs.pending_rows) == (5, 3, 2)


def test_staging_publishing_and_retention_go_on_in_a_restored_database(restored: sa.Engine, owned: Owned) -> None:
    stage_keys(restored, current(restored, "t"), [6])
    with pytest.raises(InvariantBroken, match="stale_epoch"):
        plan(restored, owned)  # the former owner has to claim the table again
    epoch = sql.call(restored, claim_table, owned.table.table_id, owned.worker, held=owned.epoch)
    assert epoch == owned.epoch + 1
    owned = replace(owned, epoch=epoch)
    publish_all(restored, owned)
    stage_keys(restored, current(restored, "t"), [7])
    report = purge(restored, AT_ONCE)
    assert (report.dropped_partitions, report.moved_payloads) == (1, 1)
    assert staged_ids(restored, owned.table, first=7) == [7]


def test_the_rules_of_the_database_come_back_with_it(engine: sa.Engine, restored: sa.Engine) -> None:
    rules = """SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = 'mirrorgate'::regnamespace ORDER BY 1, 2"""
    assert sql.rows(restored, rules) == sql.rows(engine, rules)
    defaults = "SELECT count(*) FROM pg_attrdef WHERE pg_get_expr(adbin, adrelid) LIKE '%current_bucket%'"
    assert sql.value(restored, defaults) == sql.value(engine, defaults) > 2


@pytest.fixture
def server(tmp_path: Path) -> Iterator[CrashingPostgres]:
    # What no commit has flushed stays in memory until the crash.
    server = CrashingPostgres(tmp_path, wal_writer_delay="10s")
    migrate(server.url)
    yield server
    server.stop()


def crash(server: CrashingPostgres, engine: sa.Engine) -> None:
    """Let Postgres crash and restart."""

    def answers() -> bool:
        server.tend()
        with suppress(sa.exc.OperationalError):
            return bool(sql.value(engine, "SELECT 1"))
        return False

    server.crash()
    wait_until(answers, within=30, what="Postgres is back")


@pytest.fixture
def engines(server: CrashingPostgres) -> Iterator[tuple[sa.Engine, sa.Engine]]:
    """Give the connections of two processes."""
    engines = open_engine(server.url), open_engine(server.url)
    yield engines
    for engine in engines:
        engine.dispose()


def test_a_batch_that_a_crash_took_is_not_acknowledged_for_another_that_got_its_transaction_id(
    server: CrashingPostgres, engines: tuple[sa.Engine, sa.Engine]
) -> None:
    """Postgres gives a transaction id again if nothing of the first one had reached its log."""
    engine, other = engines
    table = registered(other, "t", schema_of({"id": "int64"}, ["id"]))
    ids: list[str] = []
    staged, crashed = threading.Event(), threading.Event()

    def wait_for_the_crash(connection: sa.Connection) -> None:
        ids.append(current_transaction_id(connection).xid)
        staged.set()
        crashed.wait(timeout=60)

    sa.event.listen(engine, "commit", wait_for_the_crash)
    writer = GroupCommit(engine)
    writer.start()
    lost = writer.submit(StagingRequest([typed(table, inserts([{"id": 1}]))]))
    assert staged.wait(timeout=30)
    crash(server, other)
    [later] = stage(other, [typed(current(other, "t"), inserts([{"id": 2}]))])
    crashed.set()
    rejection = lost.exception(timeout=30)
    writer.close()
    with other.connect() as connection:
        assert connection.execute(SELECT_STATUS, {"xid": ids[0]}).scalar() == "committed"
    assert isinstance(rejection, TemporarilyUnavailable)
    assert rejection.code == Code.DATABASE_UNAVAILABLE
    assert later.sequence == 1


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
    return owned.table.table_id in sql.call(engine, due_tables, owned.worker, PATIENT)


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
