"""Tables for people: readable at 80 columns, and no name or number is ever cropped."""

from collections.abc import Collection, Sequence
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mirrorgate.cli.console import ESCAPES, OUTPUT

_GAP: Final = 2
_NARROWEST_TEXT: Final = 24


class Grid(Table):
    """A table without lines. Columns in `right` are numbers; with `text` the last column wraps, the others never do."""

    def __init__(self, titles: Sequence[str], right: Collection[str] = (), *, text: bool = False) -> None:
        super().__init__(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
        for title in titles:
            self.add_column(Text(title), justify="right" if title in right else "left", no_wrap=True)
        if text:
            last = self.columns[-1]
            last.no_wrap, last.overflow, last.min_width = False, "fold", _NARROWEST_TEXT

    def add(self, *cells: str, style: str = "") -> None:
        """Append a row of strings, none of which is markup, in the order of the titles, with ESCAPES."""
        self.add_row(*(Text(cell.translate(ESCAPES)) for cell in cells), style=style)

    @property
    def least_width(self) -> int:
        """Return the width below which a name or a number would be cropped."""
        widths = [
            column.min_width or max(cell_len(str(cell)) for cell in (column.header, *column.cells))
            for column in self.columns
        ]
        return sum(widths) + _GAP * (len(widths) - 1)

    def rendered(self, console: Console) -> Text:
        """Lay the grid out for a terminal; wider if a name or number would be cropped. No line ends with blanks."""
        options = console.options.update(width=max(console.width, self.least_width))
        lines = [
            Text.assemble(*((segment.text, segment.style or "") for segment in line))
            for line in console.render_lines(self, options, pad=False)
        ]
        for line in lines:
            line.rstrip()
        return Text("\n").join(lines)

    def print(self, console: Console = OUTPUT) -> None:
        """Print the grid."""
        console.print(self.rendered(console), soft_wrap=True, highlight=False)


def moment(text: str | None) -> str:
    """Shorten a timestamp to the second, without the T; empty for None."""
    return "" if text is None else text[:19].replace("T", " ")
