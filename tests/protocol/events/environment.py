"""Events outside the drains: late requests, mirroring, operators, rebuilds, other users of the zone, power loss."""

from collections.abc import Iterator

from tests.protocol.events import rebuilding
from tests.protocol.rules import Case, Mirror, Rule
from tests.protocol.state import (
    FOREIGN,
    FOREIGN_CONTENT,
    Event,
    Folder,
    Mode,
    Place,
    Shared,
    Standby,
    first_block,
    is_done,
    with_file,
    with_scratch,
)
from tests.protocol.store import NUMBERS, carry_out


def events(case: Case, shared: Shared) -> Iterator[Event]:
    """Yield all events that can happen now, apart from a drain's own step."""
    yield from late_requests(case, shared)
    yield from mirroring(case, shared)
    if case.bounds.leases and shared.epoch and not shared.lapsed:
        yield Event("the owner's lease runs out", shared._replace(lapsed=True))
    is_rebuilt = shared.copies.is_due and case.holds(Rule.REBUILD_ALONE)
    if shared.drops < case.bounds.drops and shared.mode is Mode.ACTIVE and not is_rebuilt:
        yield Event("the table is dropped", dropped(case, shared))
    if case.bounds.rebuilds:
        yield from rebuilding.events(case, shared)
    if shared.outside < case.bounds.outside:
        for what, after in outside(shared):
            yield Event(what, after._replace(outside=shared.outside + 1))
    if case.bounds.power:
        yield from power_lost(case, shared)
    if shared.run < case.bounds.setbacks:
        yield from set_back(shared)


def late_requests(case: Case, shared: Shared) -> Iterator[Event]:
    for request in shared.requests:
        rest = shared._replace(requests=tuple(r for r in shared.requests if r != request))
        outcome = carry_out(case, rest, request)
        what = f"a late {request.kind.name} of epoch {request.epoch}"
        yield Event(f"{what} is carried out", outcome.shared, outcome.violation)
        if outcome.shared != rest:
            yield Event(f"{what} is lost", rest)


def mirroring(case: Case, shared: Shared) -> Iterator[Event]:
    """Mirroring consumes files in the order of their numbers; what it leaves in place needs no step."""
    mirror, folder = case.bounds.mirror, shared.folder
    if folder is None or mirror is Mirror.LEAVES:
        return
    if mirror is Mirror.MOVES_ALL_REMOVES_RECORDED:
        for number in range(1, shared.recorded + 1):
            if folder.files[number - 1] < 0:
                yield Event(f"mirroring removes file {number}", shared._replace(folder=with_file(folder, number, 0)))
    visible = [number for number, found in enumerate(folder.files, 1) if found > 0]
    if not visible or (mirror in {Mirror.MOVES_OLDER, Mirror.KEEPS_LAST} and len(visible) == 1):
        return
    number = visible[0]
    if number > folder.landed + 1 and not folder.files[number - 2]:
        return
    if mirror is not Mirror.REMOVES_ALL:
        moved = with_file(folder, number, -folder.files[number - 1])
        yield Event(f"mirroring moves file {number} away", shared._replace(folder=moved))
    if mirror in {Mirror.KEEPS_LAST, Mirror.REMOVES_ALL}:
        yield Event(f"mirroring removes file {number}", shared._replace(folder=with_file(folder, number, 0)))


def dropped(case: Case, shared: Shared) -> Shared:
    """R1, in one transaction: `app.staging.tables.operations:begin_drop`."""
    after = shared._replace(mode=Mode.DROPPING, drops=shared.drops + 1)
    if not case.holds(Rule.DROP_EPOCH):
        return after
    return after._replace(epoch=shared.epoch + 1, scratch=(*shared.scratch, Place.ABSENT))


def outside(shared: Shared) -> Iterator[tuple[str, Shared]]:
    """Yield what another user of the landing zone may do by mistake."""
    for epoch, scratch in enumerate(shared.scratch, 1):
        if isinstance(scratch, frozenset):
            yield f"another user deletes scratch of epoch {epoch}", with_scratch(shared, epoch, Place.ABSENT)
    folder = shared.folder
    twin = Folder(FOREIGN, 1, (twin_content(shared), *(0,) * (NUMBERS - 1)))
    yield "another user puts another gateway's folder there", shared._replace(folder=twin)
    if folder is None:
        return
    yield "another user deletes the folder", shared._replace(folder=None)
    for number in range(folder.landed + 1, min(folder.landed + 3, NUMBERS + 1)):
        if not folder.files[number - 1]:
            put = with_file(folder, number, FOREIGN_CONTENT)
            yield f"another user puts a file {number}", shared._replace(folder=put)
    for number in (folder.landed, folder.landed + 1):
        if number and folder.files[number - 1]:
            yield f"another user deletes file {number}", shared._replace(folder=with_file(folder, number, 0))


def twin_content(shared: Shared) -> int:
    """Return the content of file 1 of another gateway that got the same changes."""
    return shared.plan[0] if shared.plan else FOREIGN_CONTENT


def set_back(shared: Shared) -> Iterator[Event]:
    """Let a standby stay behind from now on, or take over; connected drains go on with it."""
    if shared.standby is None:
        has = Standby(shared.epoch, shared.lapsed, shared.mode, shared.plan, shared.recorded, shared.registered)
        yield Event("the standby receives nothing from now on", shared._replace(standby=has))
    else:
        after = shared._replace(**shared.standby._asdict(), standby=None, run=shared.run + 1)
        yield Event("the standby takes over", after)


def undone(folder: Folder) -> Folder:
    """Return the folder as it was before its last file became visible."""
    content = abs(folder.files[folder.landed - 1])
    before = with_file(folder, folder.landed, 0)
    return before._replace(landed=folder.landed - 1, through=first_block(content) - 1, unsynced=0)


def power_lost(case: Case, shared: Shared) -> Iterator[Event]:
    """Kill every drain; what was not synced can be undone. Postgres keeps what it has committed."""
    folder, dark = shared.folder, shared._replace(requests=(), deleted=None)
    wrong = "a partial file is visible" if folder and folder.landed and not case.holds(Rule.TEMP_SYNCED) else ""
    if not is_done(case, shared) or wrong:
        yield Event("the power fails", dark, wrong, kills=True)
    if folder is None and shared.deleted:
        yield Event("the power fails and the deleted folder is back", dark._replace(folder=shared.deleted), kills=True)
    if folder is None or not folder.unsynced:
        return
    left = undone(folder) if folder.unsynced == 1 else shared.deleted
    what = f"file {folder.landed}" if folder.unsynced == 1 else "the table folder"
    wrong = "what was recorded is lost" if shared.recorded and (left is None or left.landed < shared.recorded) else ""
    yield Event(f"the power fails and {what} is lost", dark._replace(folder=left), wrong, kills=True)
