"""`/console/try`: paste messages, and see the rows that would land or what is wrong. Nothing is staged."""

from typing import Final

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from msgspec import UNSET

from app.api.console.answers import page
from app.api.console.forms import ConsoleForm, Form
from app.api.console.rejections import rejected
from app.api.console.sessions import ConsoleUser, SignedIn
from app.api.exchange import exchange_of
from app.api.middleware.error_handlers import validation_rejection
from app.api.operations.dry_runs import try_messages
from app.console.views.attention import address
from app.console.views.dry_run import Landing, TryView, Typed, landed, not_landed, try_page
from app.domain.access.rights import Right
from app.domain.model.dead_letter import LetterFormat
from app.domain.model.names import TableName
from app.errors import RejectedInput, TemporarilyUnavailable
from app.ingest.dry_run import DryRunTable

router = APIRouter()

PATH: Final = "/console/try"
MAX_FIELD_CHARACTERS: Final = 2_000
"""Characters of the table and of the parameters that are kept from an address."""


@router.get(PATH)
async def ask(request: Request, user: ConsoleUser, format: str = "", table: str = "") -> Response:
    """Show the form, filled with what the address says."""
    user.require(Right.INGEST)
    typed = Typed(_format_of(format), table[:MAX_FIELD_CHARACTERS])
    return page(request, "try.html", try_page(typed), user.chrome("try"))


@router.post(PATH)
async def try_out(request: Request, user: ConsoleUser, form: ConsoleForm) -> Response:
    """Do everything that accepting the messages would do, roll it back, and show the outcome."""
    principal, typed = user.require(Right.INGEST), _typed_in(form)
    try:
        exchange, message = exchange_of(request.scope), typed.message.encode()
        result = await try_messages(exchange, principal, typed.source_format, typed.query, message)
    except (RejectedInput, TemporarilyUnavailable) as error:
        return _rejected(request, user, typed, error)
    except RequestValidationError as error:
        return _rejected(request, user, typed, validation_rejection(exchange_of(request.scope), error))

    view = landed(
        typed,
        [_landing(table) for table in result.tables],
        ignored=result.ignored,
        duplicates=result.duplicates,
        link=lambda table: _link(user, table),
    )
    return _shown(request, user, view)


def _typed_in(form: Form) -> Typed:
    return Typed(
        source_format=_format_of(form.text("format")),
        table=form.text("table"),
        parameters=form.text("parameters"),
        message=form.raw("message"),
    )


def _rejected(
    request: Request, user: SignedIn, typed: Typed, error: RejectedInput | TemporarilyUnavailable
) -> Response:
    found = rejected(request, error)
    problems = error.problems if isinstance(error, RejectedInput) else ()
    return _shown(request, user, not_landed(typed, found.notice, problems), status=found.status)


def _shown(request: Request, user: SignedIn, view: TryView, *, status: int = 200) -> Response:
    return page(request, "try.html", view, user.chrome("try"), status=status)


def _landing(table: DryRunTable) -> Landing:
    withheld = () if table.withheld is UNSET else [name for row in table.withheld for name in row.columns]
    omitted = 0 if table.omitted_rows is UNSET else table.omitted_rows
    return Landing(table.table, table.generation, table.schema_version, table.rows, withheld, omitted)


def _format_of(text: str) -> LetterFormat:
    return LetterFormat(text) if text in LetterFormat._value2member_map_ else LetterFormat.ROWS


def _link(user: SignedIn, table: str) -> str | None:
    return address(table) if user.may(Right.READ, TableName.parse(table)) else None
