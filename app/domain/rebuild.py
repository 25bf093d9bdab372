"""Rebuilds: a plan for a table's next generation, and row images -> its rows, keys and images.

Values are typed by the code that typed them when they arrived, so a value fits a new type exactly or is named. Every
function takes whole lists of images: they cost least when they are read together.

The image of a row whose values are strings without escapes, numbers, booleans or NULL is a line of CSV in brackets, and
Arrow reads CSV in a tenth of the time in which JSON becomes Python objects and these become columns (decision 0068). A
number then is a string. Types read it as they read the number, except those of `depends_on_quotes`. Invariant: the
columns are exactly the values that JSON has, or there are none.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from app.domain.model.change import Operation
from app.domain.model.expressions import renamed_expression
from app.domain.model.names import check_new_column_name
from app.domain.model.projection import History, RowFilter, parsed_derive
from app.domain.model.table import Table, with_landing
from app.domain.model.table_options import ColumnOverride, TableOptions
from app.domain.model.table_schema import Column, ColumnType, TableSchema, TypeName
from app.domain.rows.derived_columns import with_derived
from app.domain.rows.landing_projection import Acceptance, check_values, landed
from app.domain.rows.landing_rows import LandingRows
from app.domain.rows.row_facts import operation_column, with_deleted, with_operations
from app.domain.rows.row_image import (
    are_deleted,
    by_position,
    encode_image,
    encode_images,
    is_deleted,
    key_column,
    known_lists,
    known_values,
)
from app.domain.rows.row_rules import RowMarker, RowRules
from app.domain.rows.typed_columns import WrongRow, typed_column
from mirrorgate.errors import Code, RejectedInput

_Flags: TypeAlias = npt.NDArray[np.bool_]
_Bytes: TypeAlias = npt.NDArray[np.uint8]

_QUOTE, _COMMA, _LINE_FEED = b'",\n'
_TEXT, _NUMBER, _NULL, _BOOLEAN, _OTHER = range(1, 6)
_NULL_TEXT: Final = "null"
_LONG_EXPONENT: Final = re.compile(rb"[eE][+-]?\d{5}")
"""An exponent that types read in a number and not in a string; `written_number` also writes minus zero with one."""

_PARSE: Final = pyarrow.csv.ParseOptions(double_quote=False, ignore_empty_lines=False)


def _kinds(by_bytes: dict[bytes, int], other: int) -> _Bytes:
    found = np.full(256, other, np.uint8)
    for chosen, kind in by_bytes.items():
        found[[*chosen]] = kind
    return found


_KIND_BY_FIRST: Final = _kinds({b'"': _TEXT, b"-0123456789": _NUMBER, b"n": _NULL, b"tf": _BOOLEAN}, 0)
_KIND_BY_LAST: Final = _kinds({b'"': _TEXT, b"0123456789": _NUMBER, b"l": _NULL, b"e": _BOOLEAN}, _OTHER)


@dataclass(frozen=True, slots=True)
class PlainValues:
    """The values of images, by column and as they are written."""

    columns: Sequence[pa.StringArray]
    are_texts: _Flags
    """By row and column: whether a value is a string or NULL, not a number or a boolean."""

    def taken(self, places: Sequence[int]) -> "PlainValues":
        """Return the values of the columns at these places."""
        return PlainValues([self.columns[place] for place in places], self.are_texts[:, [*places]])

    def images(self) -> pa.BinaryArray:
        """Return the images of rows with these values."""
        written = [self._written(column, self.are_texts[:, at]) for at, column in enumerate(self.columns)]
        return pc.cast(
            pc.binary_join_element_wise("[", pc.binary_join_element_wise(*written, ","), "]", ""), pa.binary()
        )

    def _written(self, column: pa.StringArray, are_texts: _Flags) -> pa.StringArray:
        written = column
        if are_texts.any():
            quoted = pc.binary_join_element_wise('"', column, '"', "")
            written = quoted if are_texts.all() else pc.if_else(pa.array(are_texts), quoted, column)
        return pc.fill_null(written, _NULL_TEXT)


def depends_on_quotes(column_type: ColumnType) -> bool:
    """Return True if the type reads a number otherwise than a string of the same characters."""
    return column_type.name in {TypeName.BINARY, TypeName.JSON}


def plain_values(images: Sequence[bytes], width: int) -> PlainValues | None:
    """Return the values of images; None if one of them may have others than `width` plain values."""
    lines = b"\n".join(images)
    if not lines or b"\\" in lines:
        return None
    lines = lines[1:-1].replace(b"]\n[", b"\n") + b"\n"
    kinds = _kinds_of(np.frombuffer(lines, np.uint8), len(images), width)
    if kinds is None:
        return None
    if (kinds == _NUMBER).any() and _LONG_EXPONENT.search(lines):
        return None
    reading = pyarrow.csv.ReadOptions(use_threads=False, block_size=len(lines) + 1, autogenerate_column_names=True)
    table = pyarrow.csv.read_csv(pa.BufferReader(lines), reading, _PARSE, _texts(width))
    return PlainValues([column.combine_chunks() for column in table.columns], (kinds == _TEXT) | (kinds == _NULL))


def _kinds_of(lines: _Bytes, rows: int, width: int) -> _Bytes | None:
    """Return the kinds of the values by row and column, by their first and last characters; None if one is not plain.

    A quote begins or ends a string, because there are no escapes.
    """
    is_outside = np.cumsum(lines == _QUOTE, dtype=np.uint8) & 1 == 0
    ends = np.flatnonzero(((lines == _COMMA) | (lines == _LINE_FEED)) & is_outside)
    if len(ends) != rows * width or (lines[ends].reshape(rows, width)[:, -1] != _LINE_FEED).any():
        return None
    starts = np.concatenate(([0], ends[:-1] + 1))
    kinds = _KIND_BY_FIRST[lines[starts]]
    if (kinds != _KIND_BY_LAST[lines[ends - 1]]).any():
        return None
    return kinds.reshape(rows, width)


@lru_cache(maxsize=64)
def _texts(width: int) -> Any:
    return pyarrow.csv.ConvertOptions(
        check_utf8=False,
        column_types={f"f{at}": pa.string() for at in range(width)},
        null_values=[_NULL_TEXT],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )


class RebuildPhase(StrEnum):
    """The phase of a rebuild, or of its dry run.

    `checking` and `checked` belong to a dry run, which reads all row images. `copying`: a drain copies them into the
    next generation, and changes are published and added to the copies. `replacing`: the old folder is deleted, and
    changes are accepted by the new schema, behind the copied rows. `done`: the rows are published from file 1 on.
    `failed`: a row does not fit, or columns or options changed; nothing else has changed.
    """

    CHECKING = "checking"
    CHECKED = "checked"
    COPYING = "copying"
    REPLACING = "replacing"
    DONE = "done"
    FAILED = "failed"

    @property
    def is_due(self) -> bool:
        """True while a drain reads the row images."""
        return self in {RebuildPhase.CHECKING, RebuildPhase.COPYING}


@dataclass(frozen=True, slots=True)
class RebuiltColumn:
    """A column of the next generation, and the present column that has its values."""

    column: Column
    source: str


@dataclass(frozen=True, slots=True)
class RebuildPlan:
    """Plan of the next generation, and the location of its values in the present row images."""

    schema: TableSchema
    options: TableOptions
    places: tuple[int, ...]
    """By new column: the position of its values among the present columns."""

    @property
    def marked(self) -> TableSchema:
        """The schema of files that have more than inserts."""
        return with_landing(replace(self.schema, bare=False), self.options)

    def rebuilt(self, table: Table) -> Table:
        """Return the table as this plan makes it."""
        return replace(table, schema=self.schema, options=self.options)

    def columns_from(self, present: TableSchema) -> tuple[RebuiltColumn, ...]:
        """Return the columns of the plan, with those of the present schema that have their values."""
        pairs = zip(self.schema.columns, self.places, strict=True)
        return tuple(RebuiltColumn(column, present.names[place]) for column, place in pairs)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as it is stored."""
        return {"schema": self.schema.to_json(), "options": self.options.to_stored(), "places": list(self.places)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "RebuildPlan":
        """Read a stored plan."""
        return cls(
            TableSchema.from_json(stored["schema"]), TableOptions.parse(stored["options"]), tuple(stored["places"])
        )


def plan_rebuild(
    table: Table, columns: Sequence[RebuiltColumn] | None = None, key_columns: Sequence[str] | None = None
) -> RebuildPlan:
    """Return the plan for a table's rows in other columns or under another key; None keeps the present ones.

    Files begin without the row marker, unless the options need it. Raises RejectedInput `no_row_images` for a table
    that does not keep an image of each row, `bad_schema`, `bad_name` or `bad_option`.
    """
    _check_rebuildable(table)
    present = table.schema
    chosen = [RebuiltColumn(column, column.name) for column in present.columns] if columns is None else columns
    _check_sources(chosen, table)
    new_names = {entry.source: entry.column.name for entry in chosen}
    if key_columns is None:
        dropped = [key for key in present.key_columns if key not in new_names]
        if dropped:
            raise RejectedInput(Code.BAD_SCHEMA, f"the key column {dropped[0]!r} is dropped: give key_columns")
        key_columns = [new_names[key] for key in present.key_columns]
    if not key_columns:
        raise RejectedInput(Code.BAD_SCHEMA, "a rebuilt table needs key columns")
    for entry in chosen:
        if entry.column.name not in present.names:
            check_new_column_name(entry.column.name)
    required = tuple(
        replace(entry.column, nullable=entry.column.nullable and entry.column.name not in key_columns)
        for entry in chosen
    )
    if table.options.upserts_only and [*key_columns] != [new_names.get(key) for key in present.key_columns]:
        detail = "row_marker=none: rows that get another key meanwhile would have to be deleted"
        raise RejectedInput(Code.BAD_OPTION, detail, remedy="Recreate the table and load it again.")
    options = _renamed(table, required, chosen)
    schema = TableSchema.declare(required, tuple(key_columns))
    options.check(schema)
    check_values(options, schema)
    places = tuple(present.names.index(entry.source) for entry in chosen)
    needs_marker = options.upserts_inserts or options.filter is not None or options.flags_deletes
    schema = replace(schema, bare=not needs_marker)
    return RebuildPlan(with_landing(schema, options), options, places)


def _check_rebuildable(table: Table) -> None:
    table.require_images()
    if table.options.history is History.APPEND_ONLY:
        detail = f"table {table.name} lands every change, and row images have the newest row of each key alone"
        raise RejectedInput(Code.BAD_OPTION, detail)


def _check_sources(chosen: Sequence[RebuiltColumn], table: Table) -> None:
    sources = [entry.source for entry in chosen]
    for source in sources:
        if source not in table.schema.names:
            detail = f"no column {source!r} has values to use; register new columns after the rebuild"
            raise RejectedInput(Code.BAD_SCHEMA, detail)
        if source in table.late_columns:
            detail = (
                f"column {source!r} came back to the source, or was added with a default, and row images from before "
                "do not know its values"
            )
            remedy = "Rebuild the table without the column, or recreate the table and load it again."
            raise RejectedInput(Code.BAD_SCHEMA, detail, remedy=remedy)
    if len(set(sources)) < len(sources):
        raise RejectedInput(Code.BAD_SCHEMA, "two columns take their values from the same column")


def _renamed(table: Table, columns: Sequence[Column], chosen: Sequence[RebuiltColumn]) -> TableOptions:
    """Return options that name the new columns, and that declare them as the plan does whatever the source declares."""
    options, new_names = table.options, {entry.source: entry.column.name for entry in chosen}
    present = {column.name: column for column in table.schema.columns}
    overrides = {
        column.name: _override(options.columns.get(entry.source), present[entry.source], column)
        for column, entry in zip(columns, chosen, strict=True)
    }
    exclude = tuple(new_names.get(name, name) for name in options.exclude)
    rename = {new_names[name]: landing for name, landing in options.rename.items() if name in new_names}
    masks = {new_names[name]: mask for name, mask in options.masks.items() if name in new_names}
    given = {name: override for name, override in overrides.items() if override is not None}
    kept = _renamed_filter(options.filter, new_names)
    derive = _renamed_derive(table, new_names)
    return replace(options, columns=given, exclude=exclude, rename=rename, masks=masks, filter=kept, derive=derive)


def _renamed_derive(table: Table, new_names: Mapping[str, str]) -> dict[str, str]:
    """Return the derived columns by the new names; those that are replaced leave with the column that they replace."""
    found: dict[str, str] = {}
    for name, expression in parsed_derive(table.options.derive, table.schema).items():
        if name in table.schema.names and name not in new_names:
            continue
        if missing := sorted(expression.columns - new_names.keys()):
            raise RejectedInput(Code.BAD_OPTION, f"the derived column {name!r} needs the column {missing[0]!r}")
        text = renamed_expression(table.options.derive[name], expression, new_names)
        found[new_names.get(name, name)] = text
    return found


def _renamed_filter(found: RowFilter | None, new_names: Mapping[str, str]) -> RowFilter | None:
    """Return the filter by the new names; without a column that it compares it would say something else."""
    for comparison, _ in found.comparisons() if found is not None else ():
        if comparison.column not in new_names:
            raise RejectedInput(Code.BAD_OPTION, f"the filter of the table needs the column {comparison.column!r}")
    return found and found.renamed(new_names)


def _override(present: ColumnOverride | None, before: Column, after: Column) -> ColumnOverride | None:
    """Return the override of a rebuilt column: what was overridden remains so, and what is not as before becomes it."""
    known = present or ColumnOverride()
    has_type = known.type is not None or after.type != before.type
    has_nullable = known.nullable is not None or after.nullable != before.nullable
    changed = replace(
        known,
        type=str(after.type) if has_type else None,
        nullable=after.nullable if has_nullable else None,
        unit=known.unit if after.type.name is TypeName.TIMESTAMP else None,
    )
    return None if changed == ColumnOverride() else changed


@dataclass(frozen=True, slots=True)
class UnfitRows:
    """Rows that cannot be rebuilt: how many, why, and the position of the first in key order, never its value."""

    column: str | None
    """The column; None for duplicate keys."""
    code: Code
    rows: int
    first_row: int
    """Counted from 1 in the order of the present keys."""


class RebuiltRows(NamedTuple):
    """Rows of the next generation, with the key and the image of each."""

    batch: pa.RecordBatch
    keys: pa.BinaryArray
    images: pa.BinaryArray

    @property
    def deleted(self) -> list[bool]:
        """By row: whether it is flagged as deleted."""
        return are_deleted(self.images)


class CheckedRows(NamedTuple):
    """Findings of a dry run in rows: values that do not fit, the new keys, and the positions of rows without one."""

    findings: list[UnfitRows]
    keys: pa.BinaryArray
    keyless: list[int]
    """Counted like `UnfitRows.first_row`: rows whose values do not make a key."""


class _Values(NamedTuple):
    columns: Sequence[Sequence[Any] | pa.StringArray]
    """The values of each new column."""
    images: pa.BinaryArray


def rebuilt_rows(
    images: Sequence[bytes], plan: RebuildPlan, width: int, *, first_row: int = 1, marker: RowMarker = RowMarker.INSERT
) -> RebuiltRows | list[UnfitRows]:
    """Return the rows of these images of a table with `width` columns; the findings if one of them does not fit."""
    values = _values(images, plan, width)
    markers = pa.repeat(pa.scalar(int(marker), pa.int32()), len(images))
    typed = _typed(plan.schema.columns, values.columns, plan, markers)
    findings = _findings(typed, plan, first_row)
    if findings:
        return findings
    batch = pa.RecordBatch.from_arrays([*(column.array for column in typed), markers], schema=plan.schema.arrow)
    return RebuiltRows(batch, key_column([batch.column(name) for name in plan.schema.key_columns]), values.images)


def checked_rows(images: Sequence[bytes], plan: RebuildPlan, width: int, *, first_row: int = 1) -> CheckedRows:
    """Return what does not fit of these images, and the new keys of all rows that have one."""
    values = _values(images, plan, width).columns
    markers = pa.repeat(pa.scalar(int(RowMarker.INSERT), pa.int32()), len(images))
    typed = _typed(plan.schema.columns, values, plan, markers)
    at_key = [plan.schema.names.index(name) for name in plan.schema.key_columns]
    keyless = sorted({row for at in at_key for row, _, _ in typed[at].wrong})
    key = [typed[at] for at in at_key]
    if keyless:
        keyed = sorted(set(range(len(images))).difference(keyless))
        columns = [plan.schema.columns[at] for at in at_key]
        key = _typed(columns, [_chosen(values[at], keyed) for at in at_key], plan, markers.slice(0, len(keyed)))
    keys = key_column([column.array for column in key])
    return CheckedRows(_findings(typed, plan, first_row), keys, [first_row + row for row in keyless])


def _chosen(values: Sequence[Any] | pa.StringArray, rows: Sequence[int]) -> Sequence[Any] | pa.StringArray:
    if isinstance(values, pa.StringArray):
        return values.take(pa.array(rows, pa.int64()))
    return [values[row] for row in rows]


class _Typed(NamedTuple):
    array: pa.Array | None
    """None if a value does not fit."""
    wrong: Sequence[WrongRow]


def _typed(
    columns: Sequence[Column],
    values: Sequence[Sequence[Any] | pa.StringArray],
    plan: RebuildPlan,
    markers: pa.Int32Array,
) -> list[_Typed]:
    return [
        _Typed(*typed_column(column, given, plan.schema, plan.options, markers))
        for column, given in zip(columns, values, strict=True)
    ]


def _findings(typed: Sequence[_Typed], plan: RebuildPlan, first_row: int) -> list[UnfitRows]:
    found = []
    for column, (_, wrong) in zip(plan.schema.columns, typed, strict=True):
        for code, rows in Counter(code for _, code, _ in wrong).items():
            first = min(row for row, other, _ in wrong if other is code)
            found.append(UnfitRows(column.name, code, rows, first_row + first))
    return found


def deletes_of(rows: RebuiltRows, plan: RebuildPlan, chosen: Sequence[int]) -> pa.RecordBatch:
    """Return rows that delete some of these rows: their keys, and NULL in every other column."""
    taken = rows.batch.take(pa.array(chosen, pa.int64()))
    arrays = [
        taken.column(at) if column.name in plan.schema.key_set else pa.nulls(len(chosen), column.type.arrow)
        for at, column in enumerate(plan.schema.columns)
    ]
    markers = pa.repeat(pa.scalar(int(RowMarker.DELETE), pa.int32()), len(chosen))
    return pa.RecordBatch.from_arrays([*arrays, markers], schema=plan.schema.arrow)


class AuditedRows(NamedTuple):
    """The facts of each row for audit columns."""

    operations: Sequence[Operation]
    deleted: Sequence[bool]


def projected_batch(
    batch: pa.RecordBatch, audited: AuditedRows, rebuilt: Table, acceptance: Acceptance
) -> pa.RecordBatch:
    """Return rows of the next generation as its files have them, if it `is_projected`.

    Of a table with a filter the rows can be fewer, but at least one. A derived value that cannot be computed is NULL.
    """
    typed = with_operations(batch, operation_column(audited.operations), RowRules.of(rebuilt))
    if rebuilt.options.flags_deletes:
        typed = with_deleted(typed, audited.deleted)
    typed, _ = with_derived(typed, RowRules.of(rebuilt))
    return landed(LandingRows(typed, typed.num_rows), rebuilt, acceptance).batch


def merged(findings: Iterable[UnfitRows]) -> list[UnfitRows]:
    """Return the findings of all parts of a table as one for each column and reason."""
    found: dict[tuple[str | None, Code], UnfitRows] = {}
    for one in findings:
        other = found.get((one.column, one.code))
        if other is not None:
            one = UnfitRows(one.column, one.code, one.rows + other.rows, min(one.first_row, other.first_row))
        found[one.column, one.code] = one
    return sorted(found.values(), key=lambda one: (one.column or "", one.code))


def _values(images: Sequence[bytes], plan: RebuildPlan, width: int) -> _Values:
    """Return the values by new column, and the new images; JSON is written again only if the columns move.

    Images of columns that keep their positions remain as they are: what they do not know, they do not know of the same
    columns, and columns that they are too old for are NULL.
    """
    are_kept = plan.places == tuple(range(width))
    plain = _plain(images, plan, width)
    if plain is not None:
        return _Values(plain.columns, pa.array(images, pa.binary()) if are_kept else plain.images())
    values, written = _decoded(images, plan, width, are_kept=are_kept)
    return _Values(values, pa.array(written, pa.binary()))


def _plain(images: Sequence[bytes], plan: RebuildPlan, width: int) -> PlainValues | None:
    """Return the values by new column, or None if Arrow cannot read them exactly."""
    found = plain_values(images, width)
    if found is None:
        return None
    taken = found.taken(plan.places)
    depend = [at for at, column in enumerate(plan.schema.columns) if depends_on_quotes(column.type)]
    return taken if taken.are_texts[:, depend].all() else None


def _decoded(
    images: Sequence[bytes], plan: RebuildPlan, width: int, *, are_kept: bool
) -> tuple[list[Sequence[Any]], Sequence[bytes]]:
    """Do what `_values` does for values of any kind."""
    rows = known_lists(images)
    if rows is None:
        return _partial(images, plan, width, are_kept=are_kept)
    if any(len(row) < width for row in rows):
        rows = [[*row, *[None] * (width - len(row))] for row in rows]
    by_column: list[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [()] * width
    columns = [by_column[place] for place in plan.places]
    return columns, images if are_kept else encode_images(list(zip(*columns, strict=True)))


def _partial(
    images: Sequence[bytes], plan: RebuildPlan, width: int, *, are_kept: bool
) -> tuple[list[Sequence[Any]], Sequence[bytes]]:
    """Do what `_values` does for images of which some do not know a column: it lands NULL and remains unknown."""
    rows = [by_position(known_values(image), width) for image in images]
    columns: list[Sequence[Any]] = [[row.get(place) for row in rows] for place in plan.places]
    if are_kept:
        return columns, images
    written = [
        encode_image(
            values, [at for at, place in enumerate(plan.places) if place not in row], is_deleted=is_deleted(image)
        )
        for values, row, image in zip(zip(*columns, strict=True), rows, images, strict=True)
    ]
    return columns, written
