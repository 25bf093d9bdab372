"""`/console`: what needs attention, totals, plots and the health of the gateway, with the parts that are refreshed."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from fastapi import APIRouter, Request, Response

from app.api.console.answers import page
from app.api.console.sessions import ConsoleUser
from app.api.gateway import Gateway, GatewayDep
from app.api.operations.visible_tables import visible_summaries
from app.api.routes.probes import gateway_health
from app.console.views.attention import attention
from app.console.views.overview import OverviewPageView, OverviewView, PlotsView, parts_of, totals_of
from app.console.views.plots import HOUR_MINUTES, hour_plots
from app.domain.access.rights import Principal, Right
from app.domain.health.facts import TableSummary
from app.domain.health.troubles import parts, troubles
from app.domain.preflight.database_findings import judge_durability
from app.domain.preflight.finding import Finding
from app.domain.preflight.machine_findings import judge_space
from app.staging.connection.database import Connection, translated_errors
from app.staging.overview.table_summaries import Durability, durability
from app.staging.retention.history import history

router = APIRouter()


@router.get("/console")
def overview(request: Request, user: ConsoleUser, gateway: GatewayDep) -> Response:
    """Show the overview."""
    principal = user.require(Right.READ)
    with translated_errors(), gateway.engine.begin() as connection:
        seen = _read(connection, principal)
        plots = _plots(connection, principal, seen.tables)
    live = _live(gateway, seen)
    chrome = user.chrome("overview", alerts=len(live.troubles))
    return page(request, "overview.html", OverviewPageView(live, plots), chrome)


@router.get("/console/fragments/overview")
def live_part(request: Request, user: ConsoleUser, gateway: GatewayDep) -> Response:
    """Return the part of the overview that changes all the time."""
    principal = user.require(Right.READ)
    with translated_errors(), gateway.engine.begin() as connection:
        seen = _read(connection, principal)
    return page(request, "overview_live.html", _live(gateway, seen), user.chrome("overview"))


@router.get("/console/fragments/overview-plots")
def plots_part(request: Request, user: ConsoleUser, gateway: GatewayDep) -> Response:
    """Return the plots of the overview, which change once a minute."""
    principal = user.require(Right.READ)
    with translated_errors(), gateway.engine.begin() as connection:
        seen = [] if principal.oversees_every_table else visible_summaries(connection, principal)
        plots = _plots(connection, principal, seen)
    return page(request, "plots.html", plots, user.chrome("overview"))


def _plots(connection: Connection, principal: Principal, seen: Sequence[TableSummary]) -> PlotsView:
    ids = None if principal.oversees_every_table else [summary.table_id for summary in seen]
    return PlotsView(hour_plots(history(connection, HOUR_MINUTES, table_ids=ids), datetime.now(UTC)))


class _Seen(NamedTuple):
    tables: Sequence[TableSummary]
    settings: Durability


def _read(connection: Connection, principal: Principal) -> _Seen:
    return _Seen(visible_summaries(connection, principal), durability(connection))


def _live(gateway: Gateway, seen: _Seen) -> OverviewView:
    _, known = gateway_health(gateway)
    facts = replace(known, tables=seen.tables, findings=tuple(_findings(gateway, seen.settings)))
    return OverviewView(
        parts=parts_of(parts(facts)),
        troubles=attention(troubles(facts)),
        totals=totals_of(seen.tables),
        drains=None if facts.gateway is None else facts.gateway.drains,
        backlog_share=facts.fullest_share,
    )


def _findings(gateway: Gateway, settings: Durability) -> Iterator[Finding]:
    """Yield the findings about Postgres, and about the disk of a landing zone on this machine."""
    yield from judge_durability(settings.fsync, settings.full_page_writes, settings.synchronous_commit)
    zone = gateway.settings.landing_zone
    if zone is not None and "://" not in zone and (folder := Path(zone)).is_dir():
        free = shutil.disk_usage(folder).free
        yield judge_space("disk_space", str(folder), free, min_free=gateway.settings.min_free_bytes)
