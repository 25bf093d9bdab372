"""Shows long work on a terminal: a bar on standard error that is gone when the work is done."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from app.cli.console import ERRORS


class Advance(Protocol):
    """Tells the bar what is worked on; `done` steps are finished with it."""

    def __call__(self, description: str, *, done: int = 0) -> None:
        """Show the description, and count the finished steps."""


@contextmanager
def working(description: str, *, steps: int | None = None, quiet: bool = False) -> Iterator[Advance]:
    """Show a bar of `steps`, or a pulsing one, during the block. Shows nothing with `quiet` or outside a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = [TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()]
    if steps is not None:
        columns.insert(2, MofNCompleteColumn())
    with Progress(*columns, console=ERRORS, transient=True, disable=quiet or not sys.stderr.isatty()) as bar:
        task = bar.add_task(description, total=steps)

        def advance(description: str, *, done: int = 0) -> None:
            bar.update(task, description=description, advance=done)

        yield advance
