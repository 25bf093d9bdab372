"""Read the mirrored tables with deltalake alone, and fold what was posted independently of the mirror's code."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from app.mirror.target import arrow_dataset
from demo.workload import DELETE, INSERT, Row

Rows = dict[Any, list[tuple[Any, ...]]]
"""Rows of a table by key, which is their first value."""


def fold(posted: Iterable[Row]) -> Rows:
    """Return what Fabric makes of rows: an insert appends, an update replaces the rows of its key, a delete removes."""
    rows: Rows = {}
    for marker, *values in posted:
        key, row = values[0], tuple(values)
        if marker == INSERT:
            rows.setdefault(key, []).append(row)
        elif marker == DELETE:
            rows.pop(key, None)
        else:
            rows[key] = [row]
    return rows


def open_mirrored(target: Path, table: str) -> DeltaTable | None:
    """Open a table's Delta table; None before the mirror has made it."""
    folder = target / table.replace(".", "/")
    return DeltaTable(folder) if (folder / "_delta_log").is_dir() else None


def applied_file(mirrored: DeltaTable | None) -> int:
    """Return the number of the last landing file that the Delta table has, 0 before the first."""
    return 0 if mirrored is None else mirrored.transaction_version("mirrorgate") or 0


def mirrored_rows(mirrored: DeltaTable) -> Rows:
    """Return the rows of a Delta table by key."""
    rows: Rows = {}
    columns = arrow_dataset(mirrored).to_table()
    for row in zip(*(column.to_pylist() for column in columns.columns), strict=True):
        rows.setdefault(row[0], []).append(row)
    return rows
