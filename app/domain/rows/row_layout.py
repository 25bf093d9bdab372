"""The rules of the landing zone, applied once to all changes of one shape (docs/reference/changes.md).

Insert 0; update 1 with the full row; delete 2 with the key, every other column NULL; upsert 4; a changed key 2 (old
key), then 0 (new row), adjacent. The shape of a change decides which rows it becomes, where each of their values is
taken and whether it is rejected; its values decide only whether the key changed. So a layout is worked out once per
shape and kept (docs/contribute/decisions/0035).

Invariant: no other module decides what a change becomes. `RowBuilder` and `shaped_rows` fill layouts with values.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from app.domain.model.change import Change, Image, Operation, SourceValue
from app.domain.model.names import ROW_MARKER
from app.domain.model.table_options import IncompleteInserts, PartialUpdates, Reload
from app.domain.model.table_schema import Column
from app.domain.rows.key_changes import KeyChange, are_equal
from app.domain.rows.row_image import MissingColumns, pick
from app.domain.rows.row_rules import KeptByTable, RowMarker, RowRules, Shape, Values
from mirrorgate.errors import Code, Problem
from mirrorgate.errors.exceptions import pointer_to

Side: TypeAlias = Literal["before", "after"]
"""An image of a change."""

_NO_KEY: Final = "the key is not complete"
_MAX_NAMED: Final = 3
"""Names of columns in one error message."""

Fill: TypeAlias = Callable[[Values | None, Values | None], Values]
"""Takes the values of a row from those of the two images."""


class LandingProblem(NamedTuple):
    """A reason that a change cannot land: one problem for the image, or one for each of the columns."""

    code: Code
    detail: str
    image: Side | None = None
    columns: Sequence[str] = ()


class RowLayout(NamedTuple):
    """One row of a change."""

    marker: RowMarker
    operation: Operation
    """Operation on this row: a changed key is a delete and an insert."""
    image: Side
    """The image that gives the row, for error messages."""
    fill: Fill
    is_after: bool
    """True if the row is the values after the change as they are."""
    missing: MissingColumns | None = None
    unknown: Sequence[int] = ()
    """Positions of columns whose value in the source is unknown."""


class ChangeOutcome(NamedTuple):
    """The outcome of a change: its rows, and the problems for which it cannot land."""

    rows: Sequence[RowLayout] = ()
    problems: Sequence[LandingProblem] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ChangeLayout:
    """The outcome of all changes of one shape under the rules of one table."""

    operation: Operation
    same: ChangeOutcome
    """For a change that keeps the key."""
    changed: ChangeOutcome | None
    """For a change whose images have different keys; None if the keys need not be compared."""
    compared: Sequence[int]
    """The positions of the key columns to compare."""
    before: Mapping[str, int]
    """The columns that the image before the change gives, with their positions."""
    after: Mapping[str, tuple[Side, int]]
    """The columns whose value after the change is known: the image that has it, and its position."""

    @property
    def moves(self) -> bool:
        """True if a change with different keys moves a row, instead of being rejected."""
        return self.operation is Operation.UPDATE

    def images(self, before: Values | None, after: Values | None) -> tuple[Image, Image]:
        """Return the values before and after the change by column."""
        old, new = before or (), after or ()
        return (
            {name: old[at] for name, at in self.before.items()},
            {name: (old if side == "before" else new)[at] for name, (side, at) in self.after.items()},
        )


def layout_of(shape: Shape, rules: RowRules) -> ChangeLayout:
    """Return the layout of changes of this shape. Call it once per shape of a request."""
    reloads = rules.cdc_started and shape.operation is Operation.SNAPSHOT
    key = (shape, rules.left_columns, reloads, rules.images_complete, rules.in_load)
    return _LAYOUTS.get(rules, key) or _LAYOUTS.keep(rules, key, _Planner(shape, rules).layout())


_LAYOUTS: Final = KeptByTable["ChangeLayout"]()


class _Planner:
    """Planner of the layout of one shape."""

    def __init__(self, shape: Shape, rules: RowRules) -> None:
        excluded = frozenset(rules.options.exclude)
        self._shape, self._rules = shape, rules
        self._schema, self._options = rules.schema, rules.options
        self._before = None if shape.before is None else shape.before - excluded
        self._kept = (shape.kept | self._unchanged_keys()) - excluded
        self._after = (shape.after or frozenset()) - excluded | self._kept
        self._excluded = excluded
        self._sourced = frozenset(rules.schema.names) - rules.left_columns - excluded
        self._completes = rules.options.partial_updates is PartialUpdates.COMPLETE

    def _unchanged_keys(self) -> frozenset[str]:
        """Return the key columns that an update gives before the change only: it keeps them."""
        if self._shape.operation is not Operation.UPDATE or self._shape.after is None:
            return frozenset()
        return self._schema.key_set & (self._before or frozenset()) - self._shape.after

    def layout(self) -> ChangeLayout:
        same, changed = self._outcomes()
        compared = tuple(
            at for at, name in enumerate(self._schema.names) if changed is not None and name in self._comparable
        )
        before = {name: at for at, name in enumerate(self._schema.names) if name in (self._before or ())}
        after: dict[str, tuple[Side, int]] = {
            name: ("before" if name in self._kept else "after", at)
            for at, name in enumerate(self._schema.names)
            if name in self._after
        }
        return ChangeLayout(self._shape.operation, same, changed, compared, before, after)

    @property
    def _comparable(self) -> frozenset[str]:
        """The key columns whose values before and after the change can differ."""
        return self._schema.key_set & (self._before or frozenset()) & self._after - self._kept

    def _outcomes(self) -> tuple[ChangeOutcome, ChangeOutcome | None]:
        operation = self._shape.operation
        if self._rules.in_load and operation in {Operation.UPDATE, Operation.DELETE}:
            return _rejected(Code.LOAD_TAKES_ROWS, f"{operation} in a load"), None
        if operation is Operation.SNAPSHOT:
            return self._snapshot(), None
        if operation is Operation.INSERT:
            return self._row(self._marker()), None
        if not self._schema.key_columns:
            name = Operation.UPSERT if operation is Operation.MERGE else operation
            return _rejected(Code.NO_KEY, f"{name} on a table without key columns"), None
        if operation is Operation.DELETE:
            detail = "the delete has two images with different keys"
            return self._delete(), _rejected(Code.AMBIGUOUS_DELETE, detail, "before") if self._comparable else None
        if operation is Operation.UPDATE:
            return self._update()
        return self._row(self._marker()), None

    def _marker(self, operation: Operation | None = None) -> RowMarker:
        operation = operation or self._shape.operation
        if operation in {Operation.INSERT, Operation.SNAPSHOT}:
            return RowMarker.UPSERT if self._options.upserts_inserts else RowMarker.INSERT
        return RowMarker.UPDATE if operation is Operation.UPDATE else RowMarker.UPSERT

    def _snapshot(self) -> ChangeOutcome:
        if not self._rules.cdc_started or self._rules.in_load:
            return self._row(self._marker())
        if self._options.reload is Reload.UPSERT:
            return self._row(RowMarker.UPSERT)
        detail = "a snapshot row for a table that already has other changes"
        return _rejected(Code.RELOAD_REQUIRES_RECREATE, detail)

    def _update(self) -> tuple[ChangeOutcome, ChangeOutcome | None]:
        if self._before is not None:
            unknown = [key for key in self._schema.key_columns if key in self._after and key not in self._before]
            if unknown:
                return _rejected(Code.OLD_KEY_MISSING, "the old key is not given", "before", unknown), None
        same = self._row(self._marker())
        if not self._comparable:
            return same, None
        old, new = self._delete(), self._row(self._marker(Operation.INSERT), moved=True)
        return same, ChangeOutcome((*old.rows, *new.rows), (*old.problems, *new.problems))

    def _delete(self) -> ChangeOutcome:
        if self._options.upserts_only:
            detail = "a delete, or a changed key, of a table whose files have no row marker"
            return _rejected(Code.DELETE_NEEDS_MARKER, detail, "before")
        given = self._before or frozenset()
        missing = [name for name in self._schema.key_columns if name not in given]
        if missing:
            detail = f"{_NO_KEY}{_twins(missing, given) or _strangers(given, self._schema.names)}"
            return _rejected(Code.MISSING_KEY, detail, "before", missing)
        sources: list[Side | None] = ["before" if name in self._schema.key_set else None for name in self._schema.names]
        return ChangeOutcome((RowLayout(RowMarker.DELETE, Operation.DELETE, "before", _fill(sources), is_after=False),))

    def _row(self, marker: RowMarker, *, moved: bool = False) -> ChangeOutcome:
        unknown = self._after.difference(self._schema.names)
        problems = [*(self._unknown_columns(unknown) if unknown else ()), *self._incomplete()]
        if problems:
            return ChangeOutcome((), tuple(problems))
        sources: list[Side | None] = [
            None if name not in self._after else "before" if name in self._kept else "after"
            for name in self._schema.names
        ]
        is_after = all(source == "after" for source in sources)
        operation = Operation.INSERT if moved else self._shape.operation
        missing = self._missing(moved=moved)
        row = RowLayout(marker, operation, "after", _fill(sources), is_after, missing, self._unknown_values())
        return ChangeOutcome((row,))

    @property
    def _source(self) -> frozenset[str]:
        """The columns that the source had when the change was written."""
        if self._shape.source_columns is None:
            return self._sourced
        return self._shape.source_columns - self._excluded

    def _incomplete(self) -> list[LandingProblem]:
        """Return the problems of a new row that lacks columns which nothing else gives: keys, then others.

        A missing column is NULL if the source did not have it then, or in an insert if the column allows NULL.
        """
        missing = [column for column in self._schema.columns if column.name not in self._after]
        if self._shape.operation in {Operation.INSERT, Operation.SNAPSHOT}:
            code, detail, names = Code.INCOMPLETE_INSERT, "the column is not given", self._required(missing)
        else:
            is_row = self._shape.operation is Operation.MERGE
            code = Code.INCOMPLETE_UPDATE
            detail = "the row does not have this column" if is_row else "the new value is not given"
            names = [column.name for column in missing if column.name in self._source]
        keys = [name for name in names if name in self._schema.key_set]
        others = [] if self._is_fillable else [name for name in names if name not in self._schema.key_set]
        problems = (
            [LandingProblem(Code.MISSING_KEY, f"{_NO_KEY}{_twins(keys, self._after)}", "after", keys)] if keys else []
        )
        if others:
            problems.append(LandingProblem(code, f"{detail}{_twins(others, self._after)}", "after", others))
        return problems

    def _required(self, missing: Sequence[Column]) -> list[str]:
        wants_all = (
            self._shape.operation is Operation.INSERT and self._options.incomplete_inserts is IncompleteInserts.REJECT
        )
        return [
            column.name
            for column in missing
            if not column.nullable or column.name in self._schema.key_set or (wants_all and column.name in self._source)
        ]

    @property
    def _is_fillable(self) -> bool:
        """True if a row image can give what the change does not."""
        return self._completes and self._shape.operation in {Operation.UPDATE, Operation.MERGE}

    def _missing(self, *, moved: bool) -> MissingColumns | None:
        """Return the columns that only a row image can give."""
        if not self._is_fillable:
            return None
        newer = self._sourced - self._source - self._after - self._schema.key_set
        later = newer if self._shape.is_late else frozenset[str]()
        names = self._source - self._after | later
        ordinals = tuple(at for at, name in enumerate(self._schema.names) if name in names)
        optional = tuple(at for at, name in enumerate(self._schema.names) if name in later)
        return MissingColumns(ordinals, moved, optional, self._of_new_row(ordinals)) if ordinals else None

    def _of_new_row(self, missing: Sequence[int]) -> tuple[int, ...]:
        """Return those of the missing columns that are NULL in a row that a merge inserts.

        A key without a row image is new only if every row has one: otherwise NULL could land over data.
        """
        if self._shape.operation is not Operation.MERGE or not self._rules.images_complete:
            return ()
        return tuple(at for at in missing if self._schema.columns[at].nullable)

    def _unknown_values(self) -> Sequence[int]:
        """Return the columns whose value is unknown: an insert that omits one gets the source's default.

        The same applies to columns that the source did not have when the change was written.
        """
        if not self._options.keeps_images:
            return ()
        names: Collection[str] = ()
        if self._shape.operation is Operation.INSERT:
            names = self._sourced - self._after
        elif self._shape.source_columns is not None:
            names = self._sourced - self._shape.source_columns - self._after
        return tuple(at for at, name in enumerate(self._schema.names) if name in names)

    def _unknown_columns(self, unknown: Collection[str]) -> list[LandingProblem]:
        reserved = sorted(name for name in unknown if name.casefold() == ROW_MARKER.casefold())
        others = sorted(name for name in unknown if name not in reserved)
        problems = []
        if reserved:
            detail = "the name is reserved for the row marker"
            problems.append(LandingProblem(Code.RESERVED_NAME, detail, "after", reserved))
        if others:
            detail = f"the column is not in the table{_twins(others, self._schema.names)}"
            problems.append(LandingProblem(Code.UNKNOWN_COLUMN, detail, "after", others))
        return problems


def _rejected(code: Code, detail: str, image: Side | None = None, columns: Sequence[str] = ()) -> ChangeOutcome:
    return ChangeOutcome((), (LandingProblem(code, detail, image, columns),))


def _twins(names: Collection[str], given: Collection[str]) -> str:
    """Return an addition to the error message for names that differ from a given one in letter case only."""
    folded = {name.casefold() for name in names}
    twins = sorted(name for name in given if name.casefold() in folded and name not in names)
    return f"; {', '.join(twins)} differs in letter case only, and letter case counts" if twins else ""


def _strangers(given: Collection[str], known: Collection[str]) -> str:
    """Return an addition to the error message for given names that no column has: one can be meant for the key."""
    unknown = sorted(set(given).difference(known))[:_MAX_NAMED]
    return f"; the table has no column {', '.join(unknown)}" if unknown else ""


def _fill(sources: Sequence[Side | None]) -> Fill:
    """Return the function that takes each value of a row from this image, None for NULL."""
    width = len(sources)
    if all(source == "after" for source in sources):
        return _after_values
    if "before" in sources and "after" in sources:
        places = [{"before": at, "after": width + at, None: -1}[source] for at, source in enumerate(sources)]
        pick_of_both = pick(places)
        return lambda before, after: pick_of_both((*before, *after, None))  # type: ignore[misc]  # the shape has both
    pick_of_one = pick([-1 if source is None else at for at, source in enumerate(sources)])
    if "before" in sources:
        return lambda before, _: pick_of_one((*before, None))  # type: ignore[misc]  # the shape has this image
    return lambda _, after: pick_of_one((*(after or ()), None))


def _after_values(_: Values | None, after: Values | None) -> Values:
    assert after is not None
    return after


MAX_PROBLEMS: Final = 20_000
"""Problems of a batch that are collected. A message of three bytes can lack thousands of columns."""

MAX_PROBLEMS_OF_MESSAGE: Final = 100
"""Problems of one kind that are named of one message."""

_MAX_LAYOUTS: Final = 64
"""Layouts that a batch keeps; they take 200 bytes for each column of the table, and messages can all differ."""


class RowBuilder:
    """Collector of one batch's rows with their markers and origins, and of the problems of its messages.

    Changes become rows of source values one by one, with every problem of every message. Invariant: nothing is
    reordered or collapsed.
    """

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
        """Return True if the typed keys of both images differ. A value that does not fit counts as a change."""
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

    def _reject(self, change: Change, problem: LandingProblem) -> None:
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
        getter: Callable[[Mapping[str, SourceValue]], Values] = itemgetter(*names)
        return getter
    return lambda image: tuple(image[name] for name in names)
