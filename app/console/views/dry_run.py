"""The page that tries a message: what was typed in, and the rows that would land or what is wrong."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlencode

from app.console import text
from app.console.views.grid import GridView, grid
from app.console.views.notice import NoticeView
from app.domain.model.dead_letter import LetterFormat
from app.domain.model.names import ROW_MARKER
from app.errors import Problem

MAX_TABLES: Final = 20
"""Tables whose rows the page shows."""

MAX_PROBLEMS: Final = 50
"""Problems that the page lists."""

OPERATION: Final = ROW_MARKER
"""The first column; no column of a table has this name."""
MARKERS: Final[Mapping[int, str]] = {0: "insert", 1: "update", 2: "delete", 4: "upsert"}
"""The words for the values of the row marker."""

LABELS: Final[Mapping[LetterFormat, str]] = {
    LetterFormat.ROWS: "Plain rows, JSON",
    LetterFormat.ROWS_CSV: "Plain rows, CSV",
    LetterFormat.ARCION: "Arcion, JSON",
    LetterFormat.ARCION_CSV: "Arcion, CSV",
    LetterFormat.REPLICATE: "Qlik Replicate",
    LetterFormat.DEBEZIUM: "Debezium",
}

EXAMPLES: Final[Mapping[LetterFormat, str]] = {
    LetterFormat.ROWS: '[{"id": 1, "name": "Ada"}, {"id": 2, "__op__": "delete"}]',
    LetterFormat.ROWS_CSV: "id,name\n1,Ada\n2,Grace",
    LetterFormat.ARCION: (
        '{"tableName": {"namespace": {"schema": "shop"}, "name": "items"}, "opType": "I",\n'
        ' "after": {"id": "1", "name": "Ada"}, "exists": {"id": "1", "name": "1"}}'
    ),
    LetterFormat.REPLICATE: (
        '{"magic": "atMSG", "type": "DT", "message": {"data": {"id": 1, "name": "Ada"},\n'
        ' "headers": {"operation": "INSERT"}}}'
    ),
    LetterFormat.DEBEZIUM: (
        '{"op": "c", "after": {"id": 1, "name": "Ada"},\n'
        ' "source": {"connector": "postgresql", "schema": "shop", "table": "items"}}'
    ),
}


@dataclass(frozen=True, slots=True)
class Typed:
    """What was typed into the form."""

    source_format: LetterFormat = LetterFormat.ROWS
    table: str = ""
    parameters: str = ""
    """Further parameters, in the form of a query string."""
    message: str = ""

    @property
    def query(self) -> bytes:
        """Return the query of the request."""
        given = urlencode({"table": self.table}) if self.table else ""
        return "&".join(filter(None, [given, self.parameters.removeprefix("?")])).encode()


@dataclass(frozen=True, slots=True)
class Landing:
    """The rows that would land in one table."""

    table: str
    generation: int
    schema_version: int
    rows: Sequence[Mapping[str, Any]]
    """The rows by column, with the row marker unless the files have none."""
    withheld: Sequence[str]
    """Columns that some row lacks, because their values are masked or stored, and the user may not read them."""
    omitted: int = 0
    """How many more rows would land."""

    @property
    def number(self) -> int:
        """How many rows would land."""
        return len(self.rows) + self.omitted


@dataclass(frozen=True, slots=True)
class LandingView:
    """The rows that would land in one table."""

    table: str
    link: str | None
    """The page of the table; None if the user may not read it, or if the table does not exist yet."""
    generation: int
    schema_version: int
    number: int
    grid: GridView


@dataclass(frozen=True, slots=True)
class ProblemRow:
    """What is wrong with one message, and what to do."""

    problem: Problem
    remedy: str


@dataclass(frozen=True, slots=True)
class TryView:
    """The page."""

    typed: Typed
    labels: Mapping[LetterFormat, str]
    examples: tuple[tuple[str, str], ...]
    notice: NoticeView | None = None
    landings: tuple[LandingView, ...] = ()
    omitted_tables: int = 0
    problems: tuple[ProblemRow, ...] = ()
    omitted_problems: int = 0


def try_page(typed: Typed) -> TryView:
    """Return the page before anything is tried."""
    return TryView(typed, LABELS, tuple((LABELS[form], text) for form, text in EXAMPLES.items()))


def landed(
    typed: Typed,
    tables: Sequence[Landing],
    *,
    ignored: int,
    duplicates: int,
    link: Callable[[str], str | None],
) -> TryView:
    """Return the page with the rows that would land; `link` returns the page of a table."""
    rows = sum(table.number for table in tables)
    passed_over = [
        f"{text.count(number)} {words}"
        for number, words in ((ignored, "messages without a change"), (duplicates, "duplicates"))
        if number
    ]
    title = f"Accepted: {text.amount(rows, 'row')} would land."
    said = " ".join(["Nothing was staged.", *([f"Passed over: {', '.join(passed_over)}."] if passed_over else [])])
    return replace(
        try_page(typed),
        notice=NoticeView("good", title, said),
        landings=tuple(_landing(table, link(table.table)) for table in tables[:MAX_TABLES]),
        omitted_tables=max(0, len(tables) - MAX_TABLES),
    )


def not_landed(typed: Typed, notice: NoticeView, problems: Sequence[Problem]) -> TryView:
    """Return the page with what is wrong. A problem without a place says no more than the notice."""
    problems = [problem for problem in problems if (problem.index, problem.pointer, problem.column) != (None,) * 3]
    return replace(
        try_page(typed),
        notice=notice,
        problems=tuple(ProblemRow(problem, problem.code.remedy) for problem in problems[:MAX_PROBLEMS]),
        omitted_problems=max(0, len(problems) - MAX_PROBLEMS),
    )


def _landing(table: Landing, link: str | None) -> LandingView:
    columns = dict.fromkeys([name for row in table.rows for name in row if name != ROW_MARKER] + [*table.withheld])
    rows = ({**row, OPERATION: MARKERS.get(row.get(ROW_MARKER, 0), "?")} for row in table.rows)
    caption = f"Rows of {table.table}"
    shown = grid(caption, [OPERATION, *columns], rows, table.number, absent="withheld")
    return LandingView(table.table, link, table.generation, table.schema_version, table.number, shown)
