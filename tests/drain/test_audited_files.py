"""Landing files of tables with audit columns and histories, from messages to the rows that a reader of files sees."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

from app.domain.model.landing_file import file_name
from app.domain.model.table import FileNumber
from tests.drain.conftest import NewDrain
from tests.support.ingest_harness import IngestHarness, open_harness
from tests.support.samples.messages import arcion
from tests.support.samples.schemas import schema_of
from tests.support.small_drain import publish_pending

SCHEMA = schema_of({"id": "int64", "name": "string"}, ["id"], ["id"])
ADA, BOB = {"id": "1", "name": "Ada"}, {"id": "1", "name": "Bob"}
AUDIT = {"operation": "_op", "row_order": "_order", "deleted": "_deleted"}


def changed(harness: IngestHarness, table: str) -> None:
    harness.arcion(arcion(table, None, ADA), arcion(table, None, ADA | {"id": "2"}))
    harness.arcion(arcion(table, ADA, BOB), arcion(table, ADA | {"id": "2"}, None))


def file_of(zone: Path, table: str, number: int) -> pa.Table:
    return pq.ParquetFile(zone / table / file_name(FileNumber(number))).read()


def newest(rows: list[dict[str, Any]]) -> dict[int, str]:
    """Return the name of each present row, as the query in docs/tables/history-and-deletes.md finds it."""
    last = {row["id"]: row for row in sorted(rows, key=lambda row: row["_order"])}
    return {key: row["name"] for key, row in last.items() if not row["_deleted"]}


def test_files_of_a_history_have_every_version_and_no_keys(
    engine: sa.Engine, landing_zone: Path, new_drain: NewDrain
) -> None:
    cycle = new_drain()
    with open_harness(engine) as harness:
        harness.put("t", SCHEMA, history="append_only", seed_file=True, audit_columns=AUDIT)
        publish_pending(cycle)
        changed(harness, "t")
    publish_pending(cycle)
    seed, data = file_of(landing_zone, "t", 1), file_of(landing_zone, "t", 2)
    assert seed.schema == data.schema
    assert data.column_names == ["id", "name", "_op", "_order", "_deleted"]
    assert [row["_op"] for row in data.to_pylist()] == ["insert", "insert", "update", "delete"]
    assert newest(data.to_pylist()) == {1: "Bob"}
    assert json.loads((landing_zone / "t" / "_metadata.json").read_bytes()) == {}


def test_files_from_before_and_after_audit_columns_fold_to_the_same_table(
    engine: sa.Engine, landing_zone: Path, new_drain: NewDrain
) -> None:
    cycle = new_drain()
    with open_harness(engine) as harness:
        harness.put("t", SCHEMA)
        harness.arcion(arcion("t", None, ADA))
        publish_pending(cycle)
        harness.put("t", audit_columns={"operation": "_op"})
        harness.arcion(arcion("t", ADA, BOB))
        publish_pending(cycle)
    assert file_of(landing_zone, "t", 2).column_names == ["id", "name", "__rowMarker__"]
    assert file_of(landing_zone, "t", 3).to_pylist() == [{"id": 1, "name": "Bob", "_op": "update", "__rowMarker__": 1}]
    assert json.loads((landing_zone / "t" / "_metadata.json").read_bytes()) == {"keyColumns": ["id"]}
