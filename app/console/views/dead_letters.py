"""Dead letters: the list over all tables that the user may see, one letter with its errors, and what an action did."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from app.console.views.attention import address
from app.console.views.notice import NoticeView
from app.console.views.paging import PageLinks, links_of
from app.domain.model.dead_letter import KEPT, LetterState, WrittenMessage
from app.domain.model.table import TableId
from app.errors import Code
from app.staging.batches.dead_letters import StoredLetter
from app.staging.connection.page_turn import Page
from app.staging.tables.registry import NamedTable

PATH: Final = "/console/dead-letters"
CODES: Final = tuple(sorted(KEPT))
"""The codes that a letter can have, for the filter."""

MAX_SHOWN_BYTES: Final = 128 * 2**10
"""Bytes of a message that its page shows; a longer one is downloaded."""


@dataclass(frozen=True, slots=True)
class LetterRow:
    """A letter in the list."""

    id: int
    path: str
    table: str
    table_path: str | None
    """None if the table is dropped."""
    code: str
    why: str
    more: int
    """How many further errors the message has."""
    format: str
    received_at: datetime
    state: str
    has_ended: bool
    """Whether the letter waits in a generation that has ended, so it cannot be replayed; the drain discards it."""
    may_settle: bool


@dataclass(frozen=True, slots=True)
class WholeTable:
    """The one table that the list is filtered by, all of whose waiting letters the user may settle."""

    name: str
    generation: int
    through: int
    """The newest letter that the page shows; letters that come later are not discarded with it."""


@dataclass(frozen=True, slots=True)
class LetterFilterView:
    """The filter of the list as the user gave it."""

    table: str
    state: str
    code: str

    @property
    def parameters(self) -> dict[str, str]:
        """Return the parameters of a link to a page of the same list."""
        state = "" if self.state == LetterState.WAITING else self.state
        return {"table": self.table, "state": state, "code": self.code}


@dataclass(frozen=True, slots=True)
class LettersView:
    """The list of dead letters."""

    rows: tuple[LetterRow, ...]
    filter: LetterFilterView
    links: PageLinks
    whole: WholeTable | None

    @property
    def may_settle(self) -> bool:
        """Tell whether the page has a letter that the user may replay or discard."""
        return any(row.may_settle for row in self.rows)

    @property
    def codes(self) -> tuple[str, ...]:
        """Return the codes that the filter offers."""
        return CODES


@dataclass(frozen=True, slots=True)
class LetterErrorView:
    """One error of a message, with what to do."""

    code: str
    detail: str
    place: str
    remedy: str


@dataclass(frozen=True, slots=True)
class MessageView:
    """The message of a letter, for those who may read it."""

    text: str | None
    """None if it is too long or not text; it can be downloaded."""
    size: int


@dataclass(frozen=True, slots=True)
class LetterView:
    """The page of one letter."""

    row: LetterRow
    letter: StoredLetter
    errors: tuple[LetterErrorView, ...]
    may_read: bool
    message: MessageView | None
    """None until the user asks for it: it has row values."""
    failure: NoticeView | None = None
    done: bool = False
    correction: str | None = None
    """What the user has typed, after a replay that was rejected."""


@dataclass(frozen=True, slots=True)
class OutcomeView:
    """What an action did with one letter."""

    id: int
    path: str
    table: str
    ok: bool
    what: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class OutcomesView:
    """What an action did with several letters."""

    title: str
    summary: str
    all_ok: bool
    outcomes: tuple[OutcomeView, ...] = ()
    table: str | None = None
    """The table whose letters were replayed in order."""
    next_after: int | None = None
    """The last letter that was tried, if more wait after it."""


@dataclass(frozen=True, slots=True)
class ConfirmDiscardView:
    """Asks before several letters are discarded."""

    rows: tuple[LetterRow, ...]


def letter_row(letter: StoredLetter, table: NamedTable, *, may_settle: bool) -> LetterRow:
    """Return a letter as the list shows it; `may_settle` is whether the user administers its table."""
    first, waits = letter.errors[0], letter.state is LetterState.WAITING
    is_present = table.is_live and letter.generation == table.generation
    return LetterRow(
        id=letter.letter_id,
        path=f"{PATH}/{letter.letter_id}",
        table=str(table.name),
        table_path=address(str(table.name)) if table.is_live else None,
        code=str(first["code"]),
        why=_why(first),
        more=len(letter.errors) - 1,
        format=letter.format,
        received_at=letter.received_at,
        state=letter.state,
        has_ended=waits and not is_present,
        may_settle=may_settle and waits and is_present,
    )


def letters_view(
    page: Page[StoredLetter],
    tables: Mapping[TableId, NamedTable],
    filter_: LetterFilterView,
    may_settle: Callable[[NamedTable], bool],
) -> LettersView:
    """Return the list of a page of letters of these tables."""
    rows = []
    for letter in page.entries:
        table = tables[letter.table_id]
        rows.append(letter_row(letter, table, may_settle=may_settle(table)))
    return LettersView(tuple(rows), filter_, links_of(page, PATH, filter_.parameters), _whole(rows, tables, filter_))


def letter_errors(letter: StoredLetter) -> tuple[LetterErrorView, ...]:
    """Return the errors of a letter with the remedies of their codes."""
    return tuple(
        LetterErrorView(str(error["code"]), str(error["detail"]), str(error.get("pointer") or ""), _remedy(error))
        for error in letter.errors
    )


def message_view(written: WrittenMessage) -> MessageView:
    """Return a message as its page shows it."""
    content, text = written.content, None
    if len(content) <= MAX_SHOWN_BYTES:
        try:
            text = content.decode()
        except UnicodeDecodeError:
            text = None
    return MessageView(None if text is None or "\0" in text else text, len(content))


def outcomes_view(title: str, outcomes: Sequence[OutcomeView]) -> OutcomesView:
    """Return what an action did, with the letters that it failed for first."""
    failed = sum(not outcome.ok for outcome in outcomes)
    summary = f"{len(outcomes) - failed} of {len(outcomes)} done"
    return OutcomesView(title, summary, not failed, tuple(sorted(outcomes, key=lambda outcome: outcome.ok)))


def replayed_view(table: str, replayed: int, rejected: int, next_after: int | None) -> OutcomesView:
    """Return what the replay of a table's waiting letters did."""
    summary = f"{replayed} replayed, {rejected} rejected again"
    return OutcomesView("Replay of a table", summary, not rejected, table=table, next_after=next_after)


def _whole(
    rows: Sequence[LetterRow], tables: Mapping[TableId, NamedTable], filter_: LetterFilterView
) -> WholeTable | None:
    wanted = filter_.table.casefold()
    is_plain = filter_.state == LetterState.WAITING and not filter_.code
    if not is_plain or not any(row.may_settle for row in rows):
        return None
    for table in tables.values():
        if table.is_live and table.name.folded == wanted:
            return WholeTable(str(table.name), table.generation, rows[0].id)
    return None


def _why(error: Mapping[str, Any]) -> str:
    column = error.get("column")
    return f"{error['detail']} (column {column})" if column else str(error["detail"])


def _remedy(error: Mapping[str, Any]) -> str:
    code = error["code"]
    return Code(code).remedy if code in Code._value2member_map_ else ""
