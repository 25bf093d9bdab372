"""A rebuild until its switch (B1 to B5), of a table with one row whose image is the number of its changes.

Any drain may begin an attempt while others still carry out theirs, so attempts are no part of the drains' own state.
Each transaction holds the sequence lock, or the lock of the rebuild, and is one step.
"""

from collections.abc import Iterator

from tests.protocol.rules import Case, Rule
from tests.protocol.state import NO_IMAGE, Attempt, Copies, Event, Mode, Phase, Place, Shared


def events(case: Case, shared: Shared) -> Iterator[Event]:
    """Yield what can happen now to the rebuild."""
    copies = shared.copies
    if shared.generation <= case.bounds.rebuilds and shared.mode is Mode.ACTIVE and not copies.is_due:
        yield Event("a rebuild is asked for", shared._replace(copies=copies._replace(is_due=True)))
    if copies.is_due and copies.changes < case.bounds.changes:
        yield Event("the row changes", shared._replace(copies=_changed(case, copies)))
    if copies.is_due and copies.attempt < case.bounds.attempts:
        yield Event(f"attempt {copies.attempt + 1} begins", shared._replace(copies=_begun(case, copies)))
    for attempt in copies.attempts:
        yield Event(f"attempt {attempt.number} dies", _with(shared, attempt, None))
        yield _next_step(case, shared, attempt)


def _changed(case: Case, copies: Copies) -> Copies:
    """`app.staging.batches.row_images:note_touched`, in the transaction of the batch."""
    noted = copies.changes if copies.noted == NO_IMAGE and case.holds(Rule.REBUILD_NOTES) else copies.noted
    return copies._replace(changes=copies.changes + 1, noted=noted)


def _begun(case: Case, copies: Copies) -> Copies:
    """B2: `app.staging.rebuild.progress:start_attempt`."""
    number = copies.attempt + 1
    copy = NO_IMAGE if case.holds(Rule.REBUILD_DISCARD) else copies.copy
    return copies._replace(attempt=number, copy=copy, attempts=tuple(sorted((*copies.attempts, Attempt(number)))))


def _next_step(case: Case, shared: Shared, attempt: Attempt) -> Event:
    name, copies = f"attempt {attempt.number}", shared.copies
    is_over = not copies.is_due or copies.attempt != attempt.number
    if is_over and case.holds(Rule.REBUILD_ATTEMPT):
        return Event(f"{name} is over", _with(shared, attempt, None))
    if attempt.phase is Phase.SNAPSHOT:
        return _takes_snapshot(case, shared, attempt)
    if attempt.phase is Phase.CLEAR:
        cleared = shared._replace(copies=copies._replace(noted=NO_IMAGE))
        return Event(f"{name} forgets the notes", _with(cleared, attempt, attempt._replace(phase=Phase.COPY)))
    if attempt.phase is Phase.COPY:
        return _copies(shared, attempt, is_over=is_over)
    if attempt.phase is Phase.CORRECT:
        corrected, wrong = _corrected(shared)
        return Event(f"{name} corrects", _with(corrected, attempt, attempt._replace(phase=Phase.SWITCH)), wrong)
    return _switches(case, shared, attempt)


def _takes_snapshot(case: Case, shared: Shared, attempt: Attempt) -> Event:
    """B3: `app.staging.rebuild.copies:image_snapshot`, which forgets older notes in the same transaction."""
    taken, what = attempt._replace(snapshot=shared.copies.changes), f"attempt {attempt.number} takes a snapshot"
    if not case.holds(Rule.REBUILD_SNAPSHOT_LOCK):
        return Event(what, _with(shared, attempt, taken._replace(phase=Phase.CLEAR)))
    noted = NO_IMAGE if case.holds(Rule.REBUILD_CLEAR) else shared.copies.noted
    cleared = shared._replace(copies=shared.copies._replace(noted=noted))
    return Event(what, _with(cleared, attempt, taken._replace(phase=Phase.COPY)))


def _copies(shared: Shared, attempt: Attempt, *, is_over: bool) -> Event:
    """B3: `app.staging.rebuild.copies:store_part`; a part that is there already stays as it is."""
    copies = shared.copies
    copy = attempt.snapshot if copies.copy == NO_IMAGE else copies.copy
    stored = shared._replace(copies=copies._replace(copy=copy))
    wrong = "a replaced attempt stores a copy" if is_over and copy != copies.copy else ""
    following = attempt._replace(phase=Phase.CORRECT)
    return Event(f"attempt {attempt.number} copies the row", _with(stored, attempt, following), wrong)


def _corrected(shared: Shared) -> tuple[Shared, str]:
    """B4: `app.staging.rebuild.switch:correct_copies`; the note says which image the copy has."""
    copies = shared.copies
    if copies.noted == NO_IMAGE:
        return shared, ""
    wrong = "" if copies.copy == copies.noted else "a correction takes the copy for another image than it has"
    return shared._replace(copies=copies._replace(copy=copies.changes, noted=NO_IMAGE)), wrong


def _switches(case: Case, shared: Shared, attempt: Attempt) -> Event:
    """B5: `app.staging.rebuild.switch:switch_generation`."""
    corrected, wrong = _corrected(shared) if case.holds(Rule.REBUILD_LAST_CORRECTION) else (shared, "")
    copies = corrected.copies
    if not copies.is_due:
        wrong = "a replaced attempt switches again"
    elif copies.copy != copies.changes:
        wrong = wrong or "the rebuilt generation lacks a change"
    if shared.mode is not Mode.ACTIVE:
        wrong = "a rebuild replaces a drop"
    left = tuple(one for one in copies.attempts if one != attempt)
    after = corrected._replace(
        mode=Mode.REBUILDING if case.holds(Rule.REBUILD_WAIT) else Mode.ACTIVE,
        generation=shared.generation + 1,
        plan=(),
        recorded=0,
        registered=0,
        copies=Copies(attempt=copies.attempt, attempts=left),
    )
    if case.holds(Rule.REBUILD_EPOCH):
        after = after._replace(epoch=after.epoch + 1, scratch=(*after.scratch, Place.ABSENT))
    return Event(f"attempt {attempt.number} switches to generation {after.generation}", after, wrong)


def _with(shared: Shared, attempt: Attempt, following: Attempt | None) -> Shared:
    """Return the state with the attempt's next phase, or without the attempt."""
    others = [one for one in shared.copies.attempts if one != attempt]
    kept = others if following is None else [*others, following]
    return shared._replace(copies=shared.copies._replace(attempts=tuple(sorted(kept))))
