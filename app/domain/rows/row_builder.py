"""Turns one change into rows of source values, by the rules of the landing zone (docs/formats.md, "Rows").

Insert 0; update 1 with the full row; delete 2 with the key, every other column NULL; upsert 4; a changed key 2 (old
key), then 0 (new row), adjacent. Invariant: nothing is reordered or collapsed.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from operator import itemgetter
from typing import Any

import msgspec

from app.domain.model.change import Change, Image, Operation, SourceValue
from app.domain.model.names import ROW_MARKER
from app.domain.model.table_options import IncompleteInserts, PartialUpdates, Reload, TableOptions
from app.domain.model.table_schema import Column, TableSchema
from app.domain.rows.conversion.column_conversion import BadValues, convert
from app.domain.rows.conversion.value_reading import reading_of
from app.domain.rows.key_changes import KeyChange
from app.domain.rows.row_image import MissingColumns
from app.domain.rows.row_marker import RowMarker, markers_under
from app.errors import Code, Problem
from app.errors.json_pointer import pointer_to


class RowBuilder:
    """Collects the rows of one batch with their markers and origins, and the problems of its messages."""

    def __init__(
        self, schema: TableSchema, options: TableOptions, left_columns: frozenset[str], *, cdc_started: bool
    ) -> None:
        self.rows: list[Sequence[SourceValue]] = []
        self.markers: list[int] = []
        self.origins: list[tuple[int, str]] = []
        """By row: the index of its message and the JSON Pointer of its image."""
        self.missing: dict[int, MissingColumns] = {}
        """By row: the columns that only the row image can give; they are None in `rows`."""
        self.unknown: dict[int, list[int]] = {}
        """By row: the positions of columns whose value in the source is unknown."""
        self.key_changes: list[KeyChange] = []
        self.problems: list[Problem] = []
        self.has_snapshots = self.starts_cdc = False
        self._schema, self._options = schema, options
        self._names = schema.names
        self._known = frozenset(schema.names)
        self._excluded = frozenset(options.exclude)
        self._sourced = self._known - left_columns - self._excluded
        self._completes = options.partial_updates is PartialUpdates.COMPLETE
        self._cdc_started = cdc_started
        self._row_of = row_getter(schema.names)
        self._key_of = row_getter(schema.key_columns)
        self._key_positions = [schema.names.index(key) for key in schema.key_columns]
        self._markers = markers_under(options)

    def add(self, change: Change) -> None:
        """Add the rows of one change, or its problems."""
        if self._excluded:
            change = _without(change, self._excluded)
        if change.operation is Operation.SNAPSHOT:
            return self._add_snapshot(change)
        self.starts_cdc = True
        if change.operation is Operation.INSERT:
            self._add_row(change)
        elif not self._schema.key_columns:
            self._reject(change, Code.NO_KEY, f"{change.operation} on a table without key columns")
        elif change.operation is Operation.DELETE:
            self._add_delete(change)
        elif change.operation is Operation.UPDATE:
            self._add_update(change)
        else:
            self._add_row(change)

    def _add_snapshot(self, change: Change) -> None:
        self.has_snapshots = True
        if not (self._cdc_started or self.starts_cdc):
            self._add_row(change)
        elif self._options.reload is Reload.UPSERT:
            self._add_row(change, RowMarker.UPSERT)
        else:
            detail = "a snapshot row for a table that already has other changes"
            self._reject(change, Code.RELOAD_REQUIRES_RECREATE, detail)

    def _add_row(self, change: Change, marker: RowMarker | None = None, *, moved: bool = False) -> None:
        image = change.after or {}
        row: Sequence[SourceValue]
        try:
            row = self._row_of(image)
            if len(image) > len(row):
                return self._reject_unknown_columns(change, image)
        except KeyError:
            completed = self._complete(change, image, moved=moved)
            if completed is None:
                return
            if not self._known.issuperset(image):
                return self._reject_unknown_columns(change, image)
            row, missing = completed
            if missing is not None:
                self.missing[len(self.rows)] = missing
            if self._completes:
                self._note_unknown(change, image)
        self._append(row, self._markers[change.operation] if marker is None else marker, change.index, change.after_at)

    def _add_update(self, change: Change) -> None:
        before, after = change.before, change.after or {}
        if before is not None:
            unknown = [key for key in self._schema.key_columns if key in after and key not in before]
            if unknown:
                return self._reject(change, Code.OLD_KEY_MISSING, "the old key is not given", change.before_at, unknown)
        if self._key_changes(change):
            self.key_changes.append(KeyChange(len(self.rows), change))
            self._add_delete(change)
            self._add_row(change, self._markers[Operation.INSERT], moved=True)
        else:
            self._add_row(change)

    def _add_delete(self, change: Change) -> None:
        if change.operation is Operation.DELETE and change.after is not None and self._key_changes(change):
            return self._reject(
                change, Code.AMBIGUOUS_DELETE, "the delete has two images with different keys", change.before_at
            )
        try:
            key = self._key_of(change.before or {})
        except KeyError:
            missing = [name for name in self._schema.key_columns if name not in (change.before or {})]
            detail = f"the key is not complete{_twins(missing, change.before)}"
            return self._reject(change, Code.MISSING_KEY, detail, change.before_at, missing)
        row: list[SourceValue] = [None] * len(self._names)
        for position, value in zip(self._key_positions, key, strict=True):
            row[position] = value
        self._append(row, RowMarker.DELETE, change.index, change.before_at)

    def _complete(
        self, change: Change, image: Image, *, moved: bool
    ) -> tuple[list[SourceValue], MissingColumns | None] | None:
        """Return the row of an image that lacks columns, and the columns to complete; None after a rejection.

        A missing column is NULL if the source did not have it then, or in an insert if the column allows NULL.
        """
        missing = [column for column in self._schema.columns if column.name not in image]
        row = [image.get(name) for name in self._names]
        source = self._sourced if change.source_columns is None else change.source_columns - self._excluded
        if change.operation in {Operation.INSERT, Operation.SNAPSHOT}:
            return None if self._reject_incomplete(change, missing, source) else (row, None)
        names = [column.name for column in missing if column.name in source]
        fillable = self._completes and change.operation is Operation.UPDATE
        if names and (not fillable or not self._schema.key_set.isdisjoint(names)):
            detail = f"the new value is not given{_twins(names, change.after)}"
            self._reject(change, Code.INCOMPLETE_UPDATE, detail, change.after_at, names)
            return None
        later = self._sourced.difference(source, image) if fillable and change.is_late else ()
        if not names and not later:
            return row, None
        optional = tuple(sorted(map(self._names.index, later)))
        return row, MissingColumns(tuple(sorted((*map(self._names.index, names), *optional))), moved, optional)

    def _reject_incomplete(self, change: Change, missing: Sequence[Column], source: Collection[str]) -> bool:
        """Reject a new row that lacks required columns; return whether it was rejected."""
        wants_all = (
            change.operation is Operation.INSERT and self._options.incomplete_inserts is IncompleteInserts.REJECT
        )
        required = [
            column.name for column in missing if not self._may_be_null(column) or (wants_all and column.name in source)
        ]
        if required:
            detail = f"the required column is not given{_twins(required, change.after)}"
            self._reject(change, Code.INCOMPLETE_INSERT, detail, change.after_at, required)
        return bool(required)

    def _note_unknown(self, change: Change, image: Image) -> None:
        """Note the columns whose value is unknown: an insert that omits one gets the source's default.

        The same goes for columns that the source did not have when the change was written.
        """
        names: Collection[str] = ()
        if change.operation is Operation.INSERT:
            names = self._sourced.difference(image)
        elif change.source_columns is not None:
            names = self._sourced.difference(change.source_columns, image)
        if names:
            self.unknown[len(self.rows)] = [self._names.index(name) for name in names]

    def _may_be_null(self, column: Column) -> bool:
        return column.nullable and column.name not in self._schema.key_set

    def _key_changes(self, change: Change) -> bool:
        """Tell whether the typed keys of both images differ ("14" and 14 do not). A bad value counts as a change."""
        before, after = change.before or {}, change.after or {}
        for position in self._key_positions:
            column = self._schema.columns[position]
            if column.name in before and column.name in after:
                old, new = before[column.name], after[column.name]
                if old == new and type(old) is type(new) and not isinstance(old, Decimal):
                    continue
                try:
                    typed = convert([old, new], column.type, reading_of(column.name, self._options))
                except BadValues:
                    return True
                if typed[0] != typed[1]:
                    return True
        return False

    def _append(self, row: Sequence[SourceValue], marker: int, index: int, pointer: str) -> None:
        self.rows.append(row)
        self.markers.append(marker)
        self.origins.append((index, pointer))

    def _reject(
        self, change: Change, code: Code, detail: str, pointer: str | None = None, columns: Sequence[str] = ()
    ) -> None:
        if not columns:
            self.problems.append(Problem(code, detail, change.index, pointer))
        for column in columns:
            self.problems.append(Problem(code, detail, change.index, pointer_to(pointer or "", column), column))

    def _reject_unknown_columns(self, change: Change, image: Image) -> None:
        unknown = [name for name in image if name not in self._known]
        reserved = [name for name in unknown if name.casefold() == ROW_MARKER.casefold()]
        others = [name for name in unknown if name not in reserved]
        if reserved:
            detail = "the name is reserved for the row marker"
            self._reject(change, Code.RESERVED_NAME, detail, change.after_at, reserved)
        if others:
            detail = f"the column is not in the table{_twins(others, self._known)}"
            self._reject(change, Code.UNKNOWN_COLUMN, detail, change.after_at, others)


def _twins(names: Collection[str], given: Collection[str] | None) -> str:
    """Return an addition to the error text for names that differ from a given one in letter case only."""
    folded = {name.casefold() for name in names}
    twins = sorted(name for name in given or () if name.casefold() in folded and name not in names)
    return f"; {', '.join(twins)} differs in letter case only, and letter case counts" if twins else ""


def _without(change: Change, excluded: frozenset[str]) -> Change:
    """Return the change without these columns."""

    def kept(image: Image | None) -> Image | None:
        return image and {name: value for name, value in image.items() if name not in excluded}

    return msgspec.structs.replace(change, before=kept(change.before), after=kept(change.after))


def row_getter(names: Sequence[str]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """Return a function that reads these columns of an image as a tuple; it raises KeyError for a missing one.

    For two or more columns it is an itemgetter, which runs in C.
    """
    if len(names) > 1:
        getter: Any = itemgetter(*names)
        return getter  # type: ignore[no-any-return]  # itemgetter is not generic in its result
    return lambda image: tuple(image[name] for name in names)
