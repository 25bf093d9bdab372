"""A plan makes a gateway's tables match the manifest, or says why it cannot."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.client.table_manifest.export import to_manifest
from app.client.table_manifest.manifest import DeclaredTable, read_manifest
from app.client.table_manifest.plan import Action, TablePlan, plan_tables
from app.client.table_manifest.present_table import PresentTable
from app.domain.model.names import TableName
from app.domain.model.projection.row_filter import Comparison, RowFilter
from app.domain.model.table import Generation, TableState
from app.domain.model.table_options import (
    CHOSEN_AT_CREATION,
    DEFAULT_OPTIONS,
    ColumnOverride,
    DeadLetters,
    InitialLoad,
    NewColumns,
    PartialUpdates,
    RowImages,
    TableOptions,
)
from app.domain.model.table_schema import TableSchema, evolve
from tests.client.table_manifest.tables import as_registered, declared_tables, earlier_tables
from tests.support.samples.schemas import schema_of

IDS = schema_of({"id": "int64", "note": "string"}, ["id"], ["id"])
KEYLESS = schema_of({"id": "int64", "note": "string"})


def declared(schema: TableSchema, name: str = "t", **options: object) -> DeclaredTable:
    left = CHOSEN_AT_CREATION.difference(options)
    return DeclaredTable(TableName.parse(name), schema, TableOptions(**options), "f, line 1", left)  # type: ignore[arg-type]


def present(
    schema: TableSchema, name: str = "t", state: TableState = TableState.ACTIVE, **options: object
) -> PresentTable:
    return PresentTable(name, Generation(3), state, schema, TableOptions(**options))  # type: ignore[arg-type]


def planned(wanted: DeclaredTable, *there: PresentTable) -> TablePlan:
    (table,) = plan_tables([wanted], there, "my tables.yaml").tables
    return table


@given(declared_tables(), st.booleans())
def test_what_was_exported_plans_nothing(table: DeclaredTable, all_options: bool) -> None:
    there = as_registered(table)
    assert planned(table, there).action is Action.NOTHING
    (read,) = read_manifest(to_manifest([there], all_options=all_options), "f")
    created = read.options.of_new_table(read.schema, CHOSEN_AT_CREATION - read.left)
    assert (read.schema, created) == (there.schema, there.options)
    assert planned(read, there).action is Action.NOTHING


@given(st.data(), declared_tables())
def test_what_was_carried_out_plans_nothing_more(data: st.DataObject, table: DeclaredTable) -> None:
    there = data.draw(earlier_tables(table))
    plan = planned(table, there)
    if plan.action is Action.REJECTED:
        return
    if plan.request is not None and "columns" in plan.request:
        asked = TableSchema.from_json({**plan.request, "bare": False})
        there = replace(there, schema=evolve(there.schema, table.options.declared(asked)))
    assert planned(table, replace(there, options=table.options)).action is Action.NOTHING


def test_a_table_that_is_not_there_is_created() -> None:
    plan = planned(declared(IDS, partial_updates=PartialUpdates.COMPLETE), present(IDS, "other"))
    assert plan.action is Action.CREATE
    assert plan.added == (
        "key (id)",
        "column id int64 required",
        "column note string",
        "option partial_updates: complete",
    )


def test_tables_that_the_file_does_not_name_are_left_alone_and_told() -> None:
    plan = plan_tables([declared(IDS)], [present(IDS), present(IDS, "b"), present(IDS, "a")], "f")
    assert (plan.to_do, plan.not_in_file) == ([], ("b", "a"))


def test_a_name_in_another_letter_case_is_the_same_table() -> None:
    assert planned(declared(IDS, "Sales.T"), present(IDS, "sales.t")).action is Action.NOTHING


def test_new_columns_and_first_keys_are_added_and_options_changed() -> None:
    wide = schema_of({"id": "int64", "note": "string", "seen": "date"}, ["id"])
    plan = planned(declared(wide, seed_file=True), present(KEYLESS, source_timezone="Europe/Berlin"))
    assert plan.action is Action.CHANGE
    assert plan.added == ("key (id)", "column seen date")
    assert plan.changed == ("option seed_file: false -> true", "option source_timezone: Europe/Berlin -> UTC")
    assert plan.request is not None
    assert [column["name"] for column in plan.request["columns"]] == ["id", "note", "seen"]


def test_a_filter_is_told_as_the_file_and_the_api_write_it() -> None:
    parts = (RowFilter("note", Comparison.IN, values=("a", "ä")), RowFilter("id", Comparison.LESS, value="5"))
    plan = planned(declared(IDS, filter=RowFilter(any=parts)), present(IDS))
    assert plan.changed == (
        'option filter: none -> any [{"column": "note", "op": "in", "values": ["a", "ä"]}, '
        '{"column": "id", "op": "<", "value": "5"}]',
    )


def test_options_alone_are_changed_without_naming_columns() -> None:
    plan = planned(declared(IDS, seed_file=True), present(IDS))
    stored = DEFAULT_OPTIONS.to_json()
    del stored["initial_load"]
    assert plan.request == {"options": {**stored, "seed_file": True}}


@pytest.mark.parametrize("seed_file", [True, False])
@pytest.mark.parametrize("initial_load", InitialLoad)
def test_a_file_that_omits_the_first_load_leaves_it_to_the_table(seed_file: bool, initial_load: InitialLoad) -> None:
    there = present(IDS, seed_file=seed_file, initial_load=initial_load)
    assert planned(declared(IDS), there).action is Action.NOTHING
    changed = planned(declared(IDS, dead_letters=DeadLetters.ACCEPT), there)
    assert changed.request is not None
    assert CHOSEN_AT_CREATION.isdisjoint(changed.request["options"])


@pytest.mark.parametrize("schema", [IDS, KEYLESS])
def test_a_new_table_gets_the_first_load_of_the_gateway_unless_the_file_names_one(schema: TableSchema) -> None:
    created = planned(declared(schema), present(IDS, "other"))
    assert created.request is not None
    assert CHOSEN_AT_CREATION.isdisjoint(created.request["options"])
    assert [text for text in created.added if text.startswith("option")] == []
    named = planned(declared(schema, seed_file=False), present(IDS, "other"))
    assert named.request is not None
    assert named.request["options"]["seed_file"] is False
    assert "option seed_file: false" in named.added


def test_beginning_and_ceasing_to_keep_row_images_is_told() -> None:
    completing, keeping = {"partial_updates": PartialUpdates.COMPLETE}, {"row_images": RowImages.ON}
    forgotten = ("without row_images=on and partial_updates=complete the table loses all its row images",)
    begun = ("rows that the table has already need a backfill of their row images",)
    for options in (completing, keeping):
        assert planned(declared(IDS), present(IDS, **options)).notes == forgotten
        assert planned(declared(IDS, **options), present(IDS)).notes == begun
    assert planned(declared(IDS, **completing), present(IDS, **keeping)).notes == ()


@pytest.mark.parametrize(
    ("wanted", "there", "detail", "remedy"),
    [
        (
            schema_of({"id": "int32"}),
            schema_of({"id": "int64"}),
            "column 'id' is int64 and cannot become int32",
            "recreate t",
        ),
        (
            schema_of({"id": "int64"}, ["id"]),
            schema_of({"id": "int64"}, ["id"], ["id"]),
            "the key column 'id' is required and cannot become nullable",
            "recreate t",
        ),
        (
            schema_of({"id": "int64"}, (), ["id"]),
            schema_of({"id": "int64"}),
            "column 'id' is nullable and cannot become required",
            "recreate t",
        ),
        (
            schema_of({"id": "int64"}),
            schema_of({"id": "int64"}, ["id"]),
            "its key is (id) and cannot become none",
            "recreate t",
        ),
        (
            schema_of({"a": "date", "b": "date"}, ["b", "a"]),
            schema_of({"a": "date", "b": "date"}, ["a", "b"]),
            "its key is (a, b) and cannot become (b, a)",
            "recreate t",
        ),
        (schema_of({"id": "int64"}), KEYLESS, "column note string is in the table but not in the file", "exclude"),
        (schema_of({"note": "string"}), IDS, "column id int64 required is in the table but not", "Add it to the file"),
        (schema_of({"ID": "int64", "note": "string"}), KEYLESS, "column 'ID' is 'id' in the table", "Write 'id'"),
        (
            schema_of({"id": "int64", "note": "string", "x": "date"}, (), ["x"]),
            KEYLESS,
            "'x' is new and required",
            "Remove",
        ),
    ],
)
def test_what_only_a_new_folder_could_settle_is_rejected_with_a_way_out(
    wanted: TableSchema, there: TableSchema, detail: str, remedy: str
) -> None:
    plan = planned(declared(wanted), present(there))
    assert plan.action is Action.REJECTED
    assert plan.request is None
    assert detail in " ".join(rejection.detail for rejection in plan.rejections)
    assert remedy in " ".join(rejection.remedy for rejection in plan.rejections)


def test_the_command_that_recreates_can_be_copied() -> None:
    wide = schema_of({"id": "date"})
    (rejection,) = planned(declared(wide, "my t"), present(schema_of({"id": "int64"}), "my t")).rejections
    assert rejection.remedy.endswith("mirrorgate tables recreate 'my t' --generation 3 --file 'my tables.yaml'")
    assert not rejection.remedy.startswith("Recreate")


def test_a_table_with_row_images_is_rebuilt_rather_than_emptied() -> None:
    there = present(schema_of({"id": "int64"}, ["id"]), "my t", row_images=RowImages.ON)
    (rejection,) = planned(
        declared(schema_of({"id": "date"}, ["id"]), "my t", row_images=RowImages.ON), there
    ).rejections
    assert rejection.remedy.startswith(
        "Rebuild it, which keeps its rows: mirrorgate tables rebuild 'my t' --generation 3 "
    )


def test_an_option_that_cannot_come_later_is_rejected() -> None:
    (rejection,) = planned(declared(IDS, initial_load=InitialLoad.WITHOUT_MARKER), present(IDS)).rejections
    assert rejection.detail == "initial_load=without_marker can only be set at a table's first registration"


def test_a_required_column_may_become_nullable() -> None:
    there = present(schema_of({"id": "int64", "note": "string"}, ["id"], ["id", "note"]))
    plan = planned(declared(schema_of({"id": "int64", "note": "string"}, ["id"], ["id"])), there)
    assert (plan.changed, plan.rejections) == (("column note: required -> nullable",), ())
    assert plan.request is not None
    assert plan.request["columns"][1]["nullable"]


def test_an_override_that_came_after_its_column_holds_up_new_columns_only() -> None:
    options = {"columns": {"note": ColumnOverride(nullable=False)}}
    there = present(KEYLESS, **options)
    assert planned(declared(KEYLESS, **options), there).action is Action.NOTHING
    wide = schema_of({"id": "int64", "note": "string", "seen": "date"})
    (rejection,) = planned(declared(wide, **options), there).rejections
    assert rejection.detail == "column 'note' is nullable and cannot become required"


def test_columns_that_messages_added_stay_where_the_option_lets_them() -> None:
    options = {"new_columns": NewColumns.ADD_AS_STRING}
    wanted = schema_of({"id": "int64", "seen": "date"})
    plan = planned(declared(wanted, **options), present(KEYLESS, **options))
    assert plan.action is Action.CHANGE
    assert plan.notes == ("column note string is not in the file; messages may add columns",)
    assert plan.request is not None
    assert [column["name"] for column in plan.request["columns"]] == ["id", "seen", "note"]


def test_a_column_that_left_stays_once_it_is_excluded() -> None:
    plan = planned(declared(schema_of({"id": "int64"}), exclude=("note",)), present(KEYLESS))
    assert (plan.action, plan.changed) == (Action.CHANGE, ("option exclude: none -> note",))


@pytest.mark.parametrize("state", [TableState.DROPPING, TableState.PAUSED])
def test_a_table_that_is_being_dropped_is_waited_for(state: TableState) -> None:
    plan = planned(declared(IDS, seed_file=True), present(IDS, state=state))
    assert (plan.action is Action.REJECTED) == (state is TableState.DROPPING)
