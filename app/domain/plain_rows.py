"""Rows of changes that need no look of their own: each gives every column as text, and no key has changed."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from app.domain.change import Operation
from app.domain.landing_rows import LandingRows, RowRules
from app.domain.row_builder import markers_under
from app.domain.typed_columns import typed_texts


@dataclass(frozen=True, slots=True)
class PlainRows:
    """One row for each change of a request."""

    columns: Sequence[pa.StringArray]
    """In the order of the table's columns; a delete has its key, and NULL in all other columns."""
    operations: Sequence[Operation]
    source_position: str | None
    """That of the last change."""


def landing_rows_of_plain(plain: PlainRows, rules: RowRules) -> LandingRows | None:
    """The typed rows; None where a value does not fit, which `landing_rows` tells of."""
    schema = rules.schema
    marker_of = markers_under(rules.options)
    markers = pa.array([marker_of[operation] for operation in plain.operations], pa.int32())
    arrays = []
    for column, texts in zip(schema.columns, plain.columns, strict=True):
        array, wrong = typed_texts(column, texts, schema, rules.options, markers)
        if wrong:
            return None
        arrays.append(array)
    batch = pa.RecordBatch.from_arrays([*arrays, markers], schema=schema.arrow)
    return LandingRows(batch, batch.num_rows, starts_cdc=True, source_position=plain.source_position)
