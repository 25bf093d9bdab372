"""What the drain publishes: files, their order and options, and how they are built."""

import base64
import json
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from pyspark.sql import SparkSession

from app.domain.arrow import schema_from_bytes
from app.domain.model.change import Change, Operation
from app.domain.model.names import TableName
from app.domain.model.table import FileNumber
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import Column, ColumnType
from app.domain.publication import verify_chain
from app.landing.local_zone import LocalZone
from app.mirror.table_mirror import MirrorLimits, advance_table
from app.mirror.target import MirrorTarget
from app.mirror.typed_rows import typed_rows
from app.published.table_files import PublishedTable
from app.staging.ledger.files import list_files, read_chain
from app.staging.tables.registration import register_table
from mirrorgate_zone.verify.codes import FindingCode
from spark_jobs.build_files import MAX_DRIVER_BUILDS
from spark_jobs.drain_cycle import DrainCycle
from spark_jobs.drain_loop import DrainLoop
from spark_jobs.steps.publishing import ClaimedTable
from tests.spark.conftest import NewWorker, drain
from tests.support.gateway_parts import current, inserts, landed_keys, registered, stage, stage_keys, typed
from tests.support.hashes import hashed
from tests.support.ingest_harness import open_harness
from tests.support.postgres import sql
from tests.support.samples.messages import arcion
from tests.support.samples.schemas import ID, schema_of
from tests.verify.runs import codes, findings


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


def test_the_ledger_states_what_the_files_are(engine: sa.Engine, landing_zone: Path, new_worker: NewWorker) -> None:
    stage_keys(engine, registered(engine, "t", ID), [1, 2], [3])
    drain(new_worker())
    table = current(engine, "t")
    (entry,) = sql.call(engine, list_files, table.table_id, table.generation, after=FileNumber(0), limit=10)
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


SCHEMA = schema_of({"id": "int64", "name": "string"}, ["id"], ["id"])
ADA, BOB = {"id": "1", "name": "Ada"}, {"id": "2", "name": "Bob"}
MARKER = "__rowMarker__"


def test_a_table_of_upserts_says_so_in_its_metadata(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker
) -> None:
    options = TableOptions.parse({"row_marker": "none"})
    sql.call(engine, register_table, TableName.parse("t"), SCHEMA, options)
    with open_harness(engine) as harness:
        harness.arcion(arcion("t", None, ADA))
        harness.arcion(arcion("t", None, BOB), arcion("t", ADA, ADA | {"name": "Ada Lovelace"}))
    drain(new_worker())

    (file,) = sorted((landing_zone / "t").glob("*.parquet"))
    rows = [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Bob"}, {"id": 1, "name": "Ada Lovelace"}]
    assert pq.read_table(file).to_pylist() == rows
    metadata = json.loads((landing_zone / "t" / "_metadata.json").read_bytes())
    assert metadata == {"keyColumns": ["id"], "isUpsertDefaultRowMarker": True}
    assert {finding.code for finding in findings(landing_zone)} <= {FindingCode.PARTNER_EVENTS_MISSING}


@pytest.mark.parametrize(
    ("marker_first", "marked"), [(False, ["id", "name", MARKER]), (True, [MARKER, "id", "name"])], ids=["last", "first"]
)
def test_files_are_bare_up_to_the_first_change_that_is_no_insert_and_never_mix(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker, marker_first: bool, marked: list[str]
) -> None:
    options = TableOptions.parse({"initial_load": "without_marker"})
    sql.call(engine, register_table, TableName.parse("t"), SCHEMA, options, marker_first=marker_first)
    with open_harness(engine) as harness:
        harness.ingest.table_cache.marker_first = marker_first
        harness.arcion(arcion("t", None, ADA))
        harness.arcion(arcion("t", None, BOB))
        harness.arcion(arcion("t", BOB))
        harness.arcion(arcion("t", None, BOB))
    drain(new_worker(marker_first=marker_first))

    files = sorted((landing_zone / "t").glob("*.parquet"))
    assert [pq.read_table(file).to_pylist() for file in files] == [
        [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Bob"}],
        [{"id": 2, "name": None, MARKER: 2}, {"id": 2, "name": "Bob", MARKER: 0}],
    ]
    assert [pq.read_schema(file).names for file in files] == [["id", "name"], marked]

    table = current(engine, "t")
    with engine.begin() as connection:
        blocks = list(read_chain(connection, table.table_id, table.generation))
    events = [block.event for block in blocks]
    assert [event["kind"] for event in events] == ["Seed", "SetDataSchema", "SetDataSchema", "AddData", "AddData"]
    told = [schema_from_bytes(base64.b64decode(event["schema"])) for event in events[1:3]]
    assert told == [pq.read_schema(file) for file in files]
    assert verify_chain(blocks) == 5


PLENTY = 2**20


def jobs_of(spark: SparkSession, worker: DrainCycle, claimed: list[ClaimedTable]) -> int:
    """Return how many Spark jobs the worker starts to build and publish what it claimed."""
    group = str(uuid4())
    spark.sparkContext.setJobGroup(group, "building")
    worker.build_and_publish(claimed)
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))


@pytest.mark.parametrize(
    ("min_bytes", "files", "jobs"), [(PLENTY, MAX_DRIVER_BUILDS, 0), (PLENTY, MAX_DRIVER_BUILDS + 1, 1), (1, 1, 1)]
)
def test_only_a_few_files_of_few_bytes_are_built_without_a_spark_job(
    engine: sa.Engine,
    landing_zone: Path,
    new_worker: NewWorker,
    spark: SparkSession,
    min_bytes: int,
    files: int,
    jobs: int,
) -> None:
    stage_keys(engine, registered(engine, "t", ID), *([key] for key in range(files)))
    worker = new_worker(rows=1, spark_job_min_bytes=min_bytes)
    claimed = worker.prepare(current(engine, "t").table_id)
    assert claimed is not None
    assert jobs_of(spark, worker, [claimed]) == jobs
    assert landed_keys(landing_zone, "t") == [[key] for key in range(files)]


def test_files_that_an_earlier_drain_planned_are_built_by_spark_because_their_size_is_not_known(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker, spark: SparkSession
) -> None:
    table_id = registered(engine, "t", ID).table_id
    stage_keys(engine, current(engine, "t"), [1])
    worker = new_worker(spark_job_min_bytes=PLENTY)
    assert worker.prepare(table_id) is not None
    again = worker.prepare(table_id)
    assert again is not None
    assert jobs_of(spark, worker, [again]) == 1
    assert landed_keys(landing_zone, "t") == [[1]]


def test_worker_slots_build_small_files_at_the_same_time(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker
) -> None:
    names = [f"t{number}" for number in range(12)]
    for name in names:
        stage_keys(engine, registered(engine, name, ID), [1], [2])
    worker = new_worker(rows=1, spark_job_min_bytes=PLENTY)
    DrainLoop(worker, worker_slots=12).drain_pending()
    assert [landed_keys(landing_zone, name) for name in names] == [[[1], [2]]] * 12


SECRET: Final = b"a secret only for tests of masked values"
PEOPLE: Final = schema_of({"mail": "string", "city": "string", "phone": "string"}, ["mail"], ["mail"])
PROJECTED: Final[dict[str, Any]] = {
    "audit_columns": {"operation": "_op"},
    "rename": {"mail": "person"},
    "constants": {"region": {"type": "string", "value": "EU"}},
    "masks": {"mail": {"method": "hash"}, "phone": {"method": "truncate", "characters": 3}},
    "filter": {"column": "city", "op": "=", "value": "Rome"},
}
FLAGGING: Final[dict[str, Any]] = {
    "audit_columns": {"deleted": "_deleted"},
    "rename": {"city": "town"},
    "deletes": "flag",
    "row_images": "on",
}
PERSON_ADA: Final = {"mail": "ada@example.com", "city": "Rome", "phone": "+39 06 1"}
PERSON_BOB: Final = {"mail": "bob@example.com", "city": "Rome", "phone": "+39 06 2"}


def file_rows(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of all files in order; their columns are those of the first."""
    files = [pq.read_table(path) for path in sorted(folder.glob("*.parquet"))]
    rows: list[dict[str, Any]] = pa.concat_tables(files).to_pylist()
    return rows


def test_files_have_the_rows_and_columns_that_the_options_declare_and_a_mirror_applies_them(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker, tmp_path: Path
) -> None:
    worker = new_worker()
    with open_harness(engine, mask_secret=SECRET) as harness:
        scope = f"table:{harness.put('projected', PEOPLE, **PROJECTED).table.table_id}"
        harness.put("flagging", PEOPLE, **FLAGGING)
        for table in ("projected", "flagging"):
            harness.arcion(*(arcion(table, None, row) for row in (PERSON_ADA, PERSON_BOB)))
        drain(worker)
        for table in ("projected", "flagging"):
            harness.arcion(
                arcion(table, PERSON_ADA, PERSON_ADA | {"city": "Oslo"}),
                arcion(table, PERSON_BOB),
            )
    drain(worker)
    metadata = json.loads((landing_zone / "projected" / "_metadata.json").read_bytes())
    assert metadata["keyColumns"] == ["person"]
    masked = {"city": "Rome", "phone": "+39", "region": "EU", "_op": "insert", "__rowMarker__": 0}
    gone = {"city": None, "phone": None, "region": "EU", "_op": "delete", "__rowMarker__": 2}
    assert file_rows(landing_zone / "projected") == [
        *({"person": hashed(SECRET, scope, row["mail"])} | masked for row in (PERSON_ADA, PERSON_BOB)),
        *({"person": hashed(SECRET, scope, row["mail"])} | gone for row in (PERSON_ADA, PERSON_BOB)),
    ]
    assert [(row["mail"][:3], row["town"], row["_deleted"]) for row in file_rows(landing_zone / "flagging")[2:]] == [
        ("ada", "Oslo", False),
        ("bob", "Rome", True),
    ]
    assert codes(landing_zone) == {FindingCode.PARTNER_EVENTS_MISSING}  # which the start of a drain process writes
    zone, target = LocalZone(landing_zone), MirrorTarget(str(tmp_path / "mirror"))
    for folder in ("projected", "flagging"):
        advance_table(zone, target, PublishedTable.at(folder), MirrorLimits())
    columns = [Column(name, ColumnType.parse("string")) for name in ("mail", "town")]
    present = typed_rows(target, PublishedTable.at("flagging"), columns, flag="_deleted")
    assert [[array.to_pylist() for array in arrays] for arrays in present] == [[["ada@example.com"], ["Oslo"]]]
    all_rows = typed_rows(target, PublishedTable.at("flagging"), columns)
    assert sum(len(arrays[0]) for arrays in all_rows) == 2
    people = typed_rows(target, PublishedTable.at("projected"), [Column("person", columns[0].type)])
    assert not any(len(arrays[0]) for arrays in people)
