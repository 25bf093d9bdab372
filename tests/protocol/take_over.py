"""The steps of a drain that takes over a table: claim, revoke, verify (W1 to W3)."""

from collections.abc import Iterator

from tests.protocol.rules import Case, Rule
from tests.protocol.state import (
    DELETES_FOLDER,
    IDLE,
    Drain,
    Mode,
    Move,
    Pc,
    Place,
    Request,
    Shared,
    doomed_generation,
    is_done,
    is_tampered,
    numbers_beyond,
    scratch_of,
)
from tests.protocol.steps import is_stale, models, present_content, send_late, synced, verify_number
from tests.protocol.store import carry_out, mark, put


@models(
    Pc.CLAIM,
    "app.staging.ledger.leases:claim_table",
    "app.staging.ledger.leases:due_tables",
    "spark_jobs.steps.take_over:Claiming.run",
)
def claim(case: Case, shared: Shared, drain: Drain) -> Iterator[Move]:
    """Claim the table; by another drain than the owner, this also ends the owner's lease unless leases have steps."""
    owned = shared.lapsed or drain.epoch == shared.epoch or not case.bounds.leases or not case.holds(Rule.LEASE)
    epoch = _next_epoch(case, shared)
    if epoch > case.bounds.epochs or is_done(case, shared) or not owned:
        return
    unused = (Place.ABSENT,) * (epoch - len(shared.scratch))
    after = shared._replace(epoch=epoch, lapsed=False, scratch=shared.scratch + unused)
    claimed = Drain(Pc.READ, epoch, shared.generation, run=shared.run)
    revokes = Rule.DROP_REVOKE if shared.mode in DELETES_FOLDER else Rule.REVOKE
    if case.holds(Rule.REVOKE) and case.holds(revokes) and case.holds(Rule.REVOKE_BEFORE_LOOK):
        claimed = revoke_next(claimed._replace(then=Pc.READ), 1)
    yield Move(f"claims epoch {epoch}", after, claimed)


def _next_epoch(case: Case, shared: Shared) -> int:
    used = [epoch for epoch, scratch in enumerate(shared.scratch, 1) if scratch is not Place.ABSENT]
    if not case.holds(Rule.BEYOND_SCRATCH):
        used = []
    return max(shared.epoch, *used, 0) + 1


def revoke_next(drain: Drain, older: int) -> Drain:
    """Go on with the next older epoch, or with what follows the last one."""
    if older < drain.epoch:
        return drain._replace(pc=Pc.REVOKE_LOOK, older=older)
    return drain._replace(pc=drain.then, then=Pc.CLAIM, older=0)


@models(Pc.REVOKE_LOOK, "app.landing.publish:revoke_older_epochs", "app.landing.local_zone:LocalZone.kinds")
def revoke_look(case: Case, shared: Shared, drain: Drain) -> Iterator[Move]:
    scratch = scratch_of(shared, drain.older)
    if scratch is Place.PLAIN_FILE:
        yield Move(f"sees epoch {drain.older} revoked", shared, revoke_next(drain, drain.older + 1))
    elif scratch is Place.ABSENT and not case.holds(Rule.REVOKE_ONE_LOOK):
        yield Move(f"sees no folder of epoch {drain.older}", shared, drain._replace(pc=Pc.REVOKE_LOOK_AGAIN))
    else:
        yield Move(f"sees epoch {drain.older} not revoked", shared, drain._replace(pc=Pc.REVOKE_MOVE))


@models(Pc.REVOKE_LOOK_AGAIN)
def revoke_look_again(case: Case, shared: Shared, drain: Drain) -> Iterator[Move]:
    """Take what was no folder for a plain file if it exists; only without the rule of one listing."""
    if scratch_of(shared, drain.older) is Place.ABSENT:
        yield Move(f"sees nothing of epoch {drain.older}", shared, drain._replace(pc=Pc.REVOKE_MOVE))
    else:
        yield Move(f"takes epoch {drain.older} for revoked", shared, revoke_next(drain, drain.older + 1))


@models(
    Pc.REVOKE_MOVE, "app.landing.local_zone:LocalZone.revoke_folder", "app.landing.adls.zone:AdlsZone.revoke_folder"
)
def revoke_move(case: Case, shared: Shared, drain: Drain) -> Iterator[Move]:
    request = Request(Pc.REVOKE_MOVE, drain.epoch, drain.older)
    after = drain._replace(pc=Pc.REVOKE_MARK) if case.holds(Rule.REVOKE_MARK) else revoke_next(drain, drain.older + 1)
    what = f"moves the scratch of epoch {drain.older} away"
    yield Move(what, carry_out(case, shared, request).shared, after)
    for sent in send_late(case, shared, request):
        yield Move(f"{what}, late", sent, after)


@models(
    Pc.REVOKE_MARK, "app.landing.local_zone:LocalZone.revoke_folder", "app.landing.adls.zone:AdlsZone.revoke_folder"
)
def revoke_mark(case: Case, shared: Shared, drain: Drain) -> Iterator[Move]:
    after = mark(shared, drain.older)
    if scratch_of(after, drain.older) is Place.PLAIN_FILE or not case.holds(Rule.REVOKE_LOOP):
        yield Move(f"puts a plain file for epoch {drain.older}", after, revoke_next(drain, drain.older + 1))
    else:
        yield Move(f"finds epoch {drain.older} there again", after, drain._replace(pc=Pc.REVOKE_LOOK))


@models(
    Pc.READ,
    "spark_jobs.steps.take_over:TakeOver.run",
    "app.staging.ledger.leases:check_epoch",
    "app.landing.landed_state:numbers_beyond",
)
def read(case: Case, shared: Shared, drain: Drain) -> Iterator[Move]:
    """From here on, no owner of an older epoch may change anything visible."""
    if is_stale(case, shared, drain, Rule.EPOCH_LOOK) or shared.mode is Mode.QUARANTINED:
        yield Move("finds its epoch over", shared, IDLE)
        return
    sealed = shared._replace(sealed=max(shared.sealed, drain.epoch))
    if shared.mode in DELETES_FOLDER:
        deletes = drain._replace(pc=Pc.DROP_LOOK, generation=doomed_generation(shared))
        yield Move("reads that a folder is to be deleted", sealed, deletes)
        return
    if case.bounds.setbacks:
        made = put(sealed, drain.epoch)
        if made is None:
            yield Move("cannot make its scratch: it is revoked", sealed, IDLE)
            return
        sealed = made
        if case.holds(Rule.LOOK_BEYOND) and (beyond := numbers_beyond(shared)):
            what = f"sees file {beyond[0]}, which the ledger does not know"
            yield Move(what, sealed, drain._replace(pc=Pc.QUARANTINE))
            return
    looks = case.holds(Rule.LOOK) and len(shared.plan) > shared.recorded
    after = drain._replace(pc=Pc.LOOK if looks else Pc.VERIFY, number=shared.recorded + 1)
    yield Move(f"reads the ledger, {'is' if looks else 'is not'} to look for file {after.number}", sealed, after)


@models(Pc.LOOK, "app.landing.landed_state:recover_visible_file", "app.landing.landed_state:verify_landed")
def look(case: Case, shared: Shared, drain: Drain) -> Iterator[Move]:
    yield verify_number(case, shared, drain, absent=drain._replace(pc=Pc.VERIFY))
    if case.bounds.faults:
        after = IDLE if case.holds(Rule.LOOK_CERTAIN) else drain._replace(pc=Pc.QUARANTINE)
        yield Move(f"cannot read file {drain.number}", shared, after)


@models(Pc.VERIFY, "app.landing.landed_state:recover_visible_file")
def verify(case: Case, shared: Shared, drain: Drain) -> Iterator[Move]:
    """Check that the last recorded file is present.

    It must be as long as the number after it is absent; once that is visible, mirroring may have removed the file.
    """
    last = drain.number - 1
    after = _revoked_late(case, drain._replace(pc=Pc.PLAN, number=0))
    if last and shared.folder and not present_content(case, shared, last):
        if case.holds(Rule.LAST_FILE):
            yield Move(f"misses file {last}", shared, drain._replace(pc=Pc.QUARANTINE))
            return
        after = after._replace(careless=is_tampered(shared))
    yield Move("is done looking", synced(case, shared, Rule.SEEN_SYNCED), after)


def _revoked_late(case: Case, drain: Drain) -> Drain:
    """Revoke the older epochs only now; only without the rule of the order."""
    if case.holds(Rule.REVOKE_BEFORE_LOOK) or not case.holds(Rule.REVOKE):
        return drain
    return revoke_next(drain._replace(then=drain.pc), 1)
