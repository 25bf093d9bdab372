"""Reads columns of a whole mirrored table as typed Arrow batches."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from app.domain.model.table_schema import Column
from app.mirror.arrow_dataset import arrow_dataset
from app.mirror.row_page import open_version, readable
from app.mirror.target import MirrorTarget
from app.published.table_folders import PublishedTable

_ROWS_AT_ONCE = 16_384


def typed_rows(
    target: MirrorTarget, table: PublishedTable, columns: Sequence[Column], flag: str | None = None
) -> Iterator[list[pa.Array]]:
    """Yield the rows of the newest version, some at a time: an array of `ColumnType.arrow` for each of the columns.

    Rows with true in the column `flag` are left out. A column that the Delta table does not have yet is NULL. Raises
    RejectedInput `not_mirrored`, and TemporarilyUnavailable `mirror_away`.
    """
    with readable(table):
        dataset = arrow_dataset(open_version(target, table, None))
        present = [column.name for column in columns if column.name in dataset.schema.names]
        chosen = None
        if flag in dataset.schema.names:
            chosen = pc.field(flag).is_null() | ~pc.field(flag)
        for batch in dataset.to_batches(columns=present, filter=chosen, batch_size=_ROWS_AT_ONCE):
            yield _typed(batch, columns)


def _typed(batch: pa.RecordBatch, columns: Sequence[Column]) -> list[pa.Array]:
    return [
        pc.cast(batch.column(column.name), column.type.arrow)
        if column.name in batch.schema.names
        else pa.nulls(batch.num_rows, column.type.arrow)
        for column in columns
    ]
