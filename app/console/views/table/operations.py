"""What an administrator can do with a table: buttons, the consequences of what cannot be undone, and what was done."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from app.console import text
from app.console.views.notice import NoticeView
from app.console.views.table.head import TableHead
from app.console.views.table.plan_fields import PlanFields
from app.domain.model.table import Table, TableState
from app.staging.images.backfill.progress import Backfill, BackfillState, BackfillStep
from app.staging.tables.status import TableCounts


class Action(StrEnum):
    """An action on a table; the value is the last part of its address."""

    PAUSE = "pause"
    RESUME = "resume"
    FLUSH = "flush"
    REPAIR = "repair"
    ABORT = "abort"
    RELEASE = "release"
    BACKFILL = "backfill"
    CANCEL_BACKFILL = "backfill/cancel"
    REBUILD = "rebuild"
    RECREATE = "recreate"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Wording:
    """The words for an action."""

    label: str
    done: str
    """The title of the notice after it."""
    then: str
    """What happens now that it is done."""


WORDINGS: Final[Mapping[Action, Wording]] = {
    Action.PAUSE: Wording(
        "Pause", "The table is paused.", "Nothing of it is published until you resume it. Changes are still accepted."
    ),
    Action.RESUME: Wording("Resume", "The table is active again.", "The drain publishes what has waited."),
    Action.FLUSH: Wording(
        "Flush", "A flush is asked for.", "The drain publishes what is accepted so far without waiting for a full file."
    ),
    Action.REPAIR: Wording(
        "Write the file again", "A repair is asked for.", "The drain writes the file again, with the same rows."
    ),
    Action.ABORT: Wording("Abort", "The load session is aborted.", "What it landed stays. Another load can begin."),
    Action.RELEASE: Wording(
        "Release",
        "The table is released.",
        "The drain compares folder and ledger again, and publishes what has waited.",
    ),
    Action.BACKFILL: Wording(
        "Backfill row images",
        "A drain will backfill the row images.",
        "It gives a row image to each row that lacks one.",
    ),
    Action.CANCEL_BACKFILL: Wording(
        "Cancel the backfill", "The backfill is cancelled.", "What it has written stays. The next one continues there."
    ),
    Action.REBUILD: Wording(
        "Rebuild", "The table is being rebuilt.", "A drain copies its rows. Changes are accepted all the time."
    ),
    Action.RECREATE: Wording(
        "Recreate", "The table is being recreated.", "The drain deletes its folder; then the next generation begins."
    ),
    Action.DROP: Wording(
        "Drop", "The table is being dropped.", "The drain deletes its folder; then the table is gone."
    ),
}

_NOT_DROPPING: Final = frozenset({TableState.ACTIVE, TableState.PAUSED, TableState.QUARANTINED})
_OPEN_TO: Final[Mapping[Action, frozenset[TableState]]] = {
    Action.RELEASE: frozenset({TableState.QUARANTINED}),
    Action.RESUME: frozenset({TableState.PAUSED}),
    Action.PAUSE: frozenset({TableState.ACTIVE}),
    Action.FLUSH: frozenset({TableState.ACTIVE}),
    Action.BACKFILL: _NOT_DROPPING,
    Action.CANCEL_BACKFILL: frozenset(TableState),
    Action.REBUILD: _NOT_DROPPING,
    Action.RECREATE: _NOT_DROPPING,
    Action.DROP: _NOT_DROPPING,
}
"""The states in which the page offers an action, in the order of the buttons."""

CONFIRMED: Final = frozenset({Action.RELEASE, Action.BACKFILL, Action.REBUILD, Action.RECREATE, Action.DROP})
"""Actions with pages of their own, which show the consequences and ask for the generation."""


@dataclass(frozen=True, slots=True)
class ButtonView:
    """An action that the page offers: a form of one button, or a link to the page that asks."""

    label: str
    path: str
    is_asked: bool
    is_danger: bool


@dataclass(frozen=True, slots=True)
class ConfirmView:
    """The page that asks before an action."""

    head: TableHead
    title: str
    question: str
    button: str
    path: str
    consequences: tuple[str, ...]
    is_danger: bool
    hidden: Mapping[str, str] = field(default_factory=dict)
    """Fields of the form that the page does not show."""
    plan: PlanFields | None = None
    """The plan of a rebuild."""
    asks_generation: bool = True
    asks_reason: bool = False
    reason: str = ""
    """What was typed in before."""
    rewrites_marker: bool = False
    notice: NoticeView | None = None


def buttons_of(head: TableHead, table: Table, backfill: Backfill | None) -> tuple[ButtonView, ...]:
    """Return the actions that make sense in the table's state, and for its last backfill of row images."""
    is_running = backfill is not None and backfill.state is BackfillState.RUNNING
    conditions = {
        Action.REBUILD: table.can_land_again,
        Action.BACKFILL: table.options.keeps_images and not table.images_complete and not table.backfill_due,
        Action.CANCEL_BACKFILL: is_running,
    }
    return tuple(
        ButtonView(
            WORDINGS[action].label,
            f"{head.path}/{action}",
            action in CONFIRMED,
            action in (Action.RECREATE, Action.DROP),
        )
        for action, states in _OPEN_TO.items()
        if table.state in states and conditions.get(action, True)
    )


def notice_of(done: str) -> NoticeView | None:
    """Return what an action did, by its name in the address of the page."""
    if done not in Action._value2member_map_:
        return None
    wording = WORDINGS[Action(done)]
    return NoticeView("good", wording.done, wording.then)


def confirm(
    head: TableHead,
    action: Action,
    table: Table,
    counts: TableCounts,
    *,
    reason: str = "",
    rewrites_marker: bool = False,
    notice: NoticeView | None = None,
) -> ConfirmView:
    """Return the page that asks before the table is released, recreated or dropped."""
    label = WORDINGS[action].label
    return ConfirmView(
        head=head,
        title=f"{label} {head.name}",
        question=f"{label} this table?",
        button=f"{label} the table",
        path=f"{head.path}/{action}",
        consequences=tuple(_release(counts) if action is Action.RELEASE else _drop_plan(action, table, counts)),
        is_danger=action is not Action.RELEASE,
        asks_reason=action is Action.RELEASE,
        reason=reason,
        rewrites_marker=rewrites_marker,
        notice=notice,
    )


def confirm_backfill(
    head: TableHead, table: Table, backfill: Backfill | None, *, notice: NoticeView | None = None
) -> ConfirmView:
    """Return the page that asks before rows get row images."""
    return ConfirmView(
        head=head,
        title=f"Backfill the row images of {head.name}",
        question="Give a row image to each row?",
        button="Begin the backfill",
        path=f"{head.path}/{Action.BACKFILL}",
        consequences=tuple(_backfill(table, backfill)),
        is_danger=False,
        notice=notice,
    )


def _backfill(table: Table, backfill: Backfill | None) -> Iterator[str]:
    if backfill is not None and backfill.rows_done:
        yield f"A backfill has read {text.amount(backfill.rows_done, 'row')}. The drain continues it if it can."
    if backfill is not None and backfill.state is BackfillState.RUNNING and not backfill.by_drain:
        yield "A command carries it out, or has died: it stops at its next step, and the drain continues there."
    if backfill is not None and backfill.step is BackfillStep.MIRROR and backfill.state is not BackfillState.FAILED:
        yield (
            "It copies a version of the Delta mirror. The drain can continue the copy only if its "
            "MIRRORGATE_MIRROR_TARGET names that mirror; without that setting the backfill fails, and the next one "
            "copies from the first row."
        )
    yield (
        "The drain reads the staged payloads from the first batch on. If some are purged, it reads the rows of the "
        "Delta mirror that MIRRORGATE_MIRROR_TARGET of the drain names, and the payloads behind them."
    )
    yield "Meanwhile changes are accepted and published as before."
    yield (
        f"When each row of {table.name} has an image, the table can be rebuilt, exported and compared with its source. "
        "You can cancel the backfill at any time."
    )


def _release(counts: TableCounts) -> Iterator[str]:
    if counts.state_reason:
        yield f"The table was stopped because of {counts.state_reason}"
    yield (
        "The drain compares the folder with the ledger again. If the cause is still there, it stops the table again, "
        "and nothing is lost."
    )
    yield f"Otherwise it publishes what waits: {_batches(counts)}."


def _drop_plan(action: Action, table: Table, counts: TableCounts) -> Iterator[str]:
    """Yield what happens, in the order in which it happens."""
    yield "From now on the gateway rejects changes for the table."
    yield (
        f"The drain deletes the landing folder `{table.name.folder}` with "
        f"{text.amount(counts.published_files, 'file')} of {text.amount(counts.published_rows, 'row')}."
    )
    if counts.pending_batches:
        yield f"{_batches(counts)} that are accepted and not published are discarded."
    if counts.waiting_letters:
        yield f"{text.amount(counts.waiting_letters, 'dead letter')} can be read, but no longer replayed."
    if action is Action.DROP:
        yield "Then the table is gone, and its name can be registered again. Its events stay."
    else:
        yield (
            f"Then generation {table.generation + 1} begins, empty, with the same columns, keys and options. Its files "
            "begin at number 1, and the source has to load its rows again."
        )
    yield "This cannot be undone."


def _batches(counts: TableCounts) -> str:
    return f"{text.amount(counts.pending_batches, 'batch', 'batches')} with {text.amount(counts.pending_rows, 'row')}"
