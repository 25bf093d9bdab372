"""The possible next steps of one drain; `events.environment` has what can happen outside the drains."""

from collections.abc import Iterator

from tests.protocol import dropping, publishing, take_over
from tests.protocol.rules import Case
from tests.protocol.state import IDLE, Drain, Move, Shared
from tests.protocol.steps import CODE, STEPS

__all__ = ["CODE", "STEPS", "moves"]

PARTS = (take_over, publishing, dropping)
"""The modules whose steps are in the table once they are imported."""


def moves(case: Case, shared: Shared, drain: Drain) -> Iterator[Move]:
    """Yield what a drain can do next: its step, or dying before it. Doing nothing is always possible."""
    steps = STEPS[drain.pc](case, shared, drain)
    yield from (_gives_up(move, drain) for move in steps) if case.bounds.leases else steps
    if drain != IDLE:
        yield Move("dies", shared, IDLE)


def _gives_up(move: Move, drain: Drain) -> Move:
    """Let a drain that gives up an epoch keep the table; one that dies restarts as another worker."""
    return move._replace(drain=Drain(epoch=drain.epoch, run=drain.run)) if move.drain == IDLE else move
