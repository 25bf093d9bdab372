"""`/console/dead-letters`: the rejected messages of all tables, one of them with its errors, replay and discard.

Who reads a table sees its letters without the messages, which have row values. Who administers it can read, replay and
discard them, by the functions of the API's routes, so the events of both are the same.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple

from fastapi import APIRouter, Path, Query, Response

from app.api.console.answers import ConsoleForm, ConsoleUser, FormFields, SignedIn, see_other
from app.api.operations.keys import caller_names
from app.api.operations.table_operations import (
    discard_through,
    discard_waiting,
    letter_message,
    replay_one,
    replay_waiting,
)
from app.api.schemas.common import MAX_ID
from app.console.render import Notice, link, links_of
from app.domain.access.rights import Right
from app.domain.model.dead_letter import LetterState
from app.domain.model.table import Generation, TableId
from app.staging.batches.dead_letters import LetterFilter, StoredLetter, find_letters, newest_letters, unknown_letter
from app.staging.connection.database import Connection, translated_errors
from app.staging.connection.page_turn import Turn, cut_page
from app.staging.tables.registry import NamedTable, named_tables
from mirrorgate.errors import Code, MirrorgateError, RejectedInput, TemporarilyUnavailable
from mirrorgate.errors.codes import KEPT

router = APIRouter()

PATH: Final = "/console/dead-letters"
CODES: Final = tuple(sorted(KEPT))
"""The codes that a dead letter can have, for the filter."""

MAX_ROWS: Final = 50
"""Letters of a page of the list."""

MAX_REPLAYED: Final = 500
"""Letters that one form replays, each in its own transaction; the answer offers to continue."""

MAX_SHOWN_BYTES: Final = 128 * 2**10
"""Bytes of a message that its page shows; a longer one is downloaded."""

_SELECTED: Final = "letter-"
"""Start of the names of the checkboxes in the list; the id of the dead letter follows."""

_Id = Annotated[int | None, Query(ge=0, le=MAX_ID)]
_LetterId = Annotated[int, Path(ge=1, le=MAX_ID)]


@dataclass(frozen=True, slots=True)
class SeenLetter:
    """A dead letter of a table that the user may read."""

    letter: StoredLetter
    table: NamedTable
    administers: bool
    """True if the user may read, replay and discard the dead letters of the table."""

    @property
    def name(self) -> str:
        """The name of its table."""
        return str(self.table.name)

    @property
    def path(self) -> str:
        """The address of its page."""
        return f"{PATH}/{self.letter.letter_id}"

    @property
    def why(self) -> str:
        """The first of its errors, with the column."""
        error = self.letter.errors[0]
        return f"{error['detail']} (column {error['column']})" if error.get("column") else str(error["detail"])

    @property
    def has_ended(self) -> bool:
        """True if it waits in a generation that has ended, so it cannot be replayed; the drain discards it."""
        is_present = self.table.is_live and self.letter.generation == self.table.generation
        return self.letter.state is LetterState.WAITING and not is_present

    @property
    def may_settle(self) -> bool:
        """True if the user can replay or discard it."""
        return self.administers and self.letter.state is LetterState.WAITING and not self.has_ended


class LetterOutcome(NamedTuple):
    """The outcome of an action on one dead letter."""

    seen: SeenLetter
    is_ok: bool
    what: str
    remedy: str = ""


@router.get(PATH)
def letters(
    user: ConsoleUser,
    table: Annotated[str, Query(max_length=300)] = "",
    state: Annotated[str, Query(max_length=20)] = LetterState.WAITING,
    code: Annotated[str, Query(max_length=60)] = "",
    before: _Id = None,
    after: _Id = None,
) -> Response:
    """List dead letters, newest first; waiting ones unless another state is asked for."""
    state = state if state in {*LetterState, "all"} else LetterState.WAITING
    filters, turn = {"table": table.strip(), "state": state, "code": code}, Turn(before, after)
    with translated_errors(), user.gateway.engine.begin() as connection:
        tables = _tables(connection, user, filters["table"])
        chosen = LetterFilter(list(tables), None if state == "all" else LetterState(state), code or None)
        found = newest_letters(connection, chosen, turn, MAX_ROWS + 1)
    cut = cut_page(found, turn, MAX_ROWS, lambda letter: letter.letter_id)
    seen = [_seen(letter, tables[letter.table_id], user) for letter in cut.entries]
    may_settle = any(one.may_settle for one in seen)
    is_plain = state == LetterState.WAITING and not code
    return user.page(
        "dead_letters.html",
        "dead_letters",
        letters=seen,
        filters=filters,
        codes=CODES,
        links=links_of(cut, PATH, filters | {"state": "" if state == LetterState.WAITING else state}),
        whole=_named(tables, filters["table"]) if is_plain and may_settle else None,
        may_settle=may_settle,
    )


def _named(tables: Mapping[TableId, NamedTable], wanted: str) -> NamedTable | None:
    """Return the one table that the list is filtered by, all of whose waiting dead letters the user may settle."""
    return next((one for one in tables.values() if one.is_live and one.name.folded == wanted.casefold()), None)


@router.get(PATH + "/{letter_id:digits}")
def one_letter(
    letter_id: _LetterId,
    user: ConsoleUser,
    message: Annotated[str, Query(max_length=1)] = "",
    done: Annotated[str, Query(max_length=1)] = "",
) -> Response:
    """Show a dead letter with its errors, and its message if that is asked for and allowed."""
    return _letter_page(user, letter_id, with_message=bool(message), done=bool(done))


@router.get(PATH + "/{letter_id:digits}/message")
def download(letter_id: _LetterId, user: ConsoleUser) -> Response:
    """Return the message byte for byte, as a file: no browser renders it."""
    principal = user.require(Right.ADMIN)
    seen, _ = _found(user, letter_id)
    written = letter_message(user.gateway, seen.name, letter_id, principal)
    named = f'attachment; filename="dead-letter-{letter_id}.txt"'
    return Response(written.content, headers={"Content-Disposition": named}, media_type="application/octet-stream")


@router.post(PATH + "/{letter_id:digits}/replay")
async def replay(letter_id: _LetterId, user: ConsoleUser, form: ConsoleForm) -> Response:
    """Replay a dead letter, with the corrected message if the form has another one than was kept."""
    principal = user.require(Right.ADMIN)
    seen, _ = await asyncio.to_thread(_found, user, letter_id)
    typed, correction = form.raw("message"), None
    if typed.strip():
        written = await asyncio.to_thread(letter_message, user.gateway, seen.name, letter_id, principal)
        kept = _text_of(written.content)
        is_same = kept is not None and _with_plain_lines(kept) == _with_plain_lines(typed)
        correction = None if is_same else typed.encode()
    try:
        await replay_one(user.gateway, seen.name, letter_id, principal, correction)
    except (RejectedInput, TemporarilyUnavailable) as error:
        failure = user.rejected(error)
        return await asyncio.to_thread(
            _letter_page,
            user,
            letter_id,
            with_message=bool(typed),
            failure=failure,
            correction=typed or None,
        )
    return see_other(f"{PATH}/{letter_id}?done=1")


@router.post(PATH + "/{letter_id:digits}/discard")
def discard(letter_id: _LetterId, user: ConsoleUser, form: ConsoleForm) -> Response:
    """Discard a dead letter after its id was typed in."""
    principal = user.require(Right.ADMIN)
    if form.number("dead_letter") != letter_id:
        raise RejectedInput(Code.BAD_REQUEST, f"the typed text is not {letter_id}", remedy="Go back, and type the id.")
    seen, _ = _found(user, letter_id)
    discard_waiting(user.gateway, seen.name, letter_id, principal)
    return see_other(f"{PATH}/{letter_id}?done=1")


@router.post(PATH + "/replay")
async def replay_selected(user: ConsoleUser, form: ConsoleForm) -> Response:
    """Replay the selected dead letters in order; one that is rejected again does not hold the others back."""
    principal = user.require(Right.ADMIN)
    chosen = await asyncio.to_thread(_selected, user, form)

    async def act(seen: SeenLetter) -> str:
        receipt = await replay_one(user.gateway, seen.name, seen.letter.letter_id, principal)
        return f"Accepted as batch {receipt.sequence}."

    return _done(user, "Replay of the selected dead letters", await _each(user, chosen, act))


@router.post(PATH + "/discard")
async def discard_selected(user: ConsoleUser, form: ConsoleForm) -> Response:
    """Ask first, then discard the selected dead letters."""
    principal = user.require(Right.ADMIN)
    chosen = await asyncio.to_thread(_selected, user, form)
    if not form.optional("confirmed"):
        return user.page("dead_letters_confirm.html", "dead_letters", letters=chosen)

    async def act(seen: SeenLetter) -> str:
        await asyncio.to_thread(discard_waiting, user.gateway, seen.name, seen.letter.letter_id, principal)
        return "Discarded."

    return _done(user, "Discard of the selected dead letters", await _each(user, chosen, act))


@router.post(PATH + "/replay-table")
async def replay_table(user: ConsoleUser, form: ConsoleForm) -> Response:
    """Replay the oldest waiting dead letters of a table, and offer to continue after the last one."""
    principal, name = user.require(Right.ADMIN), form.text("table")
    after = form.number("after") if form.optional("after") else 0
    done = await replay_waiting(user.gateway, name, principal, after=after, limit=MAX_REPLAYED)
    return user.page(
        "dead_letters_done.html",
        "dead_letters",
        title="Replay of a table",
        summary=f"{done.replayed} replayed, {done.rejected} rejected again",
        is_ok=not done.rejected,
        outcomes=(),
        table=name,
        next_after=done.next_after,
    )


@router.post(PATH + "/discard-table")
def discard_table(user: ConsoleUser, form: ConsoleForm) -> Response:
    """Discard the waiting letters of a table's generation, which was typed in, through the newest one that was seen."""
    principal, name = user.require(Right.ADMIN), form.text("table")
    discard_through(user.gateway, name, Generation(form.number("generation")), form.number("through"), principal)
    return see_other(link(PATH, table=name))


def _letter_page(
    user: SignedIn,
    letter_id: int,
    *,
    with_message: bool,
    done: bool = False,
    failure: Notice | None = None,
    correction: str | None = None,
) -> Response:
    """Return the page of a dead letter; `correction` is what the user has typed, after a replay that was rejected."""
    (seen, names), message = _found(user, letter_id), None
    if with_message and seen.administers:
        message = letter_message(user.gateway, seen.name, letter_id, user.require(Right.ADMIN)).content
    return user.page(
        "dead_letter.html",
        "dead_letters",
        names=names,
        status=200 if failure is None else failure.status,
        seen=seen,
        message=message,
        text=None if message is None else _text_of(message),
        failure=failure,
        done=done,
        correction=correction,
    )


def _text_of(message: bytes) -> str | None:
    """Return a message as its page shows it; None if it is too long or not text, so it can only be downloaded."""
    try:
        text = message.decode() if len(message) <= MAX_SHOWN_BYTES else "\0"
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _seen(letter: StoredLetter, table: NamedTable, user: SignedIn) -> SeenLetter:
    return SeenLetter(letter, table, user.may(Right.ADMIN, table.name))


def _found(user: SignedIn, letter_id: int) -> tuple[SeenLetter, Mapping[str, str]]:
    """Return a dead letter of a table that the user may see, and the names of its keys, by id.

    Raises RejectedInput `unknown_dead_letter`.
    """
    with translated_errors(), user.gateway.engine.begin() as connection:
        for letter in find_letters(connection, [letter_id]):
            table = _tables(connection, user, "").get(letter.table_id)
            if table is not None:
                names = caller_names(user.gateway, connection, (letter.principal, letter.settled_by))
                return _seen(letter, table, user), names
    raise unknown_letter(letter_id)


def _selected(user: SignedIn, form: FormFields) -> list[SeenLetter]:
    """Return the dead letters whose boxes are checked, oldest first, without those that the user may not see."""
    numbers = (name.removeprefix(_SELECTED) for name in form.fields if name.startswith(_SELECTED))
    ids = [int(number) for number in numbers if number.isascii() and number.isdigit() and len(number) <= 18]
    if not ids:
        remedy = "Go back, and check the boxes of the dead letters that you mean."
        raise RejectedInput(Code.BAD_REQUEST, "no dead letter is selected", remedy=remedy)
    with translated_errors(), user.gateway.engine.begin() as connection:
        tables = _tables(connection, user, "")
        found = find_letters(connection, ids)
    return [_seen(letter, tables[letter.table_id], user) for letter in found if letter.table_id in tables]


def _tables(connection: Connection, user: SignedIn, wanted: str) -> Mapping[TableId, NamedTable]:
    """Return the tables that the user may read, with this text in their names, by id."""
    principal, part = user.require(Right.READ), wanted.casefold()
    return {
        table.table_id: table
        for table in named_tables(connection)
        if part in table.name.folded and principal.may_touch(table.name)
    }


def _with_plain_lines(text: str) -> str:
    """Return a string as a browser sends it back: it changes every end of a line."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


async def _each(
    user: SignedIn, chosen: Sequence[SeenLetter], act: Callable[[SeenLetter], Awaitable[str]]
) -> list[LetterOutcome]:
    """Act on letters in order, and return what came of each; after the gateway became unavailable, none is tried."""
    outcomes = list[LetterOutcome]()
    for seen in chosen:
        try:
            outcomes.append(LetterOutcome(seen, True, await act(seen)))
        except RejectedInput as error:
            outcomes.append(_failed(user, seen, error))
        except TemporarilyUnavailable as error:
            rest = chosen[len(outcomes) + 1 :]
            outcomes.append(_failed(user, seen, error))
            return [*outcomes, *(LetterOutcome(left, False, "Not tried.", "Retry later.") for left in rest)]
    return outcomes


def _failed(user: SignedIn, seen: SeenLetter, error: MirrorgateError) -> LetterOutcome:
    notice = user.rejected(error)
    return LetterOutcome(seen, False, notice.title, notice.text)


def _done(user: SignedIn, title: str, outcomes: Sequence[LetterOutcome]) -> Response:
    """Return the page that says what an action did, with the dead letters that it failed for first."""
    failed = sum(not outcome.is_ok for outcome in outcomes)
    return user.page(
        "dead_letters_done.html",
        "dead_letters",
        title=title,
        summary=f"{len(outcomes) - failed} of {len(outcomes)} done",
        is_ok=not failed,
        outcomes=sorted(outcomes, key=lambda outcome: outcome.is_ok),
        next_after=None,
    )
