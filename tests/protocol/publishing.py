"""The steps of a table's owner when it publishes: plan, build, folder, rename, record (W4 to W9)."""

from collections.abc import Iterator

from tests.protocol.rules import Case, Rule
from tests.protocol.state import (
    FOREIGN,
    IDLE,
    Drain,
    Mode,
    Move,
    Pc,
    Request,
    Shared,
    Temp,
    content_of,
    first_block,
    is_tampered,
    last_block,
    numbers_beyond,
    planned_through,
)
from tests.protocol.steps import expected, is_stale, models, send_late, synced, verify_number
from tests.protocol.store import carry_out, find_temp, put, recorded_amiss


@models(
    Pc.PLAN,
    "spark_jobs.drain_cycle:DrainCycle._prepare",
    "spark_jobs.drain_cycle:DrainCycle.prepare_leased",
    "app.staging.ledger.planning:plan_next_files",
    "app.domain.publication:plan_files",
)
def plan(case: Case, shared: Shared, drain: Drain) -> Iterator[Move]:
    """Continue an earlier plan, or plan one or two files of any size."""
    alive = shared.mode is Mode.ACTIVE and shared.generation == drain.generation
    if shared.mode is Mode.DROPPING and shared.generation == drain.generation:
        # The epoch that a drain holds and the table's state are read one after the other.
        yield Move("reads that the table is dropped", shared, drain._replace(pc=Pc.DROP_LOOK, number=0, last=0))
    if is_stale(case, shared, drain, Rule.EPOCH_PLAN) or not alive:
        yield Move("plans nothing: its epoch is over", shared, IDLE)
        return
    drain = drain._replace(pc=Pc.BUILD, number=shared.recorded + 1)
    if len(shared.plan) > shared.recorded:
        yield Move(f"finds file {drain.number} planned", shared, drain._replace(last=len(shared.plan)))
        return
    first, blocks = planned_through(shared) + 1, case.bounds.blocks
    if first > blocks:
        yield Move("has nothing left to plan", shared, IDLE)
    ahead = case.holds(Rule.PLAN_RECORDED) and case.holds(Rule.PLAN_NUMBER)
    for last in range(first, blocks + 1):
        content = content_of(first, last)
        yield _planned(case, shared, drain, (content,))
        for end in range(last + 1, blocks + 1 if ahead else 0):
            yield _planned(case, shared, drain, (content, content_of(last + 1, end)))


def _planned(case: Case, shared: Shared, drain: Drain, contents: tuple[int, ...]) -> Move:
    if not case.holds(Rule.PLAN_NUMBER):
        visible = shared.folder.files if shared.folder else ()
        listed = max((number for number, found in enumerate(visible, 1) if found > 0), default=0)
        drain = drain._replace(number=listed + 1, content=contents[0])
    after = drain._replace(last=drain.number + len(contents) - 1)
    blocks = " and ".join(f"{first_block(content)} to {last_block(content)}" for content in contents)
    what = f"plans files from {drain.number} on with blocks {blocks}"
    if not case.holds(Rule.PLAN_RECORDED):
        return Move(what, shared, after._replace(content=contents[0]))
    return Move(what, shared._replace(plan=shared.plan + contents), after)


def _has_lost_plan(shared: Shared, drain: Drain) -> bool:
    """Return True if the ledger went back behind the plan of the drain's number."""
    return shared.run > drain.run and not drain.content and drain.number > len(shared.plan)


@models(Pc.BUILD, "spark_jobs.build_files:FileBuilder.build", "spark_jobs.build_files:build_file")
def build(case: Case, shared: Shared, drain: Drain) -> Iterator[Move]:
    """Build all files of a round in one Spark job; an attempt that is lost can continue to write forever."""
    attempt = drain.attempt or 1 + 2 * drain.run  # two runs may use one epoch, but never one name
    temps = [
        Temp(number, attempt, drain.generation, expected(shared, drain, number))
        for number in range(drain.number, drain.last + 1)
    ]
    after = put(shared, drain.epoch, *temps)
    if after is None:
        yield Move("cannot build: its scratch is revoked", shared, IDLE)
        return
    built, what = drain._replace(pc=Pc.FOLDER_LOOK, attempt=attempt), f"builds files {drain.number} to {drain.last}"
    yield Move(what, after, built)
    lost = Request(Pc.BUILD, drain.epoch, drain.number, 2 + 2 * drain.run, -1, drain.generation, temps[0].content)
    for sent in send_late(case, after, lost):
        yield Move(f"{what}, an attempt is lost", sent, built)


@models(Pc.FOLDER_LOOK, "app.landing.publish:prepare_folder")
def folder_look(case: Case, shared: Shared, drain: Drain) -> Iterator[Move]:
    if shared.folder is not None:
        yield Move("sees the table folder", shared, drain._replace(pc=Pc.FOLDER_CHECK))
    elif drain.number > 1 and case.holds(Rule.FOLDER_ONCE):
        yield Move("sees that the table folder is gone", shared, drain._replace(pc=Pc.QUARANTINE))
    else:
        yield Move("sees no table folder", shared, drain._replace(pc=Pc.FOLDER_PREPARE))


@models(Pc.FOLDER_PREPARE, "app.landing.publish:prepare_folder")
def folder_prepare(case: Case, shared: Shared, drain: Drain) -> Iterator[Move]:
    after = put(shared, drain.epoch, Temp(0, 0, drain.generation, 0))
    if not case.holds(Rule.FOLDER_FROM_SCRATCH):
        after = shared
    if after is None:
        yield Move("cannot prepare the table folder: its scratch is revoked", shared, IDLE)
    else:
        yield Move("prepares the table folder", after, drain._replace(pc=Pc.FOLDER_RENAME))


@models(Pc.FOLDER_RENAME, "app.landing.publish:prepare_folder", "app.landing.local_zone:LocalZone.rename")
def folder_rename(case: Case, shared: Shared, drain: Drain) -> Iterator[Move]:
    request = Request(Pc.FOLDER_RENAME, drain.epoch, generation=drain.generation)
    outcome, what = carry_out(case, shared, request), "renames the table folder in"
    if outcome.shared.folder is None:
        yield Move("has lost the prepared folder", shared, IDLE)
    else:
        durable = synced(case, outcome.shared, Rule.RENAME_SYNCED) if outcome.done else outcome.shared
        yield Move(what, durable, drain._replace(pc=Pc.FOLDER_CHECK), outcome.violation)
    if outcome.done:
        yield Move(f"{what}, dies", outcome.shared, IDLE, outcome.violation)
    for sent in send_late(case, shared, request):
        yield Move(f"{what}, late", sent, IDLE)


@models(Pc.FOLDER_CHECK, "app.landing.publish:prepare_folder")
def folder_check(case: Case, shared: Shared, drain: Drain) -> Iterator[Move]:
    folder = shared.folder
    ours = folder is not None and folder.identity != FOREIGN and folder.generation == drain.generation
    if not ours and case.holds(Rule.FOLDER_MARKER):
        yield Move("finds a foreign marker or none", shared, drain._replace(pc=Pc.QUARANTINE))
    else:
        seen = FOREIGN if folder is not None and folder.identity == FOREIGN else -1
        yield Move("checks the folder's marker", shared, drain._replace(pc=Pc.REGISTER, seen=seen))


@models(Pc.REGISTER, "app.staging.ledger.files:register_builds")
def register(case: Case, shared: Shared, drain: Drain) -> Iterator[Move]:
    if is_stale(case, shared, drain, Rule.EPOCH_REGISTER) or shared.generation != drain.generation:
        yield Move("registers nothing: its epoch is over", shared, IDLE)
    elif case.holds(Rule.ONE_TEMP) and (shared.registered >= drain.epoch or drain.number <= shared.recorded):
        yield Move("registers nothing: another build is registered", shared, IDLE)
    elif _has_lost_plan(shared, drain):
        yield Move("registers nothing: the ledger has no such plan", shared, IDLE)
    else:
        registered = shared._replace(registered=max(shared.registered, drain.epoch))
        yield Move(f"registers its build {drain.number}", registered, drain._replace(pc=Pc.RENAME))


@models(
    Pc.RENAME,
    "app.landing.publish:make_visible",
    "app.landing.local_zone:LocalZone.rename",
    "app.landing.adls.zone:AdlsZone.rename",
)
def rename(case: Case, shared: Shared, drain: Drain) -> Iterator[Move]:
    """Rename the file; the answer may be lost, whether or not the request was or will be executed."""
    number = drain.number
    request = Request(Pc.RENAME, drain.epoch, number, drain.attempt, drain.seen)
    outcome, what = carry_out(case, shared, request, careless=drain.careless), f"renames file {number}"
    unclear = drain._replace(pc=Pc.LOOK_AGAIN)
    if outcome.done:
        after = drain._replace(pc=Pc.SYNC if case.bounds.power else Pc.RECORD)
        yield Move(what, outcome.shared, after, outcome.violation)
        if not case.holds(Rule.ONE_UNRECORDED) and number < drain.last:
            ahead = drain._replace(pc=Pc.RENAME, number=number + 1)
            yield Move(f"{what}, leaves the recording for later", outcome.shared, ahead, outcome.violation)
        yield Move(f"{what}, the answer is lost", outcome.shared, unclear, outcome.violation)
    elif shared.folder is None:
        yield Move(f"cannot rename file {number}: no folder", shared, IDLE)
    else:
        yield Move(f"cannot rename file {number}", shared, unclear)
    for sent in send_late(case, shared, request):
        yield Move(f"{what}, late", sent, unclear)


@models(Pc.SYNC, "app.landing.local_zone:LocalZone.rename")
def sync(case: Case, shared: Shared, drain: Drain) -> Iterator[Move]:
    yield Move(f"syncs file {drain.number}", synced(case, shared, Rule.RENAME_SYNCED), drain._replace(pc=Pc.RECORD))


@models(Pc.LOOK_AGAIN, "app.landing.publish:make_visible", "app.landing.landed_state:verify_landed")
def look_again(case: Case, shared: Shared, drain: Drain) -> Iterator[Move]:
    """After an unclear answer. The code gives the epoch up where the protocol may also rename again."""
    absent = IDLE
    left = find_temp(shared, drain.epoch, drain.number, drain.attempt)
    if not case.holds(Rule.ONE_TEMP) and drain.attempt == 1:
        absent = drain._replace(pc=Pc.BUILD, attempt=2)
    elif left:
        absent = drain._replace(pc=Pc.RENAME)
    move = verify_number(case, shared, drain, absent)
    if left and move.drain.pc is Pc.RECORD and case.holds(Rule.ONE_TEMP) and not move.violation:
        move = move._replace(violation="the ledger gets the size and hash of a temp that is not the visible file")
    yield move


@models(Pc.RECORD, "spark_jobs.steps.publishing:Publishing.record", "app.staging.ledger.files:record_published")
def record(case: Case, shared: Shared, drain: Drain) -> Iterator[Move]:
    number = drain.number
    if is_stale(case, shared, drain, Rule.EPOCH_RECORD):
        yield Move("records nothing: its epoch is over", shared, IDLE)
        return
    if case.holds(Rule.RECORD_IN_ORDER) and shared.recorded != number - 1:
        yield Move(f"records nothing: file {number} is not the next", shared, IDLE)
        return
    if _has_lost_plan(shared, drain):
        yield Move(f"records nothing: the ledger has no file {number}", shared, IDLE)
        return
    chosen = (drain.content,) if drain.content and number == len(shared.plan) + 1 else ()
    after = shared._replace(recorded=number, plan=shared.plan + chosen, registered=0)
    following = Drain(Pc.PLAN, drain.epoch, drain.generation, careless=drain.careless, run=drain.run)
    if case.bounds.setbacks and not drain.attempt:  # found by the take-over, which looks for the next one too
        following = following._replace(pc=Pc.READ)
    elif number < drain.last:
        following = drain._replace(pc=Pc.REGISTER, number=number + 1)
    wrong = recorded_amiss(after)
    if shared.mode is Mode.REBUILDING:
        wrong = "a file of the generation before is recorded in the rebuilt one"
    yield Move(f"records file {number}", after, following, wrong)


@models(Pc.QUARANTINE, "spark_jobs.steps.failures:TableFailures.add", "app.staging.tables.registry:quarantine_table")
def quarantine(case: Case, shared: Shared, drain: Drain) -> Iterator[Move]:
    """Quarantine the table; one that is being dropped stays in that state, shows the reason, and is tried again."""
    if is_stale(case, shared, drain, Rule.EPOCH_QUARANTINE) or shared.mode is not Mode.ACTIVE:
        yield Move("quarantines nothing", shared, IDLE)
    else:
        lost = shared.run and numbers_beyond(shared)
        wrong = "" if is_tampered(shared) or lost else "a table is quarantined without outside interference"
        yield Move("quarantines the table", shared._replace(mode=Mode.QUARANTINED), IDLE, wrong)
