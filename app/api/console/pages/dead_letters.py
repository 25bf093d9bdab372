"""`/console/dead-letters`: the rejected messages of all tables, one of them with its errors, replay and discard.

Who reads a table sees its letters without the messages, which have row values. Who administers it can read, replay and
discard them, by the functions of the API's routes, so the events of both are the same.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query, Request, Response

from app.api.console.answers import page, see_other
from app.api.console.forms import ConsoleForm, Form
from app.api.console.rejections import rejected
from app.api.console.sessions import ConsoleUser, SignedIn
from app.api.gateway import Gateway, GatewayDep
from app.api.operations.dead_letters import discard_through, discard_waiting, letter_message, replay_one, replay_waiting
from app.api.operations.keys import caller_names
from app.console.views.dead_letters import (
    PATH,
    ConfirmDiscardView,
    LetterFilterView,
    LetterRow,
    LetterView,
    OutcomeView,
    letter_errors,
    letter_row,
    letters_view,
    message_view,
    outcomes_view,
    replayed_view,
)
from app.console.views.notice import NoticeView
from app.console.views.paging import link
from app.domain.access.rights import Right
from app.domain.model.dead_letter import LetterState
from app.domain.model.table import Generation, TableId
from app.errors import Code, MirrorgateError, RejectedInput, TemporarilyUnavailable
from app.staging.batches.dead_letter_transaction import unknown_letter
from app.staging.batches.dead_letters import LetterFilter, StoredLetter, find_letters, newest_letters
from app.staging.connection.database import Connection, translated_errors
from app.staging.connection.page_turn import Turn, cut_page
from app.staging.tables.registry import NamedTable, named_tables

router = APIRouter()

MAX_ROWS: Final = 50
"""Letters of a page of the list."""

MAX_REPLAYED: Final = 500
"""Letters that one form replays, each in its own transaction; the answer offers to continue."""

_MAX_ID: Final = 2**63 - 1
_SELECTED: Final = "letter-"
"""Start of the names of the checkboxes in the list; the id of the letter follows."""

_Id = Annotated[int | None, Query(ge=0, le=_MAX_ID)]
_LetterId = Annotated[int, Path(ge=1, le=_MAX_ID)]


@router.get(PATH)
def letters(
    request: Request,
    user: ConsoleUser,
    gateway: GatewayDep,
    table: Annotated[str, Query(max_length=300)] = "",
    state: Annotated[str, Query(max_length=20)] = LetterState.WAITING,
    code: Annotated[str, Query(max_length=60)] = "",
    before: _Id = None,
    after: _Id = None,
) -> Response:
    """List dead letters, newest first; waiting ones unless another state is asked for."""
    wanted = LetterFilterView(table.strip(), state if state in {*LetterState, "all"} else LetterState.WAITING, code)
    turn = Turn(before, after)
    with translated_errors(), gateway.engine.begin() as connection:
        tables = _tables(connection, user, wanted.table)
        chosen = LetterFilter(
            list(tables), None if wanted.state == "all" else LetterState(wanted.state), wanted.code or None
        )
        found = newest_letters(connection, chosen, turn, MAX_ROWS + 1)
    cut = cut_page(found, turn, MAX_ROWS, lambda letter: letter.letter_id)
    view = letters_view(cut, tables, wanted, lambda named: user.may(Right.ADMIN, named.name))
    return page(request, "dead_letters.html", view, user.chrome("dead_letters"))


@router.get(PATH + "/{letter_id:int}")
def one_letter(
    request: Request,
    letter_id: _LetterId,
    user: ConsoleUser,
    gateway: GatewayDep,
    message: Annotated[str, Query(max_length=1)] = "",
    done: Annotated[str, Query(max_length=1)] = "",
) -> Response:
    """Show a letter with its errors, and its message if that is asked for and allowed."""
    return _letter_page(request, user, gateway, letter_id, with_message=bool(message), done=bool(done))


@router.get(PATH + "/{letter_id:int}/message")
def download(letter_id: _LetterId, user: ConsoleUser, gateway: GatewayDep) -> Response:
    """Return the message byte for byte, as a file: no browser renders it."""
    principal = user.require(Right.ADMIN)
    _, table, _ = _found(user, gateway, letter_id)
    written = letter_message(gateway, str(table.name), letter_id, principal)
    named = f'attachment; filename="dead-letter-{letter_id}.txt"'
    return Response(written.content, headers={"Content-Disposition": named}, media_type="application/octet-stream")


@router.post(PATH + "/{letter_id:int}/replay")
async def replay(
    request: Request, letter_id: _LetterId, user: ConsoleUser, form: ConsoleForm, gateway: GatewayDep
) -> Response:
    """Replay a letter, with the corrected message if the form has another one than was kept."""
    principal = user.require(Right.ADMIN)
    _, table, _ = await asyncio.to_thread(_found, user, gateway, letter_id)
    name, typed = str(table.name), form.raw("message")
    correction = None
    if typed.strip():
        kept = message_view(await asyncio.to_thread(letter_message, gateway, name, letter_id, principal))
        is_same = kept.text is not None and _with_plain_lines(kept.text) == _with_plain_lines(typed)
        correction = None if is_same else typed.encode()
    try:
        await replay_one(gateway, name, letter_id, principal, correction)
    except RejectedInput as error:
        refused = rejected(request, error)
        return await asyncio.to_thread(
            _letter_page,
            request,
            user,
            gateway,
            letter_id,
            with_message=bool(typed),
            failure=refused.notice,
            correction=typed or None,
            status=refused.status,
        )
    return see_other(f"{PATH}/{letter_id}?done=1")


@router.post(PATH + "/{letter_id:int}/discard")
def discard(letter_id: _LetterId, user: ConsoleUser, form: ConsoleForm, gateway: GatewayDep) -> Response:
    """Discard a letter after its id was typed in."""
    principal = user.require(Right.ADMIN)
    if form.number("dead_letter") != letter_id:
        raise RejectedInput(Code.BAD_REQUEST, f"the typed text is not {letter_id}", remedy="Go back, and type the id.")
    _, table, _ = _found(user, gateway, letter_id)
    discard_waiting(gateway, str(table.name), letter_id, principal)
    return see_other(f"{PATH}/{letter_id}?done=1")


@router.post(PATH + "/replay")
async def replay_selected(request: Request, user: ConsoleUser, form: ConsoleForm, gateway: GatewayDep) -> Response:
    """Replay the selected letters in order; one that is rejected again does not hold the others back."""
    principal = user.require(Right.ADMIN)
    rows = await asyncio.to_thread(_selected, user, gateway, form)

    async def act(row: LetterRow) -> str:
        receipt = await replay_one(gateway, row.table, row.id, principal)
        return f"Accepted as batch {receipt.sequence}."

    view = outcomes_view("Replay of the selected letters", await _each(request, rows, act))
    return page(request, "dead_letters_done.html", view, user.chrome("dead_letters"))


@router.post(PATH + "/discard")
async def discard_selected(request: Request, user: ConsoleUser, form: ConsoleForm, gateway: GatewayDep) -> Response:
    """Ask first, then discard the selected letters."""
    principal = user.require(Right.ADMIN)
    rows = await asyncio.to_thread(_selected, user, gateway, form)
    if not form.optional("confirmed"):
        return page(request, "dead_letters_confirm.html", ConfirmDiscardView(rows), user.chrome("dead_letters"))

    async def act(row: LetterRow) -> str:
        await asyncio.to_thread(discard_waiting, gateway, row.table, row.id, principal)
        return "Discarded."

    view = outcomes_view("Discard of the selected letters", await _each(request, rows, act))
    return page(request, "dead_letters_done.html", view, user.chrome("dead_letters"))


@router.post(PATH + "/replay-table")
async def replay_table(request: Request, user: ConsoleUser, form: ConsoleForm, gateway: GatewayDep) -> Response:
    """Replay the oldest waiting letters of a table, and offer to continue after the last one."""
    principal, name = user.require(Right.ADMIN), form.text("table")
    after = form.number("after") if form.optional("after") else 0
    done = await replay_waiting(gateway, name, principal, after=after, limit=MAX_REPLAYED)
    view = replayed_view(name, done.replayed, done.rejected, done.next_after)
    return page(request, "dead_letters_done.html", view, user.chrome("dead_letters"))


@router.post(PATH + "/discard-table")
def discard_table(user: ConsoleUser, form: ConsoleForm, gateway: GatewayDep) -> Response:
    """Discard the waiting letters of a table's generation, which was typed in, through the newest one that was seen."""
    principal, name = user.require(Right.ADMIN), form.text("table")
    discard_through(gateway, name, Generation(form.number("generation")), form.number("through"), principal)
    return see_other(link(PATH, table=name))


def _letter_page(
    request: Request,
    user: SignedIn,
    gateway: Gateway,
    letter_id: int,
    *,
    with_message: bool,
    done: bool = False,
    failure: NoticeView | None = None,
    correction: str | None = None,
    status: int = 200,
) -> Response:
    letter, table, names = _found(user, gateway, letter_id)
    administers, message = user.may(Right.ADMIN, table.name), None
    if with_message and administers:
        message = message_view(letter_message(gateway, str(table.name), letter_id, user.require(Right.ADMIN)))
    view = LetterView(
        row=letter_row(letter, table, may_settle=administers),
        letter=letter,
        errors=letter_errors(letter),
        may_read=administers,
        message=message,
        failure=failure,
        done=done,
        correction=correction,
    )
    return page(request, "dead_letter.html", view, user.chrome("dead_letters", names=names), status=status)


def _found(user: SignedIn, gateway: Gateway, letter_id: int) -> tuple[StoredLetter, NamedTable, Mapping[str, str]]:
    """Return a letter of a table that the user may see, with the names of its keys, by id.

    Raises RejectedInput `unknown_dead_letter`.
    """
    with translated_errors(), gateway.engine.begin() as connection:
        for letter in find_letters(connection, [letter_id]):
            table = _tables(connection, user, "").get(letter.table_id)
            if table is not None:
                return letter, table, caller_names(gateway, connection, (letter.principal, letter.settled_by))
    raise unknown_letter(letter_id)


def _selected(user: SignedIn, gateway: Gateway, form: Form) -> tuple[LetterRow, ...]:
    """Return the letters whose boxes are checked, oldest first, without those that the user may not see."""
    numbers = (name.removeprefix(_SELECTED) for name in form.fields if name.startswith(_SELECTED))
    ids = [int(number) for number in numbers if number.isascii() and number.isdigit() and len(number) <= 18]
    if not ids:
        remedy = "Go back, and check the boxes of the letters that you mean."
        raise RejectedInput(Code.BAD_REQUEST, "no dead letter is selected", remedy=remedy)
    with translated_errors(), gateway.engine.begin() as connection:
        tables = _tables(connection, user, "")
        found = [letter for letter in find_letters(connection, ids) if letter.table_id in tables]
    return tuple(
        letter_row(letter, table := tables[letter.table_id], may_settle=user.may(Right.ADMIN, table.name))
        for letter in found
    )


def _tables(connection: Connection, user: SignedIn, wanted: str) -> Mapping[TableId, NamedTable]:
    """Return the tables that the user may read, with this text in their names, by id."""
    principal, part = user.require(Right.READ), wanted.casefold()
    return {
        table.table_id: table
        for table in named_tables(connection)
        if part in table.name.folded and principal.may_touch(table.name)
    }


def _with_plain_lines(text: str) -> str:
    """Return a text as a browser sends it back: it changes every end of a line."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


async def _each(
    request: Request, rows: Sequence[LetterRow], act: Callable[[LetterRow], Awaitable[str]]
) -> list[OutcomeView]:
    """Act on letters in order, and return what came of each; after the gateway became unavailable, none is tried."""
    outcomes = list[OutcomeView]()
    for row in rows:
        try:
            said = await act(row)
        except RejectedInput as error:
            outcomes.append(_failed(request, row, error))
        except TemporarilyUnavailable as error:
            return [*outcomes, *_stopped(request, rows[len(outcomes) :], error)]
        else:
            outcomes.append(OutcomeView(row.id, row.path, row.table, True, said))
    return outcomes


def _failed(request: Request, row: LetterRow, error: MirrorgateError) -> OutcomeView:
    notice = rejected(request, error).notice
    return OutcomeView(row.id, row.path, row.table, False, notice.title, notice.text)


def _stopped(request: Request, rows: Sequence[LetterRow], error: TemporarilyUnavailable) -> Iterator[OutcomeView]:
    """Yield the letter during which the gateway became unavailable, and those after it, which were not tried."""
    yield _failed(request, rows[0], error)
    for row in rows[1:]:
        yield OutcomeView(row.id, row.path, row.table, False, "Not tried.", "Try again later.")
