"""Option `exclude`: its columns are never staged, however a message names them."""

import pyarrow as pa
import pytest

from app.domain.model.names import TableName
from app.formats.arcion.csv import CsvLayout, CsvMode
from app.ingest import ArrowLoad
from mirrorgate.errors import Code
from tests.support.ingest_harness import IngestHarness
from tests.support.rejections import rejected
from tests.support.samples.arrow_streams import stream
from tests.support.samples.messages import arcion, data, metadata
from tests.support.samples.schemas import schema_of

SCHEMA = schema_of({"id": "int64", "name": "string", "secret": "string"}, ["id"], ["id"])


def test_an_excluded_column_of_a_put_does_not_become_one_of_the_table(harness: IngestHarness) -> None:
    assert harness.put("t", SCHEMA, exclude=["secret"]).table.schema.names == ("id", "name")
    harness.arcion(arcion("t", None, {"id": "1", "name": "Ada", "secret": "x"}))
    harness.arcion(arcion("t", {"id": "1", "secret": "x"}, {"id": "1", "name": "Bob", "secret": "y"}))
    assert harness.landed("t", "id", "name") == [[0, 1, "Ada"], [1, 1, "Bob"]]


def test_an_excluded_column_of_a_csv_file_is_left_out(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, exclude=["secret"])
    harness.csv("1,Ada,x\n", "t", CsvLayout(CsvMode.SNAPSHOT, ("id", "name", "secret")))
    assert harness.rows("t") == [{"id": 1, "name": "Ada", "__rowMarker__": 0}]


@pytest.mark.parametrize("in_schema", [True, False], ids=["excluded later", "excluded from the start"])
def test_an_excluded_column_of_an_arrow_load_is_left_out(harness: IngestHarness, in_schema: bool) -> None:
    if in_schema:
        harness.put("t", SCHEMA)
    harness.put("t", SCHEMA, exclude=["secret"])
    rows = pa.table({"id": [1], "name": ["Ada"], "secret": pa.array([7])})
    harness.accept_load(ArrowLoad(TableName.parse("t"), stream(rows)))
    assert harness.landed("t", "id", "name", "secret") == [[0, 1, "Ada", None]]


def test_excluded_columns_of_metadata_are_neither_columns_nor_needed_in_data(harness: IngestHarness) -> None:
    harness.put("S.T", schema_of({"id": "int64"}, ["id"]), exclude=["doc", "odd", "small"])
    odd = {"type": "NUMERIC", "precision": 0}
    harness.replicate(metadata("S.T", {"id": "INT8", "doc": "NCLOB", "odd": odd, "small": "UINT1", "name": "STRING"}))
    assert harness.table("S.T").schema.names == ("id", "name")
    whole = {"id": 1, "doc": "x", "odd": "1e99", "small": 700, "name": "Ada"}
    harness.replicate(
        data("INSERT", whole, schema_id="S.T-1", columnMask="1F"),
        data("INSERT", {"id": 2, "name": "Bob"}, schema_id="S.T-1", columnMask="11"),
        data("UPDATE", {"id": 2, "name": "Eve"}, {"id": 2}, schema_id="S.T-1", columnMask="1F"),
    )
    assert harness.landed("S.T", "id", "name") == [[0, 1, "Ada"], [0, 2, "Bob"], [1, 2, "Eve"]]


def test_a_column_that_is_not_excluded_is_still_needed_beside_one_that_is(harness: IngestHarness) -> None:
    harness.put("S.T", schema_of({"id": "int64"}, ["id"]), exclude=["doc"])
    harness.replicate(metadata("S.T", {"id": "INT8", "doc": "NCLOB", "name": "STRING"}))
    with rejected() as rejection:
        harness.replicate(data("INSERT", {"id": 2}, schema_id="S.T-1", columnMask="1"))
    assert [place[::3] for place in rejection.places] == [(Code.INCOMPLETE_INSERT, "name")]


def test_a_column_that_is_excluded_later_lands_null_until_it_is_no_longer(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA)
    whole = {"id": "1", "name": "Ada", "secret": "x"}
    harness.arcion(arcion("t", None, whole))
    assert harness.put("t", exclude=["secret"]).table.schema == SCHEMA
    harness.arcion(arcion("t", whole, whole))
    harness.other.arcion(arcion("t", {"id": "1"}, {"id": "1", "name": "Bob"}))
    harness.put("t", exclude=[])
    harness.arcion(arcion("t", whole, whole))
    assert harness.landed("t", "name", "secret") == [
        [0, "Ada", "x"],
        [1, "Ada", None],
        [1, "Bob", None],
        [1, "Ada", "x"],
    ]
    with rejected(places=[(Code.INCOMPLETE_UPDATE, 0, "/after/secret", "secret")]):
        harness.other.arcion(arcion("t", {"id": "1"}, {"id": "1", "name": "Bob"}))


@pytest.mark.parametrize("with_columns", [True, False])
def test_neither_a_key_nor_a_required_column_can_be_excluded(harness: IngestHarness, with_columns: bool) -> None:
    schema = schema_of({"id": "int64", "name": "string", "must": "string"}, ["id"], ["id", "must"])
    again = schema if with_columns else None
    before = harness.put("t", schema).table
    with rejected(places=[(Code.BAD_OPTION, None, "/options/exclude", None)]):
        harness.put("t", again, exclude=["name", "id"])
    with rejected() as rejection:
        harness.put("t", again, exclude=["must"])
    assert rejection.code in {Code.BAD_OPTION, Code.INCOMPATIBLE_SCHEMA}
    assert harness.table("t") == before


def test_a_new_table_cannot_exclude_its_key_but_a_required_column(harness: IngestHarness) -> None:
    schema = schema_of({"id": "int64", "must": "string"}, ["id"], ["id", "must"])
    with rejected(places=[(Code.BAD_OPTION, None, "/options/exclude", None)]):
        harness.put("t", schema, exclude=["id"])
    assert harness.put("t", schema, exclude=["must"]).table.schema.names == ("id",)


def test_metadata_cannot_make_an_excluded_column_a_key(harness: IngestHarness) -> None:
    harness.put("S.T", schema_of({"id": "int64"}), exclude=["id2"])
    with rejected(places=[(Code.BAD_OPTION, 0, "/message/tableStructure", None)]):
        harness.replicate(metadata("S.T", {"id": "INT8", "id2": "INT8"}, ("id", "id2")))
    assert harness.table("S.T").schema.key_columns == ()
