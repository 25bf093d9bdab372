"""Landing zones to mirror: numbered Parquet files of tables with 16 columns, as a publisher leaves them."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.domain.model.names import ROW_MARKER
from app.landing.publish import METADATA
from benchmarks.loads.messages import column_names
from benchmarks.loads.staged_rows import row_batch
from benchmarks.loads.workloads import COLUMNS, FIRST_KEY

SCHEMA: Final = pa.schema(
    [
        *((name, pa.int64() if at < COLUMNS // 2 else pa.string()) for at, name in enumerate(column_names(COLUMNS))),
        (ROW_MARKER, pa.int32()),
    ]
)
UPSERT: Final = 4
DELETE: Final = 2
DELETED_SHARE: Final = 0.05


def inserts(first: int, count: int) -> pa.Table:
    """Return rows with new keys from FIRST_KEY + `first` on, with the marker of inserts."""
    return pa.Table.from_batches([row_batch(SCHEMA, FIRST_KEY + first, count)])


def changes(seed: int, count: int, keys: int) -> pa.Table:
    """Return upserts and, for one row of twenty, deletes of this many keys in random order."""
    dice = np.random.default_rng(seed)
    key = pa.array(FIRST_KEY + dice.integers(0, keys, count))
    text = pc.binary_join_element_wise("text of row", pc.cast(key, pa.string()), " ")
    marker = pa.array(np.where(dice.random(count) < DELETED_SHARE, DELETE, UPSERT).astype(np.int32))
    half = COLUMNS // 2
    return pa.table([*[key] * half, *[text] * half, marker], schema=SCHEMA)


def without_marker(rows: pa.Table) -> pa.Table:
    """Return the columns that the mirrored table has."""
    return rows.drop_columns([ROW_MARKER])


def make_table(folder: Path) -> Path:
    """Make a table folder whose key is the first column, and return it."""
    folder.mkdir(parents=True)
    (folder / METADATA).write_text(json.dumps({"keyColumns": [SCHEMA.names[0]]}))
    return folder


def write_file(folder: Path, number: int, rows: pa.Table) -> Path:
    """Write a file of a folder that the mirror does not see yet, and return its path."""
    file = folder / file_name(number)
    pq.write_table(rows, file, compression="zstd")
    return file


def publish(file: Path, folder: Path, number: int) -> None:
    """Copy a file into a table folder so that it becomes visible at once, as a whole."""
    new = folder.parent.with_name("unpublished") / f"{folder.name}.{number}"
    new.parent.mkdir(exist_ok=True)
    shutil.copyfile(file, new)
    new.rename(folder / file_name(number))


def read_files(folder: Path) -> Iterator[pa.Table]:
    """Yield the rows of each file in order, without markers."""
    for file in sorted(folder.glob("*.parquet")):
        yield without_marker(pq.read_table(file))


def file_name(number: int) -> str:
    """Return the name of a landing file."""
    return f"{number:020}.parquet"
