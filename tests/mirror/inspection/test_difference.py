"""`mirror diff` says by key what happened between two versions, duplicates included."""

import datetime
from collections import Counter
from decimal import Decimal
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from app.mirror.inspection.difference import ChangedRow, compare_versions, differing_files
from app.mirror.inspection.history import read_history, read_key_columns
from tests.mirror.inspection.mirrored import Mirrored

ODD = ('se"lect', "a, b", "from", "naïve ключ 🔑", " c0 ", "it's")


def changes(table: Mirrored, first: int | None, last: int) -> list[ChangedRow]:
    before = None if first is None else DeltaTable(table.uri, version=first)
    after = DeltaTable(table.uri, version=last)
    with compare_versions(before, after, read_key_columns(read_history(table.target, after))) as found:
        listed = list(found.changes())
    assert Counter(one.change for one in listed) == Counter(found.counts)
    return listed


def printed(table: Mirrored, first: int | None, last: int) -> list[dict[str, Any]]:
    return [one.to_json(show_values=True) for one in changes(table, first, last)]


def test_inserts_updates_and_deletes_are_told_by_key(table: Mirrored) -> None:
    table.commit([(1, "a"), (2, "b"), (3, "c")])
    table.commit([(2, "B"), (4, "d")], deleted=[(2,), (3,)])
    assert printed(table, 0, 1) == [
        {"key": {"id": 2}, "change": "update", "columns": ["v"], "before": {"v": "b"}, "after": {"v": "B"}},
        {"key": {"id": 3}, "change": "delete", "columns": [], "before": {"v": "c"}, "after": None},
        {"key": {"id": 4}, "change": "insert", "columns": [], "before": None, "after": {"v": "d"}},
    ]


def test_values_are_shown_only_on_request(table: Mirrored) -> None:
    table.commit([(1, "secret")])
    assert [one.to_json(show_values=False) for one in changes(table, None, 0)] == [
        {"key": {"id": 1}, "change": "insert", "columns": []}
    ]


def test_rows_that_a_commit_rewrites_unchanged_are_no_change(table: Mirrored) -> None:
    table.commit([(number, "same") for number in range(1000)])
    table.commit([(5, "same")], deleted=[(5,)])
    assert changes(table, 0, 1) == []


def test_an_equal_version_has_no_changes(table: Mirrored) -> None:
    table.commit([(1, "a")])
    assert changes(table, 0, 0) == []


def test_the_way_back_is_the_reverse(table: Mirrored) -> None:
    table.commit([(1, "a")])
    table.commit([(1, "b"), (2, "c")], deleted=[(1,)])
    assert [(one.change, one.key["id"]) for one in changes(table, 1, 0)] == [("update", 1), ("delete", 2)]


def test_each_duplicate_of_marker_0_is_one_insert(table: Mirrored) -> None:
    table.commit([(1, "a")])
    table.commit([(1, "a"), (1, "a"), (1, "b")])
    assert Counter(one.change for one in changes(table, 0, 1)) == {"insert": 3}


def test_an_update_that_replaces_three_duplicates_is_an_update_and_two_deletes(table: Mirrored) -> None:
    table.commit([(1, "a"), (1, "a"), (1, "b")])
    table.commit([(1, "z")], deleted=[(1,)])
    assert Counter(one.change for one in changes(table, 0, 1)) == {"update": 1, "delete": 2}


def test_rows_with_a_null_in_the_key_are_paired(table: Mirrored) -> None:
    table.commit([(None, "a")])
    assert printed(table, None, 0)[0]["key"] == {"id": None}


def test_a_new_column_is_no_update_of_rows_without_a_value(table: Mirrored) -> None:
    table.commit([(1, "a"), (2, "b")])
    table.schema = table.schema.append(pa.field("new", pa.int32()))
    table.commit([(3, "c", 7)])
    table.commit([(1, "a", 9)], deleted=[(1,)])
    assert [(one.change, one.key["id"], one.columns) for one in changes(table, 0, 2)] == [
        ("update", 1, ("new",)),
        ("insert", 3, ()),
    ]


def test_odd_names_and_types_are_compared(tmp_path: Path) -> None:
    types = [pa.int32(), pa.string(), pa.decimal128(38, 10), pa.timestamp("us", "UTC"), pa.binary(), pa.float64()]
    schema = pa.schema([*zip(ODD, types, strict=True), ("l", pa.list_(pa.int32())), ("d", pa.date32())])
    table = Mirrored(tmp_path, "odd schema.ta ble", schema=schema, keys=ODD[:2])
    moment = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    row = (1, "k'\"", Decimal("1.5"), moment, b"\x00", float("nan"), [1, None], datetime.date(1, 1, 1))
    table.commit([row, (2, "x", *row[2:])])
    table.commit([(1, "k'\"", Decimal("1.6"), *row[3:6], [1, 2], None)], deleted=[(1, "k'\"")])
    (found,) = changes(table, 0, 1)
    assert found.key == {ODD[0]: 1, ODD[1]: "k'\""}
    assert found.columns == ("from", "l", "d")


def test_a_table_without_a_key_is_compared_by_whole_rows(tmp_path: Path) -> None:
    table = Mirrored(tmp_path, keys=())
    table.commit([(1, "a")])
    table.commit([(1, "a"), (2, None)])
    assert [one.to_json(show_values=True) for one in changes(table, 0, 1)] == [
        {"key": {}, "change": "insert", "columns": [], "before": None, "after": {"id": 1, "v": "a"}},
        {"key": {}, "change": "insert", "columns": [], "before": None, "after": {"id": 2, "v": None}},
    ]


def test_only_files_that_differ_are_read(table: Mirrored) -> None:
    for number in range(5):
        table.commit([(number, "a")])
    table.commit([(3, "b")], deleted=[(3,)])
    removed, added = differing_files(DeltaTable(table.uri, version=4), DeltaTable(table.uri, version=5))
    assert (len(removed), len(added)) == (1, 1)


def test_compaction_is_no_change(table: Mirrored) -> None:
    for number in range(4):
        table.commit([(number, "a"), (number, "a")])
    table.delta().optimize.compact()
    assert changes(table, 3, 4) == []


ROWS = st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["a", "b", None])), max_size=6)
KEY_LISTS = st.lists(st.tuples(st.integers(0, 4)), max_size=3)


@settings(max_examples=25, deadline=None)
@given(history=st.lists(st.tuples(ROWS, KEY_LISTS), min_size=2, max_size=5), data=st.data())
def test_a_random_history_is_told_as_an_independent_model_tells_it(
    history: list[tuple[list[Any], list[Any]]], data: st.DataObject
) -> None:
    with TemporaryDirectory() as folder:
        table, state, states = Mirrored(Path(folder)), [], {}
        for rows, deleted in history:
            state = [row for row in state if (row[0],) not in deleted] + rows
            states[table.commit(rows, deleted)] = state
        first, last = (data.draw(st.sampled_from(sorted(states))) for _ in range(2))
        told = Counter((one.change, one.key["id"]) for one in changes(table, first, last))
    assert told == model(states[first], states[last])


def model(before: list[Any], after: list[Any]) -> Counter[tuple[str, int]]:
    """Return the changes between two lists of rows: per key, what remains after equal rows cancel out, pair by pair."""
    removed, added = Counter(before) - Counter(after), Counter(after) - Counter(before)
    told: Counter[tuple[str, int]] = Counter()
    for key in range(5):
        sides = ([row for row in side.elements() if row[0] == key] for side in (removed, added))
        for old, new in zip_longest(*sides):
            told["insert" if old is None else "delete" if new is None else "update", key] += 1
    return told


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_limit_ends_the_list_and_not_the_counts(table: Mirrored, count: int) -> None:
    table.commit([(number, "a") for number in range(5)])
    with compare_versions(None, table.delta(), KEYS_OF_TABLE) as found:
        assert len(list(found.changes(count))) == count
        assert found.counts == {"insert": 5, "update": 0, "delete": 0}


KEYS_OF_TABLE = ("id",)
