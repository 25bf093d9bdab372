"""Landing rows, applied in order, reproduce the source table."""

import itertools
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.domain.model.change import Change, Image, Operation
from app.domain.rows.landing_rows import landing_rows
from app.domain.rows.row_rules import RowMarker
from tests.support.samples.changes import change, delete, insert, update, upsert
from tests.support.samples.schemas import schema_of

SCHEMA = schema_of({"name": "string", "id": "int64", "total": "decimal(9,2)"}, ["id"])

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
    landed = landing_rows(changes, SCHEMA)
    assert apply(landed.batch.to_pylist()) == state
    assert landed.changes == len(changes)


@given(history=histories(), cut=st.integers(0, 12))
def test_cutting_a_history_into_batches_changes_no_row(history: tuple[list[Change], State], cut: int) -> None:
    changes, _ = history
    parts = [landing_rows(part, SCHEMA).batch.to_pylist() for part in (changes[:cut], changes[cut:])]
    assert parts[0] + parts[1] == landing_rows(changes, SCHEMA).batch.to_pylist()


@given(keys=st.lists(st.integers(0, 3), min_size=2, max_size=8))
def test_a_changed_key_deletes_the_old_row_right_before_it_inserts_the_new_one(keys: list[int]) -> None:
    full: Image = {"name": "Ada", "total": "1"}
    moves = [update({**full, "id": old}, {**full, "id": new}) for old, new in itertools.pairwise(keys)]
    rows = landing_rows([insert({**full, "id": keys[0]}), *moves], SCHEMA).batch.to_pylist()
    markers = [(row["id"], row["__rowMarker__"]) for row in rows[1:]]
    expected = []
    for old, new in itertools.pairwise(keys):
        expected += [(new, 1)] if old == new else [(old, 2), (new, 0)]
    assert markers == expected
