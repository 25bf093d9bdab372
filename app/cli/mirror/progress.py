"""Shows long work on a terminal: a bar on standard error that is gone when the work is done.

Print results after the bar, not below it: the bar owns the last line of the terminal.
"""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Thread
from typing import Protocol, TypeVar

from app.cli.console import ERRORS

Result = TypeVar("Result")


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
    shown = not quiet and sys.stderr.isatty()
    with Progress(*columns, console=ERRORS, transient=True, disable=not shown, redirect_stdout=False) as bar:
        task = bar.add_task(description, total=steps)

        def advance(description: str, *, done: int = 0) -> None:
            bar.update(task, description=description, advance=done)

        yield advance


def interruptible(work: Callable[[], Result]) -> Result:
    """Do work of deltalake, which does not return for Ctrl-C, so that Ctrl-C ends the command at once.

    The work ends with the process. A Delta commit is atomic: what remains are data files that a vacuum deletes.
    """
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001  # deltalake's panics too; `result` raises it again
            future.set_exception(error)

    Thread(target=run, name="delta-maintenance", daemon=True).start()
    return future.result()
