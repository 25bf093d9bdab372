"""Prints rows and values of mirrored tables: as JSON, as CSV, and for people.

JSON has decimals as numbers with all digits, times as RFC 3339, binary values as Base64, and NaN and infinity as null.
Text for people shows control characters as escapes, so that no value changes the terminal.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import chain
from typing import Final

import msgspec
from rich.cells import cell_len
from rich.console import Console

from app.cli.console import say
from app.cli.output import Grid

_ENCODER: Final = msgspec.json.Encoder(decimal_format="number", enc_hook=str)
_ESCAPES: Final = {number: f"\\x{number:02x}" for number in (*range(32), *range(127, 160))} | {
    9: "\\t",
    10: "\\n",
    13: "\\r",
}
_MIN_GRID_COLUMNS: Final = 2


def encode(value: object) -> str:
    """Return a value as JSON."""
    return _ENCODER.encode(value).decode()


def print_json(value: object) -> None:
    """Print one JSON document."""
    sys.stdout.write(f"{encode(value)}\n")


def print_json_list(items: Iterable[object]) -> None:
    """Print a JSON list, one item a line, as the items are read."""
    separator = "["
    for item in items:
        sys.stdout.write(f"{separator}{encode(item)}")
        separator = ",\n "
    sys.stdout.write("[]\n" if separator == "[" else "]\n")


def print_csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print RFC 4180 with a header. NULL is empty, an empty text is `""`."""
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
        return encode(value)
    if isinstance(value, bytes):
        return value.hex()
    text = value.isoformat(" ") if isinstance(value, datetime) else str(value)
    return text.translate(_ESCAPES)


def _csv_field(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes | bool | list | dict | tuple):
        text = json.loads(encode(value)) if isinstance(value, bytes) else encode(value)
    else:
        text = value.isoformat() if isinstance(value, datetime) else str(value)
    return f'"{text.replace(chr(34), chr(34) * 2)}"' if not text or set(text) & set(',"\r\n') else text
