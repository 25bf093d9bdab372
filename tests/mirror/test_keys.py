"""Keys of every type are found in the Delta table, whatever the statistics of its files say."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.mirror.small_zone import SmallZone

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
