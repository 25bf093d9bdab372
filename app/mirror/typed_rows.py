"""Reads columns of a whole mirrored table as typed Arrow batches, also in an order in which a reader can continue."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable

from app.domain.model.names import TableName
from app.domain.model.table_schema import Column
from app.errors import Code, RejectedInput
from app.mirror.arrow_dataset import arrow_dataset
from app.mirror.position import read_position
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


@dataclass(frozen=True, slots=True)
class VersionRows:
    """The rows of one version of a mirrored table, always in the same order."""

    table: PublishedTable
    table_id: str
    """The id of the Delta table, which another one at its place does not have."""
    version: int
    generation: int
    """The generation of the Delta table, as the mirror counts."""
    file_number: int
    """The last landing file that the version has."""
    rows: int
    files: Sequence[tuple[ds.ParquetFileFragment, int]]
    """The data files in the order of their paths, each with the number of its rows."""

    @classmethod
    def open(cls, target: MirrorTarget, table: PublishedTable, version: int | None) -> "VersionRows":
        """Open a table at a version, the newest one by default.

        Raises RejectedInput `not_mirrored` or `unknown_version`, and TemporarilyUnavailable `mirror_away`.
        """
        with readable(table):
            delta = open_version(target, table, version)
            position = read_position(delta)
            if position is None:
                raise RejectedInput(Code.NOT_MIRRORED, f"the target has a Delta table {table} of another writer")
            fragments = sorted(arrow_dataset(delta).get_fragments(), key=lambda fragment: fragment.path)
            # An older version is looked at file by file, because a vacuum may have deleted some.
            recorded = _recorded_rows(delta) if version is None else {}
            files = [(one, recorded[one.path] if one.path in recorded else one.count_rows()) for one in fragments]
        rows = sum(rows for _, rows in files)
        return cls(
            table, str(delta.metadata().id), delta.version(), position.generation, position.file_number, rows, files
        )

    def batches(self, columns: Sequence[Column], skip: int) -> Iterator[list[pa.Array]]:
        """Yield the rows behind the first `skip` ones, some at a time: an array of `ColumnType.arrow` for each column.

        A column that a file does not have is NULL. Raises RejectedInput `unknown_version` if a vacuum has deleted a
        file, and TemporarilyUnavailable `mirror_away`.
        """
        for fragment, rows in self.files:
            if skip >= rows:
                skip -= rows
                continue
            with readable(self.table):
                yield from self._of_file(fragment, columns, skip)
            skip = 0

    def _of_file(
        self, fragment: ds.ParquetFileFragment, columns: Sequence[Column], skip: int
    ) -> Iterator[list[pa.Array]]:
        present = [column.name for column in columns if column.name in fragment.physical_schema.names]
        for read in fragment.to_batches(columns=present, batch_size=_ROWS_AT_ONCE, use_threads=False):
            batch, skip = read.slice(skip), max(0, skip - read.num_rows)
            if batch.num_rows:
                yield _typed(batch, columns)


def version_reader(target: MirrorTarget) -> Callable[[TableName, int | None], VersionRows]:
    """Return what opens the tables of a target, as `VersionRows.open`."""
    return lambda table, version: VersionRows.open(target, PublishedTable.at(table.folder), version)


def _recorded_rows(delta: DeltaTable) -> dict[str, int]:
    """Return the numbers of rows that the log has, by the path of the data file; a writer may leave them out."""
    actions = pa.table(delta.get_add_actions(flatten=True))
    if "num_records" not in actions.column_names:
        return {}
    numbers = zip(actions.column("path").to_pylist(), actions.column("num_records").to_pylist(), strict=True)
    return {path: rows for path, rows in numbers if rows is not None}


def _typed(batch: pa.RecordBatch, columns: Sequence[Column]) -> list[pa.Array]:
    return [
        pc.cast(batch.column(column.name), column.type.arrow)
        if column.name in batch.schema.names
        else pa.nulls(batch.num_rows, column.type.arrow)
        for column in columns
    ]
