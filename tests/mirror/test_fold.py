"""What rows do one after the other, and how updates and deletes find keys."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.mirror.commit import fold
from mirrorgate.errors import Code, InvariantBroken
from tests.mirror.small_zone import SmallZone

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


START = datetime(2026, 1, 1, tzinfo=UTC)
LONG = "the same beginning of more than thirty-two characters "
KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "microseconds": (pa.timestamp("us", "UTC"), [START + timedelta(microseconds=n) for n in range(1, 900, 17)]),
    "before 1970": (pa.timestamp("us", "UTC"), [datetime(1, 1, 1, tzinfo=UTC) + timedelta(days=n) for n in range(60)]),
    "dates": (pa.date32(), [date(1, 1, 1) + timedelta(days=99 * n) for n in range(60)]),
    "long texts": (pa.string(), [LONG + str(n) for n in range(60)]),
    "long texts that end high": (pa.string(), [LONG + "\U0010ffff" * n for n in range(1, 40)]),
    "other scripts": (pa.string(), ["", "ß", "ä", "Ä", "İ", "i̇", "😀", "\x00", "a\x00", "e\u0301", "\u00e9", "'", '"']),
    "binary": (pa.binary(), [bytes([n]) * 40 for n in range(0, 256, 5)] + [b"", b"\xff" * 50]),
    "decimals": (pa.decimal128(38, 10), [Decimal(n) / 7 * Decimal(10**20) for n in range(-30, 30)]),
    "close decimals": (pa.decimal128(38, 0), [Decimal(10**37 + n) for n in range(30)]),
    "doubles": (pa.float64(), [n * 0.1 for n in range(-30, 30)] + [1e308, -1e308, 5e-324, float("inf")]),
    "not a number": (pa.float32(), [float("nan"), *range(9)]),
    "small numbers": (pa.int8(), list(range(-128, 128, 5))),
    "large numbers": (pa.int64(), [-(2**63), 2**63 - 1, 2**53 + 1, 2**53, 0]),
    "unsigned numbers": (pa.uint64(), [2**64 - 1, 2**63, 0, 2**53 + 1]),
    "truth": (pa.bool_(), [True, False]),
}


@pytest.mark.parametrize("name", KEYS)
def test_updates_and_deletes_find_keys(tmp_path: Path, name: str) -> None:
    key_type, found = KEYS[name]
    values = pa.array(found, key_type).to_pylist()
    zone = SmallZone(tmp_path)

    def land(number: int, keys: list[Any], note: str, marker: int) -> None:
        columns = {"id": pa.array(keys, key_type), "note": [note] * len(keys)}
        zone.land(number, pa.table({**columns, "__rowMarker__": pa.array([marker] * len(keys), pa.int32())}))
        zone.advance()

    half = len(values) // 2
    land(1, values[:half], "old", 0)
    land(2, values[half:], "old", 0)
    for number, value in enumerate(values[::3], start=3):
        land(number, [value], "new", 1)
    changed = len(values[::3])
    notes = [row["note"] for row in zone.rows()]
    assert (notes.count("new"), notes.count("old")) == (changed, len(values) - changed)
    land(3 + changed, values, "", 2)
    assert zone.rows() == []
