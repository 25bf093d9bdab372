"""Breadth-first search over all states that a case can reach.

A state is one integer: the number of its shared part, and below it the numbers of its drains' own parts, the
smallest last (drains are alike). What a drain can do depends on the shared part and its own part alone, so the
model is asked once for each such view, and its answers are kept as differences between integers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

from tests.protocol.events import environment
from tests.protocol.model import moves
from tests.protocol.rules import Case
from tests.protocol.state import IDLE, Drain, Pc, Shared

_BITS: Final = 16
_MASK: Final = (1 << _BITS) - 1

_Steps: TypeAlias = tuple[tuple[int, int], ...]
"""Per possible step, for drains: what it adds to the shared part, and to the own part at the lowest place; for
the environment: the new shared part, and which bits of the state below it are kept."""


@dataclass(frozen=True)
class Violation:
    """An invariant that a reachable state breaks, and a shortest way to it."""

    what: str
    trace: tuple[str, ...]

    def __str__(self) -> str:
        return "\n  ".join((f"{self.what}, after {len(self.trace)} steps:", *self.trace))


class _Broken(Exception):
    """The step just asked for breaks an invariant."""


class Exploration:
    """All reachable states of a case, or those before the first violation."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self._top = _BITS * case.bounds.drains
        self._shared_ids: dict[Shared, int] = {}
        self._shared: list[Shared] = []
        self._drain_ids: dict[Drain, int] = {}
        self._drains: list[Drain] = []
        self._moves: dict[int, _Steps] = {}
        self._events: dict[int, _Steps] = {}
        self._parents: dict[int, int] = {}
        self._ordered = _ordering(case.bounds.drains)
        self._drain_id(IDLE)
        initial = self._shared_id(Shared()) << self._top
        self.violation = self._search(initial)

    @property
    def states(self) -> int:
        return len(self._parents)

    @property
    def steps(self) -> set[Pc]:
        """Return the steps that some drain reaches."""
        return {drain.pc for drain in self._drains}

    def ends_alone(self) -> list[tuple[Shared, Drain]]:
        """Return the states in which drains end that continue alone from any state while nothing fails.

        Raises AssertionError for a drain that never ends.
        """
        ended: set[int] = set()
        ends: list[int] = []
        for view in self._moves:
            path: dict[int, None] = {}
            while view not in ended:
                assert view not in path, f"no end from {self._parts(view)}"
                path[view] = None
                if not (steps := self._moves[view]):
                    ends.append(view)
                    break
                change, own = steps[0]
                view += (change >> self._top << _BITS) + own
            ended.update(path)
        return [self._parts(view) for view in ends]

    def _search(self, initial: int) -> Violation | None:
        parents, ordered, top = self._parents, self._ordered, self._top
        shifts = range(0, top, _BITS)
        parents[initial] = initial
        level = [initial]
        while level:
            following: list[int] = []
            for state in level:
                shared = state >> top
                try:
                    steps = self._events.get(shared)
                    if steps is None:
                        steps = self._environment_steps(shared)
                    for change, kept in steps:
                        after = change + (state & kept)
                        if after not in parents:
                            parents[after] = state
                            following.append(after)
                    for shift in shifts:
                        view = shared << _BITS | state >> shift & _MASK
                        steps = self._moves.get(view)
                        if steps is None:
                            steps = self._drain_steps(view)
                        for change, own in steps:
                            after = ordered(state + change + (own << shift))
                            if after not in parents:
                                parents[after] = state
                                following.append(after)
                except _Broken as broken:
                    return self._violation(state, broken)
            level = following
        return None

    def _environment_steps(self, shared: int) -> _Steps:
        kept = (1 << self._top) - 1
        steps = []
        for event in environment.events(self.case, self._shared[shared]):
            if event.violation:
                raise _Broken(event.violation, event.what)
            steps.append((self._shared_id(event.shared) << self._top, 0 if event.kills else kept))
        self._events[shared] = tuple(steps)
        return self._events[shared]

    def _drain_steps(self, view: int) -> _Steps:
        number, own = view >> _BITS, view & _MASK
        shared, drain = self._parts(view)
        steps = []
        for move in moves(self.case, shared, drain):
            if move.violation:
                raise _Broken(move.violation, _named(drain, move.what))
            change = 0 if move.shared is shared else self._shared_id(move.shared) - number
            steps.append((change << self._top, self._drain_id(move.drain) - own))
        self._moves[view] = tuple(steps)
        return self._moves[view]

    def _parts(self, view: int) -> tuple[Shared, Drain]:
        return self._shared[view >> _BITS], self._drains[view & _MASK]

    def _shared_id(self, shared: Shared) -> int:
        number = self._shared_ids.setdefault(shared, len(self._shared))
        if number == len(self._shared):
            self._shared.append(shared)
        return number

    def _drain_id(self, drain: Drain) -> int:
        number = self._drain_ids.setdefault(drain, len(self._drains))
        if number == len(self._drains):
            self._drains.append(drain)
            assert number <= _MASK
        return number

    def _violation(self, state: int, broken: _Broken) -> Violation:
        path = [state]
        while self._parents[path[-1]] != path[-1]:
            path.append(self._parents[path[-1]])
        path.reverse()
        trace = [self._what(before, after) for before, after in pairwise(path)]
        return Violation(broken.args[0], (*trace, broken.args[1]))

    def _what(self, before: int, after: int) -> str:
        """Return which step leads from one state to the next."""
        shared, owns = self._shared[before >> self._top], self._owns(before)
        target = self._shared[after >> self._top], self._owns(after)
        for event in environment.events(self.case, shared):
            if (event.shared, [IDLE] * len(owns) if event.kills else owns) == target:
                return event.what
        for position, own in enumerate(owns):
            others = owns[:position] + owns[position + 1 :]
            for move in moves(self.case, shared, own):
                if (move.shared, sorted([*others, move.drain])) == target:
                    return _named(own, move.what)
        raise AssertionError((before, after))

    def _owns(self, state: int) -> list[Drain]:
        return sorted(self._drains[state >> shift & _MASK] for shift in range(0, self._top, _BITS))


def _named(drain: Drain, what: str) -> str:
    return f"the drain of epoch {drain.epoch} {what}" if drain.epoch else f"a drain {what}"


def _ordering(drains: int) -> Callable[[int], int]:
    """Sort the numbers of the drains' own parts, the smallest last."""
    top = _BITS * drains

    def two(state: int) -> int:
        last, other = state & _MASK, state >> _BITS & _MASK
        return state if last <= other else state + (last - other) * (_MASK)

    def more(state: int) -> int:
        owns = sorted((state >> shift & _MASK for shift in range(0, top, _BITS)), reverse=True)
        after = state >> top
        for own in owns:
            after = after << _BITS | own
        return after

    return two if drains == 2 else more
