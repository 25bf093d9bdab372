"""The load sessions of a table: the open one with what it has landed so far, and those that have ended."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.console import text
from app.console.views.notice import NoticeView
from app.console.views.table.head import TableHead
from app.console.views.table.operations import ConfirmView
from app.domain.loads.load_session import LoadSession, LoadState


@dataclass(frozen=True, slots=True)
class LoadsView:
    """The newest load sessions, the newest first."""

    open: LoadSession | None
    abort: str | None
    """The address of the page that asks before the open one is aborted, if the user may send changes."""
    ended: tuple[LoadSession, ...]


def loads_view(head: TableHead, loads: Sequence[LoadSession], *, may_send: bool) -> LoadsView | None:
    """Return the load sessions as the page of the table shows them; None if there are none."""
    if not loads:
        return None
    is_open = not loads[0].state.has_ended  # a load begins only after the one before it has ended
    return LoadsView(
        open=loads[0] if is_open else None,
        abort=abort_path(head, loads[0]) if is_open and may_send else None,
        ended=tuple(loads[1:] if is_open else loads),
    )


def abort_path(head: TableHead, load: LoadSession) -> str:
    """Return the address of the page that asks before a load is aborted."""
    return f"{head.path}/loads/{load.load_id}/abort"


def confirm_abort(head: TableHead, load: LoadSession, *, notice: NoticeView | None = None) -> ConfirmView:
    """Return the page that asks before a load is aborted."""
    return ConfirmView(
        head=head,
        title=f"Abort a load of {head.name}",
        question="Abort this load session?",
        button="Abort the load session",
        path=abort_path(head, load),
        consequences=tuple(_consequences(load)),
        is_danger=True,
        asks_generation=False,
        notice=notice,
    )


def _consequences(load: LoadSession) -> Iterator[str]:
    yield f"What the load has landed stays: {text.amount(load.rows, 'row')}."
    if load.state is LoadState.COMPLETING:
        yield f"Of the rows that it did not have, {text.count(load.deletes)} are deleted already. The others stay."
    else:
        yield "Rows that it did not have stay too: nothing is deleted."
    yield "Its sender gets `load_ended`. Another load can begin."
