"""Types changes that arrive as columns of texts: each gives every column, and no key changes.

Updates can leave columns to row images. Invariant: the rows equal those of `landing_rows` for the same changes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from app.domain.model.change import Operation
from app.domain.model.table_options import PartialUpdates
from app.domain.rows.landing_rows import LandingRows, RowRules
from app.domain.rows.row_image import ImageRows, IncompleteRow, MissingColumns, encode_image, row_keys
from app.domain.rows.row_layout import RowMarker, layout_of
from app.domain.rows.shaped_changes import Shape
from app.domain.rows.typed_columns import chosen_rows, typed_texts


@dataclass(frozen=True, slots=True)
class ColumnarRows:
    """One row per change of a request."""

    columns: Sequence[pa.StringArray]
    """In the order of the table's columns; a delete has its key and NULL in all other columns."""
    operations: Sequence[Operation]
    source_position: str | None
    """The source position of the last change."""
    missing: Mapping[int, MissingColumns] = field(default_factory=dict)
    """By row: the columns that only the row image can give; their texts are ignored."""


def landing_rows_of_columns(columnar: ColumnarRows, rules: RowRules) -> LandingRows | None:
    """Return the typed rows, or None if a value does not fit; `landing_rows` then names it."""
    schema = rules.schema
    names = frozenset(schema.names)
    marker_of = {
        operation: layout_of(Shape(operation, names, names), rules).same.rows[0].marker
        for operation in {*columnar.operations}
    }
    markers = pa.array([marker_of[operation] for operation in columnar.operations], pa.int32())
    missing = _missing_by_column(columnar)
    columns = [
        pc.if_else(missing[at], None, texts) if at in missing else texts for at, texts in enumerate(columnar.columns)
    ]
    arrays = []
    for at, (column, texts) in enumerate(zip(schema.columns, columns, strict=True)):
        array, wrong = typed_texts(column, texts, schema, rules.options, markers, missing.get(at))
        if wrong:
            return None
        arrays.append(array)
    batch = pa.RecordBatch.from_arrays([*arrays, markers], schema=schema.arrow)
    images = (
        _images(columnar, columns, batch, rules) if rules.options.partial_updates is PartialUpdates.COMPLETE else None
    )
    return LandingRows(batch, batch.num_rows, starts_cdc=True, source_position=columnar.source_position, images=images)


def _missing_by_column(columnar: ColumnarRows) -> Mapping[int, pa.BooleanArray]:
    rows_of: dict[MissingColumns, list[int]] = {}
    for row, columns in columnar.missing.items():
        rows_of.setdefault(columns, []).append(row)
    found: dict[int, pa.BooleanArray] = {}
    for columns, rows in rows_of.items():
        chosen = chosen_rows(len(columnar.operations), rows)
        found |= {at: pc.or_(found[at], chosen) if at in found else chosen for at in columns.ordinals}
    return found


def _images(
    columnar: ColumnarRows, columns: Sequence[pa.StringArray], batch: pa.RecordBatch, rules: RowRules
) -> ImageRows:
    rows = list(zip(*(texts.to_pylist() for texts in columns), strict=True))
    images = [
        None if operation is Operation.DELETE or row in columnar.missing else encode_image(values)
        for row, (values, operation) in enumerate(zip(rows, columnar.operations, strict=True))
    ]
    incomplete = {
        row: IncompleteRow(rows[row], lacking, (), row, "/after") for row, lacking in columnar.missing.items()
    }
    keys = row_keys([batch.column(name) for name in rules.schema.key_columns])
    markers = batch.column(batch.num_columns - 1).to_pylist()
    inserts = [row for row, marker in enumerate(markers) if marker == RowMarker.INSERT]
    return ImageRows(keys, images, incomplete, () if rules.schema.bare else inserts)
