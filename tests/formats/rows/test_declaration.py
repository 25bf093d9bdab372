"""The table that a request of plain rows declares, by `columns` or by the schema of an Arrow stream."""

import pyarrow as pa
import pytest

from app.domain.model.table_schema import TableSchema
from app.formats.rows.declaration import Declaration, declaration_of, parse_declaration, parse_names
from mirrorgate.errors import Code
from tests.support.rejections import rejected
from tests.support.samples.schemas import schema_of


def listed(schema: TableSchema) -> list[str]:
    return [f"{column.name}:{column.type}{'' if column.nullable else '!'}" for column in schema.columns]


@pytest.mark.parametrize(
    ("columns", "keys", "expected"),
    [
        ("id:int64,name:string!", "id", ["id:int64!", "name:string!"]),
        (" id : int64 , total: decimal( 12 , 2 ) !", "id", ["id:int64!", "total:decimal(12,2)!"]),
        ('"a,b:c":string,"say ""x""":json, c d :date', '"a,b:c"', ["a,b:c:string!", 'say "x":json', "c d:date"]),
        ("at:timestamp", None, ["at:timestamp"]),
    ],
)
def test_columns_are_names_with_types_and_keys_are_required(
    columns: str, keys: str | None, expected: list[str]
) -> None:
    declared = parse_declaration(columns, keys)
    assert listed(declared.schema) == expected
    assert declared.key_columns == parse_names(keys)


@pytest.mark.parametrize(
    ("columns", "keys", "code"),
    [
        ("id", None, Code.BAD_REQUEST),
        ("id:int64,", None, Code.BAD_REQUEST),
        (":int64", None, Code.BAD_REQUEST),
        ("id:int64 name:string", None, Code.BAD_REQUEST),
        ('"id:int64', None, Code.BAD_REQUEST),
        ("id:int64", "id,", Code.BAD_REQUEST),
        ("id:bigint", None, Code.BAD_TYPE),
        ("id:decimal(50,2)", None, Code.BAD_TYPE),
        ("", None, Code.BAD_SCHEMA),
        ("id:int64", "key", Code.BAD_SCHEMA),
        ("id:int64,ID:string", None, Code.BAD_SCHEMA),
    ],
)
def test_what_declares_no_table_is_rejected(columns: str, keys: str | None, code: Code) -> None:
    with rejected(code):
        parse_declaration(columns, keys)


@pytest.mark.parametrize(
    "text", ["a" * 100_000, " " * 100_000, '"' * 100_000, "a:" + " " * 100_000, "a:int64" * 20_000]
)
def test_a_long_text_takes_a_short_time(text: str) -> None:
    with rejected():
        parse_declaration(text, None)


def test_a_declaration_adds_nullable_columns_and_keeps_the_others() -> None:
    declared = parse_declaration("id:int64,new:date!", "id")
    present = schema_of({"id": "int64", "name": "string", "gone": "string"}, ["id"], ["id"])
    assert not declared.is_met_by(present)
    assert listed(declared.added_to(present, frozenset({"gone"}))) == ["id:int64!", "name:string", "new:date"]
    assert declared.is_met_by(declared.added_to(present))
    assert declared.is_met_by(present, excluded=("new",))


def test_a_contradiction_names_what_is_declared_and_what_is_registered() -> None:
    present = schema_of({"id": "int64", "name": "string"}, ["id"])
    with rejected(Code.INCOMPATIBLE_SCHEMA) as rejection:
        parse_declaration("id:int64,name:json", "id").added_to(present)
    assert rejection.detail == "the request declares json, and the table has string, column name"
    for keys in ("name", "id, name"):
        with rejected() as rejection:
            parse_declaration("id:int64,name:string", keys).added_to(present)
        assert rejection.detail == f"the request declares the key columns {keys}, and the table has the key columns id"


def stream(**columns: pa.DataType) -> Declaration:
    return declaration_of([pa.field(name, of, name != "id") for name, of in columns.items()], ("id",))


def test_an_arrow_schema_declares_the_types_that_hold_all_its_values() -> None:
    declared = stream(
        id=pa.uint32(), a=pa.int8(), b=pa.float16(), c=pa.decimal256(38, 4), d=pa.date64(), e=pa.timestamp("ns", "UTC"),
        f=pa.large_string(), g=pa.binary(4), h=pa.bool_(), i=pa.timestamp("s"), j=pa.list_(pa.int8()),
    )  # fmt: skip
    assert listed(declared.schema) == [
        "id:int64!", "a:int16", "b:float32", "c:decimal(38,4)", "d:date", "e:timestamp", "f:string", "g:binary",
        "h:boolean", "i:timestamp", "j:json",
    ]  # fmt: skip
    assert declared.is_met_by(schema_of({"id": "int32", **dict.fromkeys("abcdefghij", "string")}, ["id"]))


@pytest.mark.parametrize("of", [pa.uint64(), pa.decimal256(39, 0)], ids=lambda of: str(of))
def test_an_arrow_type_that_no_column_type_holds_is_rejected(of: pa.DataType) -> None:
    with rejected(Code.BAD_TYPE) as rejection:
        stream(id=pa.int64(), x=of)
    assert rejection.detail.endswith(", column x")
