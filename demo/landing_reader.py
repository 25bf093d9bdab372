"""Read the landing zone as a consumer does: by file names and with PyArrow, without any code of Mirrorgate."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

ROW_MARKER = "__rowMarker__"


def table_folder(landing_zone: Path, table: str) -> Path:
    """Return the folder of a table, which is in `<schema>.schema` if the table has a schema."""
    schema, _, name = table.rpartition(".")
    return landing_zone / f"{schema}.schema" / name if schema else landing_zone / name


def landing_files(folder: Path) -> list[Path]:
    """Return the visible files in order. Raise ValueError for a gap in their numbers or broken metadata."""
    files = sorted(folder.glob("*.parquet"))
    wanted = [f"{number:020d}.parquet" for number in range(1, len(files) + 1)]
    if [file.name for file in files] != wanted:
        raise ValueError(f"{folder.name}: the files are not numbered 1..{len(files)}")
    json.loads((folder / "_metadata.json").read_bytes())
    return files


def landing_rows(file: Path) -> list[tuple[Any, ...]]:
    """Return the rows of a file: the marker, then the columns in file order. A file without markers has inserts."""
    table = pq.read_table(file)
    has_markers = ROW_MARKER in table.column_names
    markers = table.column(ROW_MARKER).to_pylist() if has_markers else [0] * table.num_rows
    names = (name for name in table.column_names if name != ROW_MARKER)
    return list(zip(markers, *(table.column(name).to_pylist() for name in names), strict=True))


def all_rows(landing_zone: Path, table: str) -> Iterator[tuple[Any, ...]]:
    """Yield every row of a table in the order in which mirroring applies them."""
    for file in landing_files(table_folder(landing_zone, table)):
        yield from landing_rows(file)
