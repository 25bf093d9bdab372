"""The model as a whole: what can happen next, in one state, to one drain or around the drains."""

from collections.abc import Iterator

from tests.protocol import dropping, publishing, take_over
from tests.protocol import environment as surroundings
from tests.protocol.rules import Case
from tests.protocol.state import IDLE, Drain, Event, Move, Shared
from tests.protocol.steps import CODE, STEPS

__all__ = ["CODE", "STEPS", "around", "moves"]

PARTS = (take_over, publishing, dropping)
"""The modules whose steps are in the table once they are imported."""


def moves(case: Case, shared: Shared, drain: Drain) -> Iterator[Move]:
    """What a drain can do next: its step, or to die before it. Doing nothing for ever is always possible."""
    steps = STEPS[drain.pc](case, shared, drain)
    yield from (_gives_up(move, drain) for move in steps) if case.bounds.leases else steps
    if drain != IDLE:
        yield Move("dies", shared, IDLE)


def _gives_up(move: Move, drain: Drain) -> Move:
    """Who gives up an epoch still owns the table; who dies comes back as another worker."""
    return move._replace(drain=Drain(epoch=drain.epoch)) if move.drain == IDLE else move


def around(case: Case, shared: Shared) -> Iterator[Event]:
    """What can happen around the drains."""
    return surroundings.events(case, shared)
