"""The effect of landing files: what a row-by-row reading of the rules gives."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.mirror.commit import fold
from mirrorgate.errors import Code, InvariantBroken

Row = tuple[int | None, str | None, int]


def applied(rows: list[Row], markers: list[int]) -> tuple[list[Row], set[tuple[int, str]]]:
    """Apply rows one by one. Return the rows that remain, and the keys whose earlier rows are gone."""
    kept: list[Row] = []
    gone: set[tuple[int, str]] = set()
    for row, marker in zip(rows, markers, strict=True):
        number, text, _ = row
        if marker != 0 and number is not None and text is not None:
            kept = [other for other in kept if other[:2] != (number, text)]
            gone.add((number, text))
        if marker != 2:
            kept.append(row)
    return kept, gone


ROWS = st.lists(
    st.tuples(
        st.tuples(st.sampled_from([1, 2, None]), st.sampled_from(["a", "b", None]), st.integers(0, 99)),
        st.sampled_from([0, 1, 2, 4]),
    ),
    max_size=30,
)


@given(ROWS)
def test_an_effect_is_what_rows_do_one_after_the_other(changes: list[tuple[Row, int]]) -> None:
    rows, markers = [row for row, _ in changes], [marker for _, marker in changes]
    schema = pa.schema([("number", pa.int64()), ("text", pa.string()), ("value", pa.int64())])
    columns: list[Any] = [[row[position] for row in rows] for position in range(3)]
    table = pa.table(
        [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)], schema=schema
    )
    effect = fold(table, pa.chunked_array([pa.array(markers, pa.int32())]), ["number", "text"])
    kept, gone = applied(rows, markers)
    assert [tuple(row.values()) for row in effect.rows.to_pylist()] == kept
    deleted = [] if effect.deleted_keys is None else effect.deleted_keys.to_pylist()
    assert len(deleted) == len(gone)
    assert {(row["number"], row["text"]) for row in deleted} == gone


def test_inserts_need_no_key() -> None:
    rows = pa.table({"id": [1, 1]})
    assert fold(rows, pa.chunked_array([pa.array([0, 0], pa.int32())]), []).rows == rows


@pytest.mark.parametrize("marker", [1, 2, 4])
def test_other_changes_need_a_key(marker: int) -> None:
    with pytest.raises(InvariantBroken, match=Code.MIRROR_KEY_MISSING):
        fold(pa.table({"id": [1]}), pa.chunked_array([pa.array([marker], pa.int32())]), [])
