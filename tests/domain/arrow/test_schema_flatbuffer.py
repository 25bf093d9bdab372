"""Arrow schemas as raw flatbuffers: reading, writing, and types that no column can have."""

from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.arrow import columns_of, described_schemas, schema_from_bytes, schema_to_flatbuffer
from app.domain.model.table_schema import ColumnType, TableSchema
from app.domain.rows.from_arrow import snapshot_rows
from app.domain.rows.row_rules import RowRules
from app.formats.arrow import decode_arrow_stream
from mirrorgate.errors import Code, RejectedInput
from tests.fuzz.arrow_mutants import TAKEN, messages
from tests.support.rejections import rejected
from tests.support.samples.arrow_streams import repeated_metadata, stream
from tests.support.samples.schemas import schema_of

DECLARED = [
    "boolean",
    "int16",
    "int32",
    "int64",
    "float32",
    "float64",
    "decimal(38,5)",
    "date",
    "timestamp",
    "string",
    "binary",
]


@given(st.lists(st.sampled_from(DECLARED), min_size=1, max_size=12))
def test_a_schema_survives_its_flatbuffer_and_its_message(types: list[str]) -> None:
    schema = schema_of({f"column {number}": name for number, name in enumerate(types)}, ["column 0"]).arrow
    assert schema_from_bytes(schema_to_flatbuffer(schema)) == schema
    assert schema_from_bytes(schema.serialize().to_pybytes()) == schema


def test_the_flatbuffer_is_no_longer_a_message() -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.bool_(), nullable=False)])
    message = schema.serialize().to_pybytes()
    flatbuffer = schema_to_flatbuffer(schema)
    assert flatbuffer[4:] == message[12:]
    with pytest.raises((pa.ArrowException, OSError)):
        pa.ipc.read_schema(pa.py_buffer(flatbuffer))


@given(st.binary(max_size=300))
def test_bytes_that_are_no_schema_are_rejected_with_a_code(content: bytes) -> None:
    with rejected(Code.BAD_SCHEMA):
        schema_from_bytes(content)


@pytest.mark.parametrize("write", [schema_to_flatbuffer, lambda schema: schema.serialize().to_pybytes()])
def test_a_column_name_that_is_no_text_is_rejected(write: Callable[[pa.Schema], bytes]) -> None:
    content = write(pa.schema([pa.field("a name", pa.int64())])).replace(b"a name", b"a n\xffme")
    with pytest.raises(RejectedInput, match=Code.BAD_SCHEMA) as rejection:
        schema_from_bytes(content)
    assert "UTF-8" in rejection.value.detail


@pytest.mark.parametrize("name", DECLARED)
def test_every_declared_type_is_read_back_from_what_it_lands_as(name: str) -> None:
    (column,) = columns_of(pa.schema([pa.field("c", ColumnType.parse(name).arrow, nullable=False)]))
    assert (str(column.type), column.nullable) == (name, False)


def test_our_own_served_schema_gives_the_declared_columns_without_the_marker() -> None:
    declared = schema_of({"id": "int64", "name": "string"}, ["id"], required=["id"])
    assert columns_of(declared.file_schema(marker_first=True)) == declared.columns


@pytest.mark.parametrize("arrow", [pa.uint64(), pa.duration("ns"), pa.decimal256(50, 2)])
def test_an_arrow_type_without_a_declared_one_is_rejected_by_column(arrow: pa.DataType) -> None:
    with pytest.raises(RejectedInput, match="'odd'") as rejection:
        columns_of(pa.schema([pa.field("odd", arrow)]))
    assert rejection.value.code is Code.BAD_TYPE


@pytest.mark.parametrize("given", [of for _, of in TAKEN], ids=str)
def test_a_schema_takes_the_types_that_streams_take(given: pa.DataType) -> None:
    """What is declared by an Arrow schema takes a stream of that schema."""
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("value", given)])
    try:
        declared = columns_of(schema_from_bytes(schema.serialize().to_pybytes()))
    except RejectedInput as error:
        assert error.code is Code.BAD_TYPE
        assert given in {pa.uint64(), pa.null(), pa.decimal256(60, 30)}
    else:
        rules = RowRules(TableSchema.declare(declared, ("id",)))
        rows = snapshot_rows(decode_arrow_stream(stream(pa.table({"id": [1], "value": pa.nulls(1, given)}))), rules)
        assert rows.batch.num_rows == 1


def test_a_required_column_of_nulls_is_rejected_by_column() -> None:
    """Each byte in turn is set to the kind `null`: one of them is the column's type."""
    content = schema_to_flatbuffer(pa.schema([pa.field("odd", pa.int8(), nullable=False)]))
    details = []
    for at in range(len(content)):
        try:
            schema_from_bytes(content[:at] + b"\x01" + content[at + 1 :])
        except RejectedInput as error:
            details.append(error.detail)
    assert any("'odd' is null" in detail for detail in details)


def test_a_schema_may_come_with_metadata_of_any_size() -> None:
    """It is passed over; one text that is named 20,000 times would take gigabytes."""
    message = messages(repeated_metadata(20_000))[0]
    assert schema_from_bytes(message).names == ["id"]
    assert schema_from_bytes(message).metadata is None


def test_a_schema_of_too_many_fields_is_rejected() -> None:
    schema = pa.schema([pa.field(f"c{number}", pa.int8()) for number in range(20_000)])
    with pytest.raises(RejectedInput, match="fields") as rejection:
        schema_from_bytes(schema_to_flatbuffer(schema))
    assert rejection.value.code is Code.BAD_SCHEMA


@pytest.mark.parametrize(
    "of", [pa.decimal128(20, 2_000_000_000), pa.decimal128(20, -1), pa.list_view(pa.int8())], ids=str
)
def test_a_type_that_is_not_on_the_list_is_rejected_by_column(of: pa.DataType) -> None:
    with pytest.raises(RejectedInput, match="'odd'") as rejection:
        schema_from_bytes(pa.schema([pa.field("odd", of)]).serialize().to_pybytes())
    assert rejection.value.code is Code.BAD_TYPE


def test_consecutive_schemas_are_described_by_what_they_changed() -> None:
    bare = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.int16(), nullable=False)])
    marked = pa.schema([*bare, pa.field("__rowMarker__", pa.int32(), nullable=False)])
    wider = pa.schema([bare[0], pa.field("n", pa.int32()), pa.field("new", pa.string()), marked[2]])
    buffers = [schema_to_flatbuffer(schema) for schema in (bare, marked, wider)]
    found = [*described_schemas(buffers)]
    assert [event.changes for event in found] == [
        ["2 columns"],
        ["files have a row marker from here on"],
        ["added: new string", "changed: n int16 to int32", "became nullable: n"],
    ]
    assert found[2].columns == columns_of(wider)
    assert [*described_schemas(buffers[2:], buffers[1])] == found[2:]
    assert next(described_schemas([buffers[0]], buffers[2])).changes[0] == "removed: new"
