"""The status of a table: what is wrong with it, the counts at each stage, its lag, Fabric and the Delta mirror."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from app.console import text
from app.console.views.attention import Trouble, of_database
from app.console.views.notice import NoticeView
from app.console.views.overview import PlotsView
from app.console.views.table.head import FRAGMENTS, TableHead
from app.console.views.table.loads import LoadsView
from app.console.views.table.operations import ButtonView
from app.console.views.table.rebuild import RebuildView
from app.domain.fabric.remedies import remedy_for
from app.domain.fabric.trouble import FabricTrouble
from app.domain.model.drop_plan import DropAction
from app.domain.model.landing_file import file_name
from app.domain.model.table import FileNumber, TableState
from app.domain.preflight.judgements import BACKLOG_REMEDY, NEAR_LIMIT, remedy_in
from app.staging.images.backfill.progress import Backfill
from app.staging.overview.table_facts import TableFacts

_AFTER_DROP: Final = {
    DropAction.DROP: "then the table is gone.",
    DropAction.RECREATE: "then its next generation begins, empty.",
    DropAction.RENAME: "then it begins again under its new name.",
    DropAction.REBUILD: "then the rebuilt rows are published, and behind them the changes that are accepted now.",
}


@dataclass(frozen=True, slots=True)
class StageView:
    """How much of the table has reached a stage; None where the stage does not count it."""

    label: str
    note: str
    batches: int | None
    changes: int | None
    rows: int | None
    files: int | None


@dataclass(frozen=True, slots=True)
class GatewayConditions:
    """Conditions outside the table: the mirrored database and the backlog limit."""

    database: FabricTrouble | None
    """What is wrong with the mirrored database as a whole."""
    backlog_share: float
    """How much of the backlog's limit the table takes."""


@dataclass(frozen=True, slots=True)
class StatusView:
    """The part of the page that changes all the time."""

    head: TableHead
    facts: TableFacts
    backlog_share: float
    state: str
    """The state in one word, `failing` for an active table whose publication fails."""
    refresh: str
    troubles: tuple[Trouble, ...]
    stages: tuple[StageView, ...]
    last_file: str | None
    buttons: tuple[ButtonView, ...]
    rebuild: RebuildView | None
    backfill: Backfill | None
    loads: LoadsView | None
    letters: str
    """The address of the table's dead letters."""
    test: str | None
    """The address that tests a message for the table, if the user may send changes."""


@dataclass(frozen=True, slots=True)
class StatusPageView:
    """The whole page: its parts are refreshed separately."""

    head: TableHead
    live: StatusView
    plots: PlotsView
    refresh_plots: str
    notice: NoticeView | None = None


def status_of(
    head: TableHead,
    facts: TableFacts,
    conditions: GatewayConditions,
    rebuild: RebuildView | None,
    loads: LoadsView | None,
    buttons: tuple[ButtonView, ...],
    *,
    may_send: bool,
) -> StatusView:
    """Return the status of a table, with what the user can do."""
    counts = facts.counts
    return StatusView(
        head=head,
        facts=facts,
        backlog_share=conditions.backlog_share,
        state=facts.table.state.shown(is_failing=facts.failure is not None),
        refresh=fragment_of(head),
        troubles=tuple(_troubles(facts, conditions)),
        stages=_stages(facts),
        last_file=file_name(FileNumber(counts.last_file)) if counts.last_file else None,
        buttons=buttons,
        rebuild=rebuild,
        backfill=facts.present_backfill,
        loads=loads,
        letters=f"/console/dead-letters?table={quote(head.name, safe='')}",
        test=f"/console/try?table={quote(head.name, safe='')}" if may_send else None,
    )


def fragment_of(head: TableHead) -> str:
    """Return the address of the refreshed part of a table's page."""
    return FRAGMENTS + head.path.removeprefix("/console")


def _stages(facts: TableFacts) -> tuple[StageView, ...]:
    counts, fabric = facts.counts, facts.fabric
    return (
        StageView(
            "Accepted",
            "acknowledged to senders",
            counts.last_sequence,
            counts.accepted_changes,
            counts.accepted_rows,
            None,
        ),
        StageView("Staged", "in Postgres", counts.staged_batches, counts.staged_changes, counts.staged_rows, None),
        StageView(
            "Published",
            "in the landing zone",
            counts.published_batches,
            counts.published_changes,
            counts.published_rows,
            counts.published_files,
        ),
        StageView(
            "Processed",
            "by Fabric" if fabric is not None else "Fabric reported nothing",
            None,
            None,
            None if fabric is None else fabric.processed_rows,
            None,
        ),
    )


def _troubles(facts: TableFacts, conditions: GatewayConditions) -> Iterator[Trouble]:
    """Yield what is wrong, what stops the table first."""
    table, counts, failure = facts.table, facts.counts, facts.failure
    if table.state is TableState.QUARANTINED:
        why = counts.state_reason or "The table was stopped."
        title, since = "Nothing is published until you release it", counts.quarantined_at
        yield Trouble("bad", "quarantined", title, why, remedy_in(why), since=since)
    if failure is not None:
        why = f"{failure.code}: {failure.detail} ({failure.tries} tries in a row)"
        yield Trouble("bad", "failing", "Publication fails", why, failure.remedy, since=failure.since)
    if table.state.deletes_folder and table.drop_plan is not None:
        waits = f" Now it waits: {counts.state_reason}" if counts.state_reason else ""
        why = f"The drain deletes the landing folder, {_AFTER_DROP[table.drop_plan.action]}{waits}"
        what = "rebuilt" if table.state is TableState.REBUILDING else "dropped"
        yield Trouble("warn", table.state, f"The table is being {what}", why, "")
    yield from of_database(conditions.database)
    if facts.fabric is not None and (facts.fabric.error or facts.fabric.has_failed):
        why = facts.fabric.error or facts.fabric.state or ""
        remedy = remedy_for(facts.fabric.whose or "unknown")
        yield Trouble("bad", "Fabric error", "Fabric cannot mirror the table", why, remedy)
    if facts.mirror is not None and facts.mirror.code is not None:
        why = f"{facts.mirror.code}: {facts.mirror.detail or ''}"
        yield Trouble("warn", facts.mirror.state, "The Delta mirror waits", why, facts.mirror.remedy or "")
    if conditions.backlog_share >= NEAR_LIMIT:
        why = f"The table has {text.percent(conditions.backlog_share)} of what may wait."
        yield Trouble(
            "bad" if conditions.backlog_share >= 1 else "warn",
            "backlog",
            "The backlog is nearly full",
            why,
            BACKLOG_REMEDY,
        )
