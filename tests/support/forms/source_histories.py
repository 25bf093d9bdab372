"""A source table of random columns, and transactions on it that every form can describe."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

from hypothesis import strategies as st

Row = tuple[Any, ...]
State = dict[Row, Row]
"""The rows by key."""

TYPES: Final[Mapping[str, dict[str, Any]]] = {
    "boolean": {"type": "BOOLEAN"},
    "int16": {"type": "INT2"},
    "int32": {"type": "INT4"},
    "int64": {"type": "INT8"},
    "float32": {"type": "REAL4"},
    "float64": {"type": "REAL8"},
    "decimal(12,2)": {"type": "NUMERIC", "precision": 12, "scale": 2},
    "date": {"type": "DATE"},
    "timestamp": {"type": "DATETIME"},
    "string": {"type": "NCLOB"},
    "binary": {"type": "BLOB"},
    "json": {"type": "NCLOB"},
}
"""Declared types, and how Replicate's metadata names them; it has no JSON, which is a text there."""

TEXT: Final = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5) | st.sampled_from(
    ["NULL", "", "a,b", '"', '{"a": "\\"}', "line\r\nbreak", " x ", "\\", "nul"]
)
VALUES: Final[Mapping[str, st.SearchStrategy[Any]]] = {
    "boolean": st.booleans(),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "float32": st.floats(allow_nan=False, allow_infinity=False, width=32),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "decimal(12,2)": st.decimals(Decimal("-9999999999.99"), Decimal("9999999999.99"), places=2),
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(UTC)),
    "string": TEXT.filter(lambda text: text != "null"),
    "binary": st.binary(max_size=5),
    "json": st.sampled_from(['{"a":[1,"\\"x\\""],"b":null}', "[]", '"text"', '{"é":"\\\\","c":1.50}']),
}
KEY_TYPES: Final = ("int64", "string", "date", "binary", "timestamp", "decimal(12,2)")
NAMES: Final = ("id", "KEY 2", "com,ma", "ünï", "a/b~c", 'quo"te', "last")


@dataclass(frozen=True)
class SourceTable:
    """`types` by column; the first `keys` columns are the key."""

    types: Mapping[str, str]
    keys: int

    def key(self, row: Row) -> Row:
        return row[: self.keys]


@dataclass(frozen=True)
class Event:
    """What happened to a row: an insert has no `old`, a delete no `new`."""

    old: Row | None
    new: Row | None


@dataclass(frozen=True)
class History:
    """Transactions on a table that was empty, and what it holds in the end."""

    table: SourceTable
    transactions: list[list[Event]]
    state: State


@st.composite
def histories(draw: st.DrawFn) -> History:
    keys = draw(st.integers(1, 2))
    width = draw(st.integers(keys, len(NAMES)))
    kinds = [draw(st.sampled_from(KEY_TYPES if place < keys else [*TYPES])) for place in range(width)]
    table = SourceTable(dict(zip(NAMES, kinds, strict=False)), keys)
    known_keys = draw(
        st.lists(st.tuples(*(VALUES[kind] for kind in kinds[:keys])), min_size=1, max_size=4, unique=True)
    )
    others = st.tuples(*(st.none() | VALUES[kind] for kind in kinds[keys:]))
    state: State = {}

    def event() -> Event | None:
        key, old_key = draw(st.sampled_from(known_keys)), draw(st.sampled_from(known_keys))
        old = state.get(old_key)
        if old is not None and draw(st.integers(0, 3)) == 0:
            return Event(state.pop(old_key), None)
        if old is not None and (key == old_key or key not in state):
            changed = zip(old[keys:], draw(others), strict=True)
            new = key + tuple(one if draw(st.booleans()) else two for one, two in changed)
            del state[old_key]
        elif key not in state:
            new = key + draw(others)
        else:
            return None
        moved = old if old is not None and old_key not in state else None
        state[key] = new
        return Event(moved, new)

    drawn = [[event() for _ in range(draw(st.integers(1, 4)))] for _ in range(draw(st.integers(1, 4)))]
    transactions = [[event for event in events if event is not None] for events in drawn]
    return History(table, [events for events in transactions if events], state)


def as_text(value: Any) -> str:
    """Return a value as Arcion writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(" ", "microseconds")
    return value.isoformat() if isinstance(value, date) else repr(value) if isinstance(value, float) else str(value)


def as_json(value: Any) -> Any:
    """Return a value as Replicate and applications write it: numbers as such, except decimals."""
    return value if value is None or isinstance(value, bool | int | float) else as_text(value)
