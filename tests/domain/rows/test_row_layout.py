"""What a change of one shape becomes under the options of its table, before any value is known."""

from dataclasses import replace

import pytest

from app.domain.model.change import Operation
from app.domain.model.table_options import InsertMarker, PartialUpdates, Reload, TableOptions
from app.domain.rows.row_image import MissingColumns
from app.domain.rows.row_layout import RowLayout, layout_of
from app.domain.rows.row_rules import RowRules, Shape
from app.errors import Code
from tests.support.samples.schemas import schema_of

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
