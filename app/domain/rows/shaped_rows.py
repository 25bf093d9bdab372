"""Turns the changes of several requests into rows of source values at once, or declines.

Invariant: the rows are those of `row_builder` for the same changes, request after request. It declines whatever cannot
land; `row_builder` then says why.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from app.domain.model.change import Operation, SourceValue
from app.domain.rows.conversion.column_conversion import BadValues, convert
from app.domain.rows.conversion.value_reading import reading_of
from app.domain.rows.key_changes import KeyChange
from app.domain.rows.row_image import MissingColumns
from app.domain.rows.row_layout import ChangeLayout, RowRules, layout_of, pick
from app.domain.rows.shaped_changes import Shape, ShapedChanges, Values

NULL_TEXT: Final = "null"
_COMPARABLE: Final = frozenset({str, int, type(None)})
"""Types of which two equal values are equal once typed. True equals 1, and 1.0 equals 1.00, but not as texts."""

_POINTER: Final = "/after"


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
    """True if the text `null` in `rows` means NULL."""
    has_snapshots: Sequence[bool]
    """By request."""


def shaped_rows(requests: Sequence[ShapedChanges], rules: RowRules) -> ShapedRows | None:
    """Return the rows; None if a change cannot land, or follows a snapshot row or precedes one in its request."""
    filler = _Filler(requests, rules)
    return filler.filled() if filler.can_land() else None


class _Filler:
    def __init__(self, requests: Sequence[ShapedChanges], rules: RowRules) -> None:
        self._requests, self._rules = requests, rules
        one = requests[0] if len(requests) == 1 else None
        self._shapes = one.shapes if one else [*chain.from_iterable(request.shapes for request in requests)]
        self._null_text = all(request.null_text for request in requests)
        self._before = one.before if one else [*chain.from_iterable(map(self._images_before, requests))]
        self._after = one.after if one else [*chain.from_iterable(map(self._images_after, requests))]
        self._kinds = [*map(id, self._shapes)]
        """By change: the identity of its shape, which is quicker to find than the shape."""
        distinct: Mapping[int, Shape] = dict(zip(self._kinds, self._shapes, strict=True))
        self._layouts = {kind: layout_of(shape, rules) for kind, shape in distinct.items()}
        self._moved: set[int] = set()
        """Changes whose images have different keys."""

    def can_land(self) -> bool:
        """Tell whether every change can land."""
        if any(layout.same.problems and layout.changed is None for layout in self._layouts.values()):
            return False
        for kind, layout in self._layouts.items():
            if layout.changed is not None:
                changed = self._changed_keys(kind, layout)
                if changed is None or (changed and layout.changed.problems):
                    return False
                if layout.same.problems and len(changed) < self._kinds.count(kind):
                    return False
                self._moved.update(changed)
        return True

    def filled(self) -> ShapedRows | None:
        snapshots = self._snapshots()
        if snapshots is None:
            return None
        if self._moved:
            return self._with_key_changes(snapshots)
        layouts = {kind: layout.same.rows[0] for kind, layout in self._layouts.items()}
        fills = {kind: layout.fill for kind, layout in layouts.items()}
        markers = {kind: int(layout.marker) for kind, layout in layouts.items()}
        missing = {kind: layout.missing for kind, layout in layouts.items() if layout.missing}
        unknown = {kind: layout.unknown for kind, layout in layouts.items() if layout.unknown}
        images = zip(self._kinds, self._before, self._after, strict=True)
        all_after: Sequence[Values] = self._after  # type: ignore[assignment]  # their shapes have this image
        return ShapedRows(
            rows=all_after
            if all(layout.is_after for layout in layouts.values())
            else [fills[kind](before, after) for kind, before, after in images],
            markers=[markers[kind] for kind in self._kinds],
            ends=[*accumulate(len(request.shapes) for request in self._requests)],
            messages=range(len(self._kinds)),
            missing={row: missing[kind] for row, kind in enumerate(self._kinds) if kind in missing} if missing else {},
            unknown={row: unknown[kind] for row, kind in enumerate(self._kinds) if kind in unknown} if unknown else {},
            key_changes=(),
            null_text=self._null_text,
            has_snapshots=snapshots,
        )

    def _with_key_changes(self, snapshots: Sequence[bool]) -> ShapedRows:
        rows: list[Values] = []
        markers: list[int] = []
        messages: list[int] = []
        missing: dict[int, MissingColumns] = {}
        unknown: dict[int, Sequence[int]] = {}
        key_changes: list[KeyChange] = []
        starts = [0]
        for at, (kind, before, after) in enumerate(zip(self._kinds, self._before, self._after, strict=True)):
            starts.append(len(rows))
            layout = self._layouts[kind]
            if at in self._moved and layout.moves:
                key_changes.append(KeyChange(len(rows), *self._given(layout, before, after), at, _POINTER))
            outcome = layout.changed if layout.changed is not None and at in self._moved else layout.same
            for row in outcome.rows:
                if row.missing is not None:
                    missing[len(rows)] = row.missing
                if row.unknown:
                    unknown[len(rows)] = row.unknown
                rows.append(row.fill(before, after))
                markers.append(int(row.marker))
                messages.append(at)
        starts.append(len(rows))
        ends = [starts[change + 1] for change in accumulate(len(request.shapes) for request in self._requests)]
        return ShapedRows(rows, markers, ends, messages, missing, unknown, key_changes, self._null_text, snapshots)

    def _given(
        self, layout: ChangeLayout, before: Values | None, after: Values | None
    ) -> tuple[dict[str, SourceValue], dict[str, SourceValue]]:
        images = layout.images(before, after)
        if not self._null_text:
            return images
        old, new = ({name: None if value == NULL_TEXT else value for name, value in image.items()} for image in images)
        return old, new

    def _snapshots(self) -> Sequence[bool] | None:
        """Tell for each request whether it has snapshot rows; None if one also has other changes."""
        of_kind = {kind: layout.operation is Operation.SNAPSHOT for kind, layout in self._layouts.items()}
        if not any(of_kind.values()):
            return [False] * len(self._requests)
        found = [{of_kind[id(shape)] for shape in request.shapes} for request in self._requests]
        return None if any(len(each) > 1 for each in found) else [True in each for each in found]

    def _changed_keys(self, kind: int, layout: ChangeLayout) -> Collection[int] | None:
        """Return the changes of this shape whose keys differ once typed; None if a value does not fit."""
        changes = [at for at, of_kind in enumerate(self._kinds) if of_kind == kind]
        compared = pick(layout.compared)
        old = [compared(self._before[at]) for at in changes]  # type: ignore[arg-type]  # the shape has both images
        new = [compared(self._after[at]) for at in changes]  # type: ignore[arg-type]
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
        differ = pa.array([False] * len(old))
        for at, before, after in zip(layout.compared, zip(*old, strict=True), zip(*new, strict=True), strict=True):
            column = self._rules.schema.columns[at]
            values = [None if self._null_text and value == NULL_TEXT else value for value in (*before, *after)]
            typed = convert(values, column.type, reading_of(column.name, self._rules.options))
            one, other = typed.slice(0, len(old)), typed.slice(len(old))
            same = pc.or_(pc.fill_null(pc.equal(one, other), False), pc.and_(pc.is_null(one), pc.is_null(other)))
            differ = pc.or_(differ, pc.invert(same))
        return differ

    def _images_before(self, request: ShapedChanges) -> Sequence[Values | None]:
        return request.before if request.null_text is self._null_text else [*map(_with_nulls, request.before)]

    def _images_after(self, request: ShapedChanges) -> Sequence[Values | None]:
        return request.after if request.null_text is self._null_text else [*map(_with_nulls, request.after)]


def _with_nulls(image: Values | None) -> Values | None:
    return image and tuple(None if value == NULL_TEXT else value for value in image)
