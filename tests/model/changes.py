"""Random changes of the rows that a source has, in a form that can tell them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

from tests.model.fold import Fold
from tests.model.tables import Spec
from tests.model.values import random_value
from tests.support.forms.form import Change, Form, Key
from tests.support.forms.values import BAD, Column, Row

_SPOILED: Final = ("int16", "int32", "int64", "date", "boolean", "decimal")
"""Types to whose values a text can be corrected in every encoding."""


@dataclass
class Writer:
    """Makes changes, and applies them to the fold at once. `reserved` keys belong to changes that wait elsewhere."""

    spec: Spec
    fold: Fold
    rng: Random
    streams: bool = False
    """Whether the generation has had a change that is not a snapshot row."""
    loaded: bool = False
    """Whether it had a load session, after which snapshot rows may or may not be the first rows."""
    reserved: set[Key] = field(default_factory=set)
    _gone: list[Key] = field(default_factory=list)
    _known: list[Key] = field(default_factory=list)
    """The keys of present rows, and of some that are gone."""
    _statements: int = 0

    def write(self, form: Form, count: int) -> list[Change]:
        """Return about so many changes; at least one."""
        ways = self._ways(form)
        weights = [weight for _, weight in ways]
        common = self._common(form)
        made: list[Change] = []
        for _ in range(3 * count):
            ((make, _),) = self.rng.choices(ways, weights)
            made += make(form, common)
            if len(made) >= count:
                break
        made = made or (self._snapshot if ways[0][0] == self._snapshot else self._insert)(form, None)
        self.streams = self.streams or any(change.operation != "S" for change in made)
        return made

    def forget(self) -> None:
        """Begin a new, empty generation."""
        self._gone, self._known, self.streams, self.loaded = [], [], False, False

    def new_row(self, *, key: Key | None = None) -> Row:
        row = {column.name: random_value(self.rng, column) for column in self.spec.columns}
        return row | dict(zip(self.spec.keys, key or self.new_key(), strict=True))

    def new_key(self) -> Key:
        """Return a key that no row has: of a deleted row, or a new one."""
        if not self.spec.keys:
            return ()
        while True:
            if self._gone and self.rng.random() < 0.2:
                key = self.rng.choice(self._gone)
            else:
                key = tuple([random_value(self.rng, column, is_key=True) for column in self.spec.key_columns])
            if key not in self.fold.rows and key not in self.reserved:
                self._known.append(key)
                return key

    def spoiled(self) -> tuple[Row, Column] | None:
        """Return a new row in which a text is no value of the column; None if no column is fit for that."""
        fit = [c for c in self.spec.columns if c.kind in _SPOILED and c.name not in self.spec.keys]
        if not fit:
            return None
        row, column = self.new_row(), self.rng.choice(fit)
        return row | {column.name: BAD}, column

    def present(self) -> Row | None:
        """Return a row of the source."""
        while self._known:
            at = self.rng.randrange(len(self._known))
            row = self.fold.rows.get(self._known[at])
            if row is not None and self._known[at] not in self.reserved:
                return row
            self._known[at] = self._known[-1]
            self._known.pop()
        return None

    def _ways(self, form: Form) -> list[tuple[Callable[[Form, frozenset[str] | None], list[Change]], int]]:
        spec, operations = self.spec, form.operations
        ways: list[tuple[Callable[[Form, frozenset[str] | None], list[Change]], int]] = []
        may_load = spec.options.get("reload") == "upsert" if self.streams else not self.loaded
        if "S" in operations and may_load and (operations == "S" or self.streams or self.rng.random() < 0.5):
            return [(self._snapshot, 1)]
        if "I" in operations:
            ways.append((self._insert, 5))
        if not spec.keys:
            return ways
        ways += [(self._update, 6)] * ("U" in operations) + [(self._delete, 2)] * ("D" in operations)
        ways += [(self._upsert, 2)] * ("R" in operations)
        return [*ways, (self._move, 1), (self._statement, 1)] if form.moves else ways

    def _common(self, form: Form) -> frozenset[str] | None:
        """Return the columns that every row of a request gives, if they are to be the same."""
        if form.partial != "*" or not self.spec.completes or self.rng.random() < 0.5:
            return None
        unknown = frozenset[str]().union(*self.fold.partly.values())
        return self._some(self.spec.columns) | unknown

    def _some(self, columns: Sequence[Column]) -> frozenset[str]:
        """Return the names of the keys, of required columns and of some others."""
        spec, share = self.spec, self.rng.random()
        return frozenset(c.name for c in columns if c.name in spec.keys or not c.nullable or self.rng.random() < share)

    def _snapshot(self, _: Form, __: frozenset[str] | None) -> list[Change]:
        row = self.present() if self.streams and self.rng.random() < 0.5 else None
        return self._applied(Change("S", None, self.new_row(key=self.spec.key(row) if row else None)))

    def _insert(self, form: Form, common: frozenset[str] | None) -> list[Change]:
        spec, repeats = self.spec, self.spec.knows_rows or self.spec.options.get("insert_marker") == "upsert"
        row = self.present() if repeats and self.rng.random() < 0.05 else None
        new = self.new_row(key=spec.key(row) if row else None)
        given = None
        if "I" in form.partial and self.rng.random() < 0.15:
            given = self._some(spec.columns)
        if spec.options["incomplete_inserts"] == "reject" or not spec.keys:
            given = None
        if common is not None:  # a later update in the request would not give what this leaves out
            return []
        return self._applied(Change("I", None, _without(new, given), given))

    def _update(self, form: Form, common: frozenset[str] | None) -> list[Change]:
        old = self.present()
        if old is None:
            return []
        given = common
        if self.spec.completes and "U" in form.partial and self.rng.random() < 0.6:
            omitted = {c.name for c in self.spec.columns if not form.omits(c)}
            given = self._some(self.spec.columns) | omitted | self.fold.partly.get(self.spec.key(old), frozenset())
        return self._applied(self._changed("U", old, given))

    def _changed(self, operation: str, old: Row, given: frozenset[str] | None) -> Change:
        new = self.new_row(key=self.spec.key(old))
        kept = self.rng.random() * 0.6
        for name, value in old.items():
            if (given is not None and name not in given) or self.rng.random() < kept:
                new[name] = value
        if given is not None:
            new |= {name: None for name in new if name not in given and name not in old}
        return Change(operation, old, new, given)

    def _delete(self, _: Form, __: frozenset[str] | None) -> list[Change]:
        chance = self.rng.random()
        if chance < 0.04:
            key = self.new_key()
            if key in self.fold.flagged:
                return self._applied(Change("D", self.fold.flagged[key], None))
            return self._applied(Change("D", dict(zip(self.spec.keys, key, strict=True)), None, known=False))
        old = self.present()
        if old is None:
            return []
        self._gone = [*self._gone[-50:], self.spec.key(old)]
        return self._applied(Change("D", old, None))

    def _upsert(self, form: Form, common: frozenset[str] | None) -> list[Change]:
        old = self.present() if self.rng.random() < 0.6 else None
        given = common
        if "R" in form.partial and self.spec.completes and self.rng.random() < 0.5:
            given = self._some(self.spec.columns)
        if old is not None:
            given = None if given is None else given | self.fold.partly.get(self.spec.key(old), frozenset())
            return self._applied(self._changed("R", old, given))
        if common is not None or (self.spec.options["incomplete_inserts"] == "reject" and given is not None):
            return []
        return self._applied(Change("R", None, _without(self.new_row(), given), given))

    def _move(self, form: Form, common: frozenset[str] | None) -> list[Change]:
        old = self._movable(set())
        key = self.new_key()
        if old is None or key in self.fold.flagged:
            return []
        self._statements += 1
        self._gone = [*self._gone[-50:], self.spec.key(old)]
        new = self._changed("U", old, None).new or {}
        return self._applied(
            Change("U", old, new | dict(zip(self.spec.keys, key, strict=True)), None, self._statements)
        )

    def _statement(self, form: Form, common: frozenset[str] | None) -> list[Change]:
        """Change keys of several rows at once: a swap of two, or each takes that of the next."""
        rows, taken = [], set[Key]()
        for _ in range(self.rng.choice((2, 2, 3, 4))):
            if (row := self._movable(taken)) is not None:
                rows.append(row)
                taken.add(self.spec.key(row))
        if len(rows) < 2 or not (self.spec.knows_rows or self._differ(rows)):
            return []
        keys = [self.spec.key(row) for row in rows]
        last = keys[0] if self.rng.random() < 0.6 else self.new_key()
        if last in self.fold.flagged:
            return []
        self._statements += 1
        moved = [
            Change("U", row, row | dict(zip(self.spec.keys, key, strict=True)), None, self._statements)
            for row, key in zip(rows, [*keys[1:], last], strict=True)
        ]
        return self._applied(*moved)

    def _movable(self, taken: set[Key]) -> Row | None:
        """Return a row whose every value the gateway knows."""
        row = self.present()
        if row is None or self.spec.key(row) in taken or self.spec.key(row) in self.fold.partly:
            return None
        return row if len(row) == len(self.spec.columns) else None

    def _differ(self, rows: Sequence[Row]) -> bool:
        """Return whether the rows differ, as far as the gateway sees them, apart from their keys."""
        seen = {c.name for c in self.spec.columns} - {*self.spec.keys} - self.spec.options.get("masks", {}).keys()
        shown = [tuple(str(row[name]) for name in sorted(seen)) for row in rows]
        return len({*shown}) == len(shown)

    def _applied(self, *statement: Change) -> list[Change]:
        self.fold.apply(statement)
        return [*statement]


def _without(row: Row, given: frozenset[str] | None) -> Row:
    return row if given is None else {name: value if name in given else None for name, value in row.items()}


def spoil(changes: Sequence[Change], row: Row, at: int) -> list[Change]:
    """Insert a row that cannot be typed among changes."""
    return [*changes[:at], Change("I", None, row), *changes[at:]]


def corrected(change: Change, column: Column, value: object) -> Change:
    """Return a spoiled change with a value in place of the text."""
    return replace(change, new=(change.new or {}) | {column.name: value})
