"""Rebuilds a table: a plan is checked by a dry run first, and the checked plan is carried out after the page that asks.

The drain reads the rows, and the gateway stores the plan. The second form has the fingerprint of the plan that its page
shows, so that no other plan is carried out.
"""

from fastapi import APIRouter, Request, Response

from app.api.console.answers import page, see_other
from app.api.console.pages.table.seen_table import PATH, SeenTable, seen_table
from app.api.console.pages.table.submission import SubmissionDep, Visit, VisitDep
from app.api.console.rejections import Rejected
from app.api.console.sessions import ConsoleUser
from app.api.gateway import GatewayDep
from app.api.operations.table_operations import TableOperation
from app.console.views.attention import address
from app.console.views.table.head import FRAGMENTS
from app.console.views.table.operations import Action
from app.console.views.table.plan_fields import PlanFields
from app.console.views.table.rebuild import RebuildView, confirm_rebuild, rebuild_page, rebuild_view
from app.errors import Code, RejectedInput
from app.staging.connection.database import Connection, translated_errors
from app.staging.rebuild.progress import Rebuild, find_rebuild, is_planned_for
from app.staging.tables.status import count_tables

router = APIRouter()


@router.get(PATH + "/rebuild")
def plan(visit: VisitDep) -> Response:
    """Show the form of a plan, and how far the last rebuild or dry run is."""
    return _plan_page(visit)


@router.get(FRAGMENTS + "/tables/{table}/rebuild")
def live_part(table: str, request: Request, user: ConsoleUser, gateway: GatewayDep) -> Response:
    """Return the part of the page that changes while a drain reads rows."""
    with translated_errors(), gateway.engine.begin() as connection:
        view = _last_rebuild(connection, seen_table(connection, user, table, ""))
    if view is None:
        raise RejectedInput(Code.NOT_FOUND, "the table has no rebuild")
    return page(request, "table/rebuild_live.html", view, user.chrome("tables"))


@router.post(PATH + "/rebuild")
def check(submission: SubmissionDep) -> Response:
    """Begin the dry run of a plan, which the page then shows."""
    visit, form = submission.visit, submission.form
    typed = PlanFields(form.raw("keys"), form.raw("types"), form.raw("renames"), form.raw("dropped"))

    def act(operation: TableOperation) -> object:
        return operation.rebuild(typed.columns, typed.key_columns, dry_run=True)

    found = submission.attempt(act)
    return _plan_page(visit, typed, found) if found is not None else see_other(f"{address(visit.table)}/rebuild")


@router.get(PATH + "/rebuild/confirm")
def ask(visit: VisitDep) -> Response:
    """Show what rebuilding by the checked plan does, and ask for the generation."""
    return _ask(visit)


@router.post(PATH + "/rebuild/confirm")
def rebuild(submission: SubmissionDep) -> Response:
    """Begin to rebuild the table by the checked plan."""
    found = submission.attempt(lambda operation: operation.rebuild_as_checked(submission.form.text("plan")))
    return submission.done(Action.REBUILD) if found is None else _ask(submission.visit, found)


def live_rebuild(connection: Connection, seen: SeenTable, found: Rebuild | None) -> RebuildView | None:
    """Return the last rebuild of a table as its pages show it."""
    is_planned = found is not None and is_planned_for(connection, found, seen.table)
    return rebuild_view(seen.head, seen.table, found, is_planned=is_planned, is_admin=seen.is_admin)


def _last_rebuild(connection: Connection, seen: SeenTable) -> RebuildView | None:
    return live_rebuild(connection, seen, find_rebuild(connection, seen.table.table_id))


def _plan_page(visit: Visit, typed: PlanFields | None = None, found: Rejected | None = None) -> Response:
    with translated_errors(), visit.gateway.engine.begin() as connection:
        seen = visit.administered(connection)
        live = _last_rebuild(connection, seen)
    view = rebuild_page(seen.head, seen.table, live, typed=typed, notice=None if found is None else found.notice)
    return visit.page("table/rebuild.html", view, found)


def _ask(visit: Visit, found: Rejected | None = None) -> Response:
    with translated_errors(), visit.gateway.engine.begin() as connection:
        seen = visit.administered(connection)
        checked = _checked(connection, seen)
        counts = count_tables(connection, [seen.table.table_id])[seen.table.table_id]
    view = confirm_rebuild(seen.head, seen.table, checked, counts, notice=None if found is None else found.notice)
    return visit.page("table/confirm.html", view, found)


def _checked(connection: Connection, seen: SeenTable) -> Rebuild:
    """Return the dry run whose plan can be carried out. Raises RejectedInput `wrong_table_state` if there is none."""
    live = _last_rebuild(connection, seen)
    if live is None or live.ask is None:
        detail = f"table {seen.table.name} has no dry run whose plan fits"
        remedy = "Check a plan on the page of the table first."
        raise RejectedInput(Code.WRONG_TABLE_STATE, detail, remedy=remedy)
    return live.rebuild
