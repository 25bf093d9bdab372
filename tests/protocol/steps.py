"""What the steps of a drain share: the table of steps, the epoch check, late requests, verification.

A step yields its possible results; the first is the one without failures. It models the functions that it names, as
`module:function`.
"""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from tests.protocol.rules import Case, Rule
from tests.protocol.state import (
    FOREIGN,
    FOREIGN_CONTENT,
    Drain,
    Folder,
    Move,
    Pc,
    Request,
    Shared,
    file_at,
)

Step: TypeAlias = Callable[[Case, Shared, Drain], Iterator[Move]]

STEPS: Final[dict[Pc, Step]] = {}
CODE: Final[dict[Pc, tuple[str, ...]]] = {}


def models(pc: Pc, *code: str) -> Callable[[Step], Step]:
    """Register a step with the functions that it models."""

    def enter(step: Step) -> Step:
        STEPS[pc], CODE[pc] = step, code
        return step

    return enter


def is_stale(case: Case, shared: Shared, drain: Drain, rule: Rule) -> bool:
    """`app.staging.ledger.leases:check_epoch`, where the rule asks for it."""
    of_other_run = case.holds(Rule.RUN) and shared.run != drain.run
    return case.holds(rule) and (shared.epoch != drain.epoch or of_other_run)


def send_late(case: Case, shared: Shared, request: Request) -> Iterator[Shared]:
    """Leave the request in flight: it may be executed later, or never."""
    if len(shared.requests) < case.bounds.in_flight and request not in shared.requests:
        yield shared._replace(requests=tuple(sorted((*shared.requests, request))))


def expected(shared: Shared, drain: Drain, number: int) -> int:
    """Return the planned content of a number."""
    if drain.content or number > len(shared.plan):
        return drain.content
    return shared.plan[number - 1]


def present_content(case: Case, shared: Shared, number: int) -> int:
    """Return the content that counts as published under a number, visible or moved away by mirroring; 0 for none."""
    found = file_at(shared, number)
    return abs(found) if found > 0 or case.holds(Rule.LOOK_PROCESSED) else 0


def synced(case: Case, shared: Shared, rule: Rule) -> Shared:
    """Make the present state of the folder durable if the rule asks for it."""
    if not case.bounds.power or not case.holds(rule):
        return shared
    folder = shared.folder._replace(unsynced=0) if shared.folder else None
    return shared._replace(folder=folder, deleted=None)


def verify_number(case: Case, shared: Shared, drain: Drain, absent: Drain) -> Move:
    """Continue from what the drain's number holds: `app.landing.landed_state:verify_landed` and its callers."""
    number, content = drain.number, present_content(case, shared, drain.number)
    if shared.folder is None or not content:
        return Move(f"sees no file {number}", shared, absent)
    ours = content == expected(shared, drain, number) and shared.folder.generation == drain.generation
    if not ours and case.holds(Rule.LOOK_IDENTITY):
        return Move(f"sees a foreign file {number}", shared, drain._replace(pc=Pc.QUARANTINE))
    if shared.folder.identity == FOREIGN and case.holds(Rule.LOOK_MARKER):
        return Move("sees a foreign folder", shared, drain._replace(pc=Pc.QUARANTINE))
    found = drain._replace(pc=Pc.RECORD, last=max(drain.last, number))
    return Move(
        f"sees our file {number}", synced(case, shared, Rule.SEEN_SYNCED), found, _mistaken(shared.folder, content)
    )


def _mistaken(folder: Folder, content: int) -> str:
    if content == FOREIGN_CONTENT:
        return "a foreign file is taken for ours"
    return "another gateway's file is taken for ours" if folder.identity == FOREIGN else ""
