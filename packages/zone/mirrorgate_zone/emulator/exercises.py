"""The exercises of `mirrorgate certify`: what happens in each, and the judgement over what the publisher did.

Nothing here runs a command: `certify` beside it does, and gives a judgement the journal of the requests, the rows of
the Delta tables, and what `mirrorgate verify` finds. Evidence has names and numbers, and no row value.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from app.landing.publish import METADATA
from app.published.table_files import SCHEMA_SUFFIX
from mirrorgate_zone.emulator.faults import Effect, Fault, answer

MAX_EVIDENCE: Final = 5
"""Lines of one result."""
SKIPPED: Final = 77
"""Exit status of a command that does not have a step, as of Automake's tests."""

_START: Final = "start"
_UPLOADS: Final = frozenset({"append", "put"})
_RESET_BEFORE, _RESET_AFTER = Fault(Effect.RESET_BEFORE), Fault(Effect.RESET_AFTER)
_BEST: Final = "Microsoft Learn, *Best practices for open mirroring*"
_FORMATS: Final = "Microsoft Learn, *Landing zone requirements and formats*"
_STORAGE: Final = "Azure Storage REST reference"


class Step(StrEnum):
    """What a start of the command publishes: `MIRRORGATE_STEP`."""

    LOAD = "load"
    CHANGE = "change"
    ADD_COLUMN = "add_column"
    CHANGE_TYPE = "change_type"
    DROP = "drop"


STEPS: Final = {
    Step.LOAD: "the first rows of a table with a key, in two files or more",
    Step.CHANGE: "updates and deletes of these rows, and new rows, in one file or more",
    Step.ADD_COLUMN: "rows with one more column",
    Step.CHANGE_TYPE: "rows whose column has another type, as the publisher handles it",
    Step.DROP: "the end of the table",
}


class Verdict(StrEnum):
    """The outcome of an exercise."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_EXERCISED = "not exercised"


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the journal: a start of the command, a fault that a request meets, or a request that was done."""

    at: float
    """Seconds of a clock that only goes forward."""
    operation: str
    path: str
    """Below the landing zone; the step, for a start of the command."""
    source: str = ""
    status: int = 0
    fault: Fault | None = None
    what: str = ""
    """What happened instead of an answer."""
    files: tuple[tuple[str, str], ...] = ()
    """Files that are visible by it: path, and a digest of the content. `_metadata.json` has its keys instead."""

    def __str__(self) -> str:
        moved = f"{self.source} -> {self.path}" if self.source else self.path
        return f"{self.operation} {moved}: {self.what or self.status}"


Tables = Mapping[str, Counter[str]]
"""The rows of each Delta table, as JSON, with their number."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What was seen in one run of a scenario."""

    events: Sequence[Event] = ()
    rows: Sequence[tuple[Step, Tables]] = ()
    """The Delta tables after each step."""
    failures: Mapping[str, str] = field(default_factory=dict)
    """Tables that do not replicate, with the reason."""
    findings: Sequence[str] = ()
    """Errors that `mirrorgate verify` finds."""
    landed: int = 0
    """Rows of the Parquet files that are in the landing zone."""
    trouble: str = ""
    """Why a step did not end."""
    skipped: Step | None = None
    """A step that the command does not have."""

    @property
    def is_met(self) -> bool:
        """True if a request met the fault of the scenario."""
        return any(event.what for event in self.events)

    def rows_after(self, step: Step) -> Tables:
        """Return the tables after the first run of a step."""
        return next((tables for done, tables in self.rows if done is step), {})


class When(StrEnum):
    """Which requests meet a fault."""

    PUBLISH = "publish"
    """Those that make a data file visible."""
    UPLOAD = "upload"
    """Those that write its content."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """The steps of a run, and what happens in it."""

    steps: tuple[Step, ...] = (Step.LOAD, Step.CHANGE)
    when: When | None = None
    nth: int = 1
    """The fault meets the requests of the nth path."""
    fault: Fault | None = None
    times: int = 1
    """So many requests of the path meet it."""
    kills: bool = False
    """The command is killed then."""
    ends_tokens: bool = False
    """The tokens that were issued are no longer valid then."""
    second: bool = False
    """The command is stopped then, until a second one has run."""


Check = Callable[[Observation, Observation], Iterator[str]]
"""Yields evidence of what is wrong in an observation. The second one is that of the run without faults."""


def is_data(path: str) -> bool:
    """Return whether mirroring reads a file of this path as data of a table: below its folder, and not hidden."""
    parts = path.split("/")
    depth = 2 if parts[0].lower().endswith(SCHEMA_SUFFIX) else 1
    return len(parts) > depth and not any(part.startswith(("_", ".")) for part in parts)


def is_metadata(path: str) -> bool:
    """Return whether this is the metadata of a table."""
    folder, _, name = path.rpartition("/")
    return name == METADATA and bool(folder) and not any(part.startswith("_") for part in folder.split("/"))


def meets(when: When, operation: str, path: str, other_uploads: Set[str] = frozenset()) -> bool:
    """Return whether a request meets the faults of a scenario. `other_uploads`: those of the run without faults."""
    if when is When.PUBLISH:
        return operation in ("rename", "flush", "put") and is_data(path)
    return operation in _UPLOADS and not path.endswith(".json") and _shape(path) not in other_uploads


def other_uploads(events: Sequence[Event]) -> frozenset[str]:
    """Return the shapes of the paths that were uploaded and did not become data, such as probes and metadata."""
    sources = {event.source or event.path for event in events if any(is_data(path) for path, _ in event.files)}
    data = {_shape(source) for source in sources}
    uploaded = {_shape(event.path) for event in events if event.operation in _UPLOADS}
    return frozenset(shape for shape in uploaded - data if shape.rpartition("/")[0] not in data)


def _shape(path: str) -> str:
    """Return a path without what differs between runs: numbers, ids and hashes."""
    return re.sub(r"[0-9a-f-]*[0-9][0-9a-f-]*", "#", path)


@dataclass(frozen=True, slots=True)
class _Publication:
    """A file that became visible, or got other content."""

    event: Event
    path: str
    digest: str
    life: int
    """Which table of the folder, one after the other."""

    @property
    def table(self) -> tuple[str, int]:
        return self.path.rpartition("/")[0], self.life


def _publications(events: Sequence[Event]) -> list[_Publication]:
    """Return what became visible, in order."""
    lives: Counter[str] = Counter()
    found: list[_Publication] = []
    for event in events:
        if gone := _gone(event):
            lives.update({place for place in {one.table[0] for one in found} if f"{place}/".startswith(f"{gone}/")})
        for path, digest in event.files:
            found.append(_Publication(event, path, digest, lives[path.rpartition("/")[0]]))
    return found


def _is_done(event: Event) -> bool:
    return not event.what and 200 <= event.status < 300


def _gone(event: Event) -> str:
    """Return the path that is no longer there after a request; empty if there is none."""
    if not _is_done(event):
        return ""
    return event.source if event.operation == "rename" else event.path if event.operation == "delete" else ""


def ends(seen: Observation, _: Observation) -> Iterator[str]:
    """Check that the command publishes each step and exits with 0."""
    if seen.trouble:
        yield seen.trouble


def replicates(seen: Observation, plain: Observation) -> Iterator[str]:
    """Check that no table stops, and that nothing is invalid that is valid without faults."""
    yield from (f"{table}: {reason}" for table, reason in seen.failures.items() if table not in plain.failures)
    yield from (finding for finding in seen.findings if finding not in plain.findings)


def is_valid(seen: Observation, _: Observation) -> Iterator[str]:
    """Check that no table stops, that the landing zone is valid, and that rows arrive."""
    yield from replicates(seen, Observation())
    for step in (Step.LOAD, Step.CHANGE):
        if not seen.trouble and not any(seen.rows_after(step).values()):
            yield f"no row in a Delta table after {step}"


def writes_aside(seen: Observation, _: Observation) -> Iterator[str]:
    """Check that data files become visible by a rename."""
    for event in seen.events:
        if _is_done(event) and is_data(event.path) and event.operation in ("create", "append", "flush", "put"):
            yield str(event)


def changes_no_file(seen: Observation, _: Observation) -> Iterator[str]:
    """Check that visible files keep their content and their place."""
    contents: dict[tuple[str, int], str] = {}
    published = [one for one in _publications(seen.events) if is_data(one.path)]
    for one in published:
        if one.digest and contents.setdefault((one.path, one.life), one.digest) != one.digest:
            yield f"{one.event} (other content)"
    paths = {one.path for one in published}
    yield from (f"{event} (a published file)" for event in seen.events if _gone(event) in paths)


def counts(seen: Observation, _: Observation) -> Iterator[str]:
    """Check that the files of a table have the numbers 1, 2, 3, and become visible in this order."""
    last: dict[tuple[str, int], int] = {}
    for one in _publications(seen.events):
        stem = one.path.rpartition("/")[2].partition(".")[0]
        if is_data(one.path):
            if not (stem.isdecimal() and len(stem) == 20):
                yield f"{one.event} (no number of 20 digits)"
                continue
            before = last.get(one.table, 0)
            if int(stem) > before + 1:
                yield f"{one.event} (the file before it was {before})"
            last[one.table] = max(before, int(stem))


def declares_first(seen: Observation, _: Observation) -> Iterator[str]:
    """Check that `_metadata.json` is there before the first file, and that its keys never change."""
    keys: dict[tuple[str, int], str] = {}
    for one in _publications(seen.events):
        if is_metadata(one.path):
            if one.digest and keys.setdefault(one.table, one.digest) != one.digest:
                yield f"{one.event} (other keyColumns)"
        elif one.table not in keys:
            keys[one.table] = ""
            yield f"{one.event} (no {METADATA} yet)"


def publishes_once(seen: Observation, plain: Observation) -> Iterator[str]:
    """Check that the files have no more rows than without faults."""
    if seen.landed > plain.landed:
        yield f"{seen.landed} rows in the files, {plain.landed} without faults"


def has_rows_of(step: Step) -> Check:
    """Return the check that the tables have the rows that they have after this step without faults."""

    def compare(seen: Observation, plain: Observation) -> Iterator[str]:
        found, expected = (seen.rows[-1][1] if seen.rows else {}), plain.rows_after(step)
        if not seen.trouble:
            for table in sorted({*found, *expected}):
                has, wants = found.get(table, Counter()), expected.get(table, Counter())
                if missing := (wants - has).total():
                    yield f"{table}: {missing} of {wants.total()} rows missing or with other values"
                if more := (has - wants).total():
                    yield f"{table}: {more} rows that are not there without faults, or twice"

    return compare


def waits(seen: Observation, _: Observation) -> Iterator[str]:
    """Check that a throttled request is repeated after Retry-After at the earliest."""
    for position, event in enumerate(seen.events):
        seconds = event.fault.retry_after if event.fault else None
        later = (
            one for one in seen.events[position + 1 :] if (one.operation, one.path) == (event.operation, event.path)
        )
        again = next(later, None)
        if seconds and again and again.at - event.at < float(seconds) * 0.9:
            yield f"{again} (after {again.at - event.at:.2f} s instead of {seconds} s)"


def has_new_column(seen: Observation, _: Observation) -> Iterator[str]:
    """Check that a Delta table has a column that it did not have after the load."""
    before, after = ({row.count('": ') for rows in seen.rows_after(step).values() for row in rows} for step in _WIDER)
    if not seen.trouble and max(after, default=0) <= max(before, default=0):
        yield "no Delta table has a new column"


_WIDER: Final = (Step.LOAD, Step.ADD_COLUMN)


def drops(seen: Observation, _: Observation) -> Iterator[str]:
    """Check that the table is gone after its end."""
    for table, rows in seen.rows_after(Step.DROP).items():
        yield f"{table} still has {rows.total()} rows"


@dataclass(frozen=True, slots=True)
class Exercise:
    """One exercise."""

    name: str
    about: str
    """What happens, and what has to be true then."""
    checks: tuple[Check, ...]
    remedy: str
    source: str = _BEST
    scenario: Scenario = Scenario()


_SAME: Final = (ends, replicates, changes_no_file, counts, has_rows_of(Step.CHANGE))
"""What has to be true after all faults of requests and processes."""
_ONCE: Final = (*_SAME, publishes_once)

EXERCISES: Final = (
    Exercise(
        "rows_arrive",
        "Without faults: the command ends, no table stops, the landing zone is valid, and the tables have rows.",
        (ends, is_valid),
        "Correct what `mirrorgate verify` finds first. The other exercises compare with these rows.",
        _FORMATS,
    ),
    Exercise(
        "atomic_files",
        "Without faults: a data file is written under a hidden name, and becomes visible by a rename.",
        (writes_aside,),
        "Write the file under a name that begins with `_`, and rename it when it is complete.",
    ),
    Exercise(
        "immutable_files",
        "Without faults: no published file is overwritten, appended to, renamed or deleted.",
        (changes_no_file,),
        "Publish each file once, under a new number, with `If-None-Match: *`. Corrections are rows of a later file.",
    ),
    Exercise(
        "dense_numbers",
        "Without faults: the files of a table are published as 1, 2, 3, in this order.",
        (counts,),
        "Take the next number from one durable counter of the table, and publish it before the one after it.",
        _FORMATS,
    ),
    Exercise(
        "metadata_first",
        "Without faults: `_metadata.json` is there before the first file, and the key columns never change.",
        (declares_first,),
        "Write `_metadata.json` with `keyColumns` before file 1. Other keys need a new table.",
    ),
    Exercise(
        "lost_answer",
        "A file is published, and the answer is lost. It is published once.",
        _ONCE,
        "After a rename without an answer, read the destination: the same content means that it is done.",
        scenario=Scenario(when=When.PUBLISH, nth=2, fault=_RESET_AFTER),
    ),
    Exercise(
        "lost_request",
        "The connection ends before a file is published. It is published all the same.",
        _SAME,
        "After a rename without an answer, read the destination: if nothing is there, send the same rename again.",
        scenario=Scenario(when=When.PUBLISH, nth=2, fault=_RESET_BEFORE),
    ),
    Exercise(
        "crash_during_upload",
        "The command is killed while it writes a file. The next start leaves no partial file and no gap.",
        (*_SAME, writes_aside),
        "Write each file under a hidden name. Delete the hidden files of a crash at the next start.",
        scenario=Scenario(when=When.UPLOAD, fault=_RESET_BEFORE, kills=True),
    ),
    Exercise(
        "crash_before_publish",
        "The command is killed when a file is complete and not published. Nothing is lost.",
        _SAME,
        "Record which rows belong to which number before you publish, and finish that number after a restart.",
        scenario=Scenario(when=When.PUBLISH, fault=_RESET_BEFORE, kills=True),
    ),
    Exercise(
        "crash_before_checkpoint",
        "The command is killed after a file is published, before it can note that. Nothing is published twice.",
        _ONCE,
        "At a start, look for the file of the number that is not noted as published, and compare it with its rows.",
        scenario=Scenario(when=When.PUBLISH, fault=_RESET_AFTER, kills=True),
    ),
    Exercise(
        "second_file_fails",
        "The second file is answered with 500. No later file becomes visible before it.",
        _SAME,
        "Publish the files of a table one after the other, and stop at the first that fails.",
        scenario=Scenario(when=When.PUBLISH, nth=2, fault=answer(500, "InternalError")),
    ),
    Exercise(
        "two_publishers",
        "The command is paused before it publishes, a second one runs, and the first one wakes up. Nothing is lost, "
        "overwritten or published twice.",
        _ONCE,
        "Let one process own a table, by a lease or a lock, and rename with `If-None-Match: *`.",
        scenario=Scenario(when=When.PUBLISH, second=True),
    ),
    Exercise(
        "throttled",
        "Two requests are answered with 429 and Retry-After. They are repeated after that time.",
        (*_SAME, waits),
        "Wait as long as Retry-After says, and repeat the same request.",
        _STORAGE,
        Scenario(when=When.PUBLISH, fault=answer(429, "TooManyRequests", retry_after="1"), times=2),
    ),
    Exercise(
        "upload_fails",
        "The upload of a file is answered with 503. No part of it becomes visible.",
        _SAME,
        "Repeat the upload from its start, under a hidden name, and check the size before the rename.",
        _STORAGE,
        Scenario(when=When.UPLOAD, fault=answer(503, "ServerBusy")),
    ),
    Exercise(
        "expired_token",
        "All tokens expire in the middle of the load. The publisher gets a new one.",
        _SAME,
        "After a 401, get a new token and repeat the request.",
        _STORAGE,
        Scenario(when=When.PUBLISH, fault=answer(401, "InvalidAuthenticationInfo"), ends_tokens=True),
    ),
    Exercise(
        "old_rows_again",
        "The load is asked for again after the change. Old rows do not replace newer ones.",
        _SAME,
        "Keep the position of the source durably with the number of the file, and skip what is published.",
        scenario=Scenario((Step.LOAD, Step.CHANGE, Step.LOAD)),
    ),
    Exercise(
        "add_column",
        "The publisher adds a column. The table gets the column and keeps its rows.",
        (ends, replicates, changes_no_file, counts, has_new_column),
        "Write the new column into the next file, nullable, and keep all others.",
        _FORMATS,
        Scenario((Step.LOAD, Step.ADD_COLUMN)),
    ),
    Exercise(
        "change_type",
        "The type of a column changes. The table does not stop.",
        (ends, replicates, changes_no_file, counts, declares_first),
        "Delete the folder, wait until the table is gone, and publish it again with metadata and all rows.",
        scenario=Scenario((Step.LOAD, Step.CHANGE_TYPE)),
    ),
    Exercise(
        "drop_and_recreate",
        "The table ends and is loaded again: its folder goes, and the new one begins with metadata and file 1.",
        (ends, replicates, changes_no_file, counts, declares_first, drops, has_rows_of(Step.LOAD)),
        "Delete the folder as a whole, forget its numbers, and begin the new one with metadata and file 1.",
        scenario=Scenario((Step.LOAD, Step.DROP, Step.LOAD)),
    ),
)
"""All exercises, in the order in which they run."""


@dataclass(frozen=True, slots=True)
class Result:
    """The verdict of an exercise, with the requests and files that show it."""

    name: str
    verdict: Verdict
    evidence: Sequence[str]
    about: str
    remedy: str
    source: str


def judge(exercise: Exercise, seen: Observation, plain: Observation) -> Result:
    """Return the verdict. `plain`: the run without faults, which can be the same one."""
    reason = _not_exercised(exercise, seen, plain)
    if reason:
        verdict, evidence = Verdict.NOT_EXERCISED, [reason]
    else:
        evidence = list(dict.fromkeys(line for check in exercise.checks for line in check(seen, plain)))
        verdict = Verdict.FAILED if evidence else Verdict.PASSED
        evidence = evidence or _shown(exercise, seen)
    if len(evidence) > MAX_EVIDENCE:
        evidence = [*evidence[: MAX_EVIDENCE - 1], f"and {len(evidence) - MAX_EVIDENCE + 1} more"]
    return Result(exercise.name, verdict, evidence, exercise.about, exercise.remedy, exercise.source)


def _not_exercised(exercise: Exercise, seen: Observation, plain: Observation) -> str:
    if seen.skipped:
        return f"the command does not have the step {seen.skipped}"
    if exercise is EXERCISES[0]:
        return ""
    published = _publications(seen.events)
    if not published:
        return "the command published nothing"
    if exercise.scenario == Scenario():
        return ""
    if not any(plain.rows_after(Step.LOAD).values()):
        return "no row arrived in the run without faults"
    if exercise.scenario.when and not seen.is_met:
        return f"no request met the fault: there is no file {exercise.scenario.nth}"
    step = exercise.scenario.steps[-1]
    started = next((event.at for event in seen.events if (event.operation, event.path) == (_START, step)), 0.0)
    if step in (Step.ADD_COLUMN, Step.CHANGE_TYPE) and not seen.trouble and published[-1].event.at < started:
        return f"the command published nothing in the step {step}"
    return ""


def _shown(exercise: Exercise, seen: Observation) -> list[str]:
    """Return what shows that an exercise is passed."""
    faults = [str(event) for event in seen.events if event.what]
    files = len({(one.path, one.life) for one in _publications(seen.events) if is_data(one.path)})
    rows = sum(tables.total() for tables in (seen.rows[-1][1] if seen.rows else {}).values())
    starts = sum(event.operation == _START for event in seen.events)
    first = [f"{faults[0]}, then {len(faults) - 1} more"] if len(faults) > 1 else faults
    return [*first, f"{starts} starts, {files} files, {rows} rows"]


def start_of(step: Step, at: float) -> Event:
    """Return the event of a start of the command."""
    return Event(at, _START, step)
