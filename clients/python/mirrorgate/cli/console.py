"""The streams of the command line, and how long work is shown on a terminal.

Results go to standard output, messages about the run to standard error. A bar on standard error is gone when the work
is done: print results after it, not below it, because it owns the last line of the terminal.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import wraps
from threading import Thread
from typing import Final, ParamSpec, Protocol, TypeVar

import msgspec
from rich.console import Console, ConsoleDimensions

from mirrorgate.errors import Misconfigured

PLAN_HAS_CHANGES: Final = 2
"""`tables apply --plan --detailed-exitcode` found something to do."""

COULD_NOT_RUN: Final = 2
"""`verify` could not check the zone, which is neither a success nor a finding."""

CANNOT_START: Final = 78
"""A program that runs the gateway or a part of it cannot start as it is configured (EX_CONFIG of sysexits.h)."""

INTERRUPTED: Final = 130
"""Ctrl-C or SIGTERM ended the command (128 + SIGINT, as shells report it)."""


_ENCODER: Final = msgspec.json.Encoder(decimal_format="number", enc_hook=str)
_PIPE_COLUMNS: Final = 10_000
"""The width of a pipe or a file: no line is broken that another program reads."""


class CommandConsole(Console):
    """A console of a command. Lines are broken at the width of a terminal, or at COLUMNS, and nowhere else."""

    @property
    def size(self) -> ConsoleDimensions:
        """Return the size of the terminal; a pipe has lines of any length."""
        if self.is_terminal or "COLUMNS" in os.environ:
            return super().size
        return ConsoleDimensions(_PIPE_COLUMNS, 25)

    @size.setter
    def size(self, new_size: tuple[int, int]) -> None:
        self._width, self._height = new_size


OUTPUT: Final = CommandConsole()
ERRORS: Final = CommandConsole(stderr=True)


ESCAPES: Final = {number: f"\\x{number:02x}" for number in (*range(32), *range(127, 160))} | {
    9: "\\t",
    10: "\\n",
    13: "\\r",
}
"""Control characters as people see them, so that no name and no value changes the terminal or begins a line."""

_ESCAPES_IN_LINES: Final = ESCAPES | {10: "\n"}


def say(text: str, style: str | None = None, *, to: Console = OUTPUT) -> None:
    """Print lines without markup, highlighting and line breaks at the terminal's width, with ESCAPES."""
    to.print(text.translate(_ESCAPES_IN_LINES), style=style, markup=False, highlight=False, soft_wrap=True)


def encoded(value: object) -> str:
    """Return a value as JSON: decimals as numbers with all digits, dataclasses as objects, other types as strings."""
    try:
        return _ENCODER.encode(value).decode()
    except UnicodeEncodeError:  # a name in a foreign zone has bytes that are not text: they become escapes
        return json.dumps(msgspec.to_builtins(value, enc_hook=str))


def print_json(value: object) -> None:
    """Print one JSON document."""
    sys.stdout.write(f"{encoded(value)}\n")
    sys.stdout.flush()


Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Advance(Protocol):
    """A piece of work in the bar; `done` steps are finished with it."""

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


def is_program(command: Callable[Parameters, None]) -> Callable[Parameters, None]:
    """Let a command end with CANNOT_START after Misconfigured, so that a service manager does not start it again."""

    @wraps(command)
    def run(*arguments: Parameters.args, **options: Parameters.kwargs) -> None:
        try:
            command(*arguments, **options)
        except Misconfigured as error:
            error.exit_status = CANNOT_START
            raise

    return run
