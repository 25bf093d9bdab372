"""Some rows of a mirrored table, at one version."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from app.console import text
from app.console.views.grid import MAX_CELLS, MAX_COLUMNS, GridView, grid
from app.console.views.notice import NoticeView
from app.console.views.table.head import TableHead

MAX_ROWS: Final = 50


@dataclass(frozen=True, slots=True)
class RowsView:
    """The page: rows, or a notice that says why there are none."""

    head: TableHead
    is_possible: bool
    """False if the gateway knows no target of a mirror."""
    asked: str = ""
    """The version that was asked for, as typed in."""
    version: int | None = None
    grid: GridView | None = None
    has_more: bool = False
    notice: NoticeView | None = None


def row_limit(columns: int) -> int:
    """Return how many rows to read of a table with so many columns."""
    return max(1, min(MAX_ROWS, MAX_CELLS // max(1, min(columns, MAX_COLUMNS))))


def rows_page(
    head: TableHead,
    asked: str,
    version: int,
    columns: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
    *,
    has_more: bool,
) -> RowsView:
    """Return the page with some rows of a version."""
    caption = f"Rows of version {text.count(version)}"
    return RowsView(head, True, asked, version, grid(caption, columns, rows, len(rows)), has_more)
