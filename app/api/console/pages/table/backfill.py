"""Asks a drain for the backfill of a table's row images, after a page that says what it does, and cancels one."""

from fastapi import APIRouter, Response

from app.api.console.answers import see_other
from app.api.console.pages.table.operations import act_at_once
from app.api.console.pages.table.seen_table import PATH
from app.api.console.pages.table.submission import SubmissionDep, Visit, VisitDep
from app.api.console.rejections import Rejected
from app.api.operations.table_operations import TableOperation
from app.console.views.attention import address
from app.console.views.table.operations import Action, confirm_backfill
from app.staging.connection.database import read_snapshot, translated_errors
from app.staging.images.backfill.progress import find_backfill

router = APIRouter()


@router.get(PATH + "/backfill")
def ask(visit: VisitDep) -> Response:
    """Show what the backfill does, and ask for the generation."""
    return _ask(visit)


@router.post(PATH + "/backfill")
def begin(submission: SubmissionDep) -> Response:
    """Ask a drain for the backfill. Without a notice, go back to a table whose row images were complete already."""
    is_needed = True

    def act(operation: TableOperation) -> None:
        nonlocal is_needed
        images = operation.backfill_images().row_images
        is_needed = images is None or not images.complete

    found = submission.attempt(act)
    if found is not None:
        return _ask(submission.visit, found)
    return submission.done(Action.BACKFILL) if is_needed else see_other(address(submission.visit.table))


@router.post(PATH + "/backfill/cancel")
def cancel(submission: SubmissionDep) -> Response:
    """Cancel the running backfill."""
    return act_at_once(submission, Action.CANCEL_BACKFILL, lambda operation: operation.cancel_backfill())


def _ask(visit: Visit, found: Rejected | None = None) -> Response:
    with translated_errors(), read_snapshot(visit.gateway.engine) as connection:
        seen = visit.administered(connection)
        backfill = find_backfill(connection, seen.table)
    view = confirm_backfill(seen.head, seen.table, backfill, notice=None if found is None else found.notice)
    return visit.page("table/confirm.html", view, found)
