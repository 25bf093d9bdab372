"""Rows of changes that need no look of their own: each gives every column as text, and no key has changed.

An update may leave columns to its row image.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from app.domain.model.change import Operation
from app.domain.model.table_options import PartialUpdates
from app.domain.rows.landing_rows import LandingRows, RowRules
from app.domain.rows.row_builder import RowMarker, markers_under
from app.domain.rows.row_image import ImageRows, IncompleteRow, MissingColumns, encode_image, row_keys
from app.domain.rows.typed_columns import chosen_rows, typed_texts


@dataclass(frozen=True, slots=True)
class ColumnarRows:
    """One row for each change of a request."""

    columns: Sequence[pa.StringArray]
    """In the order of the table's columns; a delete has its key, and NULL in all other columns."""
    operations: Sequence[Operation]
    source_position: str | None
    """That of the last change."""
    missing: Mapping[int, MissingColumns] = field(default_factory=dict)
    """By row: the columns that only the stored row image can give; what stands there means nothing."""


def landing_rows_of_columns(plain: ColumnarRows, rules: RowRules) -> LandingRows | None:
    """The typed rows; None where a value does not fit, which `landing_rows` tells of."""
    schema = rules.schema
    marker_of = markers_under(rules.options)
    markers = pa.array([marker_of[operation] for operation in plain.operations], pa.int32())
    gaps = _gaps_by_column(plain)
    columns = [pc.if_else(gaps[at], None, texts) if at in gaps else texts for at, texts in enumerate(plain.columns)]
    arrays = []
    for at, (column, texts) in enumerate(zip(schema.columns, columns, strict=True)):
        array, wrong = typed_texts(column, texts, schema, rules.options, markers, gaps.get(at))
        if wrong:
            return None
        arrays.append(array)
    batch = pa.RecordBatch.from_arrays([*arrays, markers], schema=schema.arrow)
    images = _images(plain, columns, batch, rules) if rules.options.partial_updates is PartialUpdates.COMPLETE else None
    return LandingRows(batch, batch.num_rows, starts_cdc=True, source_position=plain.source_position, images=images)


def _gaps_by_column(plain: ColumnarRows) -> Mapping[int, pa.BooleanArray]:
    rows_of: dict[MissingColumns, list[int]] = {}
    for row, gap in plain.missing.items():
        rows_of.setdefault(gap, []).append(row)
    found: dict[int, pa.BooleanArray] = {}
    for gap, rows in rows_of.items():
        chosen = chosen_rows(len(plain.operations), rows)
        found |= {at: pc.or_(found[at], chosen) if at in found else chosen for at in gap.ordinals}
    return found


def _images(
    plain: ColumnarRows, columns: Sequence[pa.StringArray], batch: pa.RecordBatch, rules: RowRules
) -> ImageRows:
    rows = list(zip(*(texts.to_pylist() for texts in columns), strict=True))
    images = [
        None if operation is Operation.DELETE or row in plain.missing else encode_image(values)
        for row, (values, operation) in enumerate(zip(rows, plain.operations, strict=True))
    ]
    incomplete = {row: IncompleteRow(rows[row], gap, (), row, "/after") for row, gap in plain.missing.items()}
    keys = row_keys([batch.column(name) for name in rules.schema.key_columns])
    markers = batch.column(batch.num_columns - 1).to_pylist()
    inserts = [row for row, marker in enumerate(markers) if marker == RowMarker.INSERT]
    return ImageRows(keys, images, incomplete, () if rules.schema.bare else inserts)
