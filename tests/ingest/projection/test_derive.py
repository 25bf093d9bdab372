"""Derived columns are materialized when rows are accepted, alike in every format.

delta-22: "Because Direct Lake semantic models don't support calculated columns, you should materialize such columns in
the Delta tables. For example, if you have FirstName and LastName columns, and you need a FullName column, materialize
the values for this column when inserting rows into the Delta table."
"""

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from msgspec import UNSET

from app.domain.access.rights import Principal, Right
from app.domain.model.names import TableName
from app.domain.model.table import DropAction, DropPlan
from app.ingest import ArrowLoad, ReplicateJson
from app.ingest.dry_run import WithheldColumns
from mirrorgate.errors import Code
from tests.support.gateway_parts import next_generation
from tests.support.ingest_harness import IngestHarness
from tests.support.postgres import sql
from tests.support.rejections import rejected
from tests.support.samples.arrow_streams import stream, typed_rows
from tests.support.samples.messages import arcion, data
from tests.support.samples.schemas import schema_of

TYPES = {"id": "int64", "first": "string", "last": "string", "quantity": "int32", "price": "decimal(8,2)"}
SCHEMA = schema_of(TYPES, ["id"], ["id"])
DERIVE = {"full_name": "first || ' ' || last", "revenue": "quantity * price"}
ROW = {"id": 1, "first": "Ada", "last": "Lovelace", "quantity": 3, "price": "1.10"}
TEXTS = {name: str(value) for name, value in ROW.items()}
LANDED = {**ROW, "price": Decimal("1.10"), "full_name": "Ada Lovelace", "revenue": Decimal("3.30")}


IN_ARROW = pa.schema({name: SCHEMA.arrow.field(name).type for name in TYPES})


@pytest.mark.parametrize("images", ["off", "on"])
def test_full_name_and_revenue_are_materialized_when_rows_are_inserted_in_each_format(
    harness: IngestHarness, images: str
) -> None:
    for name in "acrdpl":
        harness.put(name, SCHEMA, derive=DERIVE, row_images=images)
    for name, marker in harness.in_each_format(ROW, IN_ARROW).items():
        assert harness.rows(name) == [LANDED | {"__rowMarker__": marker}], name
    stored = str(sql.rows(harness.engine, "SELECT encode(image, 'escape') FROM mirrorgate.row_images"))
    assert "Ada Lovelace" not in stored


def test_updates_are_computed_and_deletes_have_the_key_alone(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, derive={**DERIVE, "kind": "coalesce(first, 'nobody')"})
    moved = TEXTS | {"id": "2", "quantity": "4"}
    harness.arcion(arcion("t", None, TEXTS), arcion("t", TEXTS, moved), arcion("t", moved))
    assert harness.landed("t", "id", "full_name", "revenue", "kind") == [
        [0, 1, "Ada Lovelace", Decimal("3.30"), "Ada"],
        [2, 1, None, None, None],
        [0, 2, "Ada Lovelace", Decimal("4.40"), "Ada"],
        [2, 2, None, None, None],
    ]


def test_a_partial_update_is_completed_before_it_is_computed(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, derive={**DERIVE, "share": "price / quantity"}, partial_updates="complete")
    harness.arcion(arcion("t", None, TEXTS))
    harness.replicate(data("UPDATE", {"id": 1, "last": "King"}), table="t")
    assert harness.rows("t")[1]["full_name"] == "Ada King"
    with rejected() as rejection:
        harness.replicate(data("UPDATE", {"id": 1, "quantity": 0}), table="t")
    assert [(code, column) for code, _, _, column in rejection.places] == [(Code.BAD_VALUE, "share")]
    assert len(harness.rows("t")) == 2


@pytest.mark.parametrize("images", ["off", "on"])
def test_a_change_whose_derived_value_cannot_be_computed_is_rejected_at_once(
    harness: IngestHarness, images: str
) -> None:
    harness.put("t", SCHEMA, derive={"share": "price / quantity"}, row_images=images)
    wrong = TEXTS | {"id": "2", "quantity": "0"}
    with rejected() as rejection:
        harness.arcion(arcion("t", None, TEXTS), arcion("t", None, wrong))
    assert [(code, index, column) for code, index, _, column in rejection.places] == [(Code.BAD_VALUE, 1, "share")]
    assert "a division by zero, at character 1" in rejection.text
    with rejected() as rejection:
        harness.accept_load(ArrowLoad(TableName.parse("t"), stream(typed_rows([ROW, ROW | {"quantity": 0}], IN_ARROW))))
    assert [(code, index, column) for code, index, _, column in rejection.places] == [(Code.BAD_VALUE, 1, "share")]
    assert harness.rows("t") == []
    harness.put("t", derive={"share": "price / nullif(quantity, 0)"}, row_images=images)
    harness.arcion(arcion("t", None, wrong))
    assert harness.landed("t", "share") == [[0, None]]


def test_a_column_of_the_source_can_be_rounded_and_cast_where_it_lands(harness: IngestHarness) -> None:
    schema = schema_of({"id": "int64", "weight": "float64", "at": "timestamp", "code": "string"}, ["id"], ["id"])
    derive = {"weight": "round(weight, 1)", "at": "date_trunc('hour', at)", "code": "try_cast(code as int32)"}
    harness.put("t", schema, derive=derive, rename={"code": "number"}, row_images="on")
    harness.plain_rows("t", {"id": 1, "weight": 2.34567, "at": "2026-07-01T10:59:58Z", "code": "x"})
    [row] = harness.rows("t")
    assert (row["weight"], row["at"].isoformat(), row["number"]) == (2.3, "2026-07-01T10:00:00+00:00", None)
    assert "2.34567" in str(sql.rows(harness.engine, "SELECT encode(image, 'escape') FROM mirrorgate.row_images"))
    harness.put("u", schema, derive={"weight": "round(weight, 1)"})
    harness.plain_rows("u", {"id": 1, "weight": 2.34567, "at": None, "code": "x"})
    assert harness.landed("u", "weight") == [[4, 2.3]]


def test_columns_that_only_an_expression_needs_can_land_as_null(harness: IngestHarness) -> None:
    """delta-23: "it would be more efficient to materialize the sales calculation as a single column than store its
    component values in separate columns".
    """
    hidden = {"quantity": "cast(null as int32)", "price": "cast(null as decimal(8,2))"}
    harness.put("t", SCHEMA, derive={"revenue": DERIVE["revenue"], **hidden})
    harness.arcion(arcion("t", None, TEXTS))
    assert harness.landed("t", "quantity", "price", "revenue") == [[0, None, None, Decimal("3.30")]]


def test_a_filter_sees_the_values_of_the_source_and_its_deletes_have_no_derived_values(harness: IngestHarness) -> None:
    found = {"column": "price", "op": ">", "value": "1"}
    harness.put("t", SCHEMA, derive={**DERIVE, "price": "price * 0"} | {"price": "round(price, 0)"}, filter=found)
    harness.arcion(arcion("t", None, TEXTS), arcion("t", TEXTS, TEXTS | {"price": "0.90"}))
    assert harness.landed("t", "price", "full_name") == [[0, Decimal("1.00"), "Ada Lovelace"], [2, None, None]]


def test_a_derived_column_that_is_added_later_is_computed_from_then_on(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA)
    harness.arcion(arcion("t", None, TEXTS))
    harness.put("t", derive=DERIVE)
    harness.arcion(arcion("t", TEXTS, TEXTS))
    harness.put("t", derive={"revenue": "quantity * price"})
    harness.arcion(arcion("t", TEXTS, TEXTS))
    revenue = Decimal("3.30")
    assert harness.landed("t", "full_name", "revenue") == [
        [0, None, None],
        [1, "Ada Lovelace", revenue],
        [1, None, revenue],
    ]
    with rejected() as rejection:
        harness.put("t", derive={"revenue": "quantity"})
    assert "cannot have the columns that the options ask for" in rejection.text


def test_deleted_rows_that_stay_keep_their_derived_values(harness: IngestHarness) -> None:
    flags: dict[str, Any] = {"row_images": "on", "deletes": "flag", "audit_columns": {"deleted": "gone"}}
    harness.put("t", SCHEMA, derive=DERIVE, **flags)
    harness.arcion(arcion("t", None, TEXTS))
    harness.arcion(arcion("t", TEXTS))
    assert harness.landed("t", "full_name", "revenue", "gone") == [
        [0, "Ada Lovelace", Decimal("3.30"), False],
        [1, "Ada Lovelace", Decimal("3.30"), True],
    ]


def test_a_renamed_table_computes_its_rows_again_and_never_stops_for_one(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, row_images="on")
    harness.arcion(arcion("t", None, TEXTS), arcion("t", None, TEXTS | {"id": "2", "quantity": "0"}))
    harness.put("t", derive={"share": "price / quantity", "revenue": DERIVE["revenue"]}, row_images="on")
    next_generation(harness.engine, "t", DropPlan(DropAction.RENAME, new_name=TableName.parse("u")))
    assert harness.landed("u", "share", "revenue") == [
        [0, pytest.approx(1.10 / 3), Decimal("3.30")],
        [0, None, Decimal("0.00")],
    ]


def test_a_dry_run_shows_derived_values_and_hides_those_of_stored_rows(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, derive=DERIVE, partial_updates="complete")
    harness.arcion(arcion("t", None, TEXTS))
    partial = ReplicateJson(json.dumps([data("UPDATE", {"id": 1, "quantity": 5})]).encode(), TableName.parse("t"))
    [shown] = harness.dry_run(partial).tables
    assert (shown.rows[0]["full_name"], shown.rows[0]["revenue"]) == ("Ada Lovelace", Decimal("5.50"))
    assert shown.withheld is UNSET
    [hidden] = harness.dry_run(partial, Principal("sender", frozenset({Right.INGEST}), ("*",))).tables
    assert hidden.withheld == [WithheldColumns(0, ["first", "full_name", "last", "price", "revenue"])]


def test_texts_of_derived_columns_are_bounded_together(harness: IngestHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.domain.rows.derived_columns.MAX_DERIVED_TEXT_BYTES", 1_000)
    monkeypatch.setattr("app.domain.rows.landing_rows.MAX_DERIVED_TEXT_BYTES", 1_000)
    harness.put("t", SCHEMA, derive={"many": " || ".join(["first"] * 40)})
    harness.arcion(arcion("t", None, TEXTS))
    with rejected(Code.BODY_TOO_LARGE):
        harness.arcion(arcion("t", None, TEXTS | {"first": "x" * 100}))


@pytest.mark.parametrize(
    ("options", "pointer", "detail"),
    [
        ({"derive": {"id": "quantity"}}, "/options/derive/id", "key column 'id' cannot be derived"),
        ({"derive": {"FIRST": "last"}}, "/options/derive/FIRST", "another column lands as 'FIRST'"),
        ({"derive": {"x": "quantiy * price"}}, "/options/derive/x", "no column 'quantiy', at character 1"),
        ({"derive": {"x": "quantity *"}}, "/options/derive/x", "cannot be read, at character 10"),
        ({"derive": {"x": "date '2026-02-30'"}}, "/options/derive/x", "a string does not fit date, at character 6"),
        ({"derive": {"x": "last"}, "exclude": ["last"]}, "/options/derive/x", "no column 'last'"),
        ({"derive": {"x": "last"}, "masks": {"last": {"method": "null"}}}, "/options/derive/x", "excluded or masked"),
        ({"derive": {"last": "first"}, "masks": {"last": {"method": "null"}}}, "/options/derive/last", "masked"),
        ({"derive": {f"x{at}": "first" for at in range(51)}}, "/options/derive", "at most 50 derived columns"),
        ({"derive": {"x": "first"}, "audit_columns": {"operation": "X"}}, "/options/audit_columns/operation", "'X'"),
    ],
)
def test_a_wrong_declaration_is_rejected_with_its_place_and_position(
    harness: IngestHarness, options: dict[str, Any], pointer: str, detail: str
) -> None:
    with rejected(places=[(Code.BAD_OPTION, None, pointer, None)]) as rejection:
        harness.put("t", SCHEMA, **options)
    assert detail in rejection.text
