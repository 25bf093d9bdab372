"""The pages about the whole gateway below `/console`: overview, tables, audit, producers and doctor.

`overview` shows what needs attention, totals, plots and health, and `tables` the list of tables. The parts of both
pages that change all the time have separate addresses, from which the pages refresh them.

`audit` shows what callers did, and `producers` how far each producer of numbered requests is.

`doctor` shows what `mirrorgate doctor` says, as far as an API process can see it. It asks Postgres and this machine.
`probe` examines the landing zone when a form asks for it, because it writes into the zone and takes seconds where the
zone is remote.
"""

import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Response

from app.api.console.answers import ConsoleForm, ConsoleUser, SignedIn, page
from app.api.gateway import Gateway
from app.api.operations.keys import caller_names
from app.api.operations.table_operations import visible_summaries
from app.api.routes.probes import gateway_health
from app.console.overview import (
    FRAGMENT,
    HOUR_MINUTES,
    PATH,
    Plot,
    TableQuery,
    attention,
    hour_plots,
    table_list,
    totals_of,
)
from app.console.render import Links, link, links_of
from app.domain.access.rights import Principal, Right
from app.domain.health.facts import TableSummary
from app.domain.health.troubles import parts, troubles
from app.domain.preflight import Finding, Outcome, judge_durability, judge_space
from app.staging.access.audit_events import AuditSearch, newest_audit
from app.staging.connection.database import Connection, translated_errors
from app.staging.connection.page_turn import Turn, cut_page
from app.staging.overview import Durability, ListedProducer, ProducerTurn, durability, list_producers
from app.staging.retention.history import history
from mirrorgate.errors import Code, TemporarilyUnavailable

router = APIRouter()


@router.get("/console")
def overview(user: ConsoleUser) -> Response:
    """Show the overview."""
    principal = user.require(Right.READ)
    with translated_errors(), user.gateway.engine.begin() as connection:
        seen, settings = visible_summaries(connection, principal), durability(connection)
        plots = _plots(connection, principal, seen)
    live = _live(user, seen, settings)
    chrome = user.chrome("overview", alerts=len(live["troubles"]))
    return page(user.request, "overview.html", chrome, plots=plots, **live)


@router.get("/console/fragments/overview")
def live_part(user: ConsoleUser) -> Response:
    """Return the part of the overview that changes all the time."""
    principal = user.require(Right.READ)
    with translated_errors(), user.gateway.engine.begin() as connection:
        seen, settings = visible_summaries(connection, principal), durability(connection)
    return user.page("overview_live.html", "overview", **_live(user, seen, settings))


@router.get("/console/fragments/overview-plots")
def plots_part(user: ConsoleUser) -> Response:
    """Return the plots of the overview, which change once a minute."""
    principal = user.require(Right.READ)
    with translated_errors(), user.gateway.engine.begin() as connection:
        seen = [] if principal.oversees_every_table else visible_summaries(connection, principal)
        plots = _plots(connection, principal, seen)
    return user.page("plots.html", "overview", plots=plots)


def _plots(connection: Connection, principal: Principal, seen: Sequence[TableSummary]) -> tuple[Plot, ...]:
    ids = None if principal.oversees_every_table else [summary.table_id for summary in seen]
    return hour_plots(history(connection, HOUR_MINUTES, table_ids=ids), datetime.now(UTC))


def _live(user: SignedIn, seen: Sequence[TableSummary], settings: Durability) -> dict[str, Any]:
    """Return the values of `overview_live.html`."""
    _, known = gateway_health(user.gateway)
    facts = replace(known, tables=seen, findings=tuple(_findings(user.gateway, settings)))
    sees_doctor = DOCTOR in [section.path for section in user.base.sections]
    return {
        "states": parts(facts),
        "troubles": attention(troubles(facts), DOCTOR if sees_doctor else None),
        "totals": totals_of(seen),
        "drains": None if facts.gateway is None else facts.gateway.drains,
        "backlog_share": facts.fullest_share,
    }


def _findings(gateway: Gateway, settings: Durability) -> Iterator[Finding]:
    """Yield the findings about Postgres, and about the disk of a landing zone on this machine."""
    yield from judge_durability(settings.fsync, settings.full_page_writes, settings.synchronous_commit)
    zone = gateway.settings.landing_zone
    if zone is not None and "://" not in zone:
        with suppress(OSError):  # an API process need not reach the zone; the drain judges it
            free = shutil.disk_usage(zone).free
            yield judge_space("disk_space", zone, free, min_free=gateway.settings.min_free_bytes)


@router.get(PATH)
def tables(user: ConsoleUser) -> Response:
    """Show the page of tables that the address asks for: with search, states, order and pages."""
    return _tables(user, "tables.html")


@router.get(FRAGMENT)
def live_tables(user: ConsoleUser) -> Response:
    """Return the part of the list that changes all the time."""
    return _tables(user, "tables_live.html")


def _tables(user: SignedIn, template: str) -> Response:
    principal = user.require(Right.READ)
    with translated_errors(), user.gateway.engine.begin() as connection:
        seen = visible_summaries(connection, principal)
    backlog = user.gateway.ingest.backlog
    shares = backlog.shares() if backlog is not None else {}
    found = table_list(seen, TableQuery.parse(user.request.query_params), shares)
    return user.page(template, "tables", list=found)


AUDIT: Final = "/console/audit"
PRODUCERS: Final = "/console/producers"
OUTCOMES: Final = ("any", "done", "rejected")
MAX_ROWS: Final = 50
"""Events or producers of a page."""

_Text = Annotated[str, Query(max_length=300, pattern=r"^[^\x00]*$")]
_LongText = Annotated[str, Query(max_length=1100, pattern=r"^[^\x00]*$")]
_Id = Annotated[int | None, Query(ge=0, le=2**63 - 1)]


@router.get(AUDIT)
def audit(
    user: ConsoleUser,
    subject: _Text = "",
    table: _Text = "",
    action: _Text = "",
    outcome: _Text = "any",
    before: _Id = None,
    after: _Id = None,
) -> Response:
    """List the events whose strings have these parts: operations on keys and tables, and rejected calls."""
    user.require(Right.ADMIN, every_table=True)
    texts = {"subject": subject.strip(), "table": table.strip(), "action": action.strip()}
    wanted = {"done": False, "rejected": True}.get(outcome)
    given = {name: text or None for name, text in texts.items()}
    search = AuditSearch(given["subject"], given["table"], given["action"], wanted)
    turn = Turn(before, after)
    with translated_errors(), user.gateway.engine.begin() as connection:
        found = newest_audit(connection, search, turn, MAX_ROWS + 1)
        names = caller_names(user.gateway, connection, (event.subject for event in found))
    cut = cut_page(found, turn, MAX_ROWS, lambda event: event.event_id)
    return user.page(
        "audit.html",
        "audit",
        names=names,
        events=cut.entries,
        filters=texts | {"outcome": OUTCOMES[0] if wanted is None else outcome},
        outcomes=OUTCOMES,
        links=links_of(cut, AUDIT, texts | {"outcome": None if wanted is None else outcome}),
    )


@router.get(PRODUCERS)
def producers(
    user: ConsoleUser, q: _LongText = "", key: _LongText = "", producer: _LongText = "", back: _LongText = ""
) -> Response:
    """List producers. A producer belongs to a key: only an administrator of all tables sees those of other keys."""
    user.require(Right.INGEST)
    administrator = user.principal(Right.ADMIN)
    sees_all = administrator is not None and administrator.oversees_every_table
    search, turn = q.strip(), ProducerTurn(key or None, producer, bool(back and key))
    owner = None if sees_all else user.credential.subject
    with translated_errors(), user.gateway.engine.begin() as connection:
        found = list_producers(connection, owner=owner, search=search, turn=turn, limit=MAX_ROWS + 1)
        names = caller_names(user.gateway, connection, (producer.principal for producer in found))
    shown = found[-MAX_ROWS:] if turn.backwards else found[:MAX_ROWS]
    return user.page(
        "producers.html",
        "producers",
        names=names,
        producers=shown,
        search=search,
        links=_around(shown, turn, search, is_more=len(found) > MAX_ROWS),
        sees_all=sees_all,
        receipt_days=user.gateway.settings.retention_days,
    )


def _around(shown: Sequence[ListedProducer], turn: ProducerTurn, search: str, *, is_more: bool) -> Links:
    """Return the links to the producers before and after those shown."""

    def beyond(edge: ListedProducer, back: str) -> str:
        return link(PRODUCERS, q=search, key=edge.principal, producer=edge.producer, back=back)

    has_before = is_more if turn.backwards else turn.principal is not None
    has_after = turn.backwards or is_more
    return Links(
        beyond(shown[0], "yes") if shown and has_before else None,
        beyond(shown[-1], "") if shown and has_after else None,
    )


DOCTOR: Final = "/console/doctor"

_ORDER: Final = (Outcome.UNSAFE, Outcome.WARNING, Outcome.OK)
_RETRY_SECONDS: Final = 5
_probing: Final = threading.Lock()


@router.get(DOCTOR)
def doctor(user: ConsoleUser) -> Response:
    """Show what the checks of Postgres and of this machine found."""
    user.require(Right.ADMIN, every_table=True)
    return _examined(user, with_zone=False)


@router.post(DOCTOR)
def probe(user: ConsoleUser, _: ConsoleForm) -> Response:
    """Examine the landing zone too. Raises TemporarilyUnavailable `overloaded` while another request does."""
    user.require(Right.ADMIN, every_table=True)
    if not _probing.acquire(blocking=False):
        raise TemporarilyUnavailable(
            Code.OVERLOADED,
            "the landing zone is being examined already",
            retry_after=_RETRY_SECONDS,
            remedy="Wait some seconds, then open the doctor again.",
        )
    try:
        return _examined(user, with_zone=True)
    finally:
        _probing.release()


def _examined(user: SignedIn, *, with_zone: bool) -> Response:
    # Imported here: an API process needs nothing of the landing zone until a user asks for it.
    from app.checks.preflight import examine, examine_machine
    from app.zone_settings import zone_address

    settings = user.gateway.settings
    address = zone_address(settings) if settings.landing_zone else None
    findings: list[Finding] = examine(
        address if with_zone else None,
        settings.require_database_url(),
        os.environ,
        mask_secret=user.gateway.ingest.mask_secret,
        is_api=True,
    )
    findings += examine_machine(settings)
    return user.page(
        "doctor.html",
        "doctor",
        findings=sorted(findings, key=lambda finding: _ORDER.index(finding.outcome)),
        troubles=sum(finding.outcome is not Outcome.OK for finding in findings),
        zone=None if address is None else address.location,
        is_zone_examined=with_zone,
    )
