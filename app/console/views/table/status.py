"""The status of a table: what is wrong with it, the counts at each stage, its lag, Fabric and the Delta mirror."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from app.console.views.attention import TroubleView, table_attention
from app.console.views.notice import NoticeView
from app.console.views.overview import PlotsView
from app.console.views.table.head import FRAGMENTS, TableHead
from app.console.views.table.loads import LoadsView
from app.console.views.table.operations import ButtonView
from app.console.views.table.rebuild import RebuildView
from app.domain.fabric.trouble import FabricFacts
from app.domain.health.facts import HealthFacts
from app.domain.health.troubles import database_troubles, troubles
from app.domain.model.drop_plan import DropAction
from app.domain.model.landing_file import file_name
from app.domain.model.table import FileNumber, TableState
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
class StatusView:
    """The part of the page that changes all the time."""

    head: TableHead
    facts: TableFacts
    backlog_share: float
    state: str
    """The state in one word, `failing` for an active table whose publication fails."""
    refresh: str
    troubles: tuple[TroubleView, ...]
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
    fabric: FabricFacts | None,
    backlog_share: float,
    rebuild: RebuildView | None,
    loads: LoadsView | None,
    buttons: tuple[ButtonView, ...],
    *,
    may_send: bool,
) -> StatusView:
    """Return the status of a table, with what the user can do.

    `fabric` is about the mirrored database, and the share is that of the table's backlog of its limit.
    """
    counts, summary = facts.counts, facts.summary
    judged = troubles(HealthFacts(tables=[summary], shares={summary.life: backlog_share}))
    found = sorted([*database_troubles(fabric), *judged], key=lambda trouble: trouble.severity)
    return StatusView(
        head=head,
        facts=facts,
        backlog_share=backlog_share,
        state=facts.table.state.shown(is_failing=facts.failure is not None),
        refresh=fragment_of(head),
        troubles=(*table_attention(found), *_notice_of_drop(facts)),
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


def _notice_of_drop(facts: TableFacts) -> Iterator[TroubleView]:
    """Yield what the drain does with a table that is being dropped or rebuilt."""
    table, reason = facts.table, facts.counts.state_reason
    if table.state.deletes_folder and table.drop_plan is not None:
        waits = f" Now it waits: {reason}" if reason else ""
        why = f"The drain deletes the landing folder, {_AFTER_DROP[table.drop_plan.action]}{waits}"
        what = "rebuilt" if table.state is TableState.REBUILDING else "dropped"
        yield TroubleView("warn", table.state, f"The table is being {what}", why, "")
