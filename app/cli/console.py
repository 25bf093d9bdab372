"""The two streams of the command line: results on standard output, messages about the run on standard error."""

from typing import Final

from rich.console import Console

OUTPUT: Final = Console()
ERRORS: Final = Console(stderr=True)


def say(text: str, style: str | None = None, *, to: Console = OUTPUT) -> None:
    """Print one line as it is: no markup, no highlighting, no line breaks at the terminal's width."""
    to.print(text, style=style, markup=False, highlight=False, soft_wrap=True)
