"""Arrow schemas as raw flatbuffers, read and written, and what no declared type can hold."""

from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.arrow_flatbuffer import columns_of, schema_from_bytes, schema_to_flatbuffer
from app.domain.table_schema import ColumnType
from app.errors import Code, RejectedInput
from tests.support.schemas import schema_of

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
def test_bytes_that_are_no_schema_are_refused_with_a_code(content: bytes) -> None:
    with pytest.raises(RejectedInput) as refusal:
        schema_from_bytes(content)
    assert refusal.value.code is Code.BAD_SCHEMA


@pytest.mark.parametrize("write", [schema_to_flatbuffer, lambda schema: schema.serialize().to_pybytes()])
def test_a_column_name_that_is_no_text_is_refused(write: Callable[[pa.Schema], bytes]) -> None:
    content = write(pa.schema([pa.field("a name", pa.int64())])).replace(b"a name", b"a n\xffme")
    with pytest.raises(RejectedInput) as refusal:
        schema_from_bytes(content)
    assert refusal.value.code is Code.BAD_SCHEMA
    assert "UTF-8" in refusal.value.detail


@pytest.mark.parametrize("name", DECLARED)
def test_every_declared_type_is_read_back_from_what_it_lands_as(name: str) -> None:
    (column,) = columns_of(pa.schema([pa.field("c", ColumnType.parse(name).arrow, nullable=False)]))
    assert (str(column.type), column.nullable) == (name, False)


def test_our_own_served_schema_gives_the_declared_columns_without_the_marker() -> None:
    declared = schema_of({"id": "int64", "name": "string"}, ["id"], required=["id"])
    assert columns_of(declared.file_schema(marker_first=True)) == declared.columns


@pytest.mark.parametrize("arrow", [pa.uint64(), pa.timestamp("ns"), pa.list_(pa.int8()), pa.decimal256(50, 2)])
def test_an_arrow_type_without_a_declared_one_is_refused_by_column(arrow: pa.DataType) -> None:
    with pytest.raises(RejectedInput, match="'odd'") as refusal:
        columns_of(pa.schema([pa.field("odd", arrow)]))
    assert refusal.value.code is Code.BAD_TYPE
