"""Option `initial_load=without_marker` in the landing zone: files without a row marker until a change needs one."""

import base64
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from app.domain.arrow import schema_from_bytes
from app.domain.model.names import TableName
from app.domain.model.table_options import TableOptions
from app.domain.publication import verify_chain
from app.staging.ledger.files import read_chain
from app.staging.tables.registration import register_table
from mirrorgate_zone.verify.codes import FindingCode
from tests.spark.conftest import NewWorker, drain
from tests.support.gateway_parts import current
from tests.support.ingest_harness import open_harness
from tests.support.samples.messages import arcion
from tests.support.samples.schemas import schema_of
from tests.verify.runs import findings

SCHEMA = schema_of({"id": "int64", "name": "string"}, ["id"], ["id"])
ADA, BOB = {"id": "1", "name": "Ada"}, {"id": "2", "name": "Bob"}
MARKER = "__rowMarker__"


def test_a_table_of_upserts_says_so_in_its_metadata(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker
) -> None:
    options = TableOptions.parse({"row_marker": "none"})
    with engine.begin() as connection:
        register_table(connection, TableName.parse("t"), SCHEMA, options)
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
    with engine.begin() as connection:
        register_table(connection, TableName.parse("t"), SCHEMA, options, marker_first=marker_first)
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
