"""`mirrorgate mirror query`: SQL over the mirrored tables, read only."""

from contextlib import ExitStack
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated, Final

import typer

from app.cli.console import OUTPUT, say
from app.cli.mirror.difference import Memory
from app.cli.mirror.progress import working
from app.cli.mirror.target import AsOf, AtVersion, StorageOptions, To, open_target, point_in_time
from app.cli.options import DEFAULT_DATA_DIR, AsJson, LocalDataDir

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MAX_SHOWN: Final = 100


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
            min=0, help=f"Rows to print. 0: all. Default: {_MAX_SHOWN}, all with --json or --csv.", show_default=False
        ),
    ] = None,
    memory: Memory = "1GB",
    data_dir: LocalDataDir = DEFAULT_DATA_DIR,
) -> None:
    """Run SQL over the mirrored tables. Tables are visible as `schema.table` and `table`.

    The SQL is one SELECT, or EXPLAIN, DESCRIBE, SHOW TABLES or SUMMARIZE. It reads mirrored tables only: no file, no
    address, no extension. --version and --as-of read the tables as they were; a kept generation is `"table@g1"`.
    --json prints a list of objects: decimals are numbers with all digits, binary values are Base64.

    Examples: `mirrorgate mirror query "SELECT status, count(*) FROM sales.orders GROUP BY status"`,
    `mirrorgate mirror query "SELECT * FROM orders WHERE id = 7" --as-of 2026-11-22T15:00:00Z`
    """
    if as_json and as_csv:
        raise typer.BadParameter("give --json or --csv, not both")
    target = open_target("mirror query", to, data_dir, storage_options)
    from app.cli.mirror.printing import print_csv, print_json_list
    from app.mirror.inspection.query import run_query

    at = point_in_time(version, as_of)
    if limit is None and not (as_json or as_csv):
        limit = _MAX_SHOWN
    with ExitStack() as stack:
        with working("running the query", quiet=as_json or as_csv):
            result = stack.enter_context(run_query(target, sql, at, memory=memory))
            rows = chain.from_iterable(result.batches)
            shown = islice(rows, limit or None)
            page = [] if as_json or as_csv else list(shown)
        if as_json:
            names = _distinct(result.columns)
            print_json_list(dict(zip(names, row, strict=True)) for row in shown)
        elif as_csv:
            print_csv(result.columns, shown)
        else:
            _print(result.columns, page, more=next(rows, None) is not None)


def _print(columns: "Sequence[str]", page: "list[tuple[object, ...]]", *, more: bool) -> None:
    from app.cli.mirror.printing import print_rows
    from app.cli.output import counted

    if columns == ["plan"]:
        for (plan,) in page:
            say(str(plan).rstrip())
        return
    print_rows(columns, page, OUTPUT)
    say(
        f"the first {counted(len(page), 'row')}; read more with --limit, --json or --csv"
        if more
        else f"({counted(len(page), 'row')})",
        style="dim",
    )


def _distinct(columns: "Sequence[str]") -> "list[str]":
    """Return the names with _1, _2, … behind repeated ones, so that no value of a JSON object is lost."""
    return list(_numbered(columns))


def _numbered(columns: "Sequence[str]") -> "Iterator[str]":
    taken: set[str] = set()
    for name in columns:
        number, free = 0, name
        while free in taken:
            number += 1
            free = f"{name}_{number}"
        taken.add(free)
        yield free
