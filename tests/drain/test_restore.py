"""A database that is restored or failed over under the drain."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from app.domain.model.landing_file import file_name
from app.domain.model.table import FileNumber, TableState
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import TableSchema
from app.landing.landed_state import CONSUMED_FOLDERS
from app.staging.connection.database import open_engine
from spark_jobs.drain_cycle import DrainCycle
from tests.api.calls import own_gateway, problem
from tests.drain.conftest import NewDrain
from tests.support.gateway_parts import current, file_numbers, landed_keys, registered, stage_keys, state_reason
from tests.support.postgres import sql
from tests.support.postgres.databases import clone_database, put_back
from tests.support.samples.schemas import ID, schema_of
from tests.support.small_drain import publish_each, publish_pending
from tests.support.waiting import wait_until

_NAMES = count(1)


class Backup:
    """A copy of the database as it was, to go on with."""

    def __init__(self, database_url: str) -> None:
        self.url = clone_database(database_url, f"restored_{next(_NAMES)}")
        self.engine = open_engine(self.url)
        sql.run(self.engine, "DELETE FROM mirrorgate.workers")


@pytest.fixture
def backups() -> Iterator[list[Backup]]:
    backups: list[Backup] = []
    yield backups
    for backup in backups:
        backup.engine.dispose()


def go_on(engine: sa.Engine, new_drain: NewDrain, *keys: int) -> None:
    """Accept and publish one file per key with a drain that ends."""
    publish_each(new_drain(), "t", *keys)
    sql.run(engine, "DELETE FROM mirrorgate.workers")


def consume(landing_zone: Path, numbers: range, into: str) -> None:
    """Move files as mirroring does after it has read them."""
    processed = landing_zone / "t" / into
    processed.mkdir(exist_ok=True)
    for number in numbers:
        name = file_name(FileNumber(number))
        (landing_zone / "t" / name).rename(processed / name)


@pytest.mark.parametrize(
    ("into", "consumed", "seen"),
    [
        ("", range(0), "2, 3, 4, 5, 6, 7, 8"),
        (CONSUMED_FOLDERS[0], range(1, 9), "2, 3, 4, 5, 6, 7, 8"),
        (CONSUMED_FOLDERS[1], range(1, 9), "2, 3, 4, 5, 6, 7, 8"),
        (CONSUMED_FOLDERS[0], range(1, 8), "2, 3, 4, 5, 6, 7, 8"),
    ],
    ids=["plain", "processed", "readytodelete", "processed_keep_last"],
)
def test_a_number_that_was_published_after_the_backup_is_never_published_again(
    engine: sa.Engine,
    database_url: str,
    landing_zone: Path,
    new_drain: NewDrain,
    backups: list[Backup],
    into: str,
    consumed: range,
    seen: str,
) -> None:
    registered(engine, "t", ID)
    go_on(engine, new_drain, 1)
    backups.append(Backup(database_url))
    go_on(engine, new_drain, *range(2, 9))
    if into:
        consume(landing_zone, consumed, into)
    visible = file_numbers(landing_zone / "t")
    restored = backups[0].engine
    stage_keys(restored, current(restored, "t"), [1001], [1002])
    publish_pending(new_drain(url=backups[0].url))
    assert file_numbers(landing_zone / "t") == visible
    assert current(restored, "t").state is TableState.QUARANTINED
    assert state_reason(restored, "t").startswith("ledger_behind_zone: ")
    assert f"{seen};" in state_reason(restored, "t")


@pytest.mark.parametrize(
    "schema", [schema_of({"id": "string"}, ["id"]), schema_of({"id": "int64"})], ids=["type", "key"]
)
def test_a_seed_file_of_a_lost_registration_is_not_recorded_for_a_table_with_other_columns_or_keys(
    engine: sa.Engine,
    database_url: str,
    landing_zone: Path,
    new_drain: NewDrain,
    backups: list[Backup],
    schema: TableSchema,
) -> None:
    backups.append(Backup(database_url))
    registered(engine, "t", ID, TableOptions(seed_file=True))
    publish_pending(new_drain())
    restored = backups[0].engine
    registered(restored, "t", schema, TableOptions(seed_file=True))
    publish_pending(new_drain(url=backups[0].url))
    assert state_reason(restored, "t").startswith("ledger_behind_zone: ")
    assert file_numbers(landing_zone / "t") == [1]


def test_files_that_only_mirroring_removed_are_missed_if_a_later_one_exists(
    engine: sa.Engine, database_url: str, landing_zone: Path, new_drain: NewDrain, backups: list[Backup]
) -> None:
    registered(engine, "t", ID)
    go_on(engine, new_drain, 1)
    backups.append(Backup(database_url))
    go_on(engine, new_drain, 2, 3, 4)
    for number in (1, 2, 3):
        (landing_zone / "t" / file_name(FileNumber(number))).unlink()
    restored = backups[0].engine
    stage_keys(restored, current(restored, "t"), [1001])
    publish_pending(new_drain(url=backups[0].url))
    assert file_numbers(landing_zone / "t") == [4]
    assert state_reason(restored, "t").startswith("ledger_behind_zone: ")


@pytest.mark.parametrize("into", ["", *CONSUMED_FOLDERS])
def test_files_of_batches_that_the_backup_holds_are_recorded_however_they_were_cut_and_not_landed_again(
    engine: sa.Engine, database_url: str, landing_zone: Path, new_drain: NewDrain, backups: list[Backup], into: str
) -> None:
    registered(engine, "t", ID, TableOptions(seed_file=True))
    stage_keys(engine, current(engine, "t"), [1], [2], [3])
    backups.append(Backup(database_url))
    publish_pending(new_drain(rows=1))
    assert landed_keys(landing_zone, "t") == [[], [1], [2], [3]]
    if into:
        consume(landing_zone, range(1, 5), into)
    restored = backups[0].engine
    cycle = new_drain(url=backups[0].url)
    publish_pending(cycle)
    stage_keys(restored, current(restored, "t"), [4])
    publish_pending(cycle)
    assert current(restored, "t").state is TableState.ACTIVE
    assert file_numbers(landing_zone / "t") == ([5] if into else [1, 2, 3, 4, 5])
    recorded = "SELECT number, row_count, file_bytes, file_sha256 FROM mirrorgate.landing_files ORDER BY number LIMIT 4"
    assert sql.rows(restored, recorded) == sql.rows(engine, recorded)


@pytest.mark.parametrize("into", ["", CONSUMED_FOLDERS[0]])
def test_files_that_were_planned_at_the_backup_are_recorded_from_the_folder(
    engine: sa.Engine, database_url: str, landing_zone: Path, new_drain: NewDrain, backups: list[Backup], into: str
) -> None:
    """Planned, no build registered: the ledger knows neither size nor digest of what was built after the backup."""
    table = registered(engine, "t", ID)
    stage_keys(engine, table, [1], [2])
    planner = new_drain(rows=1)
    claimed = planner.prepare(table.table_id)
    assert claimed is not None
    backups.append(Backup(database_url))
    planner.build_and_publish([claimed])
    if into:
        consume(landing_zone, range(1, 3), into)
    restored = backups[0].engine
    cycle = new_drain(url=backups[0].url)
    publish_pending(cycle)
    stage_keys(restored, current(restored, "t"), [3])
    publish_pending(cycle)
    assert current(restored, "t").state is TableState.ACTIVE
    assert file_numbers(landing_zone / "t") == ([3] if into else [1, 2, 3])
    assert sql.value(restored, "SELECT count(*) FROM mirrorgate.landing_files WHERE file_sha256 IS NULL") == 0


def test_a_foreign_file_beyond_the_next_number_quarantines_its_table_at_the_take_over(
    engine: sa.Engine, landing_zone: Path, new_drain: NewDrain
) -> None:
    registered(engine, "t", ID)
    go_on(engine, new_drain, 1)
    (landing_zone / "t" / file_name(FileNumber(7))).write_bytes(b"not ours")
    go_on(engine, new_drain, 2)
    assert state_reason(engine, "t").startswith("foreign_file: another file has number 7")
    assert file_numbers(landing_zone / "t") == [1, 7]


_SAME_RUN = "UPDATE mirrorgate.table_leases SET database_run = mirrorgate.database_run()"
"""What no server does: it lets leases of the lost time count, as if nothing told one run from the other."""


def lose_files(engine: sa.Engine, url: str, cycle: DrainCycle, *, kept: range, lost: range) -> None:
    """Publish files, of which the database forgets the last ones while the drain holds the table."""
    registered(engine, "t", ID)
    publish_each(cycle, "t", *kept)
    backup = clone_database(url, f"standby_{next(_NAMES)}")
    publish_each(cycle, "t", *lost)
    put_back(url, backup)


@pytest.mark.parametrize("consumed", [0, 4, 5], ids=["none", "all_but_the_last", "all"])
@pytest.mark.parametrize("seen", ["in the lease", "in the plan"])
def test_no_number_is_published_twice_after_the_database_went_back_under_the_drain(
    engine: sa.Engine, database_url: str, landing_zone: Path, new_drain: NewDrain, consumed: int, seen: str
) -> None:
    cycle = new_drain()
    lose_files(engine, database_url, cycle, kept=range(1, 3), lost=range(3, 6))
    consume(landing_zone, range(1, consumed + 1), CONSUMED_FOLDERS[0])
    if seen == "in the plan":
        sql.run(engine, _SAME_RUN)
    publish_each(cycle, "t", 101, 102)
    assert file_numbers(landing_zone / "t") == list(range(consumed + 1, 6))
    assert current(engine, "t").state is TableState.QUARANTINED
    assert state_reason(engine, "t").startswith("ledger_behind_zone: the ledger ends at file 2, ")
    assert ": 3, 4, 5; the database is in an earlier state" in state_reason(engine, "t")


def test_a_drain_whose_database_lost_nothing_publishes_on_after_the_failover(
    engine: sa.Engine, database_url: str, landing_zone: Path, new_drain: NewDrain
) -> None:
    cycle = new_drain()
    lose_files(engine, database_url, cycle, kept=range(1, 3), lost=range(0))
    publish_each(cycle, "t", 3)
    assert current(engine, "t").state is TableState.ACTIVE
    assert file_numbers(landing_zone / "t") == [1, 2, 3]


def test_an_idle_owner_of_before_does_not_publish_under_the_epoch_that_the_database_went_back_to(
    engine: sa.Engine, database_url: str, landing_zone: Path, new_drain: NewDrain
) -> None:
    """Its own files are all known, and its epoch is the table's again; the lost files are another drain's."""
    former, owner = new_drain(), new_drain()
    registered(engine, "t", ID)
    publish_each(former, "t", 1)
    backup = clone_database(database_url, f"standby_{next(_NAMES)}")
    sql.run(engine, "DELETE FROM mirrorgate.workers WHERE worker_id = :id", id=former.context.worker_id)
    publish_each(owner, "t", 2, 3)
    consume(landing_zone, range(1, 4), CONSUMED_FOLDERS[0])
    put_back(database_url, backup)
    publish_each(former, "t", 101)
    assert file_numbers(landing_zone / "t") == []
    assert state_reason(engine, "t").startswith("ledger_behind_zone: ")


def test_a_renewal_in_another_run_of_the_database_ends_all_holds_and_is_logged(
    engine: sa.Engine, database_url: str, new_drain: NewDrain
) -> None:
    cycle = new_drain()
    lose_files(engine, database_url, cycle, kept=range(1, 3), lost=range(0))
    assert len(cycle.leased) == 1
    with capture_logs() as logs:
        cycle.renew_lease(60)
        cycle.renew_lease(60)
    [line] = [line for line in logs if line["event"] == "database_run_changed"]
    assert line["tables"] == 1
    assert line["log_level"] == "warning"
    assert len(cycle.leased) == 0


def test_rows_are_not_staged_under_a_schema_that_the_database_has_lost(engine: sa.Engine, database_url: str) -> None:
    """The process has the lost schema in its cache, and the database gives its numbers to another one."""
    with own_gateway(database_url) as gateway:
        registered(engine, "t", ID)
        backup = clone_database(database_url, f"standby_{next(_NAMES)}")
        registered(engine, "t", schema_of({"id": "int64", "lost": "int64"}, ["id"]))
        assert gateway.rows("t", {"id": 1, "lost": 1}).status_code == 202
        put_back(database_url, backup)
        registered(engine, "t", schema_of({"id": "int64", "present": "string"}, ["id"]))

        def answer() -> httpx.Response | None:
            found = gateway.rows("t", {"id": 2, "lost": 2})
            return None if found.status_code == 503 else found

        rejected = wait_until(answer, within=30, what="the gateway has connections again")
        problem(rejected, 422, "unknown_column")
    assert sql.value(engine, "SELECT last_sequence FROM mirrorgate.table_counters") == 0
