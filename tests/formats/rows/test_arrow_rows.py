"""Rows in Arrow streams, and the declaration of the columns of rows."""

import json
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.model.table_options import OutOfRange, PartialUpdates, TableOptions
from app.domain.model.table_schema import TableSchema
from app.domain.rows.from_arrow import changed_rows
from app.domain.rows.landing_rows import LandingRows
from app.domain.rows.row_rules import RowRules
from app.formats.rows.columnar import split_operations
from app.formats.rows.declaration import Declaration, declaration_of, parse_declaration, parse_names
from mirrorgate.errors import Code, RejectedInput
from mirrorgate.parameters import RowOperation
from tests.fuzz.decoders import ROWS_RULES, exact_rows
from tests.support.rejections import rejected
from tests.support.samples.schemas import schema_of

TYPES: Final = {
    "id": pa.int32(),
    "amount": pa.decimal64(9, 2),
    "name": pa.large_string(),
    "doc": pa.string(),
    "other": pa.int64(),
}
VALUES: Final = {
    "id": st.sampled_from([1, 2, 3]) | st.just(None),
    "amount": st.none() | st.decimals(-999, 999, places=2).map(lambda value: value.quantize(Decimal("0.01"))),
    "name": st.sampled_from(["", "null", "ä", None]),
    "doc": st.sampled_from([None, "{}", "[1, 2]", "no json"]),
    "other": st.just(1),
}
OPERATIONS = st.sampled_from(["upsert", "Insert", "UPDATE", "delete", "d", "R", "i", "U", None, None, "x"])


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Draw rows that all give the same columns, and at times an operation each."""
    names = draw(
        st.just(["id", "amount", "name", "doc"]) | st.lists(st.sampled_from([*TYPES]), unique=True, min_size=1)
    )
    rows = draw(st.integers(1, 6))
    columns = {
        name: pa.array([draw(VALUES[name]) for _ in range(rows)], TYPES[name])
        if draw(st.integers(0, 9))
        else pa.nulls(rows)
        for name in names
    }
    if draw(st.booleans()):
        columns["__op__"] = pa.array([draw(OPERATIONS) for _ in range(rows)], pa.string())
    return pa.table(columns)


def arrow_rows(given_rows: pa.Table, operation: RowOperation, rules: RowRules) -> LandingRows:
    values, operations = split_operations(given_rows, operation)
    return changed_rows(values, operations, rules)


def in_json(given_rows: pa.Table) -> bytes:
    """Return the rows as JSON, decimals as texts and JSON as it is written."""
    return json.dumps(given_rows.to_pylist(), default=str).encode()


def outcome(rows: LandingRows) -> dict[str, Any]:
    """Return what lands, with images as what they know: one side has values as texts, the other typed ones."""
    images = None
    if rows.images is not None:
        known = [
            None if image is None else _texts(json.loads(image, parse_float=Decimal)) for image in rows.images.images
        ]
        incomplete = {
            row: (entry.missing, [*entry.unknown], entry.message, entry.pointer)
            for row, entry in rows.images.incomplete.items()
        }
        images = ([*rows.images.keys], known, incomplete, [*rows.images.inserts])
    return {"rows": rows.batch.to_pylist(), "images": images, "facts": replace(rows, batch=None, images=None)}


def _texts(image: Any) -> Any:
    if isinstance(image, dict):
        return {at: _texts([value])[0] for at, value in image.items()}
    return [None if value is None else str(Decimal(str(value))) if _is_number(value) else value for value in image]


def _is_number(value: Any) -> bool:
    return str(value).lstrip("-").replace(".", "", 1).isdecimal()


def codes(read: Any) -> tuple[dict[str, Any] | None, set[tuple[str, int, str | None]]]:
    """Return what lands, or the codes with their rows and columns."""
    try:
        return outcome(read()), set()
    except RejectedInput as error:
        return None, {(problem.code, problem.index or 0, problem.column) for problem in error.problems}


@given(tables(), st.sampled_from(RowOperation), st.sampled_from(ROWS_RULES))
def test_columns_give_the_rows_and_the_rejections_of_json(
    given_rows: pa.Table, operation: RowOperation, rules: RowRules
) -> None:
    found, problems = codes(lambda: arrow_rows(given_rows, operation, rules))
    expected, all_problems = codes(lambda: exact_rows(in_json(given_rows), operation, rules))
    assert found == expected
    assert problems <= all_problems, "the columnar side may stop at the columns that no row gives"
    assert bool(problems) == bool(all_problems)


@pytest.mark.parametrize(
    "of",
    [
        *(pa.int8(), pa.uint64(), pa.float16(), pa.float64(), pa.bool_(), pa.date32(), pa.date64(), pa.binary(3)),
        *(pa.decimal32(5, 1), pa.decimal64(9, 2), pa.decimal128(20, 3), pa.decimal256(38, 9), pa.large_binary()),
        *(pa.timestamp("s", "UTC"), pa.timestamp("ns", "UTC"), pa.string(), pa.large_string(), pa.binary()),
    ],
    ids=str,
)
def test_a_delete_uses_the_key_whatever_the_other_columns_have(of: pa.DataType) -> None:
    wanted = "int64" if pa.types.is_integer(of) else "float64" if pa.types.is_floating(of) else "boolean"
    wanted = "binary" if "binary" in str(of) else "string" if "string" in str(of) else wanted
    wanted = "date" if pa.types.is_date(of) else "timestamp" if pa.types.is_timestamp(of) else wanted
    wanted = "decimal(38,9)" if pa.types.is_decimal(of) else wanted
    rules = RowRules(schema_of({"id": "int64", "value": wanted}, ["id"], ["id", "value"]))
    values = pa.array([None] * 3, of)
    given_rows = pa.table({"id": [1, 2, 3], "value": values, "__op__": ["delete", "D", "delete"]})
    assert arrow_rows(given_rows, RowOperation.UPSERT, rules).batch.to_pylist() == [
        {"id": key, "value": None, "__rowMarker__": 2} for key in (1, 2, 3)
    ]
    mixed = given_rows.set_column(2, "__op__", pa.array(["delete", "upsert", "delete"]))
    with rejected(Code.NULL_VALUE):
        arrow_rows(mixed, RowOperation.UPSERT, rules)


def test_a_wrong_value_precedes_the_missing_columns_of_its_row_as_in_json() -> None:
    rules = RowRules(schema_of({"id": "int64", "doc": "json", "other": "int64"}, ["id"]))
    given_rows = pa.table({"id": [1, 2], "doc": ["no json", "{}"]})
    found: list[Any] = []
    for read in (
        lambda: arrow_rows(given_rows, RowOperation.UPSERT, rules),
        lambda: exact_rows(in_json(given_rows), RowOperation.UPSERT, rules),
    ):
        with rejected() as rejection:
            read()
        found.append([(code, column) for code, index, _, column in rejection.places if not index])
    assert found == [[(Code.BAD_VALUE, "doc"), (Code.INCOMPLETE_UPDATE, "other")]] * 2


def test_a_bad_value_in_a_deleted_row_does_not_count() -> None:
    rules = RowRules(schema_of({"id": "int64", "small": "int16"}, ["id"], ["id"]))
    given_rows = pa.table({"id": [1, 2], "small": [100_000, 7], "__op__": ["d", None]})
    assert [row["small"] for row in arrow_rows(given_rows, RowOperation.UPSERT, rules).batch.to_pylist()] == [None, 7]


def test_the_operation_is_a_text_column() -> None:
    with rejected(Code.SCHEMA_MISMATCH):
        split_operations(pa.table({"id": [1], "__op__": [1]}), RowOperation.UPSERT)


def test_inserts_that_omit_a_column_leave_it_unknown_in_their_images() -> None:
    schema = schema_of({"id": "int64", "name": "string"}, ["id"], ["id"])
    rules = RowRules(schema, TableOptions(partial_updates=PartialUpdates.COMPLETE))
    rows = arrow_rows(pa.table({"id": [1]}), RowOperation.INSERT, rules)
    assert rows.images.images == [b'{"-1":2,"0":1}']


LOCAL_TIMES: Final = (
    "2026-07-01 12:00:00",
    "2026-10-25 02:30:00",
    "2026-03-29 02:30:00",
    "2050-07-01 12:00:00",
    "0001-01-01 00:00:00",
)


@given(
    st.lists(st.none() | st.sampled_from(LOCAL_TIMES), min_size=1, max_size=5),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York"]),
    st.sampled_from(["s", "ms", "us"]),
    st.sampled_from(OutOfRange),
)
def test_arrow_schema_can_represent_types_more_accurately_such_as_timezones(
    texts: list[str | None], zone: str, unit: str, out_of_range: OutOfRange
) -> None:
    """A timestamp without a zone is in `source_timezone`; skipped and repeated times are as in JSON."""
    options = TableOptions(source_timezone=zone, out_of_range=out_of_range)
    rules = RowRules(schema_of({"id": "int64", "at": "timestamp"}, ["id"]), options)
    moments = pa.array([None if text is None else datetime.fromisoformat(text) for text in texts], pa.timestamp(unit))
    found, problems = codes(
        lambda: arrow_rows(pa.table({"id": range(len(texts)), "at": moments}), RowOperation.UPSERT, rules)
    )
    body = json.dumps([{"id": row, "at": text} for row, text in enumerate(texts)]).encode()
    assert (found, problems) == codes(lambda: exact_rows(body, RowOperation.UPSERT, rules))


def test_nanoseconds_without_a_zone_are_not_cut() -> None:
    rules = RowRules(schema_of({"id": "int64", "at": "timestamp"}, ["id"]))
    with rejected(Code.BAD_VALUE):
        arrow_rows(pa.table({"id": [1], "at": pa.array([1], pa.timestamp("ns"))}), RowOperation.UPSERT, rules)


def test_a_local_time_beyond_the_calendar_saturates() -> None:
    rules = RowRules(
        schema_of({"id": "int64", "at": "timestamp"}, ["id"]), TableOptions(out_of_range=OutOfRange.SATURATE)
    )
    table = pa.table({"id": [1, 2], "at": pa.array([-(2**60), 2**60], pa.timestamp("s"))})
    landed = arrow_rows(table, RowOperation.UPSERT, rules).batch.column("at").to_pylist()
    assert [moment.year for moment in landed] == [1, 9999]


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
