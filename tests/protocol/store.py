"""How the landing zone executes a request, and the results that violate an invariant."""

from typing import NamedTuple

from tests.protocol.rules import Case, Rule
from tests.protocol.state import (
    FOREIGN,
    Folder,
    Mode,
    Pc,
    Place,
    Request,
    Shared,
    Temp,
    doomed_generation,
    first_block,
    is_tampered,
    last_block,
    scratch_of,
    with_file,
    with_scratch,
)

NUMBERS = 5
"""Names in a folder that the model keeps: a number beyond is a violation anyway."""


class Outcome(NamedTuple):
    """The state after a request, whether it had an effect, and the invariant that it broke."""

    shared: Shared
    done: bool
    violation: str = ""


def carry_out(case: Case, shared: Shared, request: Request, *, careless: bool = False) -> Outcome:
    """Carry out one request, at once or late."""
    match request.kind:
        case Pc.BUILD:
            return write_temp(case, shared, request)
        case Pc.REVOKE_MOVE:
            return take_away(case, shared, request)
        case Pc.FOLDER_RENAME:
            return show_folder(case, shared, request)
        case Pc.RENAME:
            return show_file(case, shared, request, careless)
        case Pc.DROP_DELETE:
            return delete_folder(case, shared, request)
        case _:
            raise AssertionError(request)


def put(shared: Shared, epoch: int, *temps: Temp) -> Shared | None:
    """Write into an epoch's scratch, which a write makes again where it is absent; None once it is revoked."""
    scratch = scratch_of(shared, epoch)
    if scratch is Place.PLAIN_FILE:
        return None
    kept = scratch if isinstance(scratch, frozenset) else frozenset()
    names = {(temp.number, temp.attempt) for temp in temps}
    return with_scratch(shared, epoch, frozenset(t for t in kept if t[:2] not in names) | set(temps))


def find_temp(shared: Shared, epoch: int, number: int, attempt: int) -> Temp | None:
    scratch = scratch_of(shared, epoch)
    if not isinstance(scratch, frozenset):
        return None
    return next((temp for temp in scratch if temp[:2] == (number, attempt)), None)


def without_temp(shared: Shared, epoch: int, temp: Temp) -> Shared:
    scratch = scratch_of(shared, epoch)
    assert isinstance(scratch, frozenset)
    return with_scratch(shared, epoch, scratch - {temp})


def write_temp(case: Case, shared: Shared, request: Request) -> Outcome:
    """Let a lost task attempt continue to write, into its own file or into the registered one."""
    written = Temp(request.number, request.attempt, request.generation, request.content)
    if not case.holds(Rule.ATTEMPT_NAMES):
        written = written._replace(attempt=1, whole=False)
    after = put(shared, request.epoch, written)
    return Outcome(shared, False) if after is None else Outcome(after, True)


def take_away(case: Case, shared: Shared, request: Request) -> Outcome:
    """Move an epoch's scratch folder out of the way."""
    scratch = scratch_of(shared, request.number)
    if scratch is Place.ABSENT or (scratch is Place.PLAIN_FILE and case.holds(Rule.REVOKE_FOLDER_ONLY)):
        return Outcome(shared, False)
    return Outcome(with_scratch(shared, request.number, Place.ABSENT), True)


def mark(shared: Shared, epoch: int) -> Shared:
    """Create a plain file unless something is there."""
    return with_scratch(shared, epoch, Place.PLAIN_FILE) if scratch_of(shared, epoch) is Place.ABSENT else shared


def show_folder(case: Case, shared: Shared, request: Request) -> Outcome:
    """Rename the prepared table folder into place; without the rule it is created in place."""
    prepared = find_temp(shared, request.epoch, 0, 0)
    if not case.holds(Rule.FOLDER_FROM_SCRATCH):
        prepared = Temp(0, 0, request.generation, 0)
    if prepared is None or shared.folder is not None:
        return Outcome(shared, False)
    made = Folder(
        request.epoch * 10 + prepared.generation,
        prepared.generation,
        (0,) * NUMBERS,
        unsynced=2 if case.bounds.power else 0,
    )
    after = shared._replace(folder=made)
    if case.holds(Rule.FOLDER_FROM_SCRATCH):
        after = without_temp(after, request.epoch, prepared)
    return Outcome(after, True, _wrong_folder(case, shared, request.epoch, prepared))


def _wrong_folder(case: Case, shared: Shared, epoch: int, prepared: Temp) -> str:
    if epoch < shared.sealed and case.bounds.stale_is_wrong:
        return "a stale owner makes the table folder"
    if prepared.generation not in {shared.generation, doomed_generation(shared)}:
        return "the folder of another generation appears"
    if shared.recorded and shared.mode is Mode.ACTIVE:
        return "the folder starts again at 1 although files were recorded"
    return ""


def show_file(case: Case, shared: Shared, request: Request, careless: bool) -> Outcome:
    """Rename a temp to its number."""
    number, folder = request.number, shared.folder
    temp = find_temp(shared, request.epoch, number, request.attempt)
    if temp is None or folder is None or number > NUMBERS:
        return Outcome(shared, False)
    replaced = folder.files[number - 1] > 0
    if replaced and case.holds(Rule.NO_REPLACE):
        return Outcome(shared, False)
    wrong = _wrong_file(case, shared, folder, request, temp, careless)
    if replaced:
        wrong = "a visible file is replaced"
    shown = with_file(folder, number, temp.content)
    if folder.identity != FOREIGN:
        shown = shown._replace(landed=number, through=last_block(temp.content))
    if case.bounds.power:
        shown = shown._replace(unsynced=shown.unsynced | 1)
    return Outcome(without_temp(shared, request.epoch, temp)._replace(folder=shown), True, wrong)


def _wrong_file(case: Case, shared: Shared, folder: Folder, request: Request, temp: Temp, careless: bool) -> str:
    if request.epoch < shared.sealed and case.bounds.stale_is_wrong:
        return "a stale owner makes a file visible"
    if not temp.whole:
        return "a partial file becomes visible"
    if folder.identity == FOREIGN:
        return "a file is published into another gateway's folder" if request.seen == FOREIGN else ""
    if folder.generation != temp.generation:
        return "a file of one generation lands in the folder of another"
    gone = not folder.files[temp.number - 1]
    if gone and is_tampered(shared) and temp.number == folder.landed > shared.recorded:
        # Somebody deleted the file before it was recorded.
        return "" if last_block(temp.content) == folder.through else "a number lands again with other content"
    if temp.number <= folder.landed:
        return "a number lands twice"
    if temp.number != folder.landed + 1:
        return "a number is left out"
    if first_block(temp.content) != folder.through + 1:
        return "blocks are lost, repeated or out of order"
    return "a file is published behind one that was missing" if careless else ""


def delete_folder(case: Case, shared: Shared, request: Request) -> Outcome:
    """Delete the table folder: the one that was verified, or without the rule any folder."""
    folder = shared.folder
    if folder is None:
        return Outcome(shared, False)
    allowed = scratch_of(shared, request.epoch) is not Place.PLAIN_FILE
    if case.bounds.by_etag:
        allowed = folder.identity == request.seen
    if case.holds(Rule.DROP_CONDITION) and not allowed:
        return Outcome(shared, False)
    wrong = ""
    if folder.identity == FOREIGN and request.seen == FOREIGN:
        wrong = "another gateway's folder is deleted"
    elif folder.identity != FOREIGN and folder.generation == shared.generation and shared.mode is not Mode.DROPPING:
        wrong = "the folder of an active generation is deleted"
    return Outcome(shared._replace(folder=None, deleted=folder if case.bounds.power else None), True, wrong)


def recorded_amiss(shared: Shared) -> str:
    """Return what is wrong with the counter, given every file that ever became visible."""
    folder = shared.folder
    if shared.mode is not Mode.ACTIVE or not shared.recorded:
        return ""
    if folder is None or folder.identity == FOREIGN or folder.generation != shared.generation:
        return "" if is_tampered(shared) else "recorded files are in no folder of their generation"
    if folder.landed < shared.recorded:
        return "a file is recorded that never was visible"
    if folder.landed == shared.recorded and folder.through != last_block(shared.plan[shared.recorded - 1]):
        return "what is recorded is not what is visible"
    return ""
