"""The steps of a drain that takes a dropped table's folder away and begins the next generation (R2 to R6).

The code has no drop yet: these steps state what it will have to do.
"""

from collections.abc import Iterator

from tests.protocol.rules import Case, Rule
from tests.protocol.state import FOREIGN, IDLE, Drain, Mode, Move, Pc, Request, Shared
from tests.protocol.steps import is_stale, send_late, stands_for
from tests.protocol.store import carry_out


@stands_for(Pc.DROP_LOOK)
def drop_look(case: Case, shared: Shared, drain: Drain) -> Iterator[Move]:
    """R3, and R5 once the folder is gone."""
    folder = shared.folder
    if folder is None:
        yield Move("sees that the folder is gone", shared, drain._replace(pc=Pc.RECREATE, seen=-1))
    elif case.holds(Rule.DROP_IDENTITY) and (folder.identity == FOREIGN or folder.generation != drain.generation):
        yield Move("sees a foreign folder", shared, drain._replace(pc=Pc.QUARANTINE, seen=-1))
    else:
        yield Move("sees the folder", shared, drain._replace(pc=Pc.DROP_DELETE, seen=folder.identity))


@stands_for(Pc.DROP_DELETE)
def drop_delete(case: Case, shared: Shared, drain: Drain) -> Iterator[Move]:
    """R4."""
    request = Request(Pc.DROP_DELETE, drain.epoch, seen=drain.seen)
    after = drain._replace(pc=Pc.DROP_LOOK if case.holds(Rule.DROP_WAIT) else Pc.RECREATE, seen=-1)
    outcome = carry_out(case, shared, request)
    yield Move("deletes the folder", outcome.shared, after, outcome.violation)
    for sent in send_late(case, shared, request):
        yield Move("deletes the folder, late", sent, after)


@stands_for(Pc.RECREATE)
def recreate(case: Case, shared: Shared, drain: Drain) -> Iterator[Move]:
    """R6."""
    if is_stale(case, shared, drain, Rule.EPOCH_RECREATE):
        yield Move("begins no generation: its epoch is over", shared, IDLE)
        return
    generation = shared.generation + 1
    after = shared._replace(mode=Mode.ACTIVE, generation=generation, plan=(), recorded=0, nominated=0)
    wrong = "a generation begins that nobody asked for" if shared.mode is not Mode.DROPPING else ""
    yield Move(f"begins generation {generation}", after, Drain(Pc.PLAN, drain.epoch, generation), wrong)
