"""A source table of random columns, and transactions on it that every form can tell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from decimal import Decimal
from random import Random
from typing import Any, Final

from hypothesis import strategies as st

from tests.support.forms.form import Change, Form, Key, Request, Source, SourceTable
from tests.support.forms.values import Column, Row

State = dict[Key, Row]
"""The rows by key."""

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
"""By declared type."""
KEY_TYPES: Final = ("int64", "string", "date", "binary", "timestamp", "decimal(12,2)")
NAMES: Final = ("id", "KEY 2", "com,ma", "ünï", "a/b~c", 'quo"te', "last")


@dataclass(frozen=True)
class History:
    """Transactions on a table that was empty, and what it holds in the end."""

    table: SourceTable
    transactions: Sequence[Sequence[Change]]
    state: State
    seed: int = 0
    """Decides how a form spells the changes."""

    def requests(self, form: Form) -> list[Request]:
        """Return a request of each transaction; metadata was sent before.

        A form without key changes tells them as a delete and an insert.
        """
        table = self.table
        source = Source(table, Random(self.seed), table_version=1, described=table.names)
        told = self.transactions if form.moves else [_split(table, changes) for changes in self.transactions]
        return [form.write(source, changes) for changes in told]


def _split(table: SourceTable, changes: Sequence[Change]) -> list[Change]:
    parts = [
        [Change("D", change.old, None), Change("I", None, change.new)]
        if change.old and change.new and table.key(change.old) != table.key(change.new)
        else [change]
        for change in changes
    ]
    return [change for part in parts for change in part]


def source_table(types: Mapping[str, str], keys: int) -> SourceTable:
    """Return a table of columns by name and declared type, of which the first ones are the key."""
    columns = [
        Column(name, declared.partition("(")[0], nullable=at >= keys, declared=declared)
        for at, (name, declared) in enumerate(types.items())
    ]
    return SourceTable("S.T", columns, [*types][:keys])


def update(table: SourceTable, old: Row, new: Row) -> Change:
    """Return an update; one that changes the key is a separate statement."""
    return Change("U", old, new, statement=int(table.key(old) != table.key(new)))


@st.composite
def histories(draw: st.DrawFn) -> History:
    keys = draw(st.integers(1, 2))
    width = draw(st.integers(keys, len(NAMES)))
    kinds = [draw(st.sampled_from(KEY_TYPES if place < keys else [*VALUES])) for place in range(width)]
    table = source_table(dict(zip(NAMES, kinds, strict=False)), keys)
    known_keys = draw(
        st.lists(st.tuples(*(VALUES[kind] for kind in kinds[:keys])), min_size=1, max_size=4, unique=True)
    )
    others = st.tuples(*(st.none() | VALUES[kind] for kind in kinds[keys:]))
    state: State = {}

    def change() -> Change | None:
        key, old_key = draw(st.sampled_from(known_keys)), draw(st.sampled_from(known_keys))
        old = state.get(old_key)
        if old is not None and draw(st.integers(0, 3)) == 0:
            return Change("D", state.pop(old_key), None)
        new = dict(zip(NAMES, key + draw(others), strict=False))
        if old is not None and (key == old_key or key not in state):
            new |= {name: old[name] for name in NAMES[keys:width] if draw(st.booleans())}
            del state[old_key]
        elif key in state:
            return None
        else:
            old = None
        state[key] = new
        return Change("I", None, new) if old is None else update(table, old, new)

    drawn = [[change() for _ in range(draw(st.integers(1, 4)))] for _ in range(draw(st.integers(1, 4)))]
    transactions = [[change for change in changes if change is not None] for changes in drawn]
    return History(table, [changes for changes in transactions if changes], state, draw(st.integers(0, 2**32)))
