"""The first page of a table: state, troubles, counts and plots, with the parts that are refreshed."""

from datetime import UTC, datetime
from typing import Final

from fastapi import APIRouter, Request, Response

from app.api.console.answers import page
from app.api.console.pages.table.rebuild import live_rebuild
from app.api.console.pages.table.seen_table import PATH, SeenTable, seen_table
from app.api.console.sessions import ConsoleUser, SignedIn
from app.api.gateway import Gateway, GatewayDep
from app.console.views.notice import NoticeView
from app.console.views.overview import PlotsView
from app.console.views.plots import HOUR_MINUTES, hour_plots
from app.console.views.table.head import FRAGMENTS
from app.console.views.table.loads import loads_view
from app.console.views.table.operations import buttons_of, notice_of
from app.console.views.table.status import StatusPageView, StatusView, fragment_of, status_of
from app.staging.connection.database import Connection, read_snapshot, translated_errors
from app.staging.ledger.fabric_database import fabric_facts
from app.staging.loads.sessions import list_loads
from app.staging.overview.table_facts import find_facts
from app.staging.retention.history import history

router = APIRouter()

_TAB: Final = "Status"

MAX_LOADS: Final = 5
"""Load sessions that the page lists."""


@router.get(PATH)
def status(table: str, request: Request, user: ConsoleUser, gateway: GatewayDep, done: str = "") -> Response:
    """Show the status of a table."""
    return status_page(request, user, gateway, table, notice=notice_of(done))


@router.get(FRAGMENTS + "/tables/{table}")
def live_part(table: str, request: Request, user: ConsoleUser, gateway: GatewayDep) -> Response:
    """Return the part of the page that changes all the time."""
    with translated_errors(), read_snapshot(gateway.engine) as connection:
        view = _live_status(connection, gateway, seen_table(connection, user, table, _TAB))
    return page(request, "table/status_live.html", view, user.chrome("tables"))


@router.get(FRAGMENTS + "/tables/{table}/plots")
def plots_part(table: str, request: Request, user: ConsoleUser, gateway: GatewayDep) -> Response:
    """Return the plots of a table, which change once a minute."""
    with translated_errors(), read_snapshot(gateway.engine) as connection:
        plots = _plots(connection, seen_table(connection, user, table, _TAB))
    return page(request, "plots.html", plots, user.chrome("tables"))


def status_page(
    request: Request, user: SignedIn, gateway: Gateway, table: str, *, notice: NoticeView | None, status: int = 200
) -> Response:
    """Return the page of a table, with a notice about an action."""
    with translated_errors(), read_snapshot(gateway.engine) as connection:
        seen = seen_table(connection, user, table, _TAB)
        live, plots = _live_status(connection, gateway, seen), _plots(connection, seen)
    view = StatusPageView(seen.head, live, plots, fragment_of(seen.head) + "/plots", notice)
    return page(request, "table/status.html", view, user.chrome("tables"), status=status)


def _live_status(connection: Connection, gateway: Gateway, seen: SeenTable) -> StatusView:
    """Return the status of a table as it is now."""
    [facts], backlog = find_facts(connection, [seen.table]), gateway.ingest.backlog
    return status_of(
        seen.head,
        facts,
        fabric_facts(connection),
        0.0 if backlog is None else backlog.share_of(seen.table),
        rebuild=live_rebuild(connection, seen, facts.rebuild),
        loads=loads_view(seen.head, list_loads(connection, seen.table)[:MAX_LOADS], may_send=seen.may_send),
        buttons=buttons_of(seen.head, seen.table, facts.present_backfill) if seen.is_admin else (),
        may_send=seen.may_send,
    )


def _plots(connection: Connection, seen: SeenTable) -> PlotsView:
    samples = history(connection, HOUR_MINUTES, seen.table.table_id)
    return PlotsView(hour_plots(samples, datetime.now(UTC)))
