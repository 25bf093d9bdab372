"""The rebuild of a table: the form of its plan, how far it is or what came of it, and the page that asks before it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from app.console import text
from app.console.views.notice import NoticeView
from app.console.views.table.head import FRAGMENTS, TableHead
from app.console.views.table.operations import ConfirmView
from app.console.views.table.plan_fields import PlanFields
from app.domain.model.table import Table
from app.domain.model.table_schema import Column
from app.domain.rebuild.plan import RebuildPhase
from app.errors import Code
from app.staging.rebuild.progress import Rebuild
from app.staging.tables.status import TableCounts

MAX_LISTED_COLUMNS: Final = 200
"""Present columns that the page of the plan lists."""

_WHY: Final[Mapping[Code, str]] = {
    Code.BAD_VALUE: "values that are not of the new type",
    Code.NULL_VALUE: "no value in a required column",
    Code.NULL_KEY: "no value in a key column",
    Code.KEY_IN_USE: "the key of an earlier row",
}


@dataclass(frozen=True, slots=True)
class FindingView:
    """Rows that do not fit the plan."""

    column: str | None
    """None for the key as a whole."""
    code: Code
    why: str
    rows: int
    first_row: int


@dataclass(frozen=True, slots=True)
class RebuildView:
    """The last rebuild of a table, or the last dry run of one."""

    rebuild: Rebuild
    title: str
    text: str
    is_running: bool
    """True while a drain reads the row images."""
    share: float | None
    """How much of them it has read; None until they are counted."""
    findings: tuple[FindingView, ...]
    plan: PlanFields | None
    """What changes; None for a plan that ended with its generation."""
    ask: str | None
    """The address of the page that asks before the checked plan is carried out, if the user may and it fits."""


@dataclass(frozen=True, slots=True)
class RebuildPageView:
    """The page of the plan, with the progress of the last one."""

    head: TableHead
    live: RebuildView | None
    refresh: str
    fields: PlanFields | None
    """What the form begins with; None while the table is being rebuilt, checked or dropped, and takes no plan."""
    columns: tuple[Column, ...]
    """The first present columns."""
    column_count: int
    notice: NoticeView | None = None


def rebuild_view(
    head: TableHead, table: Table, rebuild: Rebuild | None, *, is_planned: bool, is_admin: bool
) -> RebuildView | None:
    """Return the last rebuild; None if there is none, or if the table has begun another generation since.

    `is_planned` tells whether the table still has the columns and options of the plan.
    """
    if rebuild is None:
        return None
    is_present = rebuild.generation == table.generation
    if not is_present and rebuild.next_generation != table.generation:
        return None
    is_dry_run = rebuild.phase in {RebuildPhase.CHECKING, RebuildPhase.CHECKED}
    return RebuildView(
        rebuild=rebuild,
        title="Dry run of a rebuild" if is_dry_run else "Rebuild",
        text=_text(rebuild, is_planned=is_planned),
        is_running=rebuild.phase.is_due,
        share=rebuild.rows_done / rebuild.rows_total if rebuild.rows_total else None,
        findings=tuple(
            FindingView(found.column, found.code, _WHY.get(found.code, found.code), found.rows, found.first_row)
            for found in rebuild.findings
        ),
        plan=PlanFields.of(rebuild.plan, table.schema) if is_present else None,
        ask=confirm_path(head) if rebuild.fits and is_planned and is_admin else None,
    )


def rebuild_page(
    head: TableHead,
    table: Table,
    live: RebuildView | None,
    *,
    typed: PlanFields | None = None,
    notice: NoticeView | None = None,
) -> RebuildPageView:
    """Return the page of the plan. The form has what was typed in, or the last plan."""
    fields = typed or (live.plan if live is not None else None) or PlanFields()
    return RebuildPageView(
        head=head,
        live=live,
        refresh=FRAGMENTS + head.path.removeprefix("/console") + "/rebuild",
        fields=None if table.rebuild_due or table.state.deletes_folder else fields,
        columns=table.schema.columns[:MAX_LISTED_COLUMNS],
        column_count=len(table.schema.columns),
        notice=notice,
    )


def confirm_path(head: TableHead) -> str:
    """Return the address of the page that asks before a table is rebuilt."""
    return f"{head.path}/rebuild/confirm"


def confirm_rebuild(
    head: TableHead, table: Table, rebuild: Rebuild, counts: TableCounts, *, notice: NoticeView | None = None
) -> ConfirmView:
    """Return the page that asks before a table is rebuilt by the checked plan."""
    return ConfirmView(
        head=head,
        title=f"Rebuild {head.name}",
        question="Rebuild this table?",
        button="Rebuild the table",
        path=confirm_path(head),
        consequences=tuple(_consequences(table, rebuild, counts)),
        is_danger=True,
        hidden={"plan": rebuild.fingerprint},
        plan=PlanFields.of(rebuild.plan, table.schema),
        notice=notice,
    )


def _consequences(table: Table, rebuild: Rebuild, counts: TableCounts) -> Iterator[str]:
    """Yield what happens, in the order in which it happens."""
    yield (
        f"A drain copies {text.amount(rebuild.rows_total or 0, 'row image')} into generation {rebuild.next_generation},"
        f" by the plan of the dry run. That takes about {text.duration(rebuild.estimated_seconds)}."
    )
    yield "Meanwhile changes are accepted and published as before. If a row does not fit, nothing else changes."
    yield (
        f"Then the drain deletes the landing folder `{table.name.folder}` with "
        f"{text.amount(counts.published_files, 'file')}, and publishes the copied rows from file 1 on."
    )
    yield "From then on changes are accepted by the new columns and keys; they wait behind the copied rows."
    yield "A rebuild cannot be canceled."


def _text(rebuild: Rebuild, *, is_planned: bool) -> str:
    images = text.amount(rebuild.rows_done, "row image")
    match rebuild.phase:
        case RebuildPhase.CHECKING:
            return "A drain reads the row images and finds out what would not fit. Nothing changes."
        case RebuildPhase.CHECKED if rebuild.findings:
            return "A rebuild by this plan would be refused. Correct the rows at their source, or change the plan."
        case RebuildPhase.CHECKED if not is_planned:
            return "The columns or options of the table have changed since. Check the plan again."
        case RebuildPhase.CHECKED:
            return f"The plan fits {images}. Copying takes about {text.duration(rebuild.estimated_seconds)}."
        case RebuildPhase.COPYING:
            return (
                f"A drain copies the row images into generation {rebuild.next_generation}. Changes are accepted by the "
                "present columns."
            )
        case RebuildPhase.REPLACING:
            return (
                f"The rows of {images} are copied. The drain deletes the former landing folder; then it publishes them,"
                " and behind them the changes that are accepted now."
            )
        case RebuildPhase.DONE:
            return f"Generation {rebuild.next_generation} has the rows of {images}, and all changes since."
        case RebuildPhase.FAILED:
            return "The table was not rebuilt. Nothing changed."
