"""The two streams of the command line: results on standard output, messages about the run on standard error."""

import os
from typing import Final

from rich.console import Console, ConsoleDimensions

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


def say(text: str, style: str | None = None, *, to: Console = OUTPUT) -> None:
    """Print one line as it is: no markup, no highlighting, no line breaks at the terminal's width."""
    to.print(text, style=style, markup=False, highlight=False, soft_wrap=True)
