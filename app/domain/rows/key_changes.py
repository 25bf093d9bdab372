"""The landing order of rows where updates change keys.

A log lists the rows of one statement one after the other, although the statement changed them at once:
`UPDATE t SET k = k + 1` reads 1->2, 2->3, 3->4. Landed as they are listed, each insert would hit a row that is still
there, and the next delete would take both. So updates that change keys are examined together. A row that moves onto
a key from which another row has yet to move away begins a set-based statement: all deletes of that statement land
first, then all inserts. One row that moves twice keeps its order.

Invariant: no two rows have one key where a statement ends, or the request is rejected.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from operator import itemgetter
from typing import Final, NamedTuple, NoReturn, TypeAlias

from app.domain.model.change import Change, SourceValue
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import TableSchema
from app.domain.rows.column_conversion import BadValues, convert
from app.domain.rows.value_reading import reading_of
from app.errors import Code, Problem, RejectedInput
from app.errors.json_pointer import pointer_to

IsLive: TypeAlias = Callable[[bytes], bool | None]
"""Whether a row has this key when a statement begins, None where nothing tells."""

_ORIGINAL: Final = -1
"""Stands for the row that had a key before the statement; moved rows are told apart by the place of their change."""


class KeyChange(NamedTuple):
    """An update that changes the key: `row` deletes the old key, the row behind it inserts the new one."""

    row: int
    change: Change


@dataclass(frozen=True, slots=True)
class KeyChanges:
    """The key-changing updates of one batch, in order."""

    changes: Sequence[KeyChange]
    schema: TableSchema
    options: TableOptions
    has_images: bool
    """Whether the table keeps a row image for each row, so that a missing one says that there is no row."""

    def landing_order(self, keys: Sequence[bytes], is_live: IsLive) -> Iterator[int]:
        """Yield the rows of the batch, given by their row keys, in the order in which they are to land.

        `is_live` is asked as each statement begins: let it know all rows yielded until then. Raises RejectedInput
        `ambiguous_key_change` or `key_in_use`.
        """
        touches = _touches(keys, self.changes)
        end = first = 0
        while first < len(self.changes):
            yield from range(end, self.changes[first].row)
            statement = _Statement(self, keys, is_live, touches, first)
            yield from statement.order()
            first = statement.end
            end = self.changes[first - 1].row + 2
        yield from range(end, len(keys))

    def is_same_row(self, later: KeyChange, earlier: KeyChange) -> bool | None:
        """Whether `later` moves the row that `earlier` moved, by all other columns; None where some are not given."""
        before, after = later.change.before or {}, earlier.change.after or {}
        names = (name for name in self.schema.names if name not in self.schema.key_set)
        verdicts = [self._are_equal(name, before, after) for name in names if name in before or name in after]
        if False in verdicts:
            return False
        return True if verdicts and None not in verdicts else None

    def problem(self, code: Code, detail: str, key_change: KeyChange) -> Problem:
        """The rejection of one update."""
        change, column = key_change.change, self.schema.key_columns[0]
        return Problem(code, detail, change.index, pointer_to(change.after_at, column), column)

    def _are_equal(self, name: str, before: Mapping[str, SourceValue], after: Mapping[str, SourceValue]) -> bool | None:
        if name not in before or name not in after:
            return None
        old, new = before[name], after[name]
        if old == new and type(old) is type(new) and not isinstance(old, Decimal):
            return True
        column = self.schema.columns[self.schema.names.index(name)]
        try:
            typed = convert([old, new], column.type, reading_of(name, self.options))
        except BadValues:
            return None
        return bool(typed[0] == typed[1])


def _touches(keys: Sequence[bytes], changes: Sequence[KeyChange]) -> Mapping[bytes, Sequence[int]]:
    """By each key that some update moves a row from or to: all rows of that key, ascending."""
    found: dict[bytes, list[int]] = {keys[change.row + offset]: [] for change in changes for offset in (0, 1)}
    for row, key in enumerate(keys):
        if key in found:
            found[key].append(row)
    return found


@dataclass
class _Statement:
    """The key changes from `first` on until no two rows have one key: one change, or those of a set-based statement.

    Rows are followed from key to key. Of two rows at one key, the one that was there first leaves first.
    """

    all_changes: KeyChanges
    keys: Sequence[bytes]
    is_live: IsLive
    touches: Mapping[bytes, Sequence[int]]
    first: int
    end: int = 0
    """The change behind the last one."""
    _rows_at: dict[bytes, list[int]] = field(default_factory=dict)
    """By key: who has it, the longest there first. An empty list: nobody, as far as anything tells."""
    _crowded: set[bytes] = field(default_factory=set)
    """Keys that two rows have: the first of them has yet to move away."""
    _others: set[bytes] = field(default_factory=set)
    """Keys of rows of other kinds between the key changes."""
    _links: set[int] = field(default_factory=set)
    """Changes that move a row which an earlier change of the statement moved."""

    def order(self) -> Iterator[int]:
        """The rows of the statement, and those between them: all deletes, then all inserts; a row that moves again is
        deleted just before it is inserted again. Raises RejectedInput."""
        changes = self.all_changes.changes
        self._close()
        for place in range(self.first, self.end):
            if place not in self._links:
                yield changes[place].row
        for place in range(self.first, self.end):
            row = changes[place].row
            if place in self._links:
                yield row
            yield row + 1
            if place + 1 < self.end:
                yield from range(row + 2, changes[place + 1].row)

    def _close(self) -> None:
        changes = self.all_changes.changes
        for place in range(self.first, len(changes)):
            if place > self.first:
                self._others.update(self.keys[changes[place - 1].row + 2 : changes[place].row])
            self._move(place)
            if not self._others.isdisjoint(self._rows_at):
                break  # a change of another kind keeps its place between key changes of its key
            if not self._crowded:
                self.end = place + 1
                return
        last = max(self._rows_at[key][-1] for key in self._crowded) if self._crowded else place
        detail = "the new key is that of another row, which no update of the same statement moves away"
        self._reject(Code.KEY_IN_USE, detail, last)

    def _move(self, place: int) -> None:
        old, new = (self.keys[self.all_changes.changes[place].row + offset] for offset in (0, 1))
        leaving = self._at(old)
        if leaving:
            row = leaving.pop(0)
            if row != _ORIGINAL:
                self._links.add(place)
                if leaving:
                    self._reject(Code.AMBIGUOUS_KEY_CHANGE, "two rows were moved to the old key", place)
            if len(leaving) < 2:
                self._crowded.discard(old)
        if new not in self._rows_at and self.is_live(new) is None and not self._is_displaced(new, place):
            self._rows_at[new] = []
        arriving = self._at(new)
        if arriving:
            self._crowded.add(new)
        arriving.append(place)

    def _at(self, key: bytes) -> list[int]:
        if key not in self._rows_at:
            self._rows_at[key] = [] if self.is_live(key) is False else [_ORIGINAL]
        return self._rows_at[key]

    def _is_displaced(self, key: bytes, place: int) -> bool:
        """Whether the update that next moves a row away from `key` moves another one than `place` puts there."""
        changes = self.all_changes.changes
        later = self._next_to_leave(key, place)
        if later is None:
            return False
        same = self.all_changes.is_same_row(changes[later], changes[place])
        if same is not None:
            return not same
        if self._all_have_images(range(place, later + 1)):
            return False
        if changes[later].row - changes[place].row == 2 * (later - place):
            detail = "nothing tells whether one row moved twice, or two rows moved at once"
            self._reject(Code.AMBIGUOUS_KEY_CHANGE, detail, place, later)
        return False

    def _next_to_leave(self, key: bytes, place: int) -> int | None:
        """The key change that is the next of all rows of this key, if it moves a row away."""
        changes, rows = self.all_changes.changes, self.touches[key]
        behind = bisect_right(rows, changes[place].row + 1)
        if behind == len(rows):
            return None
        later = bisect_left(changes, rows[behind], key=itemgetter(0))
        return later if later < len(changes) and changes[later].row == rows[behind] else None

    def _all_have_images(self, places: range) -> bool:
        """Whether all rows that these changes move are known: only then a missing image says that there is no row."""
        if not self.all_changes.has_images:
            return False
        arrived: set[bytes] = {key for key, rows in self._rows_at.items() if rows}
        for place in places:
            row = self.all_changes.changes[place].row
            if self.keys[row] not in arrived and self.is_live(self.keys[row]) is not True:
                return False
            arrived.add(self.keys[row + 1])
        return True

    def _reject(self, code: Code, detail: str, *places: int) -> NoReturn:
        changes = self.all_changes.changes
        raise RejectedInput.of(tuple(self.all_changes.problem(code, detail, changes[place]) for place in places))
