"""Wait until the Delta tables have every landing file, compare them with what was posted, and show some of them."""

import json
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as Grid

from app.mirror.target import arrow_dataset
from demo.landing_reader import landing_files, table_folder
from demo.mirror_reader import applied_file, fold, mirrored_rows, open_mirrored
from demo.workload import Row

MAX_MIRROR_SECONDS = 60.0
MAX_SHOWN_ROWS = 5
MAX_SHOWN_VERSIONS = 4


class MirrorDiffers(Exception):
    """The Delta tables differ from what was posted."""


def wait_until_mirrored(landing_zone: Path, target: Path, tables: Iterable[str]) -> None:
    """Wait until each Delta table has the last landing file. Raise MirrorDiffers after `MAX_MIRROR_SECONDS` seconds."""
    deadline = time.monotonic() + MAX_MIRROR_SECONDS
    for table in tables:
        published = len(landing_files(table_folder(landing_zone, table)))
        while (applied := applied_file(open_mirrored(target, table))) != published:
            if time.monotonic() > deadline:
                raise MirrorDiffers(f"{table}: {applied} of {published} files were mirrored; see mirror.log")
            threading.Event().wait(0.1)


def compare_mirror(target: Path, posted: Mapping[str, list[Row]]) -> int:
    """Compare every mirrored row with the fold of the posted ones. Return the number of rows. Raise MirrorDiffers."""
    count = 0
    for table, rows in posted.items():
        mirrored = open_mirrored(target, table)
        if mirrored is None or mirrored_rows(mirrored) != (wanted := fold(rows)):
            raise MirrorDiffers(f"{table}: the Delta table does not have the rows that the posted changes make")
        count += sum(map(len, wanted.values()))
    return count


def show_mirror(console: Console, target: Path, table: str) -> None:
    """Print the first rows of a mirrored table, and which landing files its last versions applied."""
    mirrored = open_mirrored(target, table)
    if mirrored is None:
        return
    columns = arrow_dataset(mirrored).head(MAX_SHOWN_ROWS)
    console.print(f"[bold]{table}[/bold] as Fabric would show it ({target / table.replace('.', '/')}):")
    console.print(_grid(columns.column_names, [list(row.values()) for row in columns.to_pylist()]))
    names = ["version", "files", "rows by marker", "keys deleted or replaced", "rows written"]
    console.print(_grid(names, [_version(commit) for commit in mirrored.history(MAX_SHOWN_VERSIONS)]))


def _version(commit: Mapping[str, Any]) -> list[object]:
    rows = json.loads(commit["mirrorgate.rows"])
    shown = ", ".join(f"{marker}: {count:,}" for marker, count in rows.items() if count)
    facts = (commit[f"mirrorgate.{name}"] for name in ("deleted_keys", "appended_rows"))
    return [commit["version"], commit["mirrorgate.files"], shown, *facts]


def _grid(names: Iterable[str], rows: Iterable[list[object]]) -> Grid:
    grid = Grid(box=None, header_style="dim", padding=(0, 1))
    for name in names:
        grid.add_column(name, no_wrap=True)
    for row in rows:
        grid.add_row(*("NULL" if value is None else str(value) for value in row))
    return grid
