"""The drain publishes into OneLake, and mirroring receives exactly what was staged."""

import json
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

from app.domain.model.names import TableName
from app.domain.model.table import DropAction, FileNumber, Generation, Table, TableState
from app.domain.model.table_options import TableOptions
from app.staging.ledger.files import list_files
from app.staging.tables.operations import request_repair
from app.staging.tables.registration import register_table
from mirrorgate_zone.emulator import Effect, Fault, OneLake, Trust
from tests.spark.conftest import NewWorker, die_at, drain
from tests.support.gateway_parts import current, dropping, inserts, landed_keys, registered, stage, stage_keys, typed
from tests.support.onelake.clients import onelake_address
from tests.support.onelake.fixtures import NewOneLake
from tests.support.onelake.mirror import PROCESSED, Mirror
from tests.support.postgres import sql
from tests.support.postgres.ledger import end_lease
from tests.support.samples.schemas import ID, schema_of


def keys(mirror: Mirror, folder: str) -> list[list[int]]:
    """Return the keys in each file that mirroring took in."""
    return [[row["id"] for row in rows] for rows in mirror.tables[folder].files]


def test_what_mirroring_takes_in_is_what_was_staged_in_order(
    engine: sa.Engine, new_worker: NewWorker, onelake: OneLake, trust: Trust
) -> None:
    mirror = Mirror(onelake)
    tables = {"t": registered(engine, "t", ID), "s.schema/orders": registered(engine, "s.orders", ID)}
    worker = new_worker(rows=3, zone=onelake_address(onelake, trust))
    for start in (0, 100):
        for table in tables.values():
            stage_keys(engine, table, [start + 1, start + 2], [start + 3], [start + 4, start + 5])
        drain(worker)
    mirror.check()
    for folder in tables:
        assert keys(mirror, folder) == [[1, 2, 3], [4, 5], [101, 102, 103], [104, 105]]
        assert len(onelake.names(f"{folder}/{PROCESSED}")) == 3
        assert all(row["__rowMarker__"] == 0 for row in mirror.tables[folder].rows)
    status = json.loads(onelake.tree.find(f"{onelake.item[0]}/Files/Monitoring/tables.json").content)
    assert [entry["processedRowCount"] for entry in status["tables"]] == [10, 10]


def test_lost_answers_and_ignored_conditions_neither_lose_nor_repeat_a_row(
    engine: sa.Engine, new_worker: NewWorker, new_onelake: NewOneLake, trust: Trust
) -> None:
    onelake = new_onelake(rename_condition="ignored", user_metadata="forgotten", rename_keeps_etag=False)
    onelake.faults.first_of_each = Fault(Effect.RESET_AFTER)
    onelake.faults.spared = frozenset({"head", "read", "create"})
    mirror = Mirror(onelake)
    table = registered(engine, "t", ID)
    stage_keys(engine, table, [1], [2, 3], [4])
    drain(new_worker(rows=2, zone=onelake_address(onelake, trust)))
    mirror.check()
    assert [row["id"] for row in mirror.tables["t"].rows] == [1, 2, 3, 4]
    assert {operation for operation, _ in onelake.faults.used} >= {"append", "flush", "rename"}


def test_a_file_that_mirroring_took_before_it_was_recorded_is_recorded_not_landed_again(
    engine: sa.Engine, new_worker: NewWorker, onelake: OneLake, trust: Trust
) -> None:
    mirror = Mirror(onelake)
    stage_keys(engine, registered(engine, "t", ID), [1], [2])
    first = new_worker(zone=onelake_address(onelake, trust))
    die_at("record_published", first, current(engine, "t").table_id)
    end_lease(engine, first.context.worker_id)
    stage_keys(engine, current(engine, "t"), [3])
    drain(new_worker(zone=onelake_address(onelake, trust)))
    mirror.check()
    assert keys(mirror, "t") == [[1, 2], [3]]


def test_a_table_that_is_recreated_begins_another_lifetime_in_the_mirror(
    engine: sa.Engine, new_worker: NewWorker, onelake: OneLake, trust: Trust
) -> None:
    mirror = Mirror(onelake)
    table = registered(engine, "t", ID)
    worker = new_worker(zone=onelake_address(onelake, trust))
    stage_keys(engine, table, [1], [2])
    drain(worker)
    onelake.faults.plan("delete", Fault(Effect.RESET_AFTER))
    dropping(engine, "t", DropAction.RECREATE)
    drain(worker)
    stage_keys(engine, current(engine, "t"), [7], [8])
    drain(worker)
    mirror.check()
    assert [[row["id"] for row in lifetime.rows] for lifetime in mirror.dropped] == [[1, 2]]
    assert keys(mirror, "t") == [[7, 8]]


def test_a_store_that_fails_for_a_while_only_delays(
    engine: sa.Engine, new_worker: NewWorker, onelake: OneLake, trust: Trust
) -> None:
    mirror = Mirror(onelake)
    table = registered(engine, "t", ID)
    stage_keys(engine, table, [1])
    worker = new_worker(zone=onelake_address(onelake, trust, retry_seconds=0.0))
    onelake.faults.plan("read", Fault(Effect.RESET_BEFORE), skip=2)  # the zone's own marker is read twice before
    onelake.faults.plan("rename", Fault(Effect.RESET_AFTER), skip=1)
    for _ in range(3):  # the first cannot read its file back; the second does not learn that its rename was done
        drain(worker)
    mirror.check()
    assert (keys(mirror, "t"), onelake.faults.left) == ([[1]], 0)
    assert current(engine, "t").state is TableState.ACTIVE
    (file,) = sql.call(engine, list_files, table.table_id, table.generation, after=FileNumber(0), limit=10)
    assert file.state == "published"


T = TableName.parse("t")
SCHEMA = schema_of({"id": "int64", "amount": "decimal(12,2)", "at": "timestamp"}, ["id"])


def seeded(engine: sa.Engine, **others: str) -> Table:
    with engine.begin() as connection:
        options = TableOptions.parse({"seed_file": True, **others})
        return register_table(connection, T, SCHEMA, options).table


def row(key: int) -> dict[str, object]:
    return {"id": key, "amount": "1.50", "at": "2026-01-01"}


def test_a_table_without_data_gets_a_typed_file_without_rows_and_its_data_behind_it(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker
) -> None:
    table = seeded(engine)
    worker = new_worker(delay_seconds=3600.0)
    drain(worker)
    assert landed_keys(landing_zone, "t") == [[]]
    file = landing_zone / "t" / "00000000000000000001.parquet"
    schema = pq.read_schema(file)
    assert schema.names == ["id", "amount", "at", "__rowMarker__"]
    assert schema.field("amount").type == pa.decimal128(12, 2)
    assert duckdb.sql(f"SELECT count(*) FROM read_parquet('{file}')").fetchall() == [(0,)]
    assert (landing_zone / "t" / "_metadata.json").exists()
    stage(engine, [typed(table, inserts([row(1)]))])
    drain(worker)
    assert landed_keys(landing_zone, "t") == [[]]
    end_lease(engine, worker.context.worker_id)
    drain(new_worker())
    assert landed_keys(landing_zone, "t") == [[], [1]]


def test_a_recreated_table_is_seeded_again(engine: sa.Engine, landing_zone: Path, new_worker: NewWorker) -> None:
    table = seeded(engine)
    stage(engine, [typed(table, inserts([row(1)]))])
    worker = new_worker()
    drain(worker)
    assert landed_keys(landing_zone, "t") == [[], [1]]
    dropping(engine, "t", DropAction.RECREATE)
    drain(worker)
    assert landed_keys(landing_zone, "t") == [[]]
    stage(engine, [typed(current(engine, "t"), inserts([row(7)]))])
    drain(worker)
    assert landed_keys(landing_zone, "t") == [[], [7]]


def test_a_seed_goes_with_a_bare_initial_load(engine: sa.Engine, landing_zone: Path, new_worker: NewWorker) -> None:
    table = seeded(engine, initial_load="without_marker")
    worker = new_worker()
    drain(worker)
    stage(engine, [typed(table, inserts([row(1)]))])
    drain(worker)
    files = sorted((landing_zone / "t").glob("*.parquet"))
    assert [pq.read_schema(file).names for file in files] == [["id", "amount", "at"]] * 2
    assert landed_keys(landing_zone, "t") == [[], [1]]


def test_a_worker_that_dies_before_the_seed_is_visible_leaves_it_to_the_next(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker
) -> None:
    table = seeded(engine)
    first = new_worker()
    die_at("make_visible", first, table.table_id)
    end_lease(engine, first.context.worker_id)
    drain(new_worker())
    assert landed_keys(landing_zone, "t") == [[]]


def test_a_seed_is_repaired_under_its_own_number(engine: sa.Engine, landing_zone: Path, new_worker: NewWorker) -> None:
    seeded(engine)
    worker = new_worker()
    drain(worker)
    (landing_zone / "t" / "00000000000000000001.parquet").write_bytes(b"")
    sql.call(engine, request_repair, T, Generation(1), FileNumber(1), "operator")
    drain(worker)
    assert landed_keys(landing_zone, "t") == [[]]


def test_mirroring_takes_the_seed_and_the_data_behind_it(
    engine: sa.Engine, new_worker: NewWorker, onelake: OneLake, trust: Trust
) -> None:
    mirror = Mirror(onelake)
    table = seeded(engine)
    worker = new_worker(zone=onelake_address(onelake, trust))
    drain(worker)
    assert (mirror.tables["t"].consumed, mirror.tables["t"].rows) == (1, [])
    stage(engine, [typed(table, inserts([row(1), row(2)]))])
    drain(worker)
    mirror.check()
    assert [len(rows) for rows in mirror.tables["t"].files] == [0, 2]
