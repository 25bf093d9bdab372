"""The data files in which two versions of a Delta table differ, as Arrow datasets.

A commit replaces a few files and keeps the others. Rows of a file that both versions have cancel out, so a comparison
reads only the files that one of the versions lacks.
"""

from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable

from app.mirror.arrow_dataset import arrow_dataset

_BATCH_ROWS: Final = 1 << 15
"""Arrow reads 16 batches of 131,072 rows ahead of each of 4 files otherwise: gigabytes for wide rows."""


def live_files(table: DeltaTable) -> set[str]:
    """Return the paths of the data files of the open version, below the table's folder."""
    return set(pa.table(table.get_add_actions(flatten=True)).column("path").to_pylist())


def differing_files(before: DeltaTable | None, after: DeltaTable) -> tuple[set[str], set[str]]:
    """Return the paths that only `before` has, and those that only `after` has. None has no files."""
    first = set() if before is None else live_files(before)
    last = live_files(after)
    return first - last, last - first


def rows_of(table: DeltaTable, paths: set[str]) -> pa.RecordBatchReader:
    """Return the rows of some data files of the open version, to read once, with few batches read ahead.

    Raises FileNotFoundError for the first file if it is gone, and OSError.
    """
    whole = arrow_dataset(table)
    fragments: list[Any] = [fragment for fragment in whole.get_fragments() if fragment.path in paths]
    if not fragments:
        return whole.schema.empty_table().to_reader()
    chosen = ds.FileSystemDataset(fragments, whole.schema, fragments[0].format, fragments[0].filesystem)
    return chosen.scanner(batch_size=_BATCH_ROWS, batch_readahead=2, fragment_readahead=1).to_reader()
