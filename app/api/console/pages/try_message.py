"""`/console/try`: paste messages, and see the rows that would land or what is wrong. Nothing is staged."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Response
from fastapi.exceptions import RequestValidationError
from msgspec import UNSET

from app.api.changes.endpoints import limits_of
from app.api.changes.parameters import (
    ChangeQuery,
    arcion_query,
    csv_query,
    debezium_query,
    replicate_query,
    rows_csv_query,
    rows_query,
)
from app.api.console.answers import ConsoleForm, ConsoleUser, FormFields, SignedIn
from app.api.exchange import Exchange, exchange_of
from app.api.gateway import gateway_in
from app.api.middleware.error_handlers import validation_rejection
from app.console.render import Notice
from app.console.table import Grid, grid
from app.domain.access.rights import Principal, Right
from app.domain.model.dead_letter import LetterFormat
from app.domain.model.names import ROW_MARKER, TableName
from app.ingest import perform_dry_run
from app.ingest.dry_run import DryRunResult, DryRunTable
from mirrorgate import text
from mirrorgate.errors import Problem, RejectedInput, TemporarilyUnavailable

router = APIRouter()

PATH: Final = "/console/try"
MAX_FIELD_CHARACTERS: Final = 2_000
"""Characters of the table and of the parameters that are kept from an address."""

MAX_TABLES: Final = 20
"""Tables whose rows the page shows."""

MAX_PROBLEMS: Final = 50
"""Problems that the page lists."""

MARKERS: Final[Mapping[int, str]] = {0: "insert", 1: "update", 2: "delete", 4: "upsert"}
"""The words for the values of the row marker, the first column of the rows that would land."""

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
    """The values typed into the form."""

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


class Landed(NamedTuple):
    """The rows that would land in one table."""

    table: DryRunTable
    number: int
    grid: Grid
    is_linked: bool
    """True if the user may read the table, so that its name leads to its page."""


@router.get(PATH)
async def ask(user: ConsoleUser, format: str = "", table: str = "") -> Response:
    """Show the form, filled with what the address says."""
    user.require(Right.INGEST)
    return _shown(user, Typed(_format_of(format), table[:MAX_FIELD_CHARACTERS]))


@router.post(PATH)
async def try_out(user: ConsoleUser, form: ConsoleForm) -> Response:
    """Do everything that accepting the messages would do, roll it back, and show the outcome."""
    principal, typed, exchange = user.require(Right.INGEST), _typed_in(form), exchange_of(user.request.scope)
    try:
        result = await try_messages(exchange, principal, typed.source_format, typed.query, typed.message.encode())
    except (RejectedInput, TemporarilyUnavailable) as error:
        return _rejected(user, typed, error)
    except RequestValidationError as error:
        return _rejected(user, typed, validation_rejection(exchange, error))
    landings = [_landed(table, user) for table in result.tables]
    return _shown(user, typed, notice=_accepted(result, landings), landings=landings)


def _shown(
    user: SignedIn,
    typed: Typed,
    *,
    notice: Notice | None = None,
    landings: list[Landed] | None = None,
    problems: list[Problem] | None = None,
) -> Response:
    """Return the page: with the form alone, with the rows that would land, or with what is wrong."""
    landings, problems = landings or [], problems or []
    return user.page(
        "try.html",
        "try",
        status=200 if notice is None else notice.status,
        typed=typed,
        labels=LABELS,
        examples=EXAMPLES,
        notice=notice,
        landings=landings[:MAX_TABLES],
        omitted_tables=max(0, len(landings) - MAX_TABLES),
        problems=problems[:MAX_PROBLEMS],
        omitted_problems=max(0, len(problems) - MAX_PROBLEMS),
    )


def _typed_in(form: FormFields) -> Typed:
    return Typed(
        source_format=_format_of(form.text("format")),
        table=form.text("table"),
        parameters=form.text("parameters"),
        message=form.raw("message"),
    )


def _rejected(user: SignedIn, typed: Typed, error: RejectedInput | TemporarilyUnavailable) -> Response:
    """Return the page with what is wrong. A problem without a place says no more than the notice."""
    notice = user.rejected(error)
    given = error.problems if isinstance(error, RejectedInput) else ()
    problems = [problem for problem in given if (problem.index, problem.pointer, problem.column) != (None,) * 3]
    return _shown(user, typed, notice=notice, problems=problems)


def _accepted(result: DryRunResult, landings: list[Landed]) -> Notice:
    passed_over = [
        f"{text.count(number)} {words}"
        for number, words in ((result.ignored, "messages without a change"), (result.duplicates, "duplicates"))
        if number
    ]
    said = " ".join(["Nothing was staged.", *([f"Passed over: {', '.join(passed_over)}."] if passed_over else [])])
    rows = sum(landed.number for landed in landings)
    return Notice("good", f"Accepted: {text.amount(rows, 'row')} would land.", said)


def _landed(table: DryRunTable, user: SignedIn) -> Landed:
    """Return the rows of a table; the user may not read the columns that are withheld, so a row can lack them."""
    withheld = () if table.withheld is UNSET else [name for row in table.withheld for name in row.columns]
    number = len(table.rows) + (0 if table.omitted_rows is UNSET else table.omitted_rows)
    columns = dict.fromkeys([*(name for row in table.rows for name in row if name != ROW_MARKER), *withheld])
    rows = ({**row, ROW_MARKER: MARKERS.get(row.get(ROW_MARKER, 0), "?")} for row in table.rows)
    shown = grid(f"Rows of {table.table}", [ROW_MARKER, *columns], rows, number, absent="withheld")
    return Landed(table, number, shown, user.may(Right.READ, TableName.parse(table.table)))


def _format_of(text: str) -> LetterFormat:
    return LetterFormat(text) if text in LetterFormat._value2member_map_ else LetterFormat.ROWS


_QUERIES: Final[Mapping[LetterFormat, Callable[[bytes], ChangeQuery]]] = {
    LetterFormat.ROWS: rows_query,
    LetterFormat.ROWS_CSV: rows_csv_query,
    LetterFormat.ARCION: arcion_query,
    LetterFormat.ARCION_CSV: csv_query,
    LetterFormat.REPLICATE: replicate_query,
    LetterFormat.DEBEZIUM: debezium_query,
}
"""Readers of the query of each format."""


async def try_messages(
    exchange: Exchange, principal: Principal, source_format: LetterFormat, query: bytes, body: bytes
) -> DryRunResult:
    """Return the rows that would land. `query` has the parameters of the endpoint.

    Raises what rejects such a request: RejectedInput, TemporarilyUnavailable, and FastAPI's RequestValidationError.
    """
    gateway = gateway_in(exchange.scope)
    limits = limits_of(exchange, gateway.settings, gateway.input_limits, body)
    reader = _QUERIES[source_format](query).reader_of(body, limits=limits)
    try:
        return await perform_dry_run(gateway.ingest, reader, principal)
    except RejectedInput as error:
        raise await asyncio.to_thread(reader.explained, error) from None
