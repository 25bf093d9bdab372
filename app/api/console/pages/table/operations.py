"""Actions of an administrator on a table: a form of one button, or a page that asks for the generation first.

Each calls the function that the API's route calls, so that rights, locks and events are the same. The form names the
generation that its page showed, so it never changes the next one. An error appears on the page of the action.
"""

from collections.abc import Callable
from typing import Final

from fastapi import APIRouter, Response

from app.api.console.answers import see_other
from app.api.console.forms import Form
from app.api.console.pages.table.files import file_view
from app.api.console.pages.table.seen_table import PATH, number_in, seen_table
from app.api.console.pages.table.status import status_page
from app.api.console.pages.table.submission import Submission, SubmissionDep, Visit, VisitDep
from app.api.console.rejections import Rejected
from app.api.operations.table_operations import TableOperation
from app.console.views.attention import address
from app.console.views.table.operations import Action, confirm
from app.errors import Code, RejectedInput
from app.staging.connection.database import translated_errors
from app.staging.tables.status import count_tables

router = APIRouter()

MAX_REASON_CHARACTERS: Final = 1000


@router.post(PATH + "/pause")
def pause(submission: SubmissionDep) -> Response:
    """Stop publishing the table."""
    return act_at_once(submission, Action.PAUSE, lambda operation: operation.pause())


@router.post(PATH + "/resume")
def resume(submission: SubmissionDep) -> Response:
    """Publish the table again."""
    return act_at_once(submission, Action.RESUME, lambda operation: operation.resume())


@router.post(PATH + "/flush")
def flush(submission: SubmissionDep) -> Response:
    """Publish what is accepted so far."""
    return act_at_once(submission, Action.FLUSH, lambda operation: operation.flush())


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
    return visit.page("table/file.html", view, found)


@router.get(PATH + "/release")
def ask_release(visit: VisitDep) -> Response:
    """Ask for the reason to release a quarantined table."""
    return _ask(visit, Action.RELEASE)


@router.get(PATH + "/recreate")
def ask_recreate(visit: VisitDep) -> Response:
    """Show what recreating the table does, and ask for its generation."""
    return _ask(visit, Action.RECREATE)


@router.get(PATH + "/drop")
def ask_drop(visit: VisitDep) -> Response:
    """Show what dropping the table does, and ask for its generation."""
    return _ask(visit, Action.DROP)


@router.post(PATH + "/release")
def release(submission: SubmissionDep) -> Response:
    """Let a quarantined table publish again."""
    form = submission.form

    def act(operation: TableOperation) -> object:
        return operation.release(_reason_in(form), rewrite_marker=form.optional("rewrite_marker") is not None)

    return _act_after_asking(submission, Action.RELEASE, act)


@router.post(PATH + "/recreate")
def recreate(submission: SubmissionDep) -> Response:
    """Begin the next generation of the table, with the same columns, keys and options."""
    return _act_after_asking(submission, Action.RECREATE, lambda operation: operation.recreate())


@router.post(PATH + "/drop")
def drop(submission: SubmissionDep) -> Response:
    """Begin to drop the table."""
    return _act_after_asking(submission, Action.DROP, lambda operation: operation.drop())


def _ask(visit: Visit, action: Action, form: Form | None = None, found: Rejected | None = None) -> Response:
    """Show the consequences of an action, and ask for the generation."""
    with translated_errors(), visit.gateway.engine.begin() as connection:
        seen = visit.administered(connection)
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
    return visit.page("table/confirm.html", view, found)


def act_at_once(submission: Submission, action: Action, act: Callable[[TableOperation], object]) -> Response:
    """Act, and go back to the page of the table; show it with the error if there is one."""
    found, visit = submission.attempt(act), submission.visit
    if found is None:
        return submission.done(action)
    return status_page(visit.request, visit.user, visit.gateway, visit.table, notice=found.notice, status=found.status)


def _act_after_asking(submission: Submission, action: Action, act: Callable[[TableOperation], object]) -> Response:
    """Act, and go to the page of the table; ask again, with the error, if there is one."""
    found = submission.attempt(act)
    return submission.done(action) if found is None else _ask(submission.visit, action, submission.form, found)


def _reason_in(form: Form) -> str:
    reason = form.text("reason")
    if not 1 <= len(reason) <= MAX_REASON_CHARACTERS:
        raise RejectedInput(
            Code.BAD_REQUEST,
            f"the reason must have 1 to {MAX_REASON_CHARACTERS:,} characters",
            remedy="Write what you found and did; it is kept with the events of the table.",
        )
    return reason
