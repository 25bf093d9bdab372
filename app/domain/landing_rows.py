"""Changes of one table -> landing rows: an Arrow record batch with the row marker as its last column.

The rules are the landing zone's: insert 0; update 1 with the full row; delete 2 with the keys, every other
column NULL; upsert 4; a changed key 2 (old key) then 0 (new row), adjacent. Nothing is reordered or collapsed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from app.domain.change import Change, Image, Operation, SourceValue
from app.domain.column_conversion import BadValues, convert
from app.domain.table_schema import Column, TableSchema
from app.errors import Code, Problem, RejectedInput


class RowMarker(IntEnum):
    """Values of `__rowMarker__`."""

    INSERT = 0
    UPDATE = 1
    DELETE = 2
    UPSERT = 4


_MARKERS: Final = {
    Operation.INSERT: RowMarker.INSERT,
    Operation.SNAPSHOT: RowMarker.INSERT,
    Operation.UPDATE: RowMarker.UPDATE,
    Operation.UPSERT: RowMarker.UPSERT,
}


@dataclass(frozen=True, slots=True)
class LandingRows:
    """Typed rows of one change batch: `batch` has the schema `TableSchema.arrow`, one or two rows a change."""

    batch: pa.RecordBatch
    changes: int
    ends_transaction: bool = True
    """False where the source said that its transaction goes on after the last change."""

    @property
    def rows(self) -> int:
        return int(self.batch.num_rows)


def landing_rows(changes: Sequence[Change], schema: TableSchema) -> LandingRows:
    """Type and check the ordered changes of one table.

    Raises RejectedInput naming every message that cannot be landed correctly, with index, pointer and column.
    """
    builder = _RowBuilder(schema)
    for change in changes:
        builder.add(change)
    ends_transaction = changes[-1].ends_transaction if changes else True
    return LandingRows(builder.finish(), len(changes), ends_transaction)


@dataclass
class _RowBuilder:
    schema: TableSchema
    rows: list[Sequence[SourceValue]] = field(default_factory=list)
    markers: list[int] = field(default_factory=list)
    origins: list[tuple[int, str]] = field(default_factory=list)
    """Per row: the message's index and the JSON Pointer of the image that the row was made from."""
    problems: list[Problem] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.names = self.schema.names
        self.known = frozenset(self.names)
        self.row_of: Callable[[Image], tuple[SourceValue, ...]] = _getter(self.names)
        self.key_of: Callable[[Image], tuple[SourceValue, ...]] = _getter(self.schema.key_columns)
        self.key_positions = [self.names.index(key) for key in self.schema.key_columns]

    def add(self, change: Change) -> None:
        if change.operation is Operation.INSERT or change.operation is Operation.SNAPSHOT:
            self._add_row(change)
        elif not self.schema.key_columns:
            self._refuse(change, Code.NO_KEY, f"{change.operation} on a table without key columns")
        elif change.operation is Operation.DELETE:
            self._add_delete(change)
        elif change.operation is Operation.UPDATE:
            self._add_update(change)
        else:
            self._add_row(change)

    def _add_row(self, change: Change, marker: RowMarker | None = None) -> None:
        image = change.after or {}
        try:
            row = self.row_of(image)
        except KeyError:
            completed = self._complete(change, image)
            if completed is None:
                return
            row = completed
        if len(image) > len(row) or image.keys() - self.known:
            return self._refuse_unknown_columns(change, image)
        self._append(row, _MARKERS[change.operation] if marker is None else marker, change.index, change.after_at)

    def _add_update(self, change: Change) -> None:
        before, after = change.before, change.after or {}
        if before is not None:
            unknown = [key for key in self.schema.key_columns if key in after and key not in before]
            if unknown:
                return self._refuse(change, Code.OLD_KEY_MISSING, "old key not given", change.before_at, unknown)
        if self._key_changes(change):
            self._add_delete(change)
            self._add_row(change, RowMarker.INSERT)
        else:
            self._add_row(change)

    def _add_delete(self, change: Change) -> None:
        if change.operation is Operation.DELETE and change.after is not None and self._key_changes(change):
            return self._refuse(change, Code.AMBIGUOUS_DELETE, "two images with different keys", change.before_at)
        try:
            key = self.key_of(change.before or {})
        except KeyError:
            missing = [name for name in self.schema.key_columns if name not in (change.before or {})]
            return self._refuse(change, Code.MISSING_KEY, "the key is not complete", change.before_at, missing)
        row: list[SourceValue] = [None] * len(self.names)
        for position, value in zip(self.key_positions, key, strict=True):
            row[position] = value
        self._append(row, RowMarker.DELETE, change.index, change.before_at)

    def _complete(self, change: Change, image: Image) -> tuple[SourceValue, ...] | None:
        """The row of an image that lacks columns, or a refusal.

        They are NULL where the source did not have them then, and on insert where the column allows it.
        """
        missing = [column for column in self.schema.columns if column.name not in image]
        if change.operation not in {Operation.INSERT, Operation.SNAPSHOT}:
            source = self.known if change.source_columns is None else change.source_columns
            names = [column.name for column in missing if column.name in source]
            if names:
                self._refuse(change, Code.INCOMPLETE_UPDATE, "new value not given", change.after_at, names)
                return None
            return tuple(image.get(name) for name in self.names)
        required = [column.name for column in missing if not self._may_be_null(column)]
        if required:
            self._refuse(change, Code.INCOMPLETE_INSERT, "required column not given", change.after_at, required)
            return None
        return tuple(image.get(name) for name in self.names)

    def _may_be_null(self, column: Column) -> bool:
        return column.nullable and column.name not in self.schema.key_columns

    def _key_changes(self, change: Change) -> bool:
        """Whether the typed keys of both images differ ("14" and 14 do not). A bad value counts as a change."""
        before, after = change.before or {}, change.after or {}
        for column in self.schema.columns:
            if column.name in self.schema.key_columns and column.name in before and column.name in after:
                old, new = before[column.name], after[column.name]
                if old == new and type(old) is type(new):
                    continue
                try:
                    typed = convert([old, new], column.type)
                except BadValues:
                    return True
                if typed[0] != typed[1]:
                    return True
        return False

    def _append(self, row: Sequence[SourceValue], marker: int, index: int, pointer: str) -> None:
        self.rows.append(row)
        self.markers.append(marker)
        self.origins.append((index, pointer))

    def _refuse(
        self, change: Change, code: Code, detail: str, pointer: str | None = None, columns: Sequence[str] = ()
    ) -> None:
        if not columns:
            self.problems.append(Problem(code, detail, change.index, pointer))
        for column in columns:
            self.problems.append(Problem(code, detail, change.index, pointer_to(pointer or "", column), column))

    def _refuse_unknown_columns(self, change: Change, image: Image) -> None:
        unknown = [name for name in image if name not in self.known]
        self._refuse(change, Code.UNKNOWN_COLUMN, "column is not in the table", change.after_at, unknown)

    def finish(self) -> pa.RecordBatch:
        """The typed batch, or every problem found in the messages and then in the columns."""
        markers = pa.array(self.markers, pa.int32())
        columns = zip(*self.rows, strict=True) if self.rows else ([] for _ in self.names)
        arrays = [
            self._typed(column, values, markers) for column, values in zip(self.schema.columns, columns, strict=True)
        ]
        if self.problems:
            raise RejectedInput.of(tuple(sorted(self.problems, key=lambda problem: problem.index or 0)))
        return pa.RecordBatch.from_arrays([*arrays, markers], schema=self.schema.arrow)

    def _typed(self, column: Column, values: Sequence[SourceValue], markers: pa.Int32Array) -> pa.Array | None:
        try:
            array = convert(values, column.type)
        except BadValues as bad:
            for position, reason in bad.reasons.items():
                self._blame(position, Code.BAD_VALUE, f"value {reason}", column)
            return None
        if array.null_count and not self._may_be_null(column):
            is_key = column.name in self.schema.key_columns
            forbidden = (
                pc.is_null(array) if is_key else pc.and_(pc.is_null(array), pc.not_equal(markers, RowMarker.DELETE))
            )
            for position in pc.indices_nonzero(forbidden).to_pylist():
                code, detail = (
                    (Code.NULL_KEY, "key is NULL") if is_key else (Code.NULL_VALUE, "required column is NULL")
                )
                self._blame(position, code, detail, column)
        return array

    def _blame(self, position: int, code: Code, detail: str, column: Column) -> None:
        index, pointer = self.origins[position]
        self.problems.append(Problem(code, detail, index, pointer_to(pointer, column.name), column.name))


def pointer_to(pointer: str, member: str) -> str:
    """The JSON Pointer (RFC 6901) of a member below `pointer`."""
    return f"{pointer}/{member.replace('~', '~0').replace('/', '~1')}"


def _getter(names: Sequence[str]) -> Callable[[Image], tuple[SourceValue, ...]]:
    """Reads the named members as a tuple, at C speed where there are two or more; KeyError for a missing one."""
    if len(names) > 1:
        getter: Any = itemgetter(*names)
        return getter  # type: ignore[no-any-return]  # itemgetter is not generic in its result
    return lambda image: tuple(image[name] for name in names)
