"""Progress: after any history, a drain left alone publishes everything, or has a reason to stop."""

from dataclasses import replace
from typing import Final

from tests.protocol.explore import Exploration, Violation
from tests.protocol.model import moves
from tests.protocol.rules import Case
from tests.protocol.state import Drain, Pc, Shared, is_done

_MAX_STEPS: Final = 1_000
_MORE_EPOCHS: Final = 3


def first_without_progress(exploration: Exploration) -> Violation | None:
    """Let every drain of every explored state continue alone; return the first that never ends, or None.

    Nothing fails any more: the other drains are dead or paused forever, their leases expire, late requests stay late.
    """
    bounds = exploration.case.bounds
    unlimited = Case(replace(bounds, epochs=bounds.epochs + _MORE_EPOCHS, leases=False), exploration.case.rules)
    ended: set[tuple[Shared, Drain]] = set()
    for view in exploration.ends_alone():
        if violation := _goes_on(unlimited, view, ended):
            return violation
    return None


def _goes_on(case: Case, view: tuple[Shared, Drain], ended: set[tuple[Shared, Drain]]) -> Violation | None:
    """Go on beyond the bound of epochs, until the end or to where an earlier way passed."""
    trace: list[str] = []
    path: list[tuple[Shared, Drain]] = []
    while view not in ended and not (view[1].pc is Pc.CLAIM and is_done(case, view[0])):
        path.append(view)
        move = next(moves(case, *view), None)
        if move is None or move.violation or len(path) > _MAX_STEPS:
            what = move.violation if move else "nothing can be done"
            return Violation(f"{what or 'no progress'} from {path[0]}", tuple(trace[:100]))
        trace.append(move.what)
        view = move.shared, move.drain
    ended.update(path)
    return None
