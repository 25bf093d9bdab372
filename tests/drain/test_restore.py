"""A database restored to an older point with a newer landing zone: no number is published twice."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
import sqlalchemy as sa

from app.domain.model.landing_file import file_name
from app.domain.model.table import FileNumber, TableState
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import TableSchema
from app.landing.landed_state import CONSUMED_FOLDERS
from app.staging.connection.database import open_engine
from tests.drain.conftest import NewDrain
from tests.support.gateway_parts import current, file_numbers, landed_keys, registered, stage_keys, state_reason
from tests.support.postgres import sql
from tests.support.postgres.databases import clone_database
from tests.support.samples.schemas import ID, schema_of
from tests.support.small_drain import publish_each, publish_pending

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
