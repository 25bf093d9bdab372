"""Plans of rebuilds: what a table can become, and where its values come from."""

from dataclasses import replace
from typing import Any

import pytest

from app.domain.model.table import BatchSequence, Table
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import Column, ColumnType, evolve
from app.domain.rebuild import RebuildPhase, RebuildPlan, RebuiltColumn, plan_rebuild
from mirrorgate.errors import Code, RejectedInput
from tests.support.rejections import rejected
from tests.support.samples.schemas import active_table, schema_of

SCHEMA = schema_of({"id": "int64", "name": "string", "total": "decimal(9,2)"}, ["id"], required=["id"])


def table_with(*, complete: bool = True, **options: Any) -> Table:
    return active_table(SCHEMA, TableOptions.parse({"row_images": "on", **options}), images_complete=complete)


def column(name: str, type_: str, source: str | None = None) -> RebuiltColumn:
    return RebuiltColumn(Column(name, ColumnType.parse(type_)), source or name)


def test_a_plan_without_wishes_is_the_same_table_without_markers() -> None:
    plan = plan_rebuild(table_with())
    assert (plan.schema.columns, plan.schema.key_columns, plan.places) == (SCHEMA.columns, ("id",), (0, 1, 2))
    assert plan.schema.bare
    assert not plan_rebuild(table_with(insert_marker="upsert")).schema.bare


def test_a_key_follows_its_new_name_and_key_columns_are_required() -> None:
    plan = plan_rebuild(table_with(), [column("total", "decimal(9,2)"), column("number", "int64", "id")])
    assert (plan.schema.key_columns, plan.places) == (("number",), (2, 0))
    assert [found.nullable for found in plan.schema.columns] == [True, False]
    assert plan_rebuild(table_with(), key_columns=["name", "id"]).schema.columns[1].nullable is False


def test_options_declare_the_new_columns_as_the_plan_does() -> None:
    table = table_with(columns={"name": {"type": "string", "encoding": "base64"}, "total": {"nullable": True}})
    plan = plan_rebuild(table, [column("id", "int64"), column("title", "binary", "name"), column("total", "float64")])
    assert plan.options.to_json()["columns"] == {
        "title": {"type": "binary", "encoding": "base64"},
        "total": {"type": "float64", "nullable": True},
    }


@pytest.mark.parametrize("overrides", [{}, {"total": {"type": "decimal(9,2)"}}], ids=["type", "override"])
def test_the_source_may_declare_a_rebuilt_column_as_before(overrides: dict[str, Any]) -> None:
    table = table_with(columns=overrides)
    declared = schema_of({"id": "int64", "name": "string", "total": "decimal(12,4)"}, ["id"], required=["id"])
    present = SCHEMA if not overrides else declared
    plan = plan_rebuild(table, [column("id", "int64"), column("name", "string"), column("total", "string")])
    assert evolve(plan.schema, plan.options.declared(present)).columns == plan.schema.columns
    plan.options.check(plan.schema)


def test_a_plan_tells_its_columns_and_where_their_values_are() -> None:
    table = table_with(exclude=["name"])
    chosen = [column("total", "string"), column("key", "int64", "id"), column("title", "string", "name")]
    plan = plan_rebuild(table, chosen)
    assert [(one.column.name, one.source) for one in plan.columns_from(SCHEMA)] == [
        ("total", "total"),
        ("key", "id"),
        ("title", "name"),
    ]
    assert plan_rebuild(table, plan.columns_from(SCHEMA), plan.schema.key_columns) == plan
    assert plan.options.exclude == ("title",)


def test_a_plan_survives_its_storage() -> None:
    plan = plan_rebuild(table_with(source_timezone="Europe/Berlin"), [column("key", "string", "id")])
    assert RebuildPlan.from_json(plan.to_json()) == plan


ALL = [column("id", "int64"), column("name", "string"), column("total", "decimal(9,2)")]
NEW, TWICE = column("new", "string"), column("other", "string", "name")
HISTORY = table_with(history="append_only")
RETURNED = replace(table_with(), late_columns={"total": BatchSequence(3)})


@pytest.mark.parametrize(
    ("table", "columns", "keys", "code", "detail"),
    [
        (table_with(complete=False), ALL, None, "no_row_images", ""),
        (table_with(row_images="off"), ALL, None, "no_row_images", ""),
        (
            HISTORY,
            ALL,
            None,
            "bad_option",
            "table t lands every change, and row images have the newest row of each key",
        ),
        (table_with(), [*ALL, NEW], None, "bad_schema", "no column 'new' has values to use; register new columns"),
        (RETURNED, ALL, None, "bad_schema", "column 'total' came back to the source, or was added with a default, and"),
        (table_with(), [*ALL, TWICE], None, "bad_schema", "two columns take their values from the same column"),
        (table_with(), ALL[1:], None, "bad_schema", "the key column 'id' is dropped: give key_columns"),
        (table_with(), ALL, [], "bad_schema", "a rebuilt table needs key columns"),
        (table_with(), ALL, ["nowhere"], "bad_schema", "key column 'nowhere' is not among the columns"),
        (
            table_with(),
            [*ALL[:2], column(" t", "string", "total")],
            None,
            "bad_name",
            "the column name ' t' starts or ends with a blank",
        ),
        (
            table_with(masks={"name": {"method": "hash"}}),
            [ALL[0], column("n", "int64", "name")],
            None,
            "bad_option",
            "",
        ),
    ],
)
def test_a_plan_that_cannot_be_is_rejected_with_the_reason(
    table: Table, columns: list[RebuiltColumn], keys: list[str] | None, code: str, detail: str
) -> None:
    with rejected() as rejection:
        plan_rebuild(table, columns, keys)
    assert (rejection.code, rejection.detail[: len(detail)]) == (code, detail)


def test_a_column_that_came_back_is_left_out_or_loaded_again() -> None:
    with pytest.raises(RejectedInput) as rejection:
        plan_rebuild(RETURNED)
    assert rejection.value.remedy == "Rebuild the table without the column, or recreate the table and load it again."
    with rejected(Code.BAD_SCHEMA):
        plan_rebuild(RETURNED, key_columns=["name"])
    assert plan_rebuild(RETURNED, ALL[:2]).places == (0, 1)


def test_a_name_that_a_new_column_could_not_have_stays() -> None:
    blank = schema_of({"id": "int64", "total ": "string"}, ["id"], required=["id"])
    assert plan_rebuild(replace(table_with(), schema=blank)).schema.names == ("id", "total ")


def test_options_follow_the_new_names_and_leave_out_dropped_columns() -> None:
    table = table_with(
        rename={"name": "Name", "total": "Total"},
        masks={"name": {"method": "hash"}, "total": {"method": "null"}},
        exclude=["secret"],
        columns={"id": {"nullable": False}, "total": {"encoding": "hex"}},
    )
    plan = plan_rebuild(table, [column("key", "int64", "id"), column("title", "string", "name")])
    stored = plan.options.to_json()
    assert (stored["rename"], stored["exclude"]) == ({"title": "Name"}, ["secret"])
    assert (stored["masks"], stored["columns"]) == ({"title": {"method": "hash"}}, {"key": {"nullable": False}})
    assert plan.schema.landing.names == ("key", "Name")


@pytest.mark.parametrize("options", [{}, {"audit_columns": {"operation": "op"}}])
def test_files_that_have_more_than_inserts_have_the_row_marker(options: dict[str, Any]) -> None:
    plan = plan_rebuild(table_with(**options))
    assert plan.schema.landing.bare
    assert not plan.marked.landing.bare
    assert (plan.marked.columns, plan.marked.landing.names) == (plan.schema.columns, plan.schema.landing.names)


@pytest.mark.parametrize("phase", RebuildPhase)
def test_a_drain_reads_the_row_images_of_a_rebuild_that_checks_or_copies(phase: RebuildPhase) -> None:
    assert phase.is_due == (phase in {"checking", "copying"})


FILTER: dict[str, Any] = {
    "any": [{"column": "name", "op": "=", "value": "Ada"}, {"column": "total", "op": ">", "value": "1.50"}]
}


def test_a_filter_follows_the_names_of_its_columns_and_its_files_have_markers() -> None:
    plan = plan_rebuild(
        table_with(filter=FILTER),
        [column("id", "int64"), column("name", "decimal(9,2)", "total"), column("total", "string", "name")],
    )
    assert [part["column"] for part in plan.options.to_json()["filter"]["any"]] == ["total", "name"]
    assert not plan.schema.bare


@pytest.mark.parametrize(
    "columns",
    [
        [column("id", "int64"), column("name", "decimal(9,2)", "total")],
        [column("id", "int64"), column("name", "string"), column("total", "int64")],
    ],
    ids=["a column is dropped", "a literal does not fit"],
)
def test_a_filter_needs_its_columns_in_types_of_its_literals(columns: list[RebuiltColumn]) -> None:
    with rejected(Code.BAD_OPTION):
        plan_rebuild(table_with(filter=FILTER), columns)


def test_derived_columns_follow_the_names_of_the_columns_that_they_read() -> None:
    derive = {"label": "name || ' ' || cast(total as string)", "total": "round(total, 1)"}
    table = table_with(derive=derive)
    plan = plan_rebuild(
        table, [column("id", "int64"), column("sum", "decimal(9,2)", "total"), column("title", "string", "name")]
    )
    assert plan.options.derive == {"label": '"title" || \' \' || cast("sum" as string)', "sum": 'round("sum", 1)'}
    assert plan.schema.landing.names == ("id", "sum", "title", "label")
    with rejected() as rejection:
        plan_rebuild(table, [column("id", "int64"), column("name", "string")])
    assert "the derived column 'label' needs the column 'total'" in rejection.text
    dropped = plan_rebuild(table_with(derive={"total": "round(total, 1)"}), [column("id", "int64")])
    assert dropped.options.derive == {}
