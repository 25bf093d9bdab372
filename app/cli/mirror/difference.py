"""`mirrorgate mirror diff`: what happened to a table between two versions, or in one landing file."""

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Final

import typer

from app.cli.console import say
from app.cli.mirror.progress import working
from app.cli.mirror.target import MirroredTable, StorageOptions, To, open_target, parse_version_or_time
from app.cli.options import DEFAULT_DATA_DIR, AsJson, LocalDataDir
from app.cli.output import counted

if TYPE_CHECKING:
    from app.mirror.inspection.difference import Change, Difference

_MAX_SHOWN: Final = 100
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
        int | None, typer.Option("--file", min=1, help="Show what this landing file did.", show_default=False)
    ] = None,
    show_values: Annotated[bool, typer.Option("--show-values", help="Show the values before and after, too.")] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            min=0, help=f"Changes to list. 0: all. Default: {_MAX_SHOWN}, all with --json.", show_default=False
        ),
    ] = None,
    as_json: AsJson = False,
    memory: Memory = "1GB",
    data_dir: LocalDataDir = DEFAULT_DATA_DIR,
) -> None:
    """Show by key what happened between two versions of a table, or what a landing file did.

    Each change is an insert, an update with the columns that differ, or a delete. Duplicates of a key count row by row.
    Key values are shown; other values only with --show-values. In a table without a key, rows are compared as a whole.
    --json prints a list of `{"key", "change", "columns"}`.

    Examples: `mirrorgate mirror diff sales.orders 16 17`, `mirrorgate mirror diff sales.orders --file 17 --show-values`
    """
    if (file is None) == (not versions) or (versions and len(versions) != 2):
        raise typer.BadParameter("give two versions or times, or --file")
    target = open_target("mirror diff", to, data_dir, storage_options)
    from app.mirror.inspection.version_pairs import between, of_file

    if file is not None:
        pair = of_file(target, table, file)
    else:
        first, last = map(parse_version_or_time, versions or ())
        pair = between(target, table, first, last)
    with ExitStack() as stack:
        with working(pair.described, quiet=as_json):
            found = stack.enter_context(pair.compared(memory))
        if as_json:
            from app.cli.mirror.printing import print_json_list

            print_json_list(one.to_json(show_values=show_values) for one in found.changes(limit or None))
        else:
            say(pair.described)
            _print(found, _MAX_SHOWN if limit is None else limit or None, show_values=show_values)


def _print(found: "Difference", limit: int | None, *, show_values: bool) -> None:
    from app.cli.mirror.printing import readable

    shown = 0
    for change in found.changes(limit):
        shown += 1
        key = ", ".join(f"{name}={readable(value)}" for name, value in change.key.items()) or "(no key)"
        columns = f"  {', '.join(change.columns)}" if change.columns else ""
        say(f"{change.change}  {key}{columns}", style=_STYLES[change.change])
        if show_values:
            _print_values(change)
    total = sum(found.counts.values())
    say(", ".join(counted(number, kind) for kind, number in found.counts.items()))
    if shown < total:
        say(f"{counted(total - shown, 'more change')}; list them with --limit 0 or --json")


def _print_values(change: "Change") -> None:
    from app.cli.mirror.printing import readable

    for name in change.after or change.before:
        sides = [readable(side[name]) for side in (change.before, change.after) if name in side]
        say(f"    {name}: {' -> '.join(sides)}")
