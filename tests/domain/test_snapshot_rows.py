"""Arrow columns become snapshot rows of their table, exactly or not at all."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from app.domain.landing_rows import RowRules, landing_rows
from app.domain.snapshot_rows import snapshot_rows, source_value
from app.domain.table_options import BinaryEncoding, TableOptions
from app.errors import Code
from tests.support.changes import insert
from tests.support.refusals import refused
from tests.support.schemas import schema_of

SCHEMA = schema_of({"id": "int64", "name": "string", "total": "decimal(9,2)", "at": "timestamp", "day": "date"}, ["id"])
RULES = RowRules(SCHEMA)
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def batch(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": pa.array([1, 2]), **columns})


def test_columns_in_any_order_land_as_inserts_and_absent_nullable_ones_as_null() -> None:
    given = pa.RecordBatch.from_pydict({"name": pa.array(["a", None]), "id": pa.array([1, 2])})
    rows = snapshot_rows(given, RULES)
    assert rows.batch.schema == SCHEMA.arrow
    empty = {"total": None, "at": None, "day": None, "__rowMarker__": 0}
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
    ],
)
def test_narrower_types_of_the_same_kind_are_taken(name: str, given: pa.Array, landed: list[Any]) -> None:
    assert snapshot_rows(batch(**{name: given}), RULES).batch.column(name).to_pylist() == landed


@pytest.mark.parametrize(
    ("columns", "code", "places"),
    [
        ({"id": pa.array(["1", "2"])}, Code.SCHEMA_MISMATCH, [(None, "id")]),
        ({"id": pa.array([1, None])}, Code.NULL_KEY, [(1, "id")]),
        ({"id": pa.array([1, 2**63], pa.uint64())}, Code.BAD_VALUE, [(None, "id")]),
        ({"other": pa.array([1, 2])}, Code.UNKNOWN_COLUMN, [(None, "other")]),
        ({"total": pa.array([Decimal("1.555"), None])}, Code.BAD_VALUE, [(None, "total")]),
        ({"total": pa.array([1.5, 2.5])}, Code.SCHEMA_MISMATCH, [(None, "total")]),
        ({"at": pa.array([NOON.replace(tzinfo=None)] * 2)}, Code.SCHEMA_MISMATCH, [(None, "at")]),
        ({"at": pa.array([0, 2**62], pa.timestamp("us", "UTC"))}, Code.BAD_VALUE, [(1, "at")]),
        ({"day": pa.array([0, 2**30], pa.date32())}, Code.BAD_VALUE, [(1, "day")]),
        ({"name": pa.array(["a", "b\0"])}, Code.BAD_VALUE, [(None, "name")]),
    ],
)
def test_what_does_not_fit_is_named_by_column_and_row(
    columns: dict[str, pa.Array], code: Code, places: list[tuple[int | None, str]]
) -> None:
    with refused() as refusal:
        snapshot_rows(batch(**columns), RULES)
    assert [(code, row, column) for code, row, _, column in refusal.places] == [
        (code, row, column) for row, column in places
    ]


def test_a_required_column_must_be_given() -> None:
    with refused() as refusal:
        snapshot_rows(pa.RecordBatch.from_pydict({"name": pa.array(["a"])}), RULES)
    assert [(code, column) for code, _, _, column in refusal.places] == [(Code.INCOMPLETE_INSERT, "id")]


def test_json_columns_hold_json() -> None:
    rules = RowRules(schema_of({"id": "int64", "document": "json"}, ["id"]))
    assert snapshot_rows(batch(document=pa.array(["{}", None])), rules).batch.column("document").to_pylist() == [
        "{}",
        None,
    ]
    with refused() as refusal:
        snapshot_rows(batch(document=pa.array(["{}", "{"])), rules)
    assert [(code, row) for code, row, _, _ in refusal.places] == [(Code.BAD_VALUE, 1)]


@pytest.mark.parametrize(("reload", "marker"), [("refuse", None), ("upsert", 4)])
def test_rows_after_the_first_changes_are_upserts_or_refused(reload: str, marker: int | None) -> None:
    rules = RowRules(SCHEMA, TableOptions.parse({"reload": reload}), cdc_started=True)
    if marker is None:
        with refused() as refusal:
            snapshot_rows(batch(), rules)
        assert refusal.code is Code.RELOAD_REQUIRES_RECREATE
    else:
        assert snapshot_rows(batch(), rules).batch.column("__rowMarker__").to_pylist() == [marker, marker]


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
    given = pa.RecordBatch.from_pydict({"id": pa.array([1]), "value": pa.array([value], schema.columns[1].type.arrow)})
    loaded = snapshot_rows(given, RowRules(schema, options))
    as_source = insert({"id": 1, "value": source_value(value, BinaryEncoding(encoding))})
    changed = landing_rows([as_source], RowRules(schema, options))
    assert changed.batch == loaded.batch
    assert loaded.images
    assert changed.images
    assert changed.images.keys == loaded.images.keys
    assert changed.images.images == loaded.images.images
