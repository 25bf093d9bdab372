"""Actions of an administrator on a table: a form of one button, or a page that asks for the generation first.

Each calls the function that the API's route calls, so that rights, locks and events are the same. The form names the
generation that its page showed, so it never changes the next one. An error appears on the page of the action.
"""

from collections.abc import Callable
from typing import Final

from fastapi import APIRouter, Request, Response

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


@router.post(PATH + "/pause")
def pause(table: str, request: Request, user: ConsoleUser, form: ConsoleForm, gateway: GatewayDep) -> Response:
    """Stop publishing the table."""
    return _act_at_once(request, user, gateway, table, form, Action.PAUSE, lambda operation: operation.pause())


@router.post(PATH + "/resume")
def resume(table: str, request: Request, user: ConsoleUser, form: ConsoleForm, gateway: GatewayDep) -> Response:
    """Publish the table again."""
    return _act_at_once(request, user, gateway, table, form, Action.RESUME, lambda operation: operation.resume())


@router.post(PATH + "/flush")
def flush(table: str, request: Request, user: ConsoleUser, form: ConsoleForm, gateway: GatewayDep) -> Response:
    """Publish what is accepted so far."""
    return _act_at_once(request, user, gateway, table, form, Action.FLUSH, lambda operation: operation.flush())


@router.post(PATH + "/files/{number}/repair")
def repair(
    table: str, number: str, request: Request, user: ConsoleUser, form: ConsoleForm, gateway: GatewayDep
) -> Response:
    """Write a published file again."""
    wanted = number_in(number, 0)
    found = _attempt(request, user, gateway, table, form, lambda operation: operation.repair(wanted))
    if found is None:
        return see_other(f"{address(table)}/files/{wanted}?done={Action.REPAIR}")
    with translated_errors(), gateway.engine.begin() as connection:
        view = file_view(connection, seen_table(connection, user, table, "Files"), wanted, notice=found.notice)
    return page(request, "table/file.html", view, user.chrome("tables"), status=found.status)


@router.get(PATH + "/release")
def ask_release(table: str, request: Request, user: ConsoleUser, gateway: GatewayDep) -> Response:
    """Ask for the reason to release a quarantined table."""
    return _ask(request, user, gateway, table, Action.RELEASE)


@router.get(PATH + "/recreate")
def ask_recreate(table: str, request: Request, user: ConsoleUser, gateway: GatewayDep) -> Response:
    """Show what recreating the table does, and ask for its generation."""
    return _ask(request, user, gateway, table, Action.RECREATE)


@router.get(PATH + "/drop")
def ask_drop(table: str, request: Request, user: ConsoleUser, gateway: GatewayDep) -> Response:
    """Show what dropping the table does, and ask for its generation."""
    return _ask(request, user, gateway, table, Action.DROP)


@router.post(PATH + "/release")
def release(table: str, request: Request, user: ConsoleUser, form: ConsoleForm, gateway: GatewayDep) -> Response:
    """Let a quarantined table publish again."""

    def act(operation: TableOperation) -> object:
        return operation.release(_reason_in(form), rewrite_marker=form.optional("rewrite_marker") is not None)

    return _act_after_asking(request, user, gateway, table, form, Action.RELEASE, act)


@router.post(PATH + "/recreate")
def recreate(table: str, request: Request, user: ConsoleUser, form: ConsoleForm, gateway: GatewayDep) -> Response:
    """Begin the next generation of the table, with the same columns, keys and options."""
    return _act_after_asking(request, user, gateway, table, form, Action.RECREATE, lambda given: given.recreate())


@router.post(PATH + "/drop")
def drop(table: str, request: Request, user: ConsoleUser, form: ConsoleForm, gateway: GatewayDep) -> Response:
    """Begin to drop the table."""
    return _act_after_asking(request, user, gateway, table, form, Action.DROP, lambda operation: operation.drop())


def _act_at_once(
    request: Request,
    user: SignedIn,
    gateway: Gateway,
    table: str,
    form: Form,
    action: Action,
    act: Callable[[TableOperation], object],
) -> Response:
    """Act, and go back to the page of the table; show it with the error if there is one."""
    found = _attempt(request, user, gateway, table, form, act)
    if found is None:
        return see_other(f"{address(table)}?done={action}")
    return status_page(request, user, gateway, table, notice=found.notice, status=found.status)


def _act_after_asking(
    request: Request,
    user: SignedIn,
    gateway: Gateway,
    table: str,
    form: Form,
    action: Action,
    act: Callable[[TableOperation], object],
) -> Response:
    """Act, and go to the page of the table; ask again, with the error, if there is one."""
    found = _attempt(request, user, gateway, table, form, act)
    if found is None:
        return see_other(f"{address(table)}?done={action}")
    return _ask(request, user, gateway, table, action, form, found)


def _attempt(
    request: Request,
    user: SignedIn,
    gateway: Gateway,
    table: str,
    form: Form,
    act: Callable[[TableOperation], object],
) -> Rejected | None:
    """Act on the generation in the form; return what rejected it, None if it is done.

    Raises RejectedInput `forbidden`, and `unknown_table` if there is no page to show an error on.
    """
    principal = user.require(Right.ADMIN)
    try:
        act(TableOperation(table, Generation(form.number("generation")), gateway, principal))
    except (RejectedInput, TemporarilyUnavailable) as error:
        if error.code is Code.UNKNOWN_TABLE:
            raise
        return rejected(request, error)
    return None


def _ask(
    request: Request,
    user: SignedIn,
    gateway: Gateway,
    table: str,
    action: Action,
    form: Form | None = None,
    found: Rejected | None = None,
) -> Response:
    """Show the consequences of an action, and ask for the generation."""
    with translated_errors(), gateway.engine.begin() as connection:
        seen = _administered(connection, user, table)
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
    return page(request, "table/confirm.html", view, user.chrome("tables"), status=status)


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
