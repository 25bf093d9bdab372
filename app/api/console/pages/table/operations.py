"""Actions of an administrator on a table: a form of one button, or a page that asks for the generation first.

Each calls the function that the API's route calls, so that rights, locks and events are the same. The form names the
generation that its page showed, so it never changes the next one. An error appears on the page of the action.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Request, Response

from app.api.console.answers import page, see_other
from app.api.console.forms import ConsoleForm, Form
from app.api.console.pages.table.files import file_view
from app.api.console.pages.table.seen_table import PATH, SeenTable, number_in, seen_table
from app.api.console.pages.table.status import status_page
from app.api.console.rejections import Rejected, rejected
from app.api.console.sessions import ConsoleUser, SignedIn
from app.api.gateway import Gateway, GatewayDep
from app.api.operations.table_operations import TableOperation
from app.api.operations.visible_tables import visible_table
from app.console.views.attention import address
from app.console.views.table.operations import Action, confirm
from app.domain.access.rights import Right
from app.domain.model.table import Generation
from app.errors import Code, RejectedInput, TemporarilyUnavailable
from app.staging.connection.database import Connection, translated_errors
from app.staging.tables.status import count_tables

router = APIRouter()

MAX_REASON_CHARACTERS: Final = 1000


@dataclass(frozen=True, slots=True)
class _Visit:
    """A request about one table by a signed-in user."""

    table: str
    request: Request
    user: SignedIn
    gateway: Gateway

    def ask(self, action: Action, form: Form | None = None, found: Rejected | None = None) -> Response:
        """Show the consequences of an action, and ask for the generation."""
        with translated_errors(), self.gateway.engine.begin() as connection:
            seen = _administered(connection, self.user, self.table)
            counts = count_tables(connection, [seen.table.table_id])[seen.table.table_id]
        view = confirm(
            seen.head,
            action,
            seen.table,
            counts,
            reason="" if form is None else form.raw("reason"),
            rewrites_marker=form is not None and form.optional("rewrite_marker") is not None,
            notice=None if found is None else found.notice,
        )
        status = 200 if found is None else found.status
        return page(self.request, "table/confirm.html", view, self.user.chrome("tables"), status=status)


@dataclass(frozen=True, slots=True)
class _Submission:
    """A form about one table, with the generation to act on."""

    visit: _Visit
    form: Form

    def attempt(self, act: Callable[[TableOperation], object]) -> Rejected | None:
        """Act on the generation in the form; return what rejected it, None if it is done.

        Raises RejectedInput `forbidden`, and `unknown_table` if there is no page to show an error on.
        """
        visit, principal = self.visit, self.visit.user.require(Right.ADMIN)
        try:
            act(TableOperation(visit.table, Generation(self.form.number("generation")), visit.gateway, principal))
        except (RejectedInput, TemporarilyUnavailable) as error:
            if error.code is Code.UNKNOWN_TABLE:
                raise
            return rejected(visit.request, error)
        return None

    def act_at_once(self, action: Action, act: Callable[[TableOperation], object]) -> Response:
        """Act, and go back to the page of the table; show it with the error if there is one."""
        found, visit = self.attempt(act), self.visit
        if found is None:
            return self._done(action)
        return status_page(
            visit.request, visit.user, visit.gateway, visit.table, notice=found.notice, status=found.status
        )

    def act_after_asking(self, action: Action, act: Callable[[TableOperation], object]) -> Response:
        """Act, and go to the page of the table; ask again, with the error, if there is one."""
        found = self.attempt(act)
        return self._done(action) if found is None else self.visit.ask(action, self.form, found)

    def _done(self, action: Action) -> Response:
        return see_other(f"{address(self.visit.table)}?done={action}")


async def _visit(table: str, request: Request, user: ConsoleUser, gateway: GatewayDep) -> _Visit:
    return _Visit(table, request, user, gateway)


VisitDep = Annotated[_Visit, Depends(_visit)]


async def _submission(visit: VisitDep, form: ConsoleForm) -> _Submission:
    return _Submission(visit, form)


SubmissionDep = Annotated[_Submission, Depends(_submission)]


@router.post(PATH + "/pause")
def pause(submission: SubmissionDep) -> Response:
    """Stop publishing the table."""
    return submission.act_at_once(Action.PAUSE, lambda operation: operation.pause())


@router.post(PATH + "/resume")
def resume(submission: SubmissionDep) -> Response:
    """Publish the table again."""
    return submission.act_at_once(Action.RESUME, lambda operation: operation.resume())


@router.post(PATH + "/flush")
def flush(submission: SubmissionDep) -> Response:
    """Publish what is accepted so far."""
    return submission.act_at_once(Action.FLUSH, lambda operation: operation.flush())


@router.post(PATH + "/files/{number}/repair")
def repair(number: str, submission: SubmissionDep) -> Response:
    """Write a published file again."""
    visit, wanted = submission.visit, number_in(number, 0)
    found = submission.attempt(lambda operation: operation.repair(wanted))
    if found is None:
        return see_other(f"{address(visit.table)}/files/{wanted}?done={Action.REPAIR}")
    with translated_errors(), visit.gateway.engine.begin() as connection:
        view = file_view(
            connection, seen_table(connection, visit.user, visit.table, "Files"), wanted, notice=found.notice
        )
    return page(visit.request, "table/file.html", view, visit.user.chrome("tables"), status=found.status)


@router.get(PATH + "/release")
def ask_release(visit: VisitDep) -> Response:
    """Ask for the reason to release a quarantined table."""
    return visit.ask(Action.RELEASE)


@router.get(PATH + "/recreate")
def ask_recreate(visit: VisitDep) -> Response:
    """Show what recreating the table does, and ask for its generation."""
    return visit.ask(Action.RECREATE)


@router.get(PATH + "/drop")
def ask_drop(visit: VisitDep) -> Response:
    """Show what dropping the table does, and ask for its generation."""
    return visit.ask(Action.DROP)


@router.post(PATH + "/release")
def release(submission: SubmissionDep) -> Response:
    """Let a quarantined table publish again."""
    form = submission.form

    def act(operation: TableOperation) -> object:
        return operation.release(_reason_in(form), rewrite_marker=form.optional("rewrite_marker") is not None)

    return submission.act_after_asking(Action.RELEASE, act)


@router.post(PATH + "/recreate")
def recreate(submission: SubmissionDep) -> Response:
    """Begin the next generation of the table, with the same columns, keys and options."""
    return submission.act_after_asking(Action.RECREATE, lambda operation: operation.recreate())


@router.post(PATH + "/drop")
def drop(submission: SubmissionDep) -> Response:
    """Begin to drop the table."""
    return submission.act_after_asking(Action.DROP, lambda operation: operation.drop())


def _administered(connection: Connection, user: SignedIn, table: str) -> SeenTable:
    """Return a table of which the user is an administrator. Raises RejectedInput `forbidden` or `unknown_table`."""
    visible_table(connection, table, user.require(Right.ADMIN))
    return seen_table(connection, user, table, "")


def _reason_in(form: Form) -> str:
    reason = form.text("reason")
    if not 1 <= len(reason) <= MAX_REASON_CHARACTERS:
        raise RejectedInput(
            Code.BAD_REQUEST,
            f"the reason must have 1 to {MAX_REASON_CHARACTERS:,} characters",
            remedy="Write what you found and did; it is kept with the events of the table.",
        )
    return reason
