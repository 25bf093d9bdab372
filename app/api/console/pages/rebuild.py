"""The plan of a rebuild: its form, the dry run that checks it, and how far the last rebuild is.

The drain reads the rows, and the gateway stores the plan. The form that carries the plan out (`acts`) has the
fingerprint of the plan that its page shows, so that no other plan is carried out.
"""

from typing import Final, NamedTuple

from fastapi import APIRouter, Response

from app.api.console.answers import Rejected, see_other
from app.api.console.pages.visit import FRAGMENT, PATH, SeenTable, SubmissionDep, Visit, VisitDep
from app.console.links import table_path
from app.console.rebuild_plan import PlanFields, progress_text
from app.domain.access.rights import Right
from app.staging.connection.database import Connection, translated_errors
from app.staging.rebuild.progress import Rebuild, find_rebuild, is_planned_for
from mirrorgate.errors import Code, RejectedInput

router = APIRouter()

MAX_LISTED_COLUMNS: Final = 200
"""Present columns that the page of the plan lists."""


class LastRebuild(NamedTuple):
    """The last rebuild of a table, or the last dry run of one."""

    rebuild: Rebuild
    text: str
    plan: PlanFields | None
    """Changes of the plan; None for a plan that ended with its generation."""
    can_begin: bool
    """True if the user may have the checked plan carried out."""


@router.get(PATH + "/rebuild")
def plan(visit: VisitDep) -> Response:
    """Show the form of a plan, and how far the last rebuild or dry run is."""
    return _plan_page(visit)


@router.get(FRAGMENT + "/rebuild")
def live_part(visit: VisitDep) -> Response:
    """Return the part of the page that changes while a drain reads rows."""
    with translated_errors(), visit.gateway.engine.begin() as connection:
        seen = visit.seen(connection)
        last = last_rebuild(connection, seen, find_rebuild(connection, seen.table.table_id))
    if last is None:
        raise RejectedInput(Code.NOT_FOUND, "the table has no rebuild")
    return visit.page("table/rebuild_live.html", seen.head, last=last)


@router.post(PATH + "/rebuild")
def check(sent: SubmissionDep) -> Response:
    """Begin the dry run of a plan, which the page then shows."""
    form = sent.form
    typed = PlanFields(form.raw("keys"), form.raw("types"), form.raw("renames"), form.raw("dropped"))
    found = sent.attempt(lambda sent: sent.operation.rebuild(typed.columns, typed.key_columns, dry_run=True))
    if isinstance(found, Rejected):
        return _plan_page(sent.visit, typed, found)
    return see_other(f"{table_path(sent.visit.table)}/rebuild")


def last_rebuild(connection: Connection, seen: SeenTable, rebuild: Rebuild | None) -> LastRebuild | None:
    """Return the last rebuild; None if there is none, or if the table has begun another generation since."""
    table = seen.table
    if rebuild is None or table.generation not in (rebuild.generation, rebuild.next_generation):
        return None
    is_planned = is_planned_for(connection, rebuild, table)
    return LastRebuild(
        rebuild,
        progress_text(rebuild, is_planned=is_planned),
        PlanFields.of(rebuild.plan, table.schema) if rebuild.generation == table.generation else None,
        rebuild.fits and is_planned and seen.head.is_admin,
    )


def checked_rebuild(connection: Connection, seen: SeenTable) -> Rebuild:
    """Return the dry run whose plan can be carried out. Raises RejectedInput `wrong_table_state` if there is none."""
    last = last_rebuild(connection, seen, find_rebuild(connection, seen.table.table_id))
    if last is None or not last.can_begin:
        detail = f"table {seen.table.name} has no dry run whose plan fits"
        remedy = "Check a plan on the page of the table first."
        raise RejectedInput(Code.WRONG_TABLE_STATE, detail, remedy=remedy)
    return last.rebuild


def _plan_page(visit: Visit, typed: PlanFields | None = None, found: Rejected | None = None) -> Response:
    """Return the page of the plan. The form has what was typed in, or the last plan.

    There is no form while the table is being rebuilt, checked or dropped: it accepts no plan then.
    """
    with translated_errors(), visit.gateway.engine.begin() as connection:
        seen = visit.seen(connection, right=Right.ADMIN)
        last = last_rebuild(connection, seen, find_rebuild(connection, seen.table.table_id))
    table = seen.table
    fields = typed or (last.plan if last is not None else None) or PlanFields()
    return visit.page(
        "table/rebuild.html",
        seen.head,
        notice=None if found is None else found.notice,
        status=200 if found is None else found.status,
        last=last,
        fields=None if table.rebuild_due or table.state.deletes_folder else fields,
        columns=table.schema.columns[:MAX_LISTED_COLUMNS],
        column_count=len(table.schema.columns),
    )
