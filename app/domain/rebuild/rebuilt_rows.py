"""Row images -> the rows, keys and images of a table's next generation, by a rebuild plan.

Values are typed by the code that typed them when they arrived, so a value fits a new type exactly or is named. Every
function takes whole lists of images: they cost least when they are read together.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from app.domain.model.change import Operation
from app.domain.model.table import Table
from app.domain.model.table_schema import Column
from app.domain.rebuild.plain_images import PlainValues, depends_on_quotes, plain_values
from app.domain.rebuild.plan import RebuildPlan
from app.domain.rows.landing_rows import LandingRows
from app.domain.rows.projection.landing_projection import Acceptance, landed
from app.domain.rows.projection.row_facts import operation_column, with_deleted, with_operations
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
from app.errors import Code


@dataclass(frozen=True, slots=True)
class Finding:
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
    """What a dry run finds in rows: what does not fit, the new keys, and the positions of rows without one."""

    findings: list[Finding]
    keys: pa.BinaryArray
    keyless: list[int]
    """Counted like `Finding.first_row`: rows whose values do not make a key."""


class _Values(NamedTuple):
    columns: Sequence[Sequence[Any] | pa.StringArray]
    """The values of each new column."""
    images: pa.BinaryArray


def rebuilt_rows(
    images: Sequence[bytes], plan: RebuildPlan, width: int, *, first_row: int = 1, marker: RowMarker = RowMarker.INSERT
) -> RebuiltRows | list[Finding]:
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


def _findings(typed: Sequence[_Typed], plan: RebuildPlan, first_row: int) -> list[Finding]:
    found = []
    for column, (_, wrong) in zip(plan.schema.columns, typed, strict=True):
        for code, rows in Counter(code for _, code, _ in wrong).items():
            first = min(row for row, other, _ in wrong if other is code)
            found.append(Finding(column.name, code, rows, first_row + first))
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
    """What audit columns tell of each row beside its values."""

    operations: Sequence[Operation]
    deleted: Sequence[bool]


def projected_batch(
    batch: pa.RecordBatch, audited: AuditedRows, rebuilt: Table, acceptance: Acceptance
) -> pa.RecordBatch:
    """Return rows of the next generation as its files have them, if it `is_projected`.

    Of a table with a filter the rows can be fewer, but at least one.
    """
    typed = with_operations(batch, operation_column(audited.operations), RowRules.of(rebuilt))
    if rebuilt.options.flags_deletes:
        typed = with_deleted(typed, audited.deleted)
    return landed(LandingRows(typed, typed.num_rows), rebuilt, acceptance).batch


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings of all parts of a table as one for each column and reason."""
    found: dict[tuple[str | None, Code], Finding] = {}
    for one in findings:
        other = found.get((one.column, one.code))
        if other is not None:
            one = Finding(one.column, one.code, one.rows + other.rows, min(one.first_row, other.first_row))
        found[one.column, one.code] = one
    return sorted(found.values(), key=lambda one: (one.column or "", one.code))


def _values(images: Sequence[bytes], plan: RebuildPlan, width: int) -> _Values:
    """Return the values by new column, and the new images; JSON is written again only if the columns move.

    Images of columns that keep their positions stay as they are: what they do not know, they do not know of the same
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
    """Do what `_values` does for images of which some do not know a column: it lands NULL and stays unknown."""
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
