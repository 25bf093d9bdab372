"""A table with seed_file=true is mirrored from the start: first a typed file without rows, then its data."""

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

from app.domain.model.names import TableName
from app.domain.model.table import DropAction, FileNumber, Generation, Table
from app.domain.model.table_options import TableOptions
from app.staging.tables.operations import request_repair
from app.staging.tables.registration import register_table
from mirrorgate_zone.emulator import OneLake, Trust
from tests.spark.conftest import NewWorker, die_at, drain
from tests.support.gateway_parts import current, dropping, inserts, landed_keys, stage, typed
from tests.support.onelake.clients import onelake_address
from tests.support.onelake.mirror import Mirror
from tests.support.postgres.ledger import end_lease
from tests.support.samples.schemas import schema_of

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
    with engine.begin() as connection:
        request_repair(connection, T, Generation(1), FileNumber(1), "operator")
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
