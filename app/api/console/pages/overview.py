"""`/console` and `/console/tables`: what needs attention, totals, plots and health, and the list of tables.

The parts of both pages that change all the time have separate addresses, from which the pages refresh them.
"""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response

from app.api.console.answers import page
from app.api.console.sessions import ConsoleUser, SignedIn
from app.api.gateway import Gateway, GatewayDep
from app.api.operations.table_operations import visible_summaries
from app.api.routes.probes import gateway_health
from app.console.attention import attention
from app.console.plots import HOUR_MINUTES, Plot, hour_plots
from app.console.table_list import FRAGMENT, PATH, TableQuery, table_list, totals_of
from app.domain.access.rights import Principal, Right
from app.domain.health.facts import TableSummary
from app.domain.health.troubles import parts, troubles
from app.domain.preflight import Finding, judge_durability, judge_space
from app.staging.connection.database import Connection, translated_errors
from app.staging.overview import Durability, durability
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
    return page(request, "overview.html", user.chrome("overview", alerts=len(live["troubles"])), plots=plots, **live)


@router.get("/console/fragments/overview")
def live_part(request: Request, user: ConsoleUser, gateway: GatewayDep) -> Response:
    """Return the part of the overview that changes all the time."""
    principal = user.require(Right.READ)
    with translated_errors(), gateway.engine.begin() as connection:
        seen = _read(connection, principal)
    return page(request, "overview_live.html", user.chrome("overview"), **_live(gateway, seen))


@router.get("/console/fragments/overview-plots")
def plots_part(request: Request, user: ConsoleUser, gateway: GatewayDep) -> Response:
    """Return the plots of the overview, which change once a minute."""
    principal = user.require(Right.READ)
    with translated_errors(), gateway.engine.begin() as connection:
        seen = [] if principal.oversees_every_table else visible_summaries(connection, principal)
        plots = _plots(connection, principal, seen)
    return page(request, "plots.html", user.chrome("overview"), plots=plots)


def _plots(connection: Connection, principal: Principal, seen: Sequence[TableSummary]) -> tuple[Plot, ...]:
    ids = None if principal.oversees_every_table else [summary.table_id for summary in seen]
    return hour_plots(history(connection, HOUR_MINUTES, table_ids=ids), datetime.now(UTC))


class _Seen(NamedTuple):
    tables: Sequence[TableSummary]
    settings: Durability


def _read(connection: Connection, principal: Principal) -> _Seen:
    return _Seen(visible_summaries(connection, principal), durability(connection))


def _live(gateway: Gateway, seen: _Seen) -> dict[str, Any]:
    """Return the values of `overview_live.html`."""
    _, known = gateway_health(gateway)
    facts = replace(known, tables=seen.tables, findings=tuple(_findings(gateway, seen.settings)))
    return {
        "states": parts(facts),
        "troubles": attention(troubles(facts)),
        "totals": totals_of(seen.tables),
        "drains": None if facts.gateway is None else facts.gateway.drains,
        "backlog_share": facts.fullest_share,
    }


def _findings(gateway: Gateway, settings: Durability) -> Iterator[Finding]:
    """Yield the findings about Postgres, and about the disk of a landing zone on this machine."""
    yield from judge_durability(settings.fsync, settings.full_page_writes, settings.synchronous_commit)
    zone = gateway.settings.landing_zone
    if zone is not None and "://" not in zone and (folder := Path(zone)).is_dir():
        free = shutil.disk_usage(folder).free
        yield judge_space("disk_space", str(folder), free, min_free=gateway.settings.min_free_bytes)


@router.get(PATH)
def tables(request: Request, user: ConsoleUser, gateway: GatewayDep) -> Response:
    """Show the page of tables that the address asks for: with search, states, order and pages."""
    return _tables(request, user, gateway, "tables.html")


@router.get(FRAGMENT)
def live_tables(request: Request, user: ConsoleUser, gateway: GatewayDep) -> Response:
    """Return the part of the list that changes all the time."""
    return _tables(request, user, gateway, "tables_live.html")


def _tables(request: Request, user: SignedIn, gateway: Gateway, template: str) -> Response:
    principal = user.require(Right.READ)
    with translated_errors(), gateway.engine.begin() as connection:
        seen = visible_summaries(connection, principal)
    backlog = gateway.ingest.backlog
    shares = backlog.shares() if backlog is not None else {}
    found = table_list(seen, TableQuery.parse(request.query_params), shares)
    return page(request, template, user.chrome("tables"), list=found)
