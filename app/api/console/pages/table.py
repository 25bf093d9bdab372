"""The pages of one table, `/console/tables/{table}`: status, files, schema, rows, events, and the routes of its acts.

Reading needs the right `read` for the table, the events need `admin`, and an act needs the right in `ACTS`.
"""

import asyncio
from base64 import b64decode
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import msgspec
from fastapi import APIRouter, Response

from app.api.console.answers import FormFields, see_other
from app.api.console.pages.acts import ACTS, Act, buttons_of, last_rebuild, notice_of
from app.api.console.pages.visit import FRAGMENT, PATH, SeenTable, SubmissionDep, Visit, VisitDep, number_in
from app.api.operations.keys import caller_names
from app.console.overview import HOUR_MINUTES, Plot, hour_plots, notice_of_drop, table_attention
from app.console.render import Notice, table_path
from app.console.table import MAX_CELLS, MAX_COLUMNS, changes_of, grid, note_of, options_of
from app.domain.arrow import SchemaEvent, described_schemas
from app.domain.health.facts import HealthFacts
from app.domain.health.troubles import database_troubles, troubles
from app.domain.model.landing_file import file_name
from app.domain.model.names import TableName
from app.domain.model.table import BatchSequence, FileNumber
from app.domain.publication import ChainBlock
from app.staging.connection.database import Connection, read_snapshot, translated_errors
from app.staging.ledger.files import batches_of_file, find_file, newest_files, schema_events
from app.staging.ledger.reports import fabric_facts
from app.staging.loads import list_loads
from app.staging.overview import find_facts
from app.staging.retention.history import history
from app.staging.tables.events import newest_events
from app.staging.tables.schema_versions import newest_versions
from mirrorgate.errors import Code, RejectedInput, TemporarilyUnavailable

router = APIRouter()

MAX_LOADS: Final = 5
"""Load sessions that the status lists."""

MAX_ROWS: Final = 50
MAX_VERSIONS: Final = 50
"""Schema versions that the page of the schema lists."""

MAX_EVENTS: Final = 20
"""Schemas of the metadata chain that it lists, each with its columns."""

PAGE_COLUMNS: Final = 500
PAGE_EVENTS: Final = 50
PAGE_FILES: Final = 50
PAGE_BATCHES: Final = 200
NEWEST: Final = 2**63 - 1
"""Every id of an event and every file number is smaller."""

_STATUS: Final = "Status"
_FILES: Final = "Files"


@router.get(PATH)
def status(visit: VisitDep, done: str = "") -> Response:
    """Show the status of a table."""
    return _status_page(visit, notice_of(done))


@router.get(FRAGMENT)
def live_part(visit: VisitDep) -> Response:
    """Return the part of the status that changes all the time."""
    with translated_errors(), read_snapshot(visit.gateway.engine) as connection:
        seen = visit.seen(connection, _STATUS)
        live = _live_status(connection, visit, seen)
    return visit.page("table/status_live.html", seen.head, **live)


@router.get(FRAGMENT + "/plots")
def plots_part(visit: VisitDep) -> Response:
    """Return the plots of a table, which change once a minute."""
    with translated_errors(), read_snapshot(visit.gateway.engine) as connection:
        seen = visit.seen(connection, _STATUS)
        plots = _plots(connection, seen)
    return visit.page("plots.html", seen.head, plots=plots)


def _status_page(visit: Visit, notice: Notice | None) -> Response:
    """Return the status of a table, with a notice about an act."""
    with translated_errors(), read_snapshot(visit.gateway.engine) as connection:
        seen = visit.seen(connection, _STATUS)
        live, plots = _live_status(connection, visit, seen), _plots(connection, seen)
    return visit.page("table/status.html", seen.head, notice=notice, plots=plots, **live)


def _live_status(connection: Connection, visit: Visit, seen: SeenTable) -> dict[str, Any]:
    """Return the values of `status_live.html`: the table as it is now, and what the user can do."""
    [facts], backlog = find_facts(connection, [seen.table]), visit.gateway.ingest.backlog
    loads = list_loads(connection, seen.table)[:MAX_LOADS]
    is_open = bool(loads) and not loads[0].state.has_ended  # a load begins only after the one before it has ended
    share = 0.0 if backlog is None else backlog.share_of(seen.table)
    judged = troubles(HealthFacts(tables=[facts.summary], shares={facts.summary.life: share}))
    found = sorted([*database_troubles(fabric_facts(connection)), *judged], key=lambda trouble: trouble.severity)
    return {
        "facts": facts,
        "backlog_share": share,
        "state": seen.table.state.shown(is_failing=facts.failure is not None),
        "troubles": [*table_attention(found), *notice_of_drop(facts)],
        "acts": buttons_of(seen.table, facts.present_backfill) if seen.head.is_admin else [],
        "last": last_rebuild(connection, seen, facts.rebuild),
        "backfill": facts.present_backfill,
        "open_load": loads[0] if is_open else None,
        "ended_loads": loads[is_open:],
        "may_send": seen.may_send,
    }


def _plots(connection: Connection, seen: SeenTable) -> tuple[Plot, ...]:
    return hour_plots(history(connection, HOUR_MINUTES, seen.table.table_id), datetime.now(UTC))


@router.get(PATH + "/files")
def files(visit: VisitDep) -> Response:
    """Show a page of files, the newest first. Numbers have no gaps, so the addresses of other pages are computed."""
    with translated_errors(), visit.gateway.engine.begin() as connection:
        seen = visit.seen(connection, _FILES)
        life = (seen.table.table_id, seen.table.generation)
        before = FileNumber(visit.number("before", NEWEST))
        found = newest_files(connection, *life, before=before, limit=PAGE_FILES)
        newest = newest_files(connection, *life, before=FileNumber(NEWEST), limit=1)
    link = f"{seen.head.path}/files?before="
    is_newest = not found or found[0].number >= newest[0].number
    has_older = len(found) == PAGE_FILES and found[-1].number > 1
    return visit.page(
        "table/files.html",
        seen.head,
        files=found,
        newer=None if is_newest else f"{link}{found[0].number + PAGE_FILES + 1}",
        older=f"{link}{found[-1].number}" if has_older else None,
    )


@router.get(PATH + "/files/{number}")
def file(visit: VisitDep, done: str = "") -> Response:
    """Show one file with its batches."""
    return _file_page(visit, notice_of(done), after=visit.number("after", 0))


@router.post(PATH + "/files/{number}/repair")
def repair(sent: SubmissionDep) -> Response:
    """Write a published file again."""
    act, number = ACTS["repair"], sent.visit.number("number", 0)
    found = sent.attempt(act.call, act.right)
    if isinstance(found, Notice):
        return _file_page(sent.visit, found)
    return see_other(f"{table_path(sent.visit.table)}/files/{number}?done={act.name}")


def _file_page(visit: Visit, notice: Notice | None, *, after: int = 0) -> Response:
    """Return one file with a page of its batches. Raises RejectedInput `unknown_file`."""
    number = visit.number("number", 0)
    with translated_errors(), visit.gateway.engine.begin() as connection:
        seen = visit.seen(connection, _FILES)
        life = (seen.table.table_id, seen.table.generation)
        found = find_file(connection, *life, FileNumber(number))
        if found is None:
            raise RejectedInput(Code.UNKNOWN_FILE, f"generation {life[1]} has no file {number}, or no longer")
        batches = batches_of_file(connection, *life, found, after=BatchSequence(after), limit=PAGE_BATCHES)
    link = f"{seen.head.path}/files/{number}"
    has_more = bool(batches) and batches[-1].sequence < found.last_sequence
    return visit.page(
        "table/file.html",
        seen.head,
        notice=notice,
        file=found,
        file_name=file_name(found.number),
        batches=batches,
        batches_total=found.last_sequence - found.first_sequence + 1,
        beginning=link if batches and batches[0].sequence > found.first_sequence else None,
        following=f"{link}?after={batches[-1].sequence}" if has_more else None,
        can_repair=seen.head.is_admin and found.state == "published" and not found.repair_requested,
    )


@router.get(PATH + "/schema")
def schema(visit: VisitDep) -> Response:
    """Show a page of columns, the options, and the schema versions, the newest first."""
    with translated_errors(), visit.gateway.engine.begin() as connection:
        seen = visit.seen(connection, "Schema")
        versions = newest_versions(connection, seen.table.table_id, limit=MAX_VERSIONS + 1)
        events = schema_events(connection, seen.table.table_id, seen.table.generation, limit=MAX_EVENTS + 1)
    table, total = seen.table, len(seen.table.schema.columns)
    last = max(1, -(-total // PAGE_COLUMNS))
    number = min(max(visit.number("page", 1), 1), last)
    start, link = (number - 1) * PAGE_COLUMNS, f"{seen.head.path}/schema?page="
    pairs = [*zip(versions, [*versions[1:], None], strict=True)]
    return visit.page(
        "table/schema.html",
        seen.head,
        columns=[
            (column, note_of(column.name, table)) for column in table.schema.columns[start : start + PAGE_COLUMNS]
        ],
        keys={name: place for place, name in enumerate(table.schema.key_columns, start=1)},
        first=start + 1,
        total=total,
        previous=f"{link}{number - 1}" if number > 1 else None,
        following=f"{link}{number + 1}" if number < last else None,
        options=options_of(table),
        versions=[(stored, changes_of(stored, before)) for stored, before in pairs[:MAX_VERSIONS]],
        events=_described(events),
        current=(table.generation, table.schema_version),
    )


def _described(events: Sequence[ChainBlock]) -> list[tuple[ChainBlock, SchemaEvent]]:
    """Return the newest events of the chain that set a schema, each with its columns and what it changed."""
    ordered = [*reversed(events)]
    schemas = [b64decode(block.event["schema"]) for block in ordered]
    described = [*zip(ordered, described_schemas(schemas), strict=True)]
    return [*reversed(described)][:MAX_EVENTS]


@router.get(PATH + "/rows")
async def rows(visit: VisitDep, version: str = "") -> Response:
    """Show some rows of the mirrored table, of its newest version or of the one that is asked for."""
    seen = await asyncio.to_thread(_seen_rows, visit)
    asked, reader = version.strip()[:20], visit.gateway.mirror_rows
    wanted = number_in(asked, -1)
    notice, shown, found = None, None, None
    if reader is not None:
        columns = min(len(seen.table.schema.columns), MAX_COLUMNS)
        limit = max(1, min(MAX_ROWS, MAX_CELLS // max(1, columns)))
        try:
            found = await reader.read(seen.table.name, None if wanted < 0 else wanted, limit)
        except (RejectedInput, TemporarilyUnavailable) as error:
            notice = visit.user.rejected(error)
        else:
            values = [msgspec.json.decode(row) for row in found.rows]
            caption = f"Rows of version {found.version:,}"
            shown = grid(caption, [name for name, _ in found.columns], values, len(values))
    return visit.page(
        "table/rows.html",
        seen.head,
        notice=notice,
        is_possible=reader is not None,
        asked=asked,
        found=found,
        grid=shown,
    )


def _seen_rows(visit: Visit) -> SeenTable:
    with translated_errors(), visit.gateway.engine.begin() as connection:
        return visit.seen(connection, "Rows")


@router.get(PATH + "/events")
def events(visit: VisitDep, done: str = "") -> Response:
    """Show a page of what operators and the drain did to the tables of a name, dropped ones included, newest first."""
    start = visit.number("before", NEWEST)
    with translated_errors(), visit.gateway.engine.begin() as connection:
        head = visit.head_of_name(connection, "Events")
        found = newest_events(connection, TableName.parse(head.name), before=start, limit=PAGE_EVENTS)
        names = caller_names(visit.gateway, connection, (event.actor for event in found))
    link = f"{head.path}/events"
    return visit.page(
        "table/events.html",
        head,
        notice=notice_of(done),
        names=names,
        events=found,
        newest=None if start == NEWEST else link,
        older=f"{link}?before={found[-1].event_id}" if len(found) == PAGE_EVENTS else None,
    )


def _ask(act: Act, visit: VisitDep) -> Response:
    """Show what follows from an act, and ask."""
    try:
        return _question_page(act, visit)
    except RejectedInput as error:
        if error.code is not Code.LOAD_ENDED:
            raise
        return _status_page(visit, visit.user.rejected(error))


def _submit(act: Act, sent: SubmissionDep) -> Response:
    """Act, and go to the page of the table, which says what was done; show an error above the question, if any."""
    found = sent.attempt(act.call, act.right)
    if not isinstance(found, Notice):
        return see_other(table_path(sent.visit.table) + act.shows + (f"?done={act.name}" if found else ""))
    if act.question is not None and act.question.is_repeated:
        return _question_page(act, sent.visit, sent.form, found)
    return _status_page(sent.visit, found)


def _question_page(act: Act, visit: Visit, form: FormFields | None = None, notice: Notice | None = None) -> Response:
    """Return the page that asks before an act, with what was typed in before."""
    assert act.question is not None
    with translated_errors(), visit.gateway.engine.begin() as connection:
        seen = visit.seen(connection, right=act.right)
        asked = act.question.ask(connection, seen, visit)
    return visit.page(
        "table/confirm.html",
        seen.head,
        notice=notice,
        question=act.question,
        asked=asked,
        action=f"{seen.head.path}/{act.address.format_map(visit.user.request.path_params)}",
        reason="" if form is None else form.raw("reason"),
        rewrites_marker=form is not None and form.optional("rewrite_marker") is not None,
    )


for _act in ACTS.values():
    if _act.name != "repair":
        router.add_api_route(f"{PATH}/{_act.address}", partial(_submit, _act), methods=["POST"], name=_act.name)
    if _act.question is not None:
        router.add_api_route(f"{PATH}/{_act.address}", partial(_ask, _act), methods=["GET"], name=f"ask_{_act.name}")
