"""`mirrorgate mirror query` and `diff`: rows of mirrored tables, and what happened to them between two versions.

JSON has decimals as numbers with all digits, times as RFC 3339, binary values as Base64, and NaN and infinity as null.
Text for people shows control characters as escapes, so that no value changes the terminal.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.cells import cell_len
from rich.console import Console

from app.cli.mirror.target import (
    AsOf,
    AtVersion,
    MirroredTable,
    StorageOptions,
    To,
    open_target,
    parse_version_or_time,
    point_in_time,
)
from mirrorgate.cli.console import ESCAPES, OUTPUT, encoded, say, working
from mirrorgate.cli.grid import Grid
from mirrorgate.cli.options import DEFAULT_DATA_DIR, AsJson, LocalDataDir
from mirrorgate.text import amount

if TYPE_CHECKING:
    from app.mirror.inspection.difference import ChangedRow, VersionDifference

_MIN_GRID_COLUMNS: Final = 2


def print_json_list(items: Iterable[object]) -> None:
    """Print a JSON list, one item a line, as the items are read."""
    separator = "["
    for item in items:
        sys.stdout.write(f"{separator}{encoded(item)}")
        separator = ",\n "
    sys.stdout.write("[]\n" if separator == "[" else "]\n")


def print_csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print RFC 4180 with a header. NULL is empty, an empty string is `""`."""
    for row in chain([columns], rows):
        sys.stdout.write(",".join(map(_csv_field, row)) + "\r\n")


def print_rows(columns: Sequence[str], rows: Sequence[Sequence[object]], console: Console) -> None:
    """Print rows as a grid, or one value a line if the grid is wider than the terminal."""
    cells = [[readable(value) for value in row] for row in rows]
    titles = [readable(name) for name in columns]
    widths = [max(map(cell_len, column)) for column in zip(titles, *cells, strict=True)]
    if len(columns) < _MIN_GRID_COLUMNS or sum(widths) + 2 * len(widths) <= console.width or not console.is_terminal:
        numbers = [
            all(isinstance(row[place], int | float) or row[place] is None for row in rows)
            for place in range(len(columns))
        ]
        grid = Grid(titles, right=[title for title, is_number in zip(titles, numbers, strict=True) if is_number])
        for line in cells:
            grid.add(*line)
        grid.print(console)
        return
    left = max(map(cell_len, titles))
    for number, line in enumerate(cells, 1):
        say(f"row {number:,}", style="bold", to=console)
        for title, cell in zip(titles, line, strict=True):
            say(f"  {title}{' ' * (left - cell_len(title))}  {cell}", to=console)


def readable(value: object) -> str:
    """Return a value as one line of printable text."""
    if value is None:
        return "NULL"
    if isinstance(value, bool | list | dict | tuple):
        return encoded(value)
    if isinstance(value, bytes):
        return value.hex()
    text = value.isoformat(" ") if isinstance(value, datetime) else str(value)
    return text.translate(ESCAPES)


def _csv_field(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes | bool | list | dict | tuple):
        text = json.loads(encoded(value)) if isinstance(value, bytes) else encoded(value)
    else:
        text = value.isoformat() if isinstance(value, datetime) else str(value)
    return f'"{text.replace(chr(34), chr(34) * 2)}"' if not text or set(text) & set(',"\r\n') else text


_MAX_CHANGES: Final = 100
_STYLES: Final = {"insert": "green", "update": "yellow", "delete": "red"}

Memory = Annotated[str, typer.Option("--memory", help="Memory to use; the rest spills to disk.")]


def diff(
    table: MirroredTable,
    versions: Annotated[
        list[str] | None,
        typer.Argument(metavar="[V1 V2]", help="Two versions, or two times.", show_default=False),
    ] = None,
    to: To = None,
    storage_options: StorageOptions = None,
    file: Annotated[
        int | None, typer.Option("--file", min=1, help="Show the changes of this landing file.", show_default=False)
    ] = None,
    show_values: Annotated[bool, typer.Option("--show-values", help="Show the values before and after, too.")] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            min=0, help=f"Changes to list. 0: all. Default: {_MAX_CHANGES}, all with --json.", show_default=False
        ),
    ] = None,
    as_json: AsJson = False,
    memory: Memory = "1GB",
    data_dir: LocalDataDir = DEFAULT_DATA_DIR,
) -> None:
    """Show by key the changes between two versions of a table, or those of a landing file.

    Each change is an insert, an update with the columns that differ, or a delete. Duplicates of a key count row by row.
    Key values are shown; other values only with --show-values. In a table without a key, rows are compared as a whole.
    --json prints a list of `{"key", "change", "columns"}`.

    For example:

        mirrorgate mirror diff sales.orders 16 17
        mirrorgate mirror diff sales.orders --file 17 --show-values
    """
    if (file is None) == (not versions) or (versions and len(versions) != 2):
        raise typer.BadParameter("give two versions or times, or --file")
    target = open_target("mirror diff", to, data_dir, storage_options)
    from app.mirror.inspection.difference import between, of_file

    if file is not None:
        pair = of_file(target, table, file)
    else:
        first, last = map(parse_version_or_time, versions or ())
        pair = between(target, table, first, last)
    with ExitStack() as stack:
        with working(pair.described, quiet=as_json):
            found = stack.enter_context(pair.compared(memory))
        if as_json:
            print_json_list(one.to_json(show_values=show_values) for one in found.changes(limit or None))
        else:
            say(pair.described)
            _print_difference(found, _MAX_CHANGES if limit is None else limit or None, show_values=show_values)


def _print_difference(found: "VersionDifference", limit: int | None, *, show_values: bool) -> None:
    shown = 0
    for change in found.changes(limit):
        shown += 1
        key = ", ".join(f"{name}={readable(value)}" for name, value in change.key.items()) or "(no key)"
        columns = f"  {', '.join(change.columns)}" if change.columns else ""
        say(f"{change.change}  {key}{columns}", style=_STYLES[change.change])
        if show_values:
            _print_values(change)
    total = sum(found.counts.values())
    say(", ".join(amount(number, kind) for kind, number in found.counts.items()))
    if shown < total:
        say(f"{amount(total - shown, 'more change')}; list them with --limit 0 or --json")


def _print_values(change: "ChangedRow") -> None:
    for name in change.after or change.before:
        sides = [readable(side[name]) for side in (change.before, change.after) if name in side]
        say(f"    {name}: {' -> '.join(sides)}")


_MAX_ROWS: Final = 100


def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One SELECT, in the SQL of DuckDB.")],
    to: To = None,
    storage_options: StorageOptions = None,
    version: AtVersion = None,
    as_of: AsOf = None,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV with a header.")] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            min=0, help=f"Rows to print. 0: all. Default: {_MAX_ROWS}, all with --json or --csv.", show_default=False
        ),
    ] = None,
    memory: Memory = "1GB",
    data_dir: LocalDataDir = DEFAULT_DATA_DIR,
) -> None:
    """Run SQL over the mirrored tables. Tables are visible as `schema.table` and `table`.

    The SQL is one SELECT, or EXPLAIN, DESCRIBE, SHOW TABLES or SUMMARIZE. It reads mirrored tables only: no file, no
    address, no extension. `t VERSION AS OF 2`, `t TIMESTAMP AS OF '…'`, `t@v2` and `t@yyyyMMddHHmmssSSS` read a table
    as it was; --version and --as-of do so for the others. A kept generation is `"table@g1"`.
    --json prints a list of objects: decimals are numbers with all digits, binary values are Base64.

    For example:

        mirrorgate mirror query "SELECT status, count(*) FROM sales.orders GROUP BY status"
        mirrorgate mirror query "SELECT * FROM orders WHERE id = 7" --as-of 2026-11-22T15:00:00Z
    """
    if as_json and as_csv:
        raise typer.BadParameter("give --json or --csv, not both")
    target = open_target("mirror query", to, data_dir, storage_options)
    from app.mirror.inspection.query import run_query

    at = point_in_time(version, as_of)
    if limit is None and not (as_json or as_csv):
        limit = _MAX_ROWS
    with ExitStack() as stack:
        with working("running the query", quiet=as_json or as_csv):
            result = stack.enter_context(run_query(target, sql, at, memory=memory))
            rows = chain.from_iterable(result.batches)
            shown = islice(rows, limit or None)
            page = [] if as_json or as_csv else list(shown)
        if as_json:
            names = [*_distinct(result.columns)]
            print_json_list(dict(zip(names, row, strict=True)) for row in shown)
        elif as_csv:
            print_csv(result.columns, shown)
        else:
            _print_result(result.columns, page, more=next(rows, None) is not None)


def _print_result(columns: Sequence[str], page: list[tuple[object, ...]], *, more: bool) -> None:
    if columns == ["plan"]:
        for (plan,) in page:
            say(str(plan).rstrip())
        return
    print_rows(columns, page, OUTPUT)
    say(
        f"the first {amount(len(page), 'row')}; read more with --limit, --json or --csv"
        if more
        else f"({amount(len(page), 'row')})",
        style="dim",
    )


def _distinct(columns: Sequence[str]) -> Iterator[str]:
    """Yield the names with _1, _2, … behind repeated ones, so that no value of a JSON object is lost."""
    taken: set[str] = set()
    for name in columns:
        number, free = 0, name
        while free in taken:
            number += 1
            free = f"{name}_{number}"
        taken.add(free)
        yield free
