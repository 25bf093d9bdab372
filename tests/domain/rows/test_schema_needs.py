"""The schema that changes need: new text columns, and the row marker of files that lack it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from app.domain.model.change import Change, Image, Operation
from app.domain.model.names import TableName
from app.domain.model.table import Generation, Table, TableId, TableState
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import SchemaVersion, TableSchema
from app.domain.rows.schema_needs import needed_schema
from app.errors import Code
from tests.support.rejections import rejected
from tests.support.samples.changes import change, delete, insert, update, upsert
from tests.support.samples.schemas import schema_of

SCHEMA = schema_of({"id": "int64", "name": "string"}, ["id"], required=["id"])
BARE = replace(SCHEMA, bare=True)
ADA: Image = {"id": "1", "name": "Ada"}
GROWS = {"new_columns": "add_as_string"}
SNAPSHOT = change(Operation.SNAPSHOT, None, ADA)


def table_of(schema: TableSchema, options: dict[str, Any], *, cdc_started: bool = False) -> Table:
    name, chosen = TableName.parse("t"), TableOptions.parse(options)
    place = (TableId(1), name, Generation(1), TableState.ACTIVE, SchemaVersion(1))
    return Table(*place, schema, chosen, cdc_started=cdc_started)


def added(changes: Sequence[Change], **options: Any) -> list[tuple[str, str, bool]]:
    """Return the columns that changes add to the schema: name, type and whether it is nullable."""
    columns = needed_schema(changes, table_of(SCHEMA, GROWS | options)).columns
    assert columns[:2] == SCHEMA.columns
    return [(column.name, str(column.type), column.nullable) for column in columns[2:]]


def test_unknown_columns_of_images_after_a_change_are_added_in_order_of_appearance() -> None:
    changes = [
        insert({**ADA, "z": 1}),
        delete({"id": "1", "gone": "x"}),
        change(Operation.DELETE, {"id": "1"}, {"id": "1", "gone": "x"}),
        change(Operation.DELETE, {"id": "1"}, None),
        update({"id": "1", "former": "x"}, {**ADA, "b": 1, "z": 2}),
        upsert({"a": 1, **ADA}),
    ]
    assert added(changes) == [(name, "string", True) for name in "zba"]


def test_a_new_column_has_the_type_that_the_options_declare_and_is_nullable() -> None:
    columns = {"day": {"type": "date", "nullable": False}}
    assert added([insert({**ADA, "day": "2024-02-29", "x": 1})], columns=columns) == [
        ("day", "date", True),
        ("x", "string", True),
    ]


def test_known_and_excluded_columns_are_not_added() -> None:
    assert added([insert({**ADA, "secret": "x", "new": 1})], exclude=["secret"]) == [("new", "string", True)]
    table = table_of(SCHEMA, GROWS)
    assert needed_schema([insert(ADA), delete({"id": "1"})], table) is SCHEMA


def test_by_default_no_column_is_added() -> None:
    assert needed_schema([insert({**ADA, "new": 1})], table_of(SCHEMA, {})) is SCHEMA


def test_every_name_that_no_file_can_have_is_rejected_with_the_first_message_that_has_it() -> None:
    changes = [
        insert({**ADA, "good": 1}, 3),
        insert({**ADA, "a\tb": 1, "good": 1, "NAME": 1}, 5),
        insert({**ADA, "a\tb": 1, "GOOD": 1, "__rowmarker__": 1}, 7),
    ]
    with rejected() as rejection:
        needed_schema(changes, table_of(SCHEMA, GROWS))
    assert rejection.places == [
        (Code.BAD_NAME, 5, "/after/a\tb", "a\tb"),
        (Code.BAD_SCHEMA, 5, "/after/NAME", "NAME"),
        (Code.BAD_SCHEMA, 7, "/after/GOOD", "GOOD"),
        (Code.RESERVED_NAME, 7, "/after/__rowmarker__", "__rowmarker__"),
    ]
    assert rejection.details[1:3] == ["another column has the same name (letter case does not count)"] * 2
    assert all(rejection.details)


def test_a_new_column_cannot_take_the_name_of_a_column_of_the_landing_files() -> None:
    files = replace(SCHEMA, columns=(*SCHEMA.columns, *schema_of({"Loaded_At": "timestamp"}).columns))
    with rejected() as rejection:
        needed_schema([insert({**ADA, "loaded_at": 1})], table_of(replace(SCHEMA, lands_as=files), GROWS))
    assert rejection.places == [(Code.BAD_SCHEMA, 0, "/after/loaded_at", "loaded_at")]


@pytest.mark.parametrize(
    ("changes", "cdc_started", "bare"),
    [
        ([], False, True),
        ([insert(ADA)], False, True),
        ([insert(ADA)], True, True),
        ([SNAPSHOT, SNAPSHOT, insert(ADA)], False, True),
        ([SNAPSHOT], True, False),
        ([insert(ADA), SNAPSHOT], False, False),
        ([insert(ADA), update(ADA, ADA), insert(ADA)], False, False),
        ([delete(ADA)], False, False),
        ([upsert(ADA)], False, False),
    ],
)
def test_files_without_a_row_marker_get_one_with_the_first_row_that_is_no_insert(
    changes: list[Change], cdc_started: bool, bare: bool
) -> None:
    assert needed_schema(changes, table_of(BARE, {}, cdc_started=cdc_started)) == replace(SCHEMA, bare=bare)
    assert needed_schema(changes, table_of(SCHEMA, {}, cdc_started=cdc_started)) is SCHEMA


def test_files_of_a_table_without_keys_never_get_a_row_marker() -> None:
    keyless = replace(schema_of({"id": "int64"}), bare=True)
    assert needed_schema([delete({"id": 1})], table_of(keyless, {})) is keyless
