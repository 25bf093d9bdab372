"""The steps of a drain that removes a dropped table's folder and starts the next generation (R3 to R6)."""

from collections.abc import Iterator

from tests.protocol.rules import Case, Rule
from tests.protocol.state import FOREIGN, IDLE, Drain, Mode, Move, Pc, Request, Shared
from tests.protocol.steps import is_stale, models, send_late, synced
from tests.protocol.store import carry_out


@models(Pc.DROP_LOOK, "app.landing.publish:remove_table_folder", "spark_jobs.steps.dropping:Dropping.run")
def drop_look(case: Case, shared: Shared, drain: Drain) -> Iterator[Move]:
    """R3, and R5 once the folder is gone."""
    folder = shared.folder
    if folder is None:
        durable = synced(case, shared, Rule.DROP_SYNCED)
        yield Move("sees that the folder is gone", durable, drain._replace(pc=Pc.RECREATE, seen=-1))
    elif case.holds(Rule.DROP_IDENTITY) and folder.identity == FOREIGN:
        yield Move("sees a foreign folder", shared, drain._replace(pc=Pc.QUARANTINE, seen=-1))
    elif is_stale(case, shared, drain, Rule.EPOCH_DROP):
        yield Move("deletes nothing: its epoch is over", shared, IDLE)
    else:
        yield Move("sees the folder", shared, drain._replace(pc=Pc.DROP_DELETE, seen=folder.identity))


@models(
    Pc.DROP_DELETE,
    "app.landing.local_zone:LocalZone.remove_folder",
    "app.landing.adls.zone:AdlsZone.remove_folder",
)
def drop_delete(case: Case, shared: Shared, drain: Drain) -> Iterator[Move]:
    """R4."""
    request = Request(Pc.DROP_DELETE, drain.epoch, seen=drain.seen)
    after = drain._replace(pc=Pc.DROP_LOOK if case.holds(Rule.DROP_WAIT) else Pc.RECREATE, seen=-1)
    outcome = carry_out(case, shared, request)
    if outcome.done or shared.folder is None or case.bounds.by_etag:
        yield Move("deletes the folder", outcome.shared, after, outcome.violation)
    else:
        yield Move("cannot delete the folder: its scratch is revoked", shared, IDLE)
    for sent in send_late(case, shared, request) if case.bounds.by_etag else ():
        yield Move("deletes the folder, late", sent, after)


@models(Pc.RECREATE, "app.staging.tables.operations:finish_drop")
def recreate(case: Case, shared: Shared, drain: Drain) -> Iterator[Move]:
    """R6; a rebuilt generation has begun with the switch."""
    if is_stale(case, shared, drain, Rule.EPOCH_RECREATE):
        yield Move("begins no generation: its epoch is over", shared, IDLE)
        return
    if shared.mode is Mode.REBUILDING:
        after = shared._replace(mode=Mode.ACTIVE)
        what = f"lets generation {shared.generation} publish"
        yield Move(what, after, Drain(Pc.PLAN, drain.epoch, shared.generation, run=drain.run))
        return
    generation = shared.generation + 1
    after = shared._replace(mode=Mode.ACTIVE, generation=generation, plan=(), recorded=0, registered=0)
    wrong = "a generation starts that was not requested" if shared.mode is not Mode.DROPPING else ""
    yield Move(f"begins generation {generation}", after, Drain(Pc.PLAN, drain.epoch, generation, run=drain.run), wrong)
