"""Arrow columns become snapshot rows exactly, or are rejected."""

import tracemalloc
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from app.domain.model.change import Operation
from app.domain.model.table_options import BinaryEncoding, OutOfRange, TableOptions
from app.domain.rows.from_arrow import ROWS_AT_ONCE, RowOperations, changed_rows, snapshot_rows, source_value
from app.domain.rows.landing_rows import landing_rows
from app.domain.rows.row_image import encode_image
from app.domain.rows.row_rules import RowRules
from mirrorgate.errors import Code, RejectedInput
from tests.fuzz.arrow_mutants import TAKEN
from tests.fuzz.decoders import TYPES
from tests.support.rejections import rejected
from tests.support.samples.changes import insert
from tests.support.samples.schemas import schema_of

COLUMNS = {"id": "int64", "name": "string", "total": "decimal(9,2)", "at": "timestamp", "day": "date", "small": "int16"}
SCHEMA = schema_of(COLUMNS, ["id"])
RULES = RowRules(SCHEMA)
FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def table(**columns: pa.Array) -> pa.Table:
    return pa.table({"id": pa.array([1, 2]), **columns})


def test_columns_in_any_order_land_as_inserts_and_absent_nullable_ones_as_null() -> None:
    given = pa.table({"name": pa.array(["a", None]), "id": pa.array([1, 2])})
    rows = snapshot_rows(given, RULES)
    assert rows.batch.schema == SCHEMA.arrow
    empty = {"total": None, "at": None, "day": None, "small": None, "__rowMarker__": 0}
    assert rows.batch.to_pylist() == [{"id": 1, "name": "a", **empty}, {"id": 2, "name": None, **empty}]
    assert (rows.changes, rows.has_snapshots, rows.starts_cdc) == (2, True, False)


@pytest.mark.parametrize(
    ("name", "given", "landed"),
    [
        ("id", pa.array([1, 2], pa.uint8()), [1, 2]),
        ("name", pa.array(["a", "b"], pa.large_string()), ["a", "b"]),
        ("total", pa.array([Decimal("1.5"), None], pa.decimal128(4, 1)), [Decimal("1.50"), None]),
        ("at", pa.array([NOON, None], pa.timestamp("s", "Europe/Paris")), [NOON, None]),
        ("at", pa.array([NOON, None], pa.timestamp("ns", "UTC")), [NOON, None]),
        ("day", pa.array([date(2026, 1, 2), None], pa.date64()), [date(2026, 1, 2), None]),
        ("total", pa.array([Decimal("1.5"), None], pa.decimal32(4, 1)), [Decimal("1.50"), None]),
        ("total", pa.array([Decimal("1.5"), None], pa.decimal256(60, 30)), [Decimal("1.50"), None]),
        ("name", pa.nulls(2), [None, None]),
        ("total", pa.nulls(2), [None, None]),
    ],
)
def test_narrower_types_of_the_same_kind_are_taken(name: str, given: pa.Array, landed: list[Any]) -> None:
    assert snapshot_rows(table(**{name: given}), RULES).batch.column(name).to_pylist() == landed


@pytest.mark.parametrize(
    ("columns", "code", "places"),
    [
        ({"id": pa.array(["1", "2"])}, Code.SCHEMA_MISMATCH, [(None, "id")]),
        ({"id": pa.array([1, None])}, Code.NULL_KEY, [(1, "id")]),
        ({"id": pa.array([1, 2**63], pa.uint64())}, Code.BAD_VALUE, [(1, "id")]),
        ({"other": pa.array([1, 2])}, Code.UNKNOWN_COLUMN, [(None, "other")]),
        ({"total": pa.array([Decimal("1.555"), None])}, Code.BAD_VALUE, [(0, "total")]),
        ({"total": pa.array([Decimal(0), Decimal(10**50)], pa.decimal256(60, 0))}, Code.BAD_VALUE, [(1, "total")]),
        ({"small": pa.array([2**15, -(2**15) - 1])}, Code.BAD_VALUE, [(0, "small"), (1, "small")]),
        ({"at": pa.array([1_000, 1_001], pa.timestamp("ns"))}, Code.BAD_VALUE, [(1, "at")]),
        ({"at": pa.array([2**63 - 1, None], pa.timestamp("s", "UTC"))}, Code.BAD_VALUE, [(0, "at")]),
        ({"total": pa.array([1.5, 2.5])}, Code.SCHEMA_MISMATCH, [(None, "total")]),
        ({"at": pa.array([[1], [2]])}, Code.SCHEMA_MISMATCH, [(None, "at")]),
        ({"at": pa.array([0, 2**62], pa.timestamp("us", "UTC"))}, Code.BAD_VALUE, [(1, "at")]),
        ({"day": pa.array([0, 2**30], pa.date32())}, Code.BAD_VALUE, [(1, "day")]),
        ({"name": pa.array(["a", "b\0"])}, Code.BAD_VALUE, [(1, "name")]),
        ({"id": pa.nulls(2)}, Code.NULL_KEY, [(None, "id")]),
    ],
)
def test_what_does_not_fit_is_named_by_column_and_row(
    columns: dict[str, pa.Array], code: Code, places: list[tuple[int | None, str]]
) -> None:
    with rejected() as rejection:
        snapshot_rows(table(**columns), RULES)
    assert [(code, row, column) for code, row, _, column in rejection.places] == [
        (code, row, column) for row, column in places
    ]


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_a_moment_beyond_the_calendar_names_the_option_for_it(unit: str, zone: str | None) -> None:
    with rejected(Code.BAD_VALUE) as rejection:
        snapshot_rows(table(at=pa.array([None, 2**63 - 1], pa.timestamp(unit, zone))), RULES)
    assert "out_of_range" in rejection.detail


def test_a_null_is_named_beside_a_value_that_does_not_fit() -> None:
    given = pa.table({"id": pa.array([None, 2**63], pa.uint64()), "small": pa.array([2**20, None])})
    rules = RowRules(schema_of({"id": "int64", "small": "int16"}, ["id"], required=["id", "small"]))
    inserts = RowOperations([Operation.INSERT], pa.array([0, 0], pa.int32()))
    for read in (lambda: snapshot_rows(given, rules), lambda: changed_rows(given, inserts, rules)):
        with rejected() as rejection:
            read()
        assert [(code, row, column) for code, row, _, column in rejection.places] == [
            (Code.NULL_KEY, 0, "id"),
            (Code.BAD_VALUE, 0, "small"),
            (Code.BAD_VALUE, 1, "id"),
            (Code.NULL_VALUE, 1, "small"),
        ]


def test_up_to_100_of_many_wrong_values_are_named() -> None:
    given = pa.chunked_array([pa.array([1, None, 2**40] * 1_000), pa.array([5] * 5_000)])
    with rejected(Code.BAD_VALUE) as rejection:
        snapshot_rows(pa.table({"id": range(8_000), "small": given}), RULES)
    assert [row for _, row, _, _ in rejection.places] == [*range(2, 300, 3)]


LAST_MICROSECOND = (datetime.max - datetime(1970, 1, 1)) // timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("name", "counts", "given", "landed"),
    [
        ("day", [2**30, -(2**30)], pa.date32(), [date.max, date.min]),
        ("day", [-2_147_472_692, -2_147_472_691], pa.date32(), [date.max, date.min]),
        ("day", [2**30 * 86_400_000, None], pa.date64(), [date.max, None]),
        ("at", [2**62, -(2**62)], pa.timestamp("s", "UTC"), [LAST, FIRST]),
        ("at", [2**62, -(2**62)], pa.timestamp("ms", "UTC"), [LAST, FIRST]),
        ("at", [LAST_MICROSECOND, LAST_MICROSECOND + 1], pa.timestamp("us", "UTC"), [LAST, LAST]),
        ("at", [None, -(2**62)], pa.timestamp("us", "UTC"), [None, FIRST]),
        (
            "at",
            [0, 2**63 - 808],
            pa.timestamp("ns", "UTC"),
            [EPOCH, datetime(2262, 4, 11, 23, 47, 16, 854775, tzinfo=UTC)],
        ),
    ],
)
def test_days_and_moments_beyond_the_calendar_land_as_its_bounds_if_the_table_says_so(
    name: str, counts: list[int | None], given: pa.DataType, landed: list[Any]
) -> None:
    saturating = replace(RULES, options=TableOptions(out_of_range=OutOfRange.SATURATE))
    array = pa.array(counts, pa.int32() if given == pa.date32() else pa.int64()).view(given)
    assert snapshot_rows(table(**{name: array}), saturating).batch.column(name).to_pylist() == landed


def test_a_wrong_column_is_rejected_before_anything_is_made_of_the_rows() -> None:
    """No room is asked for: not for the columns that are absent either."""
    asked: list[int] = []
    for wrong in ({"id": pa.nulls(2)}, {"id": pa.array(["1", "2"])}, {"other": pa.array([1, 2])}):
        with rejected():
            snapshot_rows(table(**wrong), RULES, reserve=asked.append)
    assert not asked


def test_a_wrong_value_precedes_the_missing_columns_of_its_row() -> None:
    rules = RowRules(schema_of({"id": "int64", "name": "string", "day": "date"}, ["id"], required=["id", "name"]))
    given = pa.table({"id": pa.array([1, 2]), "day": pa.array([-800_000, 0], pa.int32()).cast(pa.date32())})
    with rejected() as rejection:
        snapshot_rows(given, rules)
    assert [place[0] for place in rejection.places] == [Code.BAD_VALUE, Code.INCOMPLETE_INSERT]


def test_rows_are_counted_with_the_columns_that_they_do_not_give() -> None:
    wide = RowRules(schema_of({"id": "int64", **{f"c{number}": "int64" for number in range(100)}}, ["id"]))
    asked: list[int] = []
    rows = snapshot_rows(pa.table({"id": range(1_000)}), wide, reserve=asked.append)
    assert asked[0] >= rows.batch.nbytes >= 1_000 * 101 * 8


def test_rows_for_which_there_is_no_room_are_not_made() -> None:
    def reserve(size: int) -> None:
        raise RejectedInput(Code.BODY_TOO_LARGE, f"{size}")

    nothing = pa.table({"id": pa.nulls(10**9), "name": pa.nulls(10**9)})
    keyless = RowRules(schema_of({"id": "int64", "name": "string", "note": "string"}))
    with rejected(Code.BODY_TOO_LARGE) as rejection:
        snapshot_rows(nothing, keyless, reserve=reserve)
    assert int(rejection.detail) > 10**10


@pytest.mark.parametrize("value", [1e39, -1e300, 1e-50])
def test_a_double_beyond_float32_is_rejected(value: float) -> None:
    rules = RowRules(schema_of({"id": "int64", "ratio": "float32"}, ["id"]))
    with rejected() as rejection:
        snapshot_rows(table(ratio=pa.array([0.1, value])), rules)
    assert [(code, row, column) for code, row, _, column in rejection.places] == [(Code.BAD_VALUE, 1, "ratio")]
    fits = [float("inf"), 0.0]
    assert snapshot_rows(table(ratio=pa.array(fits)), rules).batch.column("ratio").to_pylist() == fits


def test_a_column_of_another_type_is_told_to_take_the_tables() -> None:
    with rejected(Code.SCHEMA_MISMATCH) as rejection:
        snapshot_rows(table(name=pa.array([1, 2])), RULES)
    assert "metadata (MD)" not in rejection.text
    assert "/schema" in rejection.text


@pytest.mark.parametrize("declared", [str(of) for of in TYPES])
def test_every_arrow_type_lands_or_is_rejected_as_a_declared_one(declared: str) -> None:
    """No type reaches a cast that Arrow does not have."""
    rules = RowRules(schema_of({"id": "int64", "value": declared}, ["id"]))
    for _, given in TAKEN:
        try:
            rows = snapshot_rows(table(value=pa.nulls(2, given)), rules)
        except RejectedInput as error:
            assert error.code is Code.SCHEMA_MISMATCH
        else:
            assert rows.batch.column("value").to_pylist() == [None, None]


def test_a_required_column_must_be_given() -> None:
    with rejected() as rejection:
        snapshot_rows(pa.table({"name": pa.array(["a"])}), RULES)
    assert [(code, column) for code, _, _, column in rejection.places] == [(Code.INCOMPLETE_INSERT, "id")]


def test_json_columns_hold_json() -> None:
    rules = RowRules(schema_of({"id": "int64", "document": "json"}, ["id"]))
    assert snapshot_rows(table(document=pa.array(["{}", None])), rules).batch.column("document").to_pylist() == [
        "{}",
        None,
    ]
    with rejected() as rejection:
        snapshot_rows(table(document=pa.array(["{}", "{"])), rules)
    assert [(code, row) for code, row, _, _ in rejection.places] == [(Code.BAD_VALUE, 1)]


@pytest.mark.parametrize(("reload", "marker"), [("reject", None), ("upsert", 4)])
def test_rows_after_the_first_changes_are_upserts_or_rejected(reload: str, marker: int | None) -> None:
    rules = RowRules(SCHEMA, TableOptions.parse({"reload": reload}), cdc_started=True)
    if marker is None:
        with rejected(Code.RELOAD_REQUIRES_RECREATE):
            snapshot_rows(table(), rules)
    else:
        assert snapshot_rows(table(), rules).batch.column("__rowMarker__").to_pylist() == [marker, marker]


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        ("boolean", True),
        ("int16", -7),
        ("float64", 1e300),
        ("float64", float("-inf")),
        ("decimal(38,4)", Decimal("123.4500")),
        ("date", date(1, 1, 1)),
        ("timestamp", datetime(1, 2, 3, 4, 5, 6, 7, UTC)),
        ("timestamp", NOON),
        ("string", "null"),
        ("binary", b"\x00\xff"),
        ("json", '{"a": [1]}'),
    ],
)
@pytest.mark.parametrize("encoding", ["hex", "base64"])
def test_a_row_image_of_a_loaded_row_reads_as_the_row_that_landed(declared: str, value: Any, encoding: str) -> None:
    schema = schema_of({"id": "int64", "value": declared}, ["id"])
    options = TableOptions.parse({"partial_updates": "complete", "binary_encoding": encoding})
    given = pa.table({"id": pa.array([1]), "value": pa.array([value], schema.columns[1].type.arrow)})
    loaded = snapshot_rows(given, RowRules(schema, options))
    as_source = insert({"id": 1, "value": source_value(value, BinaryEncoding(encoding))})
    changed = landing_rows([as_source], RowRules(schema, options))
    assert changed.batch == loaded.batch
    assert loaded.images
    assert changed.images
    assert changed.images.keys == loaded.images.keys
    assert changed.images.images == loaded.images.images


def test_row_images_of_a_load_take_little_more_than_themselves() -> None:
    """Rows become values of Python's a slice at a time, not all of them at once."""
    columns = {f"c{number}": "int16" for number in range(50)}
    rules = RowRules(schema_of(columns, ["c0"]), TableOptions.parse({"partial_updates": "complete"}))
    rows = 8 * ROWS_AT_ONCE + 1
    given = pa.table({name: pa.array(range(1_000, 1_000 + rows), pa.int16()) for name in columns})
    tracemalloc.start()
    try:
        images = snapshot_rows(given, rules).images
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert images is not None
    assert len(images.images) == rows
    assert images.images[-1] == encode_image([1_000 + rows - 1] * len(columns))
    assert peak < 5 * sum(len(image or b"") for image in images.images)
