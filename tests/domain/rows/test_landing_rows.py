"""The landing rows of each kind of change, of whole histories, and of requests typed together."""

import itertools
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.model.change import Change, Image, Operation
from app.domain.rows.landing_rows import landing_rows
from app.domain.rows.row_layout import layout_of
from app.domain.rows.row_rules import RowMarker, RowRules, Shape
from tests.support.samples.changes import change, delete, insert, update, upsert
from tests.support.samples.schemas import schema_of

SCHEMA = schema_of({"id": "int64", "name": "string", "total": "decimal(9,2)"}, ["id"], required=["id"])
ADA: Image = {"id": "1", "name": "Ada", "total": "1.5"}
ADA_ROW = (1, "Ada", Decimal("1.50"))


def rows_of(changes: Sequence[Change], schema: Any = SCHEMA) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in landing_rows(changes, schema).batch.to_pylist()]


@pytest.mark.parametrize(
    ("given", "rows"),
    [
        pytest.param(insert(ADA), [(*ADA_ROW, 0)], id="insert"),
        pytest.param(change(Operation.SNAPSHOT, None, ADA), [(*ADA_ROW, 0)], id="snapshot"),
        pytest.param(upsert(ADA), [(*ADA_ROW, 4)], id="upsert"),
        pytest.param(update(ADA, ADA), [(*ADA_ROW, 1)], id="update with full images"),
        pytest.param(update({"id": "1"}, ADA), [(*ADA_ROW, 1)], id="update with the key before"),
        pytest.param(
            update({"id": "1"}, {"name": "Ada", "total": "1.5"}), [(*ADA_ROW, 1)], id="update with the key before only"
        ),
        pytest.param(update(None, ADA), [(*ADA_ROW, 1)], id="update without a before image"),
        pytest.param(delete(ADA), [(1, None, None, 2)], id="delete with a full image"),
        pytest.param(delete({"id": "1"}), [(1, None, None, 2)], id="delete with the key"),
        pytest.param(update({"id": "7"}, ADA), [(7, None, None, 2), (*ADA_ROW, 0)], id="key change"),
        pytest.param(insert({"id": "1", "name": None, "total": None}), [(1, None, None, 0)], id="insert of NULLs"),
        pytest.param(insert({"id": "1"}), [(1, None, None, 0)], id="insert that leaves columns out"),
        pytest.param(
            change(Operation.SNAPSHOT, None, {"total": 2, "id": 1}),
            [(1, None, Decimal(2), 0)],
            id="snapshot in another column order",
        ),
        pytest.param(
            update({"id": "1"}, {"id": "1", "name": None, "total": None}), [(1, None, None, 1)], id="update to NULL"
        ),
    ],
)
def test_a_change_becomes_these_rows(given: Change, rows: list[tuple[Any, ...]]) -> None:
    assert rows_of([given]) == rows


def test_rows_keep_the_order_of_their_changes_and_nothing_is_collapsed() -> None:
    changes = [insert(ADA), update(ADA, {**ADA, "id": "2"}), delete({"id": "2"}), insert(ADA), insert(ADA)]
    assert [(row[0], row[-1]) for row in rows_of(changes)] == [(1, 0), (1, 2), (2, 0), (2, 2), (1, 0), (1, 0)]


def test_all_rows_of_an_initial_load_are_inserts() -> None:
    rows = [change(Operation.SNAPSHOT, None, {**ADA, "id": number}) for number in range(3)]
    assert [row[-1] for row in rows_of(rows)] == [0, 0, 0]


EMPLOYEES = schema_of({"EmployeeID": "string", "EmployeeLocation": "string"}, ["EmployeeID"])


def employee(number: str, location: str) -> Image:
    return {"EmployeeID": number, "EmployeeLocation": location}


def test_the_row_history_of_an_employee_lands_as_documented() -> None:
    """The first history of Microsoft's page on the landing zone."""
    hired = [insert(employee(number, "Redmond")) for number in ("E0001", "E0002", "E0003")]
    assert rows_of([*hired, update({"EmployeeID": "E0001"}, employee("E0001", "Bellevue"))], EMPLOYEES) == [
        ("E0001", "Redmond", 0),
        ("E0002", "Redmond", 0),
        ("E0003", "Redmond", 0),
        ("E0001", "Bellevue", 1),
    ]


def test_a_changed_employee_id_lands_as_a_delete_and_an_insert() -> None:
    """The second history of that page."""
    moved = update(employee("E0001", "Bellevue"), employee("E0002", "Bellevue"))
    assert rows_of([insert(employee("E0001", "Bellevue")), moved], EMPLOYEES) == [
        ("E0001", "Bellevue", 0),
        ("E0001", None, 2),
        ("E0002", "Bellevue", 0),
    ]


def test_rows_tell_whether_snapshot_rows_or_other_changes_are_among_them() -> None:
    snapshot = change(Operation.SNAPSHOT, None, ADA)
    for changes, told in (
        ([], (False, False)),
        ([snapshot], (True, False)),
        ([insert(ADA)], (False, True)),
        ([snapshot, insert(ADA)], (True, True)),
    ):
        landed = landing_rows(changes, SCHEMA)
        assert (landed.has_snapshots, landed.starts_cdc) == told


def test_changes_and_rows_are_counted_apart() -> None:
    landed = landing_rows([insert({**ADA, "id": "7"}), update({"id": "7"}, ADA)], SCHEMA)
    assert (landed.changes, landed.rows) == (2, 3)


def test_the_batch_has_the_schema_of_staged_payloads() -> None:
    assert landing_rows([insert(ADA)], SCHEMA).batch.schema.equals(SCHEMA.arrow, check_metadata=True)


@pytest.mark.parametrize(
    ("declared", "old", "new"),
    [
        ("int64", "14", 14),
        ("int64", "014", "14"),
        ("int64", "14.0", "14"),
        ("decimal(9,2)", "1.0", "1.00"),
        ("decimal(9,2)", Decimal("1"), "1.00"),
        ("date", "2024-02-29", "2024-02-29"),
        ("timestamp", "2024-01-01T00:00:00Z", "2024-01-01 01:00:00+01:00"),
        ("timestamp", "2024-01-01 00:00:00", "2024-01-01 00:00:00.000"),
        ("boolean", "TRUE", 1),
        ("binary", "ff", "FF"),
        ("string", 14, "14"),
        ("float64", "0.10", "0.1"),
    ],
)
def test_the_same_typed_key_in_another_spelling_is_no_key_change(declared: str, old: Any, new: Any) -> None:
    schema = schema_of({"id": declared, "name": "string"}, ["id"])
    assert [row[-1] for row in rows_of([update({"id": old}, {"id": new, "name": "x"})], schema)] == [1]


@pytest.mark.parametrize(
    ("declared", "old", "new"),
    [("string", "14", "014"), ("string", "a", "A"), ("string", "a", "a "), ("json", "1", "1.0"), ("int64", "0", "-1")],
)
def test_another_typed_key_is_a_key_change(declared: str, old: str, new: str) -> None:
    schema = schema_of({"id": declared, "name": "string"}, ["id"])
    assert [row[-1] for row in rows_of([update({"id": old}, {"id": new, "name": "x"})], schema)] == [2, 0]


def test_one_changed_part_of_a_key_changes_the_key() -> None:
    schema = schema_of({"region": "string", "name": "string", "id": "int64"}, ["id", "region"])
    change = update({"id": "1", "region": "eu", "name": "x"}, {"id": "1", "region": "us", "name": "y"})
    assert rows_of([change], schema) == [("eu", None, 1, 2), ("us", "y", 1, 0)]


def test_a_deleted_row_may_lack_a_required_column_that_is_no_key() -> None:
    schema = schema_of({"id": "int64", "name": "string"}, ["id"], required=["id", "name"])
    assert rows_of([delete({"id": "1"})], schema) == [(1, None, 2)]


def test_a_table_without_keys_takes_inserts_and_snapshots() -> None:
    schema = schema_of({"id": "int64"})
    assert rows_of([change(Operation.SNAPSHOT, None, {"id": 1}), insert({"id": 1})], schema) == [(1, 0), (1, 0)]


def test_a_table_of_one_column_is_landed_like_any_other() -> None:
    schema = schema_of({"id": "int64"}, ["id"])
    changes = [insert({"id": 1}), update({"id": 1}, {"id": 2}), update({"id": 2}, {"id": 2}), delete({"id": 2})]
    assert rows_of(changes, schema) == [(1, 0), (1, 2), (2, 0), (2, 1), (2, 2)]


def test_what_a_change_keeps_is_taken_from_its_image_before() -> None:
    names = frozenset({"id", "name", "total"})
    layout = layout_of(Shape(Operation.UPDATE, names, names, frozenset({"total"})), RowRules(SCHEMA))
    before, after = (1, "Ada", 2), (7, "Eve", 9)
    assert layout.images(before, after) == (
        {"id": 1, "name": "Ada", "total": 2},
        {"id": 7, "name": "Eve", "total": 2},
    )
    assert layout.changed is not None
    assert [row.fill(before, after) for row in (*layout.same.rows, *layout.changed.rows)] == [
        (7, "Eve", 2),
        (1, None, None),
        (7, "Eve", 2),
    ]
    shape = Shape(Operation.UPDATE, names, frozenset({"id", "total"}), frozenset({"total"}))
    (left,) = layout_of(shape, RowRules(SCHEMA, left_columns=frozenset({"name"}))).same.rows
    assert left.fill(before, after) == (7, None, 2)


TOTALS = schema_of({"name": "string", "id": "int64", "total": "decimal(9,2)"}, ["id"])

Row = tuple[str | None, int, Decimal | None]
State = dict[int, Row]


def spellings(key: int) -> st.SearchStrategy[Any]:
    """Return ways in which a source can write one key."""
    return st.sampled_from([key, str(key), f"{key}.0", f"00{key}", Decimal(key)])


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Change], State]:
    """Draw the changes of a source table that was empty, and its final rows."""
    state: State = {}
    changes: list[Change] = []

    def image(row: Row) -> Image:
        name, key, total = row
        return {"name": name, "id": draw(spellings(key)), "total": None if total is None else str(total)}

    for index in range(draw(st.integers(0, 12))):
        key = draw(st.integers(0, 4))
        name = draw(st.none() | st.sampled_from(["Ada", "null", ""]))
        row: Row = (name, key, draw(st.none() | st.decimals(-9, 9, places=2)))
        old = draw(st.sampled_from(sorted(state))) if state else None
        kind = draw(st.sampled_from(["insert", "upsert", "update", "delete"]))
        if kind == "upsert":
            changes.append(upsert(image(row), index))
        elif key not in state and kind != "delete" and (old is None or kind == "insert"):
            loads = all(earlier.operation is Operation.SNAPSHOT for earlier in changes)
            operation = draw(st.sampled_from([Operation.INSERT, Operation.SNAPSHOT])) if loads else Operation.INSERT
            changes.append(change(operation, None, image(row), index))
        elif old is not None and kind == "delete":
            changes.append(delete(image(state.pop(old)), index))
            continue
        elif old is not None and (key == old or key not in state):
            changes.append(update(image(state[old]), image(row), index))
            del state[old]
        else:
            continue
        state[key] = row
    return changes, state


def apply(rows: list[dict[str, Any]]) -> State:
    """Apply landing rows as mirroring does; an insert over an existing key would duplicate it."""
    state: State = {}
    for row in rows:
        key, marker = row["id"], RowMarker(row["__rowMarker__"])
        if marker is RowMarker.DELETE:
            assert row["name"] is None
            assert row["total"] is None
            del state[key]
            continue
        assert (key in state) is (marker is RowMarker.UPDATE) or marker is RowMarker.UPSERT
        state[key] = (row["name"], key, row["total"])
    return state


@given(history=histories())
def test_applied_in_order_they_give_the_state_of_the_source(history: tuple[list[Change], State]) -> None:
    changes, state = history
    landed = landing_rows(changes, TOTALS)
    assert apply(landed.batch.to_pylist()) == state
    assert landed.changes == len(changes)


@given(history=histories(), cut=st.integers(0, 12))
def test_cutting_a_history_into_batches_changes_no_row(history: tuple[list[Change], State], cut: int) -> None:
    changes, _ = history
    parts = [landing_rows(part, TOTALS).batch.to_pylist() for part in (changes[:cut], changes[cut:])]
    assert parts[0] + parts[1] == landing_rows(changes, TOTALS).batch.to_pylist()


@given(keys=st.lists(st.integers(0, 3), min_size=2, max_size=8))
def test_a_changed_key_deletes_the_old_row_right_before_it_inserts_the_new_one(keys: list[int]) -> None:
    full: Image = {"name": "Ada", "total": "1"}
    moves = [update({**full, "id": old}, {**full, "id": new}) for old, new in itertools.pairwise(keys)]
    rows = landing_rows([insert({**full, "id": keys[0]}), *moves], TOTALS).batch.to_pylist()
    markers = [(row["id"], row["__rowMarker__"]) for row in rows[1:]]
    expected = []
    for old, new in itertools.pairwise(keys):
        expected += [(new, 1)] if old == new else [(old, 2), (new, 0)]
    assert markers == expected
