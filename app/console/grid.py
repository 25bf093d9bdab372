"""Rows of data as a table of short strings, bounded in columns, rows and characters."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

MAX_CELLS: Final = 1_500
MAX_COLUMNS: Final = 150
MAX_CHARACTERS: Final = 120
"""Characters of one value; a longer one is cut."""


class Cell(NamedTuple):
    """A value as the page shows it. If the value is missing, `note` says why."""

    text: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of values."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    omitted_columns: int
    omitted_rows: int


def grid(
    caption: str, columns: Sequence[str], rows: Iterable[Mapping[str, Any]], total: int, *, absent: str = "missing"
) -> Grid:
    """Return the first rows and columns; `absent` is the note of a column that a row does not have."""
    shown = tuple(columns[:MAX_COLUMNS])
    limit = max(1, MAX_CELLS // max(1, len(shown)))
    cells = tuple(
        tuple(_cell(row[name]) if name in row else Cell("", absent) for name in shown)
        for row, _ in zip(rows, range(limit), strict=False)
    )
    return Grid(caption, shown, cells, len(columns) - len(shown), total - len(cells))


def _cell(value: Any) -> Cell:
    if value is None:
        return Cell("", "NULL")
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode().strip('"')
    return Cell(text if len(text) <= MAX_CHARACTERS else text[:MAX_CHARACTERS] + "…")
