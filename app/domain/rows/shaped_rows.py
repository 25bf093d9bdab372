"""Turn the changes of several requests into rows of source values at once, or decline.

Invariant: the rows are those of `RowBuilder` for the same changes, request after request. `shaped_rows` declines
changes that cannot land; `RowBuilder` then says why.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from operator import itemgetter
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from app.domain.model.change import Image, Operation, SourceValue
from app.domain.rows.conversion import BadValues, convert, reading_of
from app.domain.rows.key_changes import KeyChange
from app.domain.rows.row_image import MissingColumns, pick
from app.domain.rows.row_layout import ChangeLayout, RowLayout, layout_of
from app.domain.rows.row_rules import MAX_KEPT_COLUMNS, RowRules, ShapedChanges, TypeColumn, Values

NULL_TEXT: Final = "null"
_COMPARABLE: Final = frozenset({str, int, type(None)})
"""Types of which two equal values are equal once typed. True equals 1, and 1.0 equals 1.00, but not as strings."""

POINTER: Final = "/after"
"""Pointer of every row's image in errors of later steps; the exact path then names the right one."""


@dataclass(slots=True)
class ShapedRows:
    """The rows of all requests in order. Row numbers count from the first row of the first request."""

    rows: Sequence[Values]
    markers: Sequence[int]
    ends: Sequence[int]
    """By request: the number behind its last row."""
    messages: Sequence[int]
    """By row: the number of its change, counted over all requests."""
    missing: Mapping[int, MissingColumns]
    """By row: the columns that only the row image can give; they are None in `rows`."""
    unknown: Mapping[int, Sequence[int]]
    """By row: the positions of columns whose value in the source is unknown."""
    key_changes: Sequence[KeyChange]
    null_text: bool
    """True if the string `null` in `rows` means NULL."""
    has_snapshots: Sequence[bool]
    """By request."""
    layouts: Sequence[RowLayout]
    """By row."""
    typed_by: Mapping[int, TypeColumn]
    """By position: how columns are typed whose values are not source values."""

    def with_nulls(self) -> "ShapedRows":
        """Return the rows with None for the string `null` where that means NULL."""
        columns: list[Sequence[SourceValue]] = [*zip(*self.rows, strict=True)] if self.null_text else []
        nulls = [at for at, column in enumerate(columns) if NULL_TEXT in column]
        for at in nulls:
            columns[at] = [None if value == NULL_TEXT else value for value in columns[at]]
        return replace(self, rows=[*zip(*columns, strict=True)] if nulls else self.rows, null_text=False)

    def key_changes_between(self, start: int, end: int, first: int) -> tuple[KeyChange, ...]:
        """Return those of the rows of one request, counted from its first row and its first change."""
        if not self.key_changes:
            return ()
        chosen = slice(*(bisect_left(self.key_changes, row, key=itemgetter(0)) for row in (start, end)))
        return tuple(
            change._replace(row=change.row - start, message=change.message - first)
            for change in self.key_changes[chosen]
        )


def shaped_rows(requests: Sequence[ShapedChanges], rules: RowRules) -> ShapedRows | None:
    """Return the rows; None if a change cannot land, or follows a snapshot row or precedes one in its request."""
    filler = _Filler(requests, rules)
    if filler.is_varied:
        return None
    snapshots = filler.snapshots()
    return filler.filled(snapshots) if snapshots is not None and filler.can_land() else None


class _Filler:
    """Application of the layouts of all shapes to the values of their changes."""

    def __init__(self, requests: Sequence[ShapedChanges], rules: RowRules) -> None:
        self._requests, self._rules = requests, rules
        one = requests[0] if len(requests) == 1 else None
        shapes = one.shapes if one else [*chain.from_iterable(request.shapes for request in requests)]
        self._null_text = all(request.null_text for request in requests)
        self._before = one.before if one else [*chain.from_iterable(self._images(one, one.before) for one in requests)]
        self._after = one.after if one else [*chain.from_iterable(self._images(one, one.after) for one in requests)]
        alike = bool(shapes) and shapes[0] is shapes[-1] and shapes.count(shapes[0]) == len(shapes)
        self._kinds = [id(shapes[0])] * len(shapes) if alike else [*map(id, shapes)]
        """By change: the identity of its shape, which is found faster than the shape; negative if its key changes."""
        distinct = {self._kinds[0]: shapes[0]} if alike else dict(zip(self._kinds, shapes, strict=True))
        self.is_varied = len(distinct) * len(rules.schema.columns) > MAX_KEPT_COLUMNS
        """True if the layouts of all shapes would take too much memory; the exact path has few at a time."""
        self._layouts = {} if self.is_varied else {kind: layout_of(shape, rules) for kind, shape in distinct.items()}
        self._outcomes = {kind: layout.same for kind, layout in self._layouts.items()}
        """By kind."""
        self._moves: list[int] = []
        """Updates whose key changes."""

    def snapshots(self) -> Sequence[bool] | None:
        """Return for each request whether it has snapshot rows; None if one also has other changes."""
        if not any(layout.operation is Operation.SNAPSHOT for layout in self._layouts.values()):
            return [False] * len(self._requests)
        found = [{shape.operation is Operation.SNAPSHOT for shape in request.shapes} for request in self._requests]
        return None if any(len(each) > 1 for each in found) else [True in each for each in found]

    def can_land(self) -> bool:
        """Return True if every change can land, and find the changed keys."""
        of_kind = self._changes_by_kind()
        for kind, layout in self._layouts.items():
            changed = self._changed_keys(of_kind[kind], layout)
            if changed is None or (layout.same.problems and len(changed) < len(of_kind[kind])):
                return False
            if changed and layout.changed is not None:
                if layout.changed.problems:
                    return False
                self._moves += changed
                self._outcomes[-kind] = layout.changed
                for at in changed:
                    self._kinds[at] = -kind
        # Key changes are told apart by source values, which columns of `typed_by` do not have.
        return len(self._moves) < 2 or not self._requests[0].typed_by

    def filled(self, has_snapshots: Sequence[bool]) -> ShapedRows:
        """Return the rows of changes that can all land."""
        kinds = self._kinds
        rows_of = {kind: outcome.rows for kind, outcome in self._outcomes.items()}
        starts: Sequence[int] = range(len(kinds) + 1)
        changes: Sequence[int] = range(len(kinds))
        if self._moves:
            starts = [*accumulate((len(rows_of[kind]) for kind in kinds), initial=0)]
            changes = [at for at, kind in enumerate(kinds) for _ in rows_of[kind]]
        layouts = self._layouts_by_row(rows_of)
        different = [row for rows in rows_of.values() for row in rows]
        lacks, forgets = any(row.missing for row in different), any(row.unknown for row in different)
        return ShapedRows(
            rows=self._values(layouts, different, changes),
            markers=[row.marker for row in layouts]
            if len(different) > 1
            else [row.marker for row in different] * len(kinds),
            ends=[starts[end] for end in accumulate(len(request.shapes) for request in self._requests)],
            messages=changes,
            missing={at: row.missing for at, row in enumerate(layouts) if row.missing} if lacks else {},
            unknown={at: row.unknown for at, row in enumerate(layouts) if row.unknown} if forgets else {},
            key_changes=[self._key_change(at, starts[at]) for at in sorted(self._moves)],
            null_text=self._null_text,
            has_snapshots=has_snapshots,
            layouts=layouts,
            typed_by=self._requests[0].typed_by if self._requests else {},
        )

    def _layouts_by_row(self, rows_of: Mapping[int, Sequence[RowLayout]]) -> Sequence[RowLayout]:
        if len(rows_of) == 1:
            (rows,) = rows_of.values()
            return [*rows] * len(self._kinds)
        return [row for kind in self._kinds for row in rows_of[kind]]

    def _values(
        self, layouts: Sequence[RowLayout], different: Sequence[RowLayout], changes: Sequence[int]
    ) -> Sequence[Values]:
        before, after = self._before, self._after
        if all(row.is_after for row in different):
            return after  # type: ignore[return-value]  # every shape has this image
        if self._moves:
            return [row.fill(before[at], after[at]) for row, at in zip(layouts, changes, strict=True)]
        return [row.fill(old, new) for row, old, new in zip(layouts, before, after, strict=True)]

    def _key_change(self, at: int, row: int) -> KeyChange:
        old, new = self._layouts[-self._kinds[at]].images(self._before[at], self._after[at])
        if self._null_text:
            old, new = _with_nulls_by_name(old), _with_nulls_by_name(new)
        return KeyChange(row, old, new, at, POINTER)

    def _changes_by_kind(self) -> Mapping[int, Sequence[int]]:
        """Return the changes of each kind, found in one pass: a request can have as many shapes as changes."""
        if len(self._layouts) == 1:
            return {self._kinds[0]: range(len(self._kinds))}
        found: dict[int, list[int]] = {kind: [] for kind in self._layouts}
        for at, kind in enumerate(self._kinds):
            found[kind].append(at)
        return found

    def _changed_keys(self, changes: Sequence[int], layout: ChangeLayout) -> Sequence[int] | None:
        """Return those of these changes of one shape whose keys differ once typed; None if a value does not fit."""
        if layout.changed is None:
            return ()
        key_of = pick(layout.compared)
        old = [key_of(self._before[at]) for at in changes]  # type: ignore[arg-type]  # the shape has both images
        new = [key_of(self._after[at]) for at in changes]  # type: ignore[arg-type]  # the shape has both images
        if _COMPARABLE.issuperset(map(type, chain.from_iterable(chain(old, new)))):
            if old == new:
                return ()
            differing = [at for at, (one, other) in enumerate(zip(old, new, strict=True)) if one != other]
            changes = [changes[at] for at in differing]
            old, new = [old[at] for at in differing], [new[at] for at in differing]
        try:
            differ = self._differ(layout, old, new)
        except BadValues:
            return None
        return [changes[at] for at in pc.indices_nonzero(differ).to_pylist()]

    def _differ(self, layout: ChangeLayout, old: Sequence[Values], new: Sequence[Values]) -> pa.BooleanArray:
        """Return for each pair of keys whether they differ once typed. Raises BadValues."""
        differ = pa.array([False] * len(old))
        for at, before, after in zip(layout.compared, zip(*old, strict=True), zip(*new, strict=True), strict=True):
            column = self._rules.schema.columns[at]
            values = _with_nulls((*before, *after)) if self._null_text else (*before, *after)
            typed = convert(values, column.type, reading_of(column.name, self._rules.options))
            one, other = typed.slice(0, len(old)), typed.slice(len(old))
            both_null = pc.and_(pc.is_null(one), pc.is_null(other))
            differ = pc.or_(differ, pc.invert(pc.or_(pc.fill_null(pc.equal(one, other), False), both_null)))
        return differ

    def _images(self, request: ShapedChanges, images: Sequence[Values | None]) -> Sequence[Values | None]:
        """Return images with None for the string `null` where it means NULL in this request and not in all."""
        return images if request.null_text is self._null_text else [image and _with_nulls(image) for image in images]


def _with_nulls(values: Values) -> Values:
    return tuple(None if value == NULL_TEXT else value for value in values)


def _with_nulls_by_name(image: Image) -> Image:
    return {name: None if value == NULL_TEXT else value for name, value in image.items()}
