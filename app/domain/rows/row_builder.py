"""Turns changes into rows of source values one by one, with every problem of every message.

Invariant: nothing is reordered or collapsed. `row_layout` has the rules.
"""

from collections.abc import Sequence

from app.domain.model.change import Change, Image, Operation, SourceValue
from app.domain.rows.key_changes import KeyChange, are_equal
from app.domain.rows.row_image import MissingColumns
from app.domain.rows.row_layout import ChangeLayout, LayoutProblem, RowLayout, layout_of
from app.domain.rows.row_rules import RowRules
from app.domain.rows.shaped_changes import Shape, Values
from app.errors import Problem
from app.errors.json_pointer import pointer_to


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
        self.problems: list[Problem] = []
        self.has_snapshots = self.starts_cdc = False
        self._rules = rules
        self._names = rules.schema.names
        self._layouts: dict[tuple[object, ...], ChangeLayout] = {}

    def add(self, change: Change) -> None:
        """Add the rows of one change, or its problems."""
        if change.operation is Operation.SNAPSHOT:
            self.has_snapshots = True
        elif not self.starts_cdc:
            self.starts_cdc = True
            self._rules, self._layouts = self._rules.after_start(), {}
        layout = self._layout(change)
        before, after = self._values(change.before), self._values(change.after)
        outcome = layout.same
        if layout.changed is not None and self._key_changes(layout, before, after):
            outcome = layout.changed
            if layout.moves:
                images = layout.images(before, after)
                self.key_changes.append(KeyChange(len(self.rows), *images, change.index, change.after_at))
        for problem in outcome.problems:
            self._reject(change, problem)
        for row in outcome.rows:
            self._append(change, row, row.fill(before, after))

    def _layout(self, change: Change) -> ChangeLayout:
        given = [None if image is None else tuple(image) for image in (change.before, change.after)]
        key = (change.operation, *given, change.source_columns, change.is_late)
        layout = self._layouts.get(key)
        if layout is None:
            before, after = (None if image is None else frozenset(image) for image in (change.before, change.after))
            shape = Shape(change.operation, before, after, frozenset(), change.source_columns, change.is_late)
            layout = self._layouts[key] = layout_of(shape, self._rules)
        return layout

    def _values(self, image: Image | None) -> Values | None:
        return None if image is None else tuple(map(image.get, self._names))

    def _key_changes(self, layout: ChangeLayout, before: Values | None, after: Values | None) -> bool:
        """Tell whether the typed keys of both images differ. A value that does not fit counts as a change."""
        assert before is not None
        assert after is not None
        columns, options = self._rules.schema.columns, self._rules.options
        return not all(are_equal(before[at], after[at], columns[at], options) for at in layout.compared)

    def _append(self, change: Change, layout: RowLayout, values: Sequence[SourceValue]) -> None:
        row = len(self.rows)
        if layout.missing is not None:
            self.missing[row] = layout.missing
        if layout.unknown:
            self.unknown[row] = layout.unknown
        self.rows.append(values)
        self.markers.append(layout.marker)
        self.origins.append((change.index, change.before_at if layout.image == "before" else change.after_at))

    def _reject(self, change: Change, problem: LayoutProblem) -> None:
        code, detail, of_image, columns = problem
        pointer = {"before": change.before_at, "after": change.after_at, None: None}[of_image]
        if not columns:
            self.problems.append(Problem(code, detail, change.index, pointer))
        written = [name for name in change.after or () if name in columns] if of_image == "after" else ()
        for column in written or columns:
            self.problems.append(Problem(code, detail, change.index, pointer_to(pointer or "", column), column))
