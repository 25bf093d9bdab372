"""Schemas and options of tables."""

import subprocess
import sys

import pyarrow as pa
import pytest

from app.domain.model.table_schema import Column, ColumnType, TableSchema, evolve, row_marker_field
from mirrorgate.errors import Code
from tests.project.facts import REPOSITORY
from tests.support.rejections import rejected
from tests.support.samples.schemas import schema_of

ARROW_TYPES = {
    "boolean": pa.bool_(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "decimal(1,0)": pa.decimal128(1, 0),
    "decimal(12,2)": pa.decimal128(12, 2),
    "decimal(38,38)": pa.decimal128(38, 38),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "string": pa.string(),
    "binary": pa.binary(),
    "json": pa.string(),
}


@pytest.mark.parametrize("text", ARROW_TYPES)
def test_a_declared_type_has_one_spelling_and_one_arrow_type(text: str) -> None:
    column_type = ColumnType.parse(text)
    assert str(column_type) == text
    assert column_type.arrow == ARROW_TYPES[text]


def test_a_blank_after_the_comma_of_a_decimal_is_no_other_type() -> None:
    assert ColumnType.parse("decimal(12, 2)") == ColumnType.parse("decimal(12,2)")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "int",
        "INT64",
        "int64 ",
        "varchar(10)",
        "decimal",
        "decimal()",
        "decimal(12)",
        "decimal(0,0)",
        "decimal(39,0)",
        "decimal(4,5)",
        "decimal(-1,0)",
        "decimal(4,-1)",
        "decimal(100,2)",
        "decimal(١٢,2)",
        "timestamp(6)",
    ],
)
def test_any_other_type_is_rejected(text: str) -> None:
    with rejected(Code.BAD_TYPE):
        ColumnType.parse(text)


def test_the_row_marker_is_the_last_field_and_only_it_and_keys_are_required_in_a_file() -> None:
    schema = schema_of({"name": "string", "id": "int64", "total": "decimal(9,2)"}, ["id"], required=["name"])
    assert schema.arrow == pa.schema(
        [
            pa.field("name", pa.string()),
            pa.field("id", pa.int64(), nullable=False),
            pa.field("total", pa.decimal128(9, 2)),
            pa.field("__rowMarker__", pa.int32(), nullable=False),
        ]
    )
    assert schema.arrow.field(3) == row_marker_field()


def test_keys_keep_their_own_order() -> None:
    assert schema_of({"a": "int64", "b": "int64"}, ["b", "a"]).key_columns == ("b", "a")


@pytest.mark.parametrize(
    ("names", "keys", "code"),
    [
        ([], [], Code.BAD_SCHEMA),
        (["a", "a"], [], Code.BAD_SCHEMA),
        (["a", "A"], [], Code.BAD_SCHEMA),
        (["straße", "STRASSE"], [], Code.BAD_SCHEMA),
        (["a"], ["b"], Code.BAD_SCHEMA),
        (["a"], ["A"], Code.BAD_SCHEMA),
        (["a"], ["a", "a"], Code.BAD_SCHEMA),
        ([""], [], Code.BAD_NAME),
        (["__RowMarker__"], [], Code.RESERVED_NAME),
    ],
)
def test_columns_and_keys_that_make_no_table_are_rejected(names: list[str], keys: list[str], code: Code) -> None:
    with rejected() as rejection:
        TableSchema.declare(tuple(Column(name, ColumnType.parse("string")) for name in names), tuple(keys))
    assert rejection.code == code


KEYED = schema_of({"id": "int64", "name": "string", "total": "decimal(9,2)"}, ["id"], required=["id"])
KEYLESS = schema_of({"id": "int64", "name": "string"})


@pytest.mark.parametrize(
    "wanted",
    [
        KEYED,
        schema_of({"total": "decimal(9,2)", "name": "string", "id": "int64"}, ["id"], required=["id"]),
        schema_of({"id": "int64", "name": "string"}, ["id"], required=["id"]),
        schema_of({"id": "int64"}, ["id"], required=["id"]),
    ],
    ids=["the same", "another order", "without a nullable column", "without any nullable column"],
)
def test_nothing_changes_when_nothing_is_added(wanted: TableSchema) -> None:
    assert evolve(KEYED, wanted) == KEYED


def test_new_nullable_columns_go_to_the_end_in_their_own_order() -> None:
    wanted = schema_of({"new": "date", "id": "int64", "newer": "json", "name": "string"}, ["id"], required=["id"])
    assert evolve(KEYED, wanted).names == ("id", "name", "total", "new", "newer")


def test_a_keyless_table_gains_keys_and_columns_at_once() -> None:
    evolved = evolve(KEYLESS, schema_of({"id": "int64", "name": "string", "day": "date"}, ["id"]))
    assert evolved.key_columns == ("id",)
    assert evolved.names == ("id", "name", "day")


def test_a_keyless_table_gains_keys_only_once() -> None:
    once = evolve(KEYLESS, schema_of({"id": "int64", "name": "string"}, ["id"]))
    with rejected(Code.INCOMPATIBLE_SCHEMA):
        evolve(once, schema_of({"id": "int64", "name": "string"}, ["id", "name"]))


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param(schema_of({"id": "int32", "name": "string"}, ["id"], required=["id"]), id="narrower type"),
        pytest.param(
            schema_of({"id": "int64", "total": "decimal(10,2)"}, ["id"], required=["id"]), id="other precision"
        ),
        pytest.param(schema_of({"id": "int64", "total": "decimal(9,3)"}, ["id"], required=["id"]), id="other scale"),
        pytest.param(schema_of({"id": "int64", "name": "json"}, ["id"], required=["id"]), id="string as json"),
        pytest.param(schema_of({"name": "string"}), id="required column left out"),
        pytest.param(schema_of({"name": "string"}, ["name"]), id="key left out"),
        pytest.param(schema_of({"id": "int64", "name": "string"}, ["name"], required=["id"]), id="other key"),
        pytest.param(schema_of({"id": "int64", "name": "string"}, ["id", "name"], required=["id"]), id="more keys"),
        pytest.param(schema_of({"id": "int64"}, required=["id"]), id="no keys"),
        pytest.param(schema_of({"id": "int64"}, ["id"]), id="required becomes nullable"),
        pytest.param(
            schema_of({"id": "int64", "name": "string"}, ["id"], required=["id", "name"]),
            id="nullable becomes required",
        ),
        pytest.param(
            schema_of({"id": "int64", "new": "string"}, ["id"], required=["id", "new"]), id="new required column"
        ),
    ],
)
def test_a_change_of_type_key_or_need_is_rejected(wanted: TableSchema) -> None:
    with rejected(Code.INCOMPATIBLE_SCHEMA):
        evolve(KEYED, wanted)


def test_a_required_column_may_become_nullable_unless_it_is_a_key() -> None:
    required = schema_of({"id": "int64", "name": "string"}, ["id"], required=["id", "name"])
    relaxed = schema_of({"id": "int64", "name": "string"}, ["id"], required=["id"])
    assert evolve(required, relaxed) == relaxed
    assert evolve(required, relaxed).file_schema(marker_first=True) == required.file_schema(marker_first=True)
    with rejected(Code.INCOMPATIBLE_SCHEMA):
        evolve(required, schema_of({"id": "int64", "name": "string"}, ["id"], required=["name"]))


def test_a_new_column_that_differs_only_in_case_is_rejected() -> None:
    with rejected(Code.BAD_SCHEMA):
        evolve(KEYED, schema_of({"id": "int64", "NAME": "string"}, ["id"], required=["id"]))


def test_evolving_twice_to_the_same_schema_changes_nothing_more() -> None:
    wanted = schema_of({"id": "int64", "new": "date"}, ["id"], required=["id"])
    evolved = evolve(KEYED, wanted)
    assert evolve(evolved, wanted) == evolved


READ_AT_ONCE = """
import sys, threading, msgspec
from app.domain.model.table_options import TableOptions
assert "__msgspec_cache__" in vars(TableOptions), "the first threads that read options would crash the process"
sys.setswitchinterval(1e-6)
together = threading.Barrier(8)
def read():
    together.wait()
    assert msgspec.convert({"columns": {}}, TableOptions) == TableOptions()
threads = [threading.Thread(target=read) for _ in range(8)]
for step in (threading.Thread.start, threading.Thread.join):
    for thread in threads:
        step(thread)
"""


def test_threads_that_read_the_options_of_tables_first_at_the_same_time_do_not_crash_the_process() -> None:
    ran = subprocess.run([sys.executable, "-c", READ_AT_ONCE], cwd=REPOSITORY, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
