"""Changes of one table -> landing rows: an Arrow record batch with the row marker as its last column."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from operator import eq
from typing import Self

import pyarrow as pa

from app.domain.model.change import Change
from app.domain.model.input_limits import MAX_CELLS, check_cells
from app.domain.model.table import Table
from app.domain.model.table_options import DEFAULT_OPTIONS, PartialUpdates, TableOptions
from app.domain.model.table_schema import TableSchema
from app.domain.rows.key_changes import KeyChange, KeyChanges
from app.domain.rows.row_builder import RowBuilder
from app.domain.rows.row_image import ImageRows, IncompleteRow, encode_image, row_keys
from app.domain.rows.row_marker import RowMarker
from app.domain.rows.typed_columns import typed_columns
from app.errors import RejectedInput


@dataclass(frozen=True, slots=True)
class RowRules:
    """The rules by which changes of one table become rows."""

    schema: TableSchema
    options: TableOptions = DEFAULT_OPTIONS
    left_columns: frozenset[str] = frozenset()
    """Nullable columns that the source no longer has; they are NULL if a message does not give them."""
    cdc_started: bool = False
    """True if changes other than snapshot rows were accepted before."""

    @classmethod
    def of(cls, table: Table) -> Self:
        """Return the rules of a table as it is now."""
        return cls(table.schema, table.options, table.left_columns, table.cdc_started)

    @property
    def fillable(self) -> frozenset[str]:
        """The columns that a row image can give if an update does not."""
        if self.options.partial_updates is not PartialUpdates.COMPLETE:
            return frozenset()
        return frozenset(self.schema.names) - self.schema.key_set - self.left_columns - {*self.options.exclude}


@dataclass(frozen=True, slots=True)
class LandingRows:
    """The typed rows of one batch: `batch` has the schema `TableSchema.arrow`, with one or two rows per change."""

    batch: pa.RecordBatch
    changes: int
    ends_transaction: bool = True
    """False if the source said that its transaction continues after the last change."""
    has_snapshots: bool = False
    starts_cdc: bool = False
    """True if a change is not a snapshot row."""
    source_position: str | None = None
    """The source position of the last change that has one, verbatim."""
    images: ImageRows | None = None
    """What the rows mean for row images, if the table keeps them."""
    repeated_inserts: int = 0
    """Inserts that land as upserts because their key has a row."""

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.batch.num_rows)


def landing_rows(changes: Sequence[Change], rules: RowRules | TableSchema) -> LandingRows:
    """Type and check the ordered changes of one table; for a schema alone, with default rules.

    Raises RejectedInput naming every message that cannot land correctly, with index, pointer and column; or
    `too_many_messages` if messages times columns exceed a limit.
    """
    if isinstance(rules, TableSchema):
        rules = RowRules(rules)
    schema, options = rules.schema, rules.options
    check_cells(len(changes), len(schema.columns))
    builder = RowBuilder(schema, options, rules.left_columns, cdc_started=rules.cdc_started)
    for change in changes:
        builder.add(change)
    arrays, problems = typed_columns(builder, schema, options)
    problems = [*builder.problems, *problems]
    if problems:
        raise RejectedInput.of(tuple(sorted(problems, key=lambda problem: problem.index or 0)))
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema.arrow)
    if options.partial_updates is PartialUpdates.COMPLETE:
        return _landing_rows(changes, batch, _images(builder, batch, rules), builder)
    return _landing_rows(changes, _in_landing_order(batch, builder.key_changes, rules), None, builder)


def landing_rows_of_each(requests: Sequence[Sequence[Change]], rules: RowRules) -> list[LandingRows] | None:
    """Return the rows of several requests for one table, typed together: most of a small request's cost is fixed.

    None if a request cannot land, has snapshot rows or needs row images, or if one of several changes keys; then type
    each with `landing_rows`.
    """
    if rules.options.partial_updates is PartialUpdates.COMPLETE:
        return None
    if sum(map(len, requests)) * len(rules.schema.columns) > MAX_CELLS:
        return None
    builder = RowBuilder(rules.schema, rules.options, rules.left_columns, cdc_started=rules.cdc_started)
    borders = [0]
    for changes in requests:
        for change in changes:
            builder.add(change)
        borders.append(len(builder.rows))
    if builder.problems or builder.has_snapshots or (len(requests) > 1 and builder.key_changes):
        return None
    arrays, problems = typed_columns(builder, rules.schema, rules.options)
    if problems:
        return None
    batch = pa.RecordBatch.from_arrays(arrays, schema=rules.schema.arrow)
    if builder.key_changes:
        try:
            batch = _in_landing_order(batch, builder.key_changes, rules)
        except RejectedInput:
            return None
    return [
        _landing_rows(changes, batch.slice(start, end - start), None, builder)
        for changes, (start, end) in zip(requests, pairwise(borders), strict=True)
    ]


def _landing_rows(
    changes: Sequence[Change], batch: pa.RecordBatch, images: ImageRows | None, builder: RowBuilder
) -> LandingRows:
    return LandingRows(
        batch,
        len(changes),
        changes[-1].ends_transaction if changes else True,
        builder.has_snapshots,
        builder.starts_cdc,
        next((change.source_position for change in reversed(changes) if change.source_position), None),
        images,
    )


def _in_landing_order(batch: pa.RecordBatch, changes: Sequence[KeyChange], rules: RowRules) -> pa.RecordBatch:
    """Return the rows of a table without row images as `KeyChanges` orders them. Raises RejectedInput."""
    if not changes:
        return batch
    keys = row_keys([batch.column(name) for name in rules.schema.key_columns])
    markers = batch.column(batch.num_columns - 1).to_pylist()
    live: dict[bytes, bool] = {}
    order: list[int] = []
    for row in KeyChanges(changes, rules.schema, rules.options, has_images=False).landing_order(keys, live.get):
        live[keys[row]] = markers[row] != RowMarker.DELETE
        order.append(row)
    return in_order(batch, order)


def in_order(batch: pa.RecordBatch, order: Sequence[int]) -> pa.RecordBatch:
    """Return the rows of a batch in this order."""
    return batch if all(map(eq, order, count())) else batch.take(pa.array(order))


def _images(builder: RowBuilder, batch: pa.RecordBatch, rules: RowRules) -> ImageRows:
    keys = row_keys([batch.column(name) for name in rules.schema.key_columns])
    images = [
        None if marker == RowMarker.DELETE or row in builder.missing else encode_image(values)
        for row, (values, marker) in enumerate(zip(builder.rows, builder.markers, strict=True))
    ]
    for row in builder.unknown.keys() - builder.missing.keys():
        images[row] = encode_image(builder.rows[row], builder.unknown[row])
    incomplete = {
        row: IncompleteRow(tuple(builder.rows[row]), missing, builder.unknown.get(row, ()), *builder.origins[row])
        for row, missing in builder.missing.items()
    }
    moved = {key_change.row + 1 for key_change in builder.key_changes}
    inserts = [row for row, marker in enumerate(builder.markers) if marker == RowMarker.INSERT and row not in moved]
    return ImageRows(keys, images, incomplete, () if rules.schema.bare else inserts, tuple(builder.key_changes))
