"""The actions of a user on a table, and the plan of a rebuild.

`Act` is an entry of the table of actions, `ACTS`: words, right, states, the question before it, and the call. Each act
calls the function that the API's route calls, so that rights, locks and events are the same. An act with a question has
its own page, which shows the consequences and asks for the generation; the others are a form of one button.
`app.api.console.pages.table` has the routes.

`plan` shows the form of a rebuild's plan, `check` begins the dry run that checks it, and `last_rebuild` returns how far
the last rebuild is. The drain reads the rows, and the gateway stores the plan. The form that carries the plan out has
the fingerprint of the plan that its page shows, so that no other plan is carried out.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from fastapi import APIRouter, Response

from app.api.console.answers import see_other
from app.api.console.pages.visit import FRAGMENT, PATH, SeenTable, Submission, SubmissionDep, Visit, VisitDep
from app.api.operations.table_operations import LoadOperation
from app.console.render import Notice, table_path
from app.console.table import PlanFields, progress_text
from app.domain.access.rights import Right
from app.domain.loads import LoadId, LoadState, ended, unknown_load
from app.domain.model.table import Table, TableState
from app.staging.connection.database import Connection, translated_errors
from app.staging.images import Backfill, BackfillState, find_backfill
from app.staging.rebuild.progress import Rebuild, find_rebuild, is_planned_for
from app.staging.tables.status import TableCounts, count_tables
from mirrorgate import text
from mirrorgate.errors import Code, RejectedInput

router = APIRouter()

MAX_LISTED_COLUMNS: Final = 200
"""Present columns that the page of the plan lists."""


class LastRebuild(NamedTuple):
    """The last rebuild of a table, or the last dry run of one."""

    rebuild: Rebuild
    text: str
    plan: PlanFields | None
    """Changes of the plan; None for a plan that ended with its generation."""
    can_begin: bool
    """True if the user may have the checked plan carried out."""


@router.get(PATH + "/rebuild")
def plan(visit: VisitDep) -> Response:
    """Show the form of a plan, and how far the last rebuild or dry run is."""
    return _plan_page(visit)


@router.get(FRAGMENT + "/rebuild")
def live_part(visit: VisitDep) -> Response:
    """Return the part of the page that changes while a drain reads rows."""
    with translated_errors(), visit.gateway.engine.begin() as connection:
        seen = visit.seen(connection)
        last = last_rebuild(connection, seen, find_rebuild(connection, seen.table.table_id))
    if last is None:
        raise RejectedInput(Code.NOT_FOUND, "the table has no rebuild")
    return visit.page("table/rebuild_live.html", seen.head, last=last)


@router.post(PATH + "/rebuild")
def check(sent: SubmissionDep) -> Response:
    """Begin the dry run of a plan, which the page then shows."""
    form = sent.form
    typed = PlanFields(form.raw("keys"), form.raw("types"), form.raw("renames"), form.raw("dropped"))
    found = sent.attempt(lambda sent: sent.operation.rebuild(typed.columns, typed.key_columns, dry_run=True))
    if isinstance(found, Notice):
        return _plan_page(sent.visit, typed, found)
    return see_other(f"{table_path(sent.visit.table)}/rebuild")


def last_rebuild(connection: Connection, seen: SeenTable, rebuild: Rebuild | None) -> LastRebuild | None:
    """Return the last rebuild; None if there is none, or if the table has begun another generation since."""
    table = seen.table
    if rebuild is None or table.generation not in (rebuild.generation, rebuild.next_generation):
        return None
    is_planned = is_planned_for(connection, rebuild, table)
    return LastRebuild(
        rebuild,
        progress_text(rebuild, is_planned=is_planned),
        PlanFields.of(rebuild.plan, table.schema) if rebuild.generation == table.generation else None,
        rebuild.fits and is_planned and seen.head.is_admin,
    )


def checked_rebuild(connection: Connection, seen: SeenTable) -> Rebuild:
    """Return the dry run whose plan can be carried out. Raises RejectedInput `wrong_table_state` if there is none."""
    last = last_rebuild(connection, seen, find_rebuild(connection, seen.table.table_id))
    if last is None or not last.can_begin:
        detail = f"table {seen.table.name} has no dry run whose plan fits"
        remedy = "Check a plan on the page of the table first."
        raise RejectedInput(Code.WRONG_TABLE_STATE, detail, remedy=remedy)
    return last.rebuild


def _plan_page(visit: Visit, typed: PlanFields | None = None, notice: Notice | None = None) -> Response:
    """Return the page of the plan. The form has what was typed in, or the last plan.

    There is no form while the table is being rebuilt, checked or dropped: it accepts no plan then.
    """
    with translated_errors(), visit.gateway.engine.begin() as connection:
        seen = visit.seen(connection, right=Right.ADMIN)
        last = last_rebuild(connection, seen, find_rebuild(connection, seen.table.table_id))
    table = seen.table
    fields = typed or (last.plan if last is not None else None) or PlanFields()
    return visit.page(
        "table/rebuild.html",
        seen.head,
        notice=notice,
        last=last,
        fields=None if table.rebuild_due or table.state.deletes_folder else fields,
        columns=table.schema.columns[:MAX_LISTED_COLUMNS],
        column_count=len(table.schema.columns),
    )


MAX_REASON_CHARACTERS: Final = 1000

_NOT_DROPPING: Final = frozenset({TableState.ACTIVE, TableState.PAUSED, TableState.QUARANTINED})


class QuestionContent(NamedTuple):
    """The content of a question's page, and the plan of a rebuild, whose fingerprint the form sends back."""

    consequences: Sequence[str]
    """Consequences in the order in which they happen."""
    plan: PlanFields | None = None
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """The page that asks before an act."""

    title: str
    """The title with `{}` for the name of the table."""
    words: str
    button: str
    ask: Callable[[Connection, SeenTable, Visit], QuestionContent]
    is_danger: bool = True
    asks_generation: bool = True
    asks_reason: bool = False
    is_repeated: bool = True
    """True if an error is shown above the question; otherwise it is shown on the page of the table."""


@dataclass(frozen=True, slots=True)
class Act:
    """An operation that a user can do with a table."""

    name: str
    """The last part of the address of its button, and what the address of the page after it has as `done`."""
    label: str
    done: str
    """The title of the notice after it."""
    then: str
    """Sentence about what follows now that it is done."""
    call: Callable[[Submission], object]
    """Returns False if there was nothing to do."""
    states: frozenset[TableState] = frozenset()
    """The states in which the page of the table has a button for it."""
    fits: Callable[[Table, Backfill | None], bool] = lambda table, backfill: True
    """True if the table in such a state and its last backfill of row images leave something to do."""
    question: Question | None = None
    right: Right = Right.ADMIN
    path: str = ""
    """Path of the page with the question and the form, below the page of the table; empty for the name."""
    shows: str = ""
    """Path of the page after it, below the page of the table."""

    @property
    def address(self) -> str:
        """Return where the question and the form are, below the page of the table."""
        return self.path or self.name

    @property
    def is_danger(self) -> bool:
        """Return whether the button leads to the question about something that cannot be undone."""
        return self.question is not None and self.question.is_danger and self.address == self.name

    @property
    def notice(self) -> Notice:
        """Return what the page after it says."""
        return Notice("good", self.done, self.then)


def buttons_of(table: Table, backfill: Backfill | None) -> list[Act]:
    """Return the acts that make sense in the table's state, and for its last backfill of row images."""
    return [act for act in ACTS.values() if table.state in act.states and act.fits(table, backfill)]


def notice_of(done: str) -> Notice | None:
    """Return what an act did, by its name in the address of the page."""
    return ACTS[done].notice if done in ACTS else None


def _release(sent: Submission) -> None:
    reason = sent.form.text("reason")
    if not 1 <= len(reason) <= MAX_REASON_CHARACTERS:
        raise RejectedInput(
            Code.BAD_REQUEST,
            f"the reason must have 1 to {MAX_REASON_CHARACTERS:,} characters",
            remedy="Write what you found and did; it is kept with the events of the table.",
        )
    sent.operation.release(reason, rewrite_marker=sent.form.optional("rewrite_marker") is not None)


def _ask_release(connection: Connection, seen: SeenTable, visit: Visit) -> QuestionContent:
    counts = _counts(connection, seen)
    why = [f"The table was stopped because of {counts.state_reason}"] if counts.state_reason else []
    return QuestionContent(
        [
            *why,
            "The drain compares the folder with the ledger again. If the cause is still there, it stops the table "
            "again, and nothing is lost.",
            f"Otherwise it publishes what waits: {_batches(counts)}.",
        ]
    )


def _backfill(sent: Submission) -> bool:
    """Ask a drain for the backfill; there is nothing to do for a table whose row images were complete already."""
    images = sent.operation.backfill_images().row_images
    return images is None or not images.complete


def _ask_backfill(connection: Connection, seen: SeenTable, visit: Visit) -> QuestionContent:
    return QuestionContent([*_backfill_consequences(seen.table, find_backfill(connection, seen.table))])


def _backfill_consequences(table: Table, backfill: Backfill | None) -> Iterator[str]:
    if backfill is not None and backfill.rows_done:
        yield f"A backfill has read {text.amount(backfill.rows_done, 'row')}. The drain continues there."
    yield "The drain reads the staged payloads from the first batch on, so none of them may be purged yet."
    yield "Meanwhile changes are accepted and published as before."
    yield (
        f"When each row of {table.name} has an image, the table can be rebuilt, exported and compared with its source. "
        "You can cancel the backfill at any time."
    )


def _ask_rebuild(connection: Connection, seen: SeenTable, visit: Visit) -> QuestionContent:
    table, rebuild, counts = seen.table, checked_rebuild(connection, seen), _counts(connection, seen)
    consequences = (
        f"A drain copies {text.amount(rebuild.rows_total or 0, 'row image')} into generation {rebuild.next_generation},"
        f" by the plan of the dry run. That lasts about {text.duration(rebuild.estimated_seconds)}.",
        "Meanwhile changes are accepted and published as before. If a row does not fit, nothing else changes.",
        f"Then the drain deletes the landing folder `{table.name.folder}` with "
        f"{text.amount(counts.published_files, 'file')}, and publishes the copied rows from file 1 on.",
        "From then on changes are accepted by the new columns and keys; they wait behind the copied rows.",
        "A rebuild cannot be canceled.",
    )
    return QuestionContent(consequences, PlanFields.of(rebuild.plan, table.schema), rebuild.fingerprint)


def _ask_recreate(connection: Connection, seen: SeenTable, visit: Visit) -> QuestionContent:
    return _ask_deletion(
        connection,
        seen,
        f"Then generation {seen.table.generation + 1} begins, empty, with the same columns, keys and options. Its "
        "files begin at number 1, and the source has to load its rows again.",
    )


def _ask_drop(connection: Connection, seen: SeenTable, visit: Visit) -> QuestionContent:
    then = "Then the table is gone, and its name can be registered again. Its events remain."
    return _ask_deletion(connection, seen, then)


def _ask_deletion(connection: Connection, seen: SeenTable, then: str) -> QuestionContent:
    """Return what happens to the folder and to what waits, and what follows."""
    counts = _counts(connection, seen)
    consequences = [
        "From now on the gateway rejects changes for the table.",
        f"The drain deletes the landing folder `{seen.table.name.folder}` with "
        f"{text.amount(counts.published_files, 'file')} of {text.amount(counts.published_rows, 'row')}.",
    ]
    if counts.pending_batches:
        consequences.append(f"{_batches(counts)} that are accepted and not published are discarded.")
    if counts.waiting_letters:
        letters = text.amount(counts.waiting_letters, "dead letter")
        consequences.append(f"{letters} can be read, but no longer replayed.")
    return QuestionContent([*consequences, then, "This cannot be undone."])


def _abort(sent: Submission) -> None:
    """End a load without further deletes; repeating it changes nothing. Raises RejectedInput `load_ended`."""
    load = _loads(sent.visit).abort(_load_id(sent.visit))
    if load.state is not LoadState.ABORTED:
        raise ended(load)


def _ask_abort(connection: Connection, seen: SeenTable, visit: Visit) -> QuestionContent:
    """Return what remains of the load. Raises RejectedInput `load_ended` if it has ended meanwhile."""
    load = _loads(visit).get(_load_id(visit))
    if load.state.has_ended:
        raise ended(load)
    if load.state is LoadState.COMPLETING:
        rest = f"Of the rows that it did not have, {text.count(load.deletes)} are deleted already. The others remain."
    else:
        rest = "Rows that it did not have remain too: nothing is deleted."
    return QuestionContent(
        [
            f"What the load has landed remains: {text.amount(load.rows, 'row')}.",
            rest,
            "Its sender gets `load_ended`. Another load can begin.",
        ]
    )


def _loads(visit: Visit) -> LoadOperation:
    return LoadOperation(visit.table, visit.gateway, visit.user.require(Right.INGEST))


def _load_id(visit: Visit) -> LoadId:
    given = str(visit.user.request.path_params["load"])
    try:
        return LoadId(str(UUID(given)))
    except ValueError:
        raise unknown_load(LoadId(given)) from None


def _counts(connection: Connection, seen: SeenTable) -> TableCounts:
    return count_tables(connection, [seen.table.table_id])[seen.table.table_id]


def _batches(counts: TableCounts) -> str:
    return f"{text.amount(counts.pending_batches, 'batch', 'batches')} with {text.amount(counts.pending_rows, 'row')}"


_ACTS: Final = (
    Act(
        "release",
        "Release",
        "The table is released.",
        "The drain compares folder and ledger again, and publishes what has waited.",
        _release,
        states=frozenset({TableState.QUARANTINED}),
        question=Question(
            "Release {}", "Release this table?", "Release the table", _ask_release, is_danger=False, asks_reason=True
        ),
    ),
    Act(
        "resume",
        "Resume",
        "The table is active again.",
        "The drain publishes what has waited.",
        lambda sent: sent.operation.resume(),
        states=frozenset({TableState.PAUSED}),
    ),
    Act(
        "pause",
        "Pause",
        "The table is paused.",
        "Nothing of it is published until you resume it. Changes are still accepted.",
        lambda sent: sent.operation.pause(),
        states=frozenset({TableState.ACTIVE}),
    ),
    Act(
        "flush",
        "Flush",
        "A flush is asked for.",
        "The drain publishes what is accepted so far without waiting for a full file.",
        lambda sent: sent.operation.flush(),
        states=frozenset({TableState.ACTIVE}),
    ),
    Act(
        "backfill",
        "Backfill row images",
        "A drain will backfill the row images.",
        "It gives a row image to each row that lacks one.",
        _backfill,
        states=_NOT_DROPPING,
        fits=lambda table, _: table.options.keeps_images and not table.images_complete and not table.backfill_due,
        question=Question(
            "Backfill the row images of {}",
            "Give a row image to each row?",
            "Begin the backfill",
            _ask_backfill,
            is_danger=False,
        ),
    ),
    Act(
        "backfill/cancel",
        "Cancel the backfill",
        "The backfill is cancelled.",
        "What it has written remains. The next one continues there.",
        lambda sent: (last := sent.operation.cancel_backfill().backfill) is not None and last.state == "cancelled",
        states=frozenset(TableState),
        fits=lambda _, backfill: backfill is not None and backfill.state is BackfillState.RUNNING,
    ),
    Act(
        "rebuild",
        "Rebuild",
        "The table is being rebuilt.",
        "A drain copies its rows. Changes are accepted all the time.",
        lambda sent: sent.operation.rebuild_as_checked(sent.form.text("plan")),
        states=_NOT_DROPPING,
        fits=lambda table, _: table.can_land_again,
        question=Question("Rebuild {}", "Rebuild this table?", "Rebuild the table", _ask_rebuild),
        path="rebuild/confirm",  # the button leads to the form of the plan
    ),
    Act(
        "recreate",
        "Recreate",
        "The table is being recreated.",
        "The drain deletes its folder; then the next generation begins.",
        lambda sent: sent.operation.recreate(),
        states=_NOT_DROPPING,
        question=Question("Recreate {}", "Recreate this table?", "Recreate the table", _ask_recreate),
    ),
    Act(
        "drop",
        "Drop",
        "The table is being dropped.",
        "The drain deletes its folder; then the table is gone.",
        lambda sent: sent.operation.drop(),
        states=_NOT_DROPPING,
        question=Question("Drop {}", "Drop this table?", "Drop the table", _ask_drop),
        shows="/events",  # also once the table is gone
    ),
    Act(
        "repair",
        "Write the file again",
        "Repair requested.",
        "The drain writes the file again, with the same rows.",
        lambda sent: sent.operation.repair(sent.visit.number("number", 0)),
        path="files/{number}/repair",
    ),
    Act(
        "abort",
        "Abort",
        "The load session is aborted.",
        "What it landed remains. Another load can begin.",
        _abort,
        question=Question(
            "Abort a load of {}",
            "Abort this load session?",
            "Abort the load session",
            _ask_abort,
            asks_generation=False,
            is_repeated=False,
        ),
        right=Right.INGEST,
        path="loads/{load}/abort",
    ),
)

ACTS: Final = {act.name: act for act in _ACTS}
"""All acts by name, in the order of the buttons; the last two have theirs beside a file and a load."""
