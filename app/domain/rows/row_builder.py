"""Turns changes into rows of source values one by one, with every problem of every message.

Invariant: nothing is reordered or collapsed. `row_layout` has the rules.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

import msgspec

from app.domain.model.change import Change, Image, Operation, SourceValue
from app.domain.rows.key_changes import KeyChange, are_equal
from app.domain.rows.row_image import MissingColumns
from app.domain.rows.row_layout import ChangeLayout, LayoutProblem, RowLayout, layout_of
from app.domain.rows.row_rules import RowMarker, RowRules
from app.domain.rows.shaped_changes import Shape, Values
from app.errors import Problem
from app.errors.json_pointer import pointer_to

MAX_PROBLEMS: Final = 20_000
"""Problems of a batch that are collected. A message of three bytes can lack thousands of columns."""

MAX_PROBLEMS_OF_MESSAGE: Final = 100
"""Problems of one kind that are named of one message."""

_MAX_LAYOUTS: Final = 64
"""Layouts that a batch keeps; they take 200 bytes for each column of the table, and messages can all differ."""


class RowBuilder:
    """Collects the rows of one batch with their markers and origins, and the problems of its messages."""

    def __init__(self, rules: RowRules) -> None:
        self.rows: list[Sequence[SourceValue]] = []
        self.markers: list[int] = []
        self.origins: list[tuple[int, str]] = []
        """By row: the index of its message and the JSON Pointer of its image."""
        self.missing: dict[int, MissingColumns] = {}
        """By row: the columns that only the row image can give; they are None in `rows`."""
        self.unknown: dict[int, Sequence[int]] = {}
        """By row: the positions of columns whose value in the source is unknown."""
        self.key_changes: list[KeyChange] = []
        self.operations: list[Operation] = []
        self.changes: list[Change] = []
        """By row, as `operations`."""
        self.problems: list[Problem] = []
        self.has_snapshots = self.starts_cdc = False
        self._rules = rules
        self._names = rules.schema.names
        self._row_of = row_getter(rules.schema.names)
        self._layouts: dict[tuple[object, ...], ChangeLayout] = {}

    @property
    def is_full(self) -> bool:
        """True if there are so many problems that the changes behind need not be looked at."""
        return len(self.problems) >= MAX_PROBLEMS

    def add(self, change: Change) -> None:
        """Add the rows of one change, or its problems."""
        change = _with_kept_keys(change, self._rules)
        if change.operation is Operation.SNAPSHOT:
            self.has_snapshots = True
        elif not self.starts_cdc:
            self.starts_cdc = True
            self._rules, self._layouts = self._rules.after_start(), {}
        layout = self._layout(change)
        outcome = layout.same
        if layout.changed is not None and self._key_changes(layout, change):
            outcome = layout.changed
            if layout.moves:
                images = layout.images(self._values(change.before), self._values(change.after))
                self.key_changes.append(KeyChange(len(self.rows), *images, change.index, change.after_at))
        for problem in outcome.problems:
            self._reject(change, problem)
        if any(problem.image == "after" for problem in outcome.problems):
            self._append_rejected(change, layout)
        for row in outcome.rows:
            self._append(change, row)

    def _layout(self, change: Change) -> ChangeLayout:
        before, after = change.before, change.after
        key = (
            id(change.operation),
            (*before,) if before else None,
            (*after,) if after else None,
            before is None,
            change.source_columns,
            change.is_late,
        )
        layout = self._layouts.get(key)
        if layout is None:
            if len(self._layouts) >= _MAX_LAYOUTS:
                self._layouts.clear()
            given = None if before is None else frozenset(before)
            shape = Shape(
                change.operation,
                given,
                None if after is None else frozenset(after),
                source_columns=change.source_columns,
                is_late=change.is_late,
            )
            layout = self._layouts[key] = layout_of(shape, self._rules)
        return layout

    def _values(self, image: Image | None) -> Values:
        return tuple(map((image or {}).get, self._names))

    def _key_changes(self, layout: ChangeLayout, change: Change) -> bool:
        """Tell whether the typed keys of both images differ. A value that does not fit counts as a change."""
        before, after, options = change.before or {}, change.after or {}, self._rules.options
        columns = (self._rules.schema.columns[at] for at in layout.compared)
        return not all(are_equal(before[column.name], after[column.name], column, options) for column in columns)

    def _append(self, change: Change, layout: RowLayout) -> None:
        """Add a row, which only one of the images gives."""
        image, pointer = (
            (change.before, change.before_at) if layout.image == "before" else (change.after, change.after_at)
        )
        row = len(self.rows)
        if layout.missing is not None:
            self.missing[row] = layout.missing
        if layout.unknown:
            self.unknown[row] = layout.unknown
        if layout.is_after and image is not None:
            self.rows.append(self._row_of(image))
        else:
            values = self._values(image)
            self.rows.append(layout.fill(values, values))
        self.markers.append(layout.marker)
        self.operations.append(layout.operation)
        self.changes.append(change)
        self.origins.append((change.index, pointer))

    def _append_rejected(self, change: Change, layout: ChangeLayout) -> None:
        """Add the row of a rejected change, so that the values that it gives are checked too."""
        row, (_, after) = len(self.rows), layout.images(self._values(change.before), self._values(change.after))
        self.missing[row] = MissingColumns(tuple(at for at, name in enumerate(self._names) if name not in after), False)
        self.rows.append(tuple(map(after.get, self._names)))
        self.markers.append(RowMarker.UPSERT)
        self.operations.append(change.operation)
        self.changes.append(change)
        self.origins.append((change.index, change.after_at))

    def _reject(self, change: Change, problem: LayoutProblem) -> None:
        code, detail, of_image, columns = problem
        pointer = {"before": change.before_at, "after": change.after_at, None: None}[of_image]
        if not columns:
            self.problems.append(Problem(code, detail, change.index, pointer))
        written = [name for name in change.after or () if name in columns] if of_image == "after" else []
        for column in (written or columns)[:MAX_PROBLEMS_OF_MESSAGE]:
            self.problems.append(Problem(code, detail, change.index, pointer_to(pointer or "", column), column))


def _with_kept_keys(change: Change, rules: RowRules) -> Change:
    """Return an update with the keys after it that only its image before has: it keeps them."""
    before, after = change.before, change.after
    if change.operation is not Operation.UPDATE or not before or after is None or rules.schema.key_set <= after.keys():
        return change
    kept = {name: before[name] for name in rules.schema.key_columns if name in before and name not in after}
    return msgspec.structs.replace(change, after={**after, **kept}) if kept else change


def row_getter(names: Sequence[str]) -> Callable[[Mapping[str, SourceValue]], Values]:
    """Return a function that reads these columns of an image as a tuple; it runs in C for two or more."""
    if len(names) > 1:
        getter: Any = itemgetter(*names)
        return getter  # type: ignore[no-any-return]  # itemgetter is not generic in its result
    return lambda image: tuple(image[name] for name in names)
