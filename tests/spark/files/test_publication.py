"""Staged batches become numbered landing files."""

import base64
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from app.domain.arrow import schema_from_bytes
from app.domain.model.change import Change, Operation
from app.domain.model.names import TableName
from app.domain.model.table import FileNumber
from app.domain.publication import verify_chain
from app.staging.ledger.files import list_files, read_chain
from tests.spark.conftest import NewWorker, drain
from tests.support.gateway_parts import current, inserts, landed_keys, registered, stage, stage_keys, typed
from tests.support.samples.schemas import ID, schema_of


def test_batches_land_in_order_in_files_of_the_target_size(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker
) -> None:
    table = registered(engine, "t", ID)
    stage_keys(engine, table, [1, 2], [3], [4, 5], [6, 7], [8])
    drain(new_worker(rows=3))
    assert landed_keys(landing_zone, "t") == [[1, 2, 3], [4, 5], [6, 7, 8]]


def test_a_longer_backlog_than_one_round_of_files_lands_without_a_gap(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker
) -> None:
    table = registered(engine, "t", ID)
    stage_keys(engine, table, *([key] for key in range(20)))
    drain(new_worker(rows=1))
    assert landed_keys(landing_zone, "t") == [[key] for key in range(20)]


def test_many_tables_land_in_one_cycle_each_with_its_metadata(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker
) -> None:
    for number in range(7):
        stage_keys(engine, registered(engine, f"s.t{number}", ID), [number])
    drain(new_worker())
    for number in range(7):
        assert landed_keys(landing_zone, f"s.t{number}") == [[number]]
        metadata = json.loads((landing_zone / "s.schema" / f"t{number}" / "_metadata.json").read_bytes())
        assert metadata == {"keyColumns": ["id"]}


def test_a_file_holds_one_schema_version(engine: sa.Engine, landing_zone: Path, new_worker: NewWorker) -> None:
    stage_keys(engine, registered(engine, "t", ID), [1], [2])
    wider = registered(engine, "t", schema_of({"id": "int64", "note": "string"}, ["id"]))
    stage(engine, [typed(wider, inserts([{"id": 3, "note": "new"}]))])
    drain(new_worker())
    first, second = (pq.read_table(file).to_pylist() for file in sorted((landing_zone / "t").glob("*.parquet")))
    assert first == [{"id": 1, "__rowMarker__": 0}, {"id": 2, "__rowMarker__": 0}]
    assert second == [{"id": 3, "note": "new", "__rowMarker__": 0}]


@pytest.mark.parametrize(("marker_first", "names"), [(False, ["id", "__rowMarker__"]), (True, ["__rowMarker__", "id"])])
def test_the_row_marker_is_where_the_setting_says(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker, marker_first: bool, names: list[str]
) -> None:
    stage_keys(engine, registered(engine, "t", ID), [1])
    drain(new_worker(marker_first=marker_first))
    schema = pq.read_schema(landing_zone / "t" / "00000000000000000001.parquet")
    assert schema.names == names
    assert str(schema.field("__rowMarker__").type) == "int32"


def test_a_key_change_lands_as_delete_then_insert_in_one_file(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker
) -> None:
    table = registered(engine, "t", schema_of({"id": "int64", "name": "string"}, ["id"]))
    old, new = {"id": "1", "name": "a"}, {"id": "2", "name": "a"}
    stage(
        engine,
        [typed(table, [Change(0, Operation.INSERT, None, old, "", ""), Change(1, Operation.UPDATE, old, new, "", "")])],
    )
    drain(new_worker(rows=1))
    rows = pq.read_table(landing_zone / "t").to_pylist()
    assert [(row["__rowMarker__"], row["id"], row["name"]) for row in rows] == [(0, 1, "a"), (2, 1, None), (0, 2, "a")]


def test_a_young_batch_waits_until_it_is_max_delay_old(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker
) -> None:
    stage_keys(engine, registered(engine, "t", ID), [1])
    drain(new_worker(delay_seconds=3600.0))
    assert landed_keys(landing_zone, "t") == []


def test_the_ledger_states_what_the_files_are(engine: sa.Engine, landing_zone: Path, new_worker: NewWorker) -> None:
    stage_keys(engine, registered(engine, "t", ID), [1, 2], [3])
    drain(new_worker())
    table = current(engine, "t")
    with engine.begin() as connection:
        (entry,) = list_files(connection, table.table_id, table.generation, after=FileNumber(0), limit=10)
    file = landing_zone / TableName.parse("t").folder / "00000000000000000001.parquet"
    footer = pq.read_metadata(file).metadata
    assert (entry.state, entry.row_count, entry.first_sequence, entry.last_sequence) == ("published", 3, 1, 2)
    assert entry.file_bytes == file.stat().st_size
    assert footer[b"mirrorgate.digest"].decode() == entry.digest


def test_the_metadata_chain_tells_each_schema_before_its_files_and_verifies(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker
) -> None:
    stage_keys(engine, registered(engine, "t", ID), [1])
    wider = registered(engine, "t", schema_of({"id": "int64", "note": "string"}, ["id"]))
    stage(engine, [typed(wider, inserts([{"id": 2, "note": None}]))])
    drain(new_worker())
    with engine.begin() as connection:
        blocks = list(read_chain(connection, wider.table_id, wider.generation))
    kinds = [block.event["kind"] for block in blocks]
    assert kinds == ["Seed", "SetDataSchema", "SetDataSchema", "AddData", "AddData"]
    assert verify_chain(blocks) == 5
    schema = schema_from_bytes(base64.b64decode(blocks[2].event["schema"]))
    assert schema == pq.read_schema(landing_zone / "t" / "00000000000000000002.parquet")
