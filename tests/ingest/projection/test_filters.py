"""A filter mirrors the rows that match it, and no other, whatever happened to them before."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.access.rights import Principal, Right
from app.domain.model.change import Operation
from app.domain.model.names import TableName
from app.domain.model.table import BatchSequence
from app.domain.model.table_options import TableOptions
from app.domain.rows.image_overlay import ImageOverlay
from app.domain.rows.landing_projection import filtered
from app.domain.rows.landing_rows import landing_rows, landing_rows_of_shaped
from app.domain.rows.row_rules import RowRules
from app.ingest import RowOperation, RowsJson
from mirrorgate.errors import Code
from tests.support.gateway_parts import folded_rows
from tests.support.ingest_harness import IngestHarness
from tests.support.postgres import sql
from tests.support.rejections import rejected
from tests.support.samples.changes import change, insert, shaped
from tests.support.samples.messages import arcion, data, metadata
from tests.support.samples.schemas import active_table, schema_of

SCHEMA = schema_of({"id": "int64", "city": "string", "total": "decimal(8,2)", "at": "timestamp"}, ["id"], ["id"])
ROME = {"column": "city", "op": "=", "value": "Rome"}
Row = dict[str, Any]


def row(key: int, city: str | None, **others: Any) -> Row:
    return {"id": key, "city": city, "total": None, "at": None} | others


def texts(values: Row | None) -> Row | None:
    return values and {name: "null" if value is None else str(value) for name, value in values.items()}


def mirrored(rows: list[Row]) -> dict[int, Any]:
    """Apply landing rows as mirroring does; return the city of each row. A delete has its key alone."""
    deletes = [one for one in rows if one["__rowMarker__"] == 2]
    assert {one[name] for one in deletes for name in ("city", "total", "at")} <= {None}
    return {key: row["city"] for (key,), row in folded_rows(rows, "id").items()}


def test_rows_enter_and_leave_the_mirror_as_they_match(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, filter=ROME, audit_columns={"operation": "_op"})
    rome, oslo = row(1, "Rome"), row(1, "Oslo")
    harness.arcion(arcion("t", None, texts(rome)), arcion("t", None, texts(row(2, "Oslo"))))
    harness.arcion(arcion("t", texts(rome), texts(oslo)))
    harness.arcion(arcion("t", texts(oslo), texts(rome)))
    harness.arcion(arcion("t", texts(rome), texts(row(3, "Oslo"))))
    assert harness.landed("t", "id", "city", "_op") == [
        [0, 1, "Rome", "insert"],
        [2, 1, None, "delete"],
        [1, 1, "Rome", "update"],
        [2, 1, None, "delete"],
    ]


def test_a_batch_of_which_nothing_matches_lands_one_delete_that_changes_nothing(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, filter=ROME)
    [receipt] = harness.arcion(*(arcion("t", None, texts(row(key, "Oslo"))) for key in (1, 2))).receipts
    assert (receipt.changes, receipt.rows) == (2, 1)
    assert harness.landed("t", "id", "city") == [[2, 1, None]]


def test_a_partial_update_moves_a_row_that_was_never_mirrored_into_the_mirror(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, filter=ROME, partial_updates="complete")
    harness.arcion(arcion("t", None, texts(row(1, "Oslo", total="2.50"))))
    harness.replicate(data("UPDATE", {"id": 1, "city": "Rome"}), table="t")
    assert harness.landed("t", "city", "total")[1][1] == "Rome"
    assert str(harness.landed("t", "total")[1][1]) == "2.50"


def test_a_dry_run_shows_what_lands_and_hides_what_the_caller_may_not_read(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, filter=ROME, partial_updates="complete")
    harness.arcion(arcion("t", None, texts(row(2, "Rome", total="2.50"))))
    body = json.dumps([{"__op__": "update", "id": 2, "city": "Rome"}]).encode()
    reader = RowsJson(body, TableName.parse("t"), RowOperation.INSERT)
    assert [one["id"] for one in harness.dry_run(reader).tables[0].rows] == [2]
    writer = Principal("writer", frozenset({Right.INGEST}), ("*",))
    [table] = harness.dry_run(reader, writer).tables
    assert table.rows == [{"id": 2, "city": "Rome", "__rowMarker__": 1}]


@pytest.mark.parametrize(
    ("found", "matching"),
    [
        ({"column": "city", "op": "!=", "value": "Rome"}, {2}),
        ({"column": "city", "op": "in", "values": ["Oslo", "Rome"]}, {1, 2}),
        ({"column": "city", "op": "not_in", "values": ["Oslo"]}, {1}),
        ({"column": "city", "op": "is_null"}, {3}),
        ({"column": "city", "op": "is_not_null"}, {1, 2}),
        ({"column": "total", "op": ">=", "value": "2.5"}, {1}),
        ({"column": "total", "op": "<", "value": "2.50"}, {2}),
        ({"column": "at", "op": ">", "value": "2026-01-01 00:00:00+01:00"}, {1}),
        ({"all": [ROME, {"column": "id", "op": "<=", "value": "1"}]}, {1}),
        ({"any": [ROME, {"column": "city", "op": "is_null"}]}, {1, 3}),
        ({"all": [{"any": [ROME, {"column": "id", "op": "=", "value": "3"}]}, ROME]}, {1}),
    ],
)
def test_each_comparison_says_which_rows_match(found: dict[str, Any], matching: set[int]) -> None:
    options = TableOptions.parse({"filter": found})
    options.check(SCHEMA)
    assert TableOptions.parse(options.to_json()) == options
    rows = [
        row(1, "Rome", total="2.50", at="2025-12-31 23:30:00"),
        row(2, "Oslo", total="-1", at="2025-12-31 22:59:59"),
        row(3, None),
    ]
    landed = filtered(landing_rows([insert(one) for one in rows], SCHEMA).batch, options.filter, SCHEMA)
    assert set(landed.column("id").to_pylist()) == matching


@pytest.mark.parametrize("value", ["0", "-0.0", "NaN", "Infinity", None])
@pytest.mark.parametrize(("one", "listed"), [("=", "in"), ("!=", "not_in")])
def test_a_list_of_one_value_matches_as_the_value_does(value: str | None, one: str, listed: str) -> None:
    schema = schema_of({"id": "int64", "f": "float64"}, ["id"], ["id"])
    batch = landing_rows([insert({"id": 1, "f": value})], schema).batch
    for literal in ("0", "-0.0", "NaN", "Infinity"):
        alone = TableOptions.parse({"filter": {"column": "f", "op": one, "value": literal}}).filter
        in_list = TableOptions.parse({"filter": {"column": "f", "op": listed, "values": [literal]}}).filter
        assert alone is not None
        assert in_list is not None
        markers = [filtered(batch, found, schema).column(2) for found in (in_list, alone)]
        assert markers[0] == markers[1], literal


Step = tuple[int, list[str | None] | None]
"""A key, and its city in a list; None for a delete."""
Cities = st.sampled_from(["Rome", "Oslo", None])


@given(st.lists(st.lists(st.tuples(st.integers(1, 3), st.none() | Cities.map(lambda city: [city])), min_size=1)))
def test_any_history_mirrors_exactly_the_rows_that_match(batches: list[list[Step]]) -> None:
    """Each step gives a row its city, or deletes it; both paths land the same rows."""
    options = TableOptions.parse({"filter": ROME, "row_images": "on"})
    rules, state, landed = RowRules(SCHEMA, options), dict[int, Any](), list[Row]()
    overlay = ImageOverlay(active_table(SCHEMA, options), {})
    for number, steps in enumerate(batches, 1):
        changes = []
        for index, (key, city) in enumerate(steps):
            old = row(key, state[key]) if key in state else None
            new = None if city is None else row(key, city[0])
            if new is None and old is None:
                continue
            operation = Operation.UPDATE if old and new else Operation.INSERT if new else Operation.DELETE
            changes.append(change(operation, old, new, index))
            state = {**state, key: new["city"]} if new else {name: was for name, was in state.items() if name != key}
        if not changes:
            continue
        rows, layer = overlay.complete(landing_rows(changes, rules))
        overlay.adopt(layer, BatchSequence(number))
        columnar = landing_rows_of_shaped([shaped(changes, SCHEMA)], rules)
        assert columnar[0].batch.equals(landing_rows(changes, rules).batch)
        landed += filtered(rows.batch, options.filter, SCHEMA).to_pylist()
    assert mirrored(landed) == {key: city for key, city in state.items() if city == "Rome"}


@pytest.mark.parametrize(
    ("options", "pointer"),
    [
        ({"filter": {}}, "/options/filter"),
        ({"filter": {"columns": "city"}}, "/options/filter"),
        ({"filter": {"all": [{"any": [{"all": [ROME]}]}]}}, "/options/filter/all/0/any/0/all/0"),
        ({"filter": {"all": []}}, "/options/filter/all"),
        ({"filter": {**ROME, "any": [ROME]}}, "/options/filter"),
        ({"filter": {"all": [ROME, {**ROME, "column": "town"}]}}, "/options/filter/all/1/column"),
        ({"filter": {"column": "city", "op": "="}}, "/options/filter"),
        ({"filter": {"column": "city", "op": "in", "value": "Rome"}}, "/options/filter"),
        ({"filter": {"column": "city", "op": "is_null", "value": "Rome"}}, "/options/filter"),
        ({"filter": {"column": "total", "op": "=", "value": "1.005"}}, "/options/filter/value"),
        ({"filter": {"any": [{"column": "id", "op": "in", "values": ["1", "x"]}]}}, "/options/filter/any/0/values"),
        ({"filter": ROME, "masks": {"city": {"method": "null"}}}, "/options/filter/column"),
        ({"filter": ROME, "exclude": ["city"]}, "/options/filter/column"),
        ({"filter": ROME, "history": "append_only"}, "/options/filter"),
        ({"filter": ROME, "initial_load": "without_marker"}, "/options/filter"),
    ],
)
def test_a_wrong_filter_is_rejected_with_its_place(
    harness: IngestHarness, options: dict[str, Any], pointer: str
) -> None:
    with rejected(places=[(Code.BAD_OPTION, None, pointer, None)]):
        harness.put("t", SCHEMA, **options)


def test_a_column_that_a_filter_compares_cannot_leave_the_source(harness: IngestHarness) -> None:
    harness.put("S.T", SCHEMA, filter={"any": [ROME, {"column": "total", "op": ">", "value": "5"}]})
    narrow = schema_of({"id": "int64", "city": "string"}, ["id"], ["id"])
    with rejected(places=[(Code.BAD_OPTION, None, "/options/filter/any/1/column", None)]):
        harness.put("S.T", narrow)
    with rejected(places=[(Code.BAD_OPTION, 0, "/message/tableStructure", None)]) as rejection:
        harness.replicate(metadata("S.T", {"id": "INT8", "city": "STRING"}))
    assert "change or remove the filter first" in rejection.text
    assert harness.put("S.T", narrow, filter=ROME).table.left_columns == {"total", "at"}
    with rejected(places=[(Code.BAD_OPTION, None, "/options/filter/column", None)]):
        harness.put("S.T", filter={"column": "total", "op": "is_null"})


def test_a_table_whose_filtered_column_left_under_an_older_version_still_evolves(harness: IngestHarness) -> None:
    harness.put("S.T", SCHEMA)
    narrow = schema_of({"id": "int64", "city": "string"}, ["id"], ["id"])
    harness.put("S.T", narrow)
    found = {"column": "total", "op": "is_null"}
    stored = "UPDATE mirrorgate.tables SET options = options || CAST(:options AS jsonb), revision = revision + 1"
    sql.run(harness.engine, stored, options=json.dumps({"filter": found}))
    wider = schema_of({"id": "int64", "city": "string", "note": "string"}, ["id"], ["id"])
    assert harness.put("S.T", wider, filter=found).table.left_columns == {"total", "at"}
    with rejected(places=[(Code.BAD_OPTION, None, "/options/filter/all/0/column", None)]):
        harness.put("S.T", narrow, filter={"all": [found, ROME]})
