"""What a change of one shape becomes under the rules of its table, and the schema that it needs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.access.mask_secret import SALT_BYTES, MaskSecret
from app.domain.model.change import Change, Image, Operation
from app.domain.model.table import Table
from app.domain.model.table_options import (
    BinaryEncoding,
    ColumnOverride,
    InsertMarker,
    PartialUpdates,
    Reload,
    TableOptions,
)
from app.domain.model.table_schema import TableSchema
from app.domain.rows import typed_columns
from app.domain.rows.landing_rows import landing_rows
from app.domain.rows.row_image import MissingColumns
from app.domain.rows.row_layout import RowLayout, layout_of
from app.domain.rows.row_rules import KeptByTable, Masking, RowRules, Shape
from app.ingest.request_typing import needed_schema
from mirrorgate.errors import Code, RejectedInput
from tests.support.rejections import rejected
from tests.support.samples.changes import change, delete, insert, update, upsert
from tests.support.samples.schemas import active_table, schema_of

SCHEMA = schema_of({"id": "int64", "name": "string", "total": "int64"}, ["id"], required=["id", "name"])
RULES = RowRules(SCHEMA)
COMPLETES = RowRules(SCHEMA, TableOptions(partial_updates=PartialUpdates.COMPLETE), images_complete=True)
FULL = frozenset(SCHEMA.names)
SNAPSHOT, INSERT = Shape(Operation.SNAPSHOT, None, FULL), Shape(Operation.INSERT, None, FULL)
UPDATE, DELETE = Shape(Operation.UPDATE, FULL, FULL), Shape(Operation.DELETE, FULL, None)


def rows_of(shape: Shape, rules: RowRules) -> list[RowLayout]:
    """Return the rows of a change that keeps the key, then those of one that changes it."""
    layout = layout_of(shape, rules)
    assert not layout.same.problems
    return [*layout.same.rows, *(layout.changed.rows if layout.changed is not None else ())]


def partial(operation: Operation, *names: str, source: set[str] | None = None, is_late: bool = False) -> Shape:
    before = frozenset({"id"}) if operation is Operation.UPDATE else None
    return Shape(operation, before, frozenset({"id", *names}), frozenset(), source and frozenset(source), is_late)


@pytest.mark.parametrize(
    ("rules", "markers"),
    [
        (RULES, [[0], [0], [1, 2, 0], [2]]),
        (RowRules(SCHEMA, TableOptions(insert_marker=InsertMarker.UPSERT)), [[4], [4], [1, 2, 4], [2]]),
        (RowRules(SCHEMA, TableOptions(reload=Reload.UPSERT), cdc_started=True), [[4], [0], [1, 2, 0], [2]]),
        (replace(RULES, cdc_started=True, in_load=True), [[0], [0]]),
    ],
    ids=["by default", "insert_marker=upsert", "reload=upsert", "in a load"],
)
def test_options_choose_the_markers_of_new_rows(rules: RowRules, markers: list[list[int]]) -> None:
    shapes = [SNAPSHOT, INSERT, UPDATE, DELETE][: len(markers)]
    assert [[row.marker for row in rows_of(shape, rules)] for shape in shapes] == markers


def test_a_layout_is_worked_out_once_for_each_of_the_rules_that_decide_it() -> None:
    first = layout_of(SNAPSHOT, RULES)
    assert layout_of(SNAPSHOT, RULES) is first
    assert layout_of(INSERT, RULES) is layout_of(INSERT, RULES.after_start()) is not first
    (problem,) = layout_of(SNAPSHOT, RULES.after_start()).same.problems
    assert problem.code is Code.RELOAD_REQUIRES_RECREATE
    assert layout_of(SNAPSHOT, RULES) is first
    incomplete = Shape(Operation.UPDATE, FULL, frozenset({"id", "name"}))
    assert layout_of(incomplete, RULES).same.problems
    assert not layout_of(incomplete, replace(RULES, left_columns=frozenset({"total"}))).same.problems


@pytest.mark.parametrize(
    ("shape", "rules", "missing", "unknown"),
    [
        (UPDATE, COMPLETES, None, ()),
        (partial(Operation.INSERT, "name"), COMPLETES, None, (2,)),
        (partial(Operation.UPDATE, "name"), COMPLETES, MissingColumns((2,), False), ()),
        (partial(Operation.MERGE), COMPLETES, MissingColumns((1, 2), False, (), (2,)), ()),
        (partial(Operation.MERGE), replace(COMPLETES, images_complete=False), MissingColumns((1, 2), False), ()),
        (partial(Operation.UPDATE, "name", source={"id", "name"}), COMPLETES, None, (2,)),
        (
            partial(Operation.UPDATE, "name", source={"id", "name"}, is_late=True),
            COMPLETES,
            MissingColumns((2,), False, (2,)),
            (2,),
        ),
        (
            partial(Operation.UPDATE, source={"id", "name"}, is_late=True),
            COMPLETES,
            MissingColumns((1, 2), False, (2,)),
            (2,),
        ),
        (
            partial(Operation.MERGE, "name", source={"id", "name"}, is_late=True),
            COMPLETES,
            MissingColumns((2,), False, (2,), (2,)),
            (2,),
        ),
        (partial(Operation.UPDATE, "name"), replace(COMPLETES, left_columns=frozenset({"total"})), None, ()),
    ],
    ids=[
        "a full update",
        "an insert that leaves a column out",
        "a partial update",
        "a merge, if every row has an image",
        "a merge, if a row may have none",
        "a column that the source did not have then",
        "a column that the source has got since",
        "that and a column that is left out",
        "a merge from before a column came",
        "a column that left the source",
    ],
)
def test_row_images_give_what_a_change_leaves_out(
    shape: Shape, rules: RowRules, missing: MissingColumns | None, unknown: tuple[int, ...]
) -> None:
    same, *changed = rows_of(shape, rules)
    assert (same.missing, tuple(same.unknown)) == (missing, unknown)
    if changed:
        deleted, inserted = changed
        assert deleted.missing is None
        assert inserted.missing == (missing and missing._replace(moved=True))


def test_a_row_that_an_image_gives_whole_is_taken_as_it_is() -> None:
    (inserted,), (left,) = rows_of(INSERT, RULES), rows_of(partial(Operation.INSERT, "name"), RULES)
    assert (inserted.is_after, left.is_after) == (True, False)
    values = (1, "Ada", 2)
    assert inserted.fill(None, values) is values
    assert left.fill(None, values) == (1, "Ada", None)


NAMES = schema_of({"id": "int64", "name": "string"}, ["id"])
MASKED_NAMES = TableOptions.parse({"masks": {"name": {"method": "hash"}}})


def test_the_rules_of_a_table_are_those_that_it_has_now() -> None:
    options, left = TableOptions(), frozenset({"name"})
    table = active_table(NAMES, options, left_columns=left, cdc_started=True, images_complete=True)
    assert RowRules.of(table) == RowRules(NAMES, options, left, cdc_started=True, images_complete=True)
    assert RowRules.of(table, in_load=True) == replace(RowRules.of(table), in_load=True)
    young = replace(table, cdc_started=False, images_complete=False)
    assert RowRules.of(young) == RowRules(NAMES, options, left)
    assert RowRules.of(young).after_start() == RowRules(NAMES, options, left, cdc_started=True)


def test_only_values_of_the_source_are_masked_because_row_images_have_masked_ones() -> None:
    secret = MaskSecret(b"secret")
    table = active_table(NAMES, MASKED_NAMES, mask_fingerprint=secret.fingerprint(bytes(SALT_BYTES)))
    assert RowRules.of(table).masking is None
    assert RowRules.of_source(active_table(NAMES), secret) == RowRules.of(active_table(NAMES))
    for in_load in (False, True):
        rules = RowRules.of_source(table, secret, in_load=in_load)
        assert rules.masking == Masking(table, secret)
        assert replace(rules, masking=None) == RowRules.of(table, in_load=in_load)


def test_what_is_kept_for_rules_is_found_under_the_same_schema_options_and_key_only() -> None:
    kept = KeptByTable[str]()
    rules = RowRules(NAMES, TableOptions())
    assert kept.get(rules) is None
    assert kept.keep(rules, None, "whole") == "whole"
    assert kept.keep(rules, "k", "of k") == "of k"
    assert (kept.get(rules), kept.get(rules, "k"), kept.get(rules, "other")) == ("whole", "of k", None)
    assert kept.get(rules.after_start()) == "whole"
    assert kept.get(replace(rules, options=TableOptions())) is None
    assert kept.get(replace(rules, schema=replace(NAMES))) is None


def test_a_cache_that_would_have_too_many_columns_is_emptied_and_filled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.domain.rows.row_rules.MAX_KEPT_COLUMNS", 3 * len(NAMES.columns))
    kept = KeptByTable[int]()
    rules = RowRules(NAMES)

    def found() -> list[int]:
        return [key for key in range(10) if kept.get(rules, key) is not None]

    for first in (0, 3, 6):
        for key in range(first, first + 3):
            kept.keep(rules, key, key + 1)
        assert found() == [first, first + 1, first + 2]


GROWING = schema_of({"id": "int64", "name": "string"}, ["id"], required=["id"])
BARE = replace(GROWING, bare=True)
ADA: Image = {"id": "1", "name": "Ada"}
GROWS = {"new_columns": "add_as_string"}
SNAPSHOT_ROW = change(Operation.SNAPSHOT, None, ADA)


def table_with(schema: TableSchema, options: dict[str, Any], *, cdc_started: bool = False) -> Table:
    return active_table(schema, TableOptions.parse(options), cdc_started=cdc_started)


def added(changes: Sequence[Change], **options: Any) -> list[tuple[str, str, bool]]:
    """Return the columns that changes add to the schema: name, type and whether it is nullable."""
    columns = needed_schema(changes, table_with(GROWING, GROWS | options)).columns
    assert columns[:2] == GROWING.columns
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


def test_known_and_excluded_columns_and_by_default_all_columns_are_not_added() -> None:
    assert added([insert({**ADA, "secret": "x", "new": 1})], exclude=["secret"]) == [("new", "string", True)]
    assert needed_schema([insert(ADA), delete({"id": "1"})], table_with(GROWING, GROWS)) is GROWING
    assert needed_schema([insert({**ADA, "new": 1})], table_with(GROWING, {})) is GROWING


def test_every_name_that_no_file_can_have_is_rejected_with_the_first_message_that_has_it() -> None:
    changes = [
        insert({**ADA, "good": 1}, 3),
        insert({**ADA, "a\tb": 1, "good": 1, "NAME": 1}, 5),
        insert({**ADA, "a\tb": 1, "GOOD": 1, "__rowmarker__": 1}, 7),
    ]
    with rejected() as rejection:
        needed_schema(changes, table_with(GROWING, GROWS))
    assert rejection.places == [
        (Code.BAD_NAME, 5, "/after/a\tb", "a\tb"),
        (Code.BAD_SCHEMA, 5, "/after/NAME", "NAME"),
        (Code.BAD_SCHEMA, 7, "/after/GOOD", "GOOD"),
        (Code.RESERVED_NAME, 7, "/after/__rowmarker__", "__rowmarker__"),
    ]
    assert rejection.details[1:3] == ["another column has the same name (letter case does not count)"] * 2
    assert all(rejection.details)


def test_a_new_column_cannot_take_the_name_of_a_column_of_the_landing_files() -> None:
    files = replace(GROWING, columns=(*GROWING.columns, *schema_of({"Loaded_At": "timestamp"}).columns))
    with rejected(places=[(Code.BAD_SCHEMA, 0, "/after/loaded_at", "loaded_at")]):
        needed_schema([insert({**ADA, "loaded_at": 1})], table_with(replace(GROWING, lands_as=files), GROWS))


@pytest.mark.parametrize(
    ("changes", "cdc_started", "bare"),
    [
        ([], False, True),
        ([insert(ADA)], False, True),
        ([insert(ADA)], True, True),
        ([SNAPSHOT_ROW, SNAPSHOT_ROW, insert(ADA)], False, True),
        ([SNAPSHOT_ROW], True, False),
        ([insert(ADA), SNAPSHOT_ROW], False, False),
        ([insert(ADA), update(ADA, ADA), insert(ADA)], False, False),
        ([delete(ADA)], False, False),
        ([upsert(ADA)], False, False),
    ],
)
def test_files_without_a_row_marker_get_one_with_the_first_row_that_is_no_insert(
    changes: list[Change], cdc_started: bool, bare: bool
) -> None:
    assert needed_schema(changes, table_with(BARE, {}, cdc_started=cdc_started)) == replace(GROWING, bare=bare)
    assert needed_schema(changes, table_with(GROWING, {}, cdc_started=cdc_started)) is GROWING


def test_files_of_a_table_without_keys_never_get_a_row_marker() -> None:
    keyless = replace(schema_of({"id": "int64"}), bare=True)
    assert needed_schema([delete({"id": 1})], table_with(keyless, {})) is keyless


TYPES = {
    "id": "int64",
    "count": "int64",
    "other": "int64",
    "name": "string",
    "note": "string",
    "small": "int16",
    "day": "date",
    "at": "timestamp",
    "until": "timestamp",
    "raw": "binary",
    "raw64": "binary",
}
TYPED_RULES = RowRules(
    schema_of(TYPES, ["id"]), TableOptions(columns={"raw64": ColumnOverride(encoding=BinaryEncoding.BASE64)})
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int64": st.sampled_from(["1", "-02", "9223372036854775807", 7, None]),
    "int16": st.sampled_from(["1", "32767", "1.0", None]),
    "string": st.sampled_from(["", "Ada", "Zoë", 7, None]),
    "date": st.sampled_from(["2024-02-29", None]),
    "timestamp": st.sampled_from(["2024-02-29 12:00:00", "2024-02-29T12:00:00+01", None]),
    "binary": st.sampled_from(["", "abcd", None]),
}
BAD: st.SearchStrategy[Any] = st.sampled_from(["x", "0x1", "1e", "32768", "2023-02-29", "abc", {}])


@st.composite
def images(draw: st.DrawFn) -> dict[str, Any]:
    image = {name: draw(VALUES[declared]) for name, declared in TYPES.items()}
    if draw(st.integers(0, 9)) == 0:
        image[draw(st.sampled_from(sorted(TYPES)))] = draw(BAD)
    return image


def outcome(given: list[dict[str, Any]]) -> Any:
    try:
        return landing_rows([insert(image) for image in given], TYPED_RULES).batch.to_pylist()
    except RejectedInput as rejection:
        return rejection.problems


@given(rows=st.lists(images(), min_size=1, max_size=4))
def test_columns_converted_together_have_the_values_and_problems_that_they_have_alone(
    rows: list[dict[str, Any]],
) -> None:
    together = outcome(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typed_columns, "MAX_ROWS_TOGETHER", -1)
        assert outcome(rows) == together
