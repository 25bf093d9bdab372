"""The landing order of rows where updates change keys.

A log lists the rows of one statement one after the other, although the statement changed them at once:
`UPDATE t SET k = k + 1` reads 1->2, 2->3, 3->4. If they landed in that order, each insert would hit a row that is still
there, and the next delete would remove both. So updates that change keys are examined together. A row that moves onto
a key from which another row has yet to move away starts a set-based statement: all deletes of that statement land
first, then all inserts. One row that moves twice keeps its order.

Invariant: when a statement ends, no two rows have the same key; otherwise the request is rejected.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from operator import itemgetter
from typing import Final, NamedTuple, NoReturn, TypeAlias

from app.domain.model.change import Image, SourceValue
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import Column, TableSchema
from app.domain.rows.conversion import BadValues, convert, reading_of
from mirrorgate.errors import Code, Problem, RejectedInput
from mirrorgate.errors.exceptions import pointer_to

IsLive: TypeAlias = Callable[[bytes], bool | None]
"""True if a row has this key when a statement begins, None if that is unknown."""

_ORIGINAL: Final = -1
"""The row that had a key before the statement; a moved row is identified by the index of its change."""


class KeyChange(NamedTuple):
    """An update that changes the key: `row` deletes the old key, the row behind it inserts the new one."""

    row: int
    before: Image
    after: Image
    message: int
    pointer: str
    """The JSON Pointer of the image after the change."""


@dataclass(frozen=True, slots=True)
class KeyChanges:
    """The key-changing updates of one batch, in order."""

    changes: Sequence[KeyChange]
    schema: TableSchema
    options: TableOptions
    has_images: bool
    """True if the table keeps a row image per row, so that a missing image means that there is no row."""

    def landing_order(self, keys: Sequence[bytes], is_live: IsLive) -> Iterator[int]:
        """Yield the rows of the batch, given by their row keys, in the order in which they are to land.

        `is_live` is called as each statement begins and must reflect all rows yielded until then. Raises
        RejectedInput `ambiguous_key_change` or `key_in_use`.
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
        """Return True if `later`, by its other columns, moves the row that `earlier` moved; None if any is missing."""
        before, after = later.before, earlier.after
        names = (name for name in self.schema.names if name not in self.schema.key_set)
        verdicts = [self._are_equal(name, before, after) for name in names if name in before or name in after]
        if False in verdicts:
            return False
        return True if verdicts and None not in verdicts else None

    def problem(self, code: Code, detail: str, key_change: KeyChange) -> Problem:
        """Return the problem of one update."""
        column = self.schema.key_columns[0]
        return Problem(code, detail, key_change.message, pointer_to(key_change.pointer, column), column)

    def _are_equal(self, name: str, before: Mapping[str, SourceValue], after: Mapping[str, SourceValue]) -> bool | None:
        if name not in before or name not in after:
            return None
        column = self.schema.columns[self.schema.names.index(name)]
        return are_equal(before[name], after[name], column, self.options)


def are_equal(old: SourceValue, new: SourceValue, column: Column, options: TableOptions) -> bool | None:
    """Return True if two values of a column are equal once typed ("14" and 14 are); None if one does not fit."""
    if old == new and type(old) is type(new) and not isinstance(old, Decimal):
        return True
    try:
        typed = convert([old, new], column.type, reading_of(column.name, options))
    except BadValues:
        return None
    return bool(typed[0] == typed[1])


def _touches(keys: Sequence[bytes], changes: Sequence[KeyChange]) -> Mapping[bytes, Sequence[int]]:
    """Return, for each key that an update moves a row to, all rows of that key, ascending."""
    found: dict[bytes, list[int]] = {keys[change.row + 1]: [] for change in changes}
    for row, key in enumerate(keys):
        if key in found:
            found[key].append(row)
    return found


@dataclass
class _Statement:
    """The key changes from `first` until no two rows have one key: one change, or those of a set-based statement.

    Rows are followed from key to key. Of two rows at one key, the one that was there first leaves first.
    """

    all_changes: KeyChanges
    keys: Sequence[bytes]
    is_live: IsLive
    touches: Mapping[bytes, Sequence[int]]
    first: int
    end: int = 0
    """The index after the last change."""
    _rows_at: dict[bytes, list[int]] = field(default_factory=dict)
    """By key: the rows that have it, the one there longest first; empty if none is known to have it."""
    _crowded: set[bytes] = field(default_factory=set)
    """Keys that two rows have; the first of them has yet to move away."""
    _others: set[bytes] = field(default_factory=set)
    """Keys of rows of other kinds between the key changes."""
    _links: set[int] = field(default_factory=set)
    """Changes that move a row which an earlier change of the statement moved."""

    def order(self) -> Iterator[int]:
        """Yield the rows of the statement and those between them: all deletes, then all inserts.

        A row that moves again is deleted just before it is inserted again. Raises RejectedInput.
        """
        changes = self.all_changes.changes
        self._close()
        for at in range(self.first, self.end):
            if at not in self._links:
                yield changes[at].row
        for at in range(self.first, self.end):
            row = changes[at].row
            if at in self._links:
                yield row
            yield row + 1
            if at + 1 < self.end:
                yield from range(row + 2, changes[at + 1].row)

    def _close(self) -> None:
        changes = self.all_changes.changes
        for at in range(self.first, len(changes)):
            if at > self.first:
                self._others.update(self.keys[changes[at - 1].row + 2 : changes[at].row])
            self._move(at)
            if not self._others.isdisjoint(self._rows_at):
                break  # a change of another kind keeps its position between key changes of its key
            if not self._crowded:
                self.end = at + 1
                return
        last = max(self._rows_at[key][-1] for key in self._crowded) if self._crowded else at
        detail = "another row has the new key, and no update of the same statement moves it"
        self._reject(Code.KEY_IN_USE, detail, last)

    def _move(self, at: int) -> None:
        old, new = (self.keys[self.all_changes.changes[at].row + offset] for offset in (0, 1))
        leaving = self._at(old)
        if leaving:
            row = leaving.pop(0)
            if row != _ORIGINAL:
                self._links.add(at)
                if leaving:
                    self._reject(Code.AMBIGUOUS_KEY_CHANGE, "two rows were moved to the old key", at)
            if len(leaving) < 2:
                self._crowded.discard(old)
        if new not in self._rows_at and self.is_live(new) is None and not self._is_displaced(new, at):
            self._rows_at[new] = []
        arriving = self._at(new)
        if arriving:
            self._crowded.add(new)
        arriving.append(at)

    def _at(self, key: bytes) -> list[int]:
        if key not in self._rows_at:
            self._rows_at[key] = [] if self.is_live(key) is False else [_ORIGINAL]
        return self._rows_at[key]

    def _is_displaced(self, key: bytes, at: int) -> bool:
        """Return True if the next update that moves a row away from `key` moves another row than `at` puts there."""
        changes = self.all_changes.changes
        later = self._next_to_leave(key, at)
        if later is None:
            return False
        same = self.all_changes.is_same_row(changes[later], changes[at])
        if same is not None:
            return not same
        if self._all_have_images(range(at, later + 1)):
            return False
        if changes[later].row - changes[at].row == 2 * (later - at):
            detail = "it is unclear whether one row moved twice or two rows moved"
            self._reject(Code.AMBIGUOUS_KEY_CHANGE, detail, at, later)
        return False

    def _next_to_leave(self, key: bytes, at: int) -> int | None:
        """Return the index of the key change of the key's next row, if that moves a row away."""
        changes, rows = self.all_changes.changes, self.touches[key]
        behind = bisect_right(rows, changes[at].row + 1)
        if behind == len(rows):
            return None
        later = bisect_left(changes, rows[behind], key=itemgetter(0))
        return later if later < len(changes) and changes[later].row == rows[behind] else None

    def _all_have_images(self, indexes: range) -> bool:
        """Return True if all rows that these changes move are known; only then does a missing image mean no row."""
        if not self.all_changes.has_images:
            return False
        arrived: set[bytes] = {key for key, rows in self._rows_at.items() if rows}
        for at in indexes:
            row = self.all_changes.changes[at].row
            if self.keys[row] not in arrived and self.is_live(self.keys[row]) is not True:
                return False
            arrived.add(self.keys[row + 1])
        return True

    def _reject(self, code: Code, detail: str, *indexes: int) -> NoReturn:
        changes = self.all_changes.changes
        raise RejectedInput.of(tuple(self.all_changes.problem(code, detail, changes[at]) for at in indexes))
