"""A dry run shows what would land, rejects what would be rejected, and changes nothing."""

import json
from typing import Any

import pytest
import sqlalchemy as sa

from app.domain.model.names import TableName
from app.formats.arcion.csv import CsvLayout, CsvMode
from app.ingest import ArcionCsv, ArcionJson, BodyReader, ReplicateJson
from app.ingest.dry_run import DryRunResult
from mirrorgate.errors import Code, TemporarilyUnavailable
from tests.support.ingest_harness import IngestHarness
from tests.support.postgres import sql
from tests.support.rejections import rejected
from tests.support.samples.messages import Message, arcion, data, metadata
from tests.support.samples.schemas import schema_of

SCHEMA = schema_of({"id": "int64", "name": "string"}, ["id"], ["id"])
ADA = {"id": "1", "name": "Ada"}
SNAPSHOT = CsvLayout(CsvMode.SNAPSHOT, ("id", "name"))
REALTIME = CsvLayout(CsvMode.REALTIME, ("id", "name"))
TABLES = ("tables", "table_counters", "schema_versions", "metadata_blocks", "staged_blocks", "block_payloads")
OTHERS = ("table_sources", "source_positions", "row_images")


def contents(engine: sa.Engine) -> list[Any]:
    """Return every row of the tables that a request may touch."""
    return [sql.rows(engine, f"SELECT t::text FROM mirrorgate.{table} t ORDER BY 1") for table in TABLES + OTHERS]


def json_of(*messages: Message) -> BodyReader:
    return ArcionJson(json.dumps(messages).encode())


def replicate_of(*messages: Message, table: str | None = None) -> BodyReader:
    return ReplicateJson(json.dumps(messages).encode(), TableName.parse(table) if table else None)


def shown(result: DryRunResult) -> list[list[Any]]:
    return [[row["__rowMarker__"], row["id"], row["name"]] for table in result.tables for row in table.rows]


@pytest.mark.parametrize(
    ("decode", "rows"),
    [
        (
            json_of(arcion("t", None, ADA), arcion("t", ADA, ADA | {"id": "2"}), arcion("t", ADA)),
            [[0, 1, "Ada"], [2, 1, None], [0, 2, "Ada"], [2, 1, None]],
        ),
        (ArcionCsv(b"1,Ada\n2,NULL\n", TableName.parse("t"), SNAPSHOT), [[0, 1, "Ada"], [0, 2, None]]),
        (ArcionCsv(b"1,1,3,Bob,Ada,3,U,{},{}\n", TableName.parse("t"), REALTIME), [[1, 1, "Bob"]]),
        (replicate_of(data("UPDATE", ADA, {"id": 1}), data("DELETE", ADA), table="t"), [[1, 1, "Ada"], [2, 1, None]]),
    ],
    ids=["json", "csv snapshot", "csv realtime", "replicate"],
)
def test_a_dry_run_shows_what_then_lands_and_leaves_nothing(
    harness: IngestHarness, decode: BodyReader, rows: list[list[Any]]
) -> None:
    harness.put("t", SCHEMA)
    before = contents(harness.engine)
    result = harness.dry_run(decode)
    assert (shown(result), result.ignored, result.duplicates) == (rows, 0, 0)
    assert contents(harness.engine) == before
    harness.accept(decode)
    assert harness.landed("t", "id", "name") == rows


def test_nothing_is_registered_pinned_or_evolved(harness: IngestHarness) -> None:
    harness.put("s.t", SCHEMA, new_columns="add_as_string", initial_load="without_marker")
    before = contents(harness.engine)
    update = arcion("s.t", ADA, ADA | {"note": "x"}, catalog="c")
    for _ in range(2):
        [table] = harness.dry_run(json_of(update)).tables
        assert (table.schema_version, table.rows[0]["note"], table.rows[0]["__rowMarker__"]) == (2, "x", 1)
        described = replicate_of(metadata("S.NEW", {"id": "INT8"}), data("INSERT", {"id": 1}, schema_id="S.NEW-1"), {})
        with rejected():
            harness.dry_run(described)
        described = replicate_of(metadata("S.NEW", {"id": "INT8"}), data("INSERT", {"id": 1}, schema_id="S.NEW-1"))
        assert harness.dry_run(described).tables[0].rows == [{"id": 1, "__rowMarker__": 0}]
    assert contents(harness.engine) == before


def test_a_partial_update_is_shown_complete_and_its_image_stays(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, partial_updates="complete")
    harness.arcion(arcion("t", None, ADA))
    before = contents(harness.engine)
    partial = arcion("t", {"id": "1"}, {"id": "1"})
    assert shown(harness.dry_run(json_of(partial, partial))) == [[1, 1, "Ada"], [1, 1, "Ada"]]
    assert contents(harness.engine) == before


@pytest.mark.parametrize(
    "decode",
    [
        json_of(arcion("t", None, ADA | {"id": "x"}), arcion("t", None, ADA | {"odd": "x"})),
        json_of(arcion("nowhere", None, ADA)),
        json_of(arcion("c", {"id": "1"}, {"id": "1"})),
        ArcionCsv(b"1,Ada\nx,Bob\n", TableName.parse("t"), SNAPSHOT),
        ArcionCsv(b"1,Ada\n", TableName.parse("nowhere"), SNAPSHOT),
        replicate_of(data("INSERT", ADA, schema_id="none")),
        replicate_of(metadata("t", {"id": "STRING"})),
        replicate_of(data("REFRESH", ADA), table="started"),
    ],
    ids=["values", "table", "image", "csv", "csv table", "schema id", "metadata", "reload"],
)
def test_what_is_rejected_is_rejected_alike(harness: IngestHarness, decode: BodyReader) -> None:
    harness.put("t", SCHEMA)
    harness.put("c", SCHEMA, partial_updates="complete")
    harness.put("started", SCHEMA)
    harness.arcion(arcion("started", None, ADA))
    before = contents(harness.engine)
    with rejected() as dry:
        harness.dry_run(decode)
    with rejected() as real:
        harness.accept(decode)
    assert dry == real
    assert contents(harness.engine) == before


def test_messages_without_a_body_are_counted(harness: IngestHarness) -> None:
    result = harness.dry_run(replicate_of({"message": None}))
    assert (result.tables, result.ignored) == ([], 1)


def test_a_dry_run_gives_up_on_a_lock_before_anybody_else_does(harness: IngestHarness) -> None:
    table = harness.put("t", SCHEMA).table
    hold = "SELECT FROM mirrorgate.table_counters WHERE table_id = :table_id FOR UPDATE"
    with sql.locked(harness.engine, hold, table_id=table.table_id), pytest.raises(TemporarilyUnavailable) as raised:
        harness.dry_run(json_of(arcion("t", None, ADA)))
    assert raised.value.code is Code.TABLE_BUSY
