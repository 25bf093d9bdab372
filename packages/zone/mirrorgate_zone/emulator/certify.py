"""`mirrorgate certify`: runs a publisher through the exercises, each scenario on a fresh emulator.

The command under test is started once for each step of a scenario, and again when it was killed or failed. Faults meet
single requests, chosen by what they publish. `mirrorgate_zone.emulator.exercises` says what has to be true then.
"""

import hashlib
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from app.landing.local_zone import LocalZone
from app.mirror.target import MirrorTarget, arrow_dataset
from app.published.table_files import list_files, list_tables
from mirrorgate_zone.emulator.emulator import TOKEN, Emulator, running
from mirrorgate_zone.emulator.exercises import (
    EXERCISES,
    SKIPPED,
    Event,
    Exercise,
    Observation,
    Result,
    Scenario,
    Step,
    Tables,
    Verdict,
    is_data,
    is_metadata,
    judge,
    meets,
    other_uploads,
    start_of,
)
from mirrorgate_zone.emulator.faults import Effect, Fault, FaultRates, Faults
from mirrorgate_zone.emulator.replicator import DEFAULT_SCHEMA
from mirrorgate_zone.emulator.storage_tree import Request, Response
from mirrorgate_zone.verify.codes import FindingCode, Severity
from mirrorgate_zone.verify.table_verification import ZoneVerification

MAX_STARTS: Final = 5
"""Of the command for one step: a supervisor would start it again, too."""
_LOOK_SECONDS: Final = 0.05
_SECOND_SECONDS: Final = 15.0
"""How long the first command is paused at most, while the second one runs."""
_MAX_OUTPUT: Final = 200
_CHANGES: Final = frozenset({"create", "append", "flush", "put", "rename"})

Told: TypeAlias = Callable[[Exercise, Result | None], object]
"""Called before an exercise runs, and with its result."""


class Journal(Faults):
    """The requests of one scenario below the landing zone, and the fault that some of them meet."""

    def __init__(self, scenario: Scenario, other_uploads: Set[str]) -> None:
        """Begin without requests. `other_uploads`: shapes of paths whose upload meets no fault."""
        super().__init__(rates=FaultRates(slow_replication=_LOOK_SECONDS))
        self.events: list[Event] = []
        self.at_fault: Callable[[Scenario], object] = lambda _scenario: None
        """Called when a request meets the fault, which waits for it."""
        self.database = ""
        """The id of the mirrored database."""
        self._scenario, self._other_uploads = scenario, other_uploads
        self._paths: list[str] = []
        self._left = scenario.times
        self._choosing = threading.Lock()

    def next(self, operation: str, path: str) -> Fault | None:
        """Return the fault of a request if it is the one of the scenario."""
        below, scenario = self._below(path), self._scenario
        if scenario.when is None or not below:
            return None
        if not meets(scenario.when, operation, below, self._other_uploads):
            return None
        with self._choosing:
            if below not in self._paths:
                self._paths.append(below)
            if self._paths.index(below) != scenario.nth - 1 or not self._left:
                return None
            self._left -= 1
            self.events.append(Event(time.monotonic(), operation, below, fault=scenario.fault, what=_what(scenario)))
        self.at_fault(scenario)
        return scenario.fault

    def note(self, emulator: Emulator, request: Request, response: Response) -> None:
        """Write down what a request changed. The tree is locked."""
        path = self._below(request.path)
        if not path or request.operation not in _CHANGES | {"delete", "create_folder"}:
            return
        renamed = unquote(request.headers.get("x-ms-rename-source", "")).strip("/").partition("/")[2]
        source = self._below(emulator.onelake.aliases.split(renamed)[1])
        files = _files(emulator, path) if response.status < 300 and request.operation in _CHANGES else ()
        self.events.append(
            Event(time.monotonic(), request.operation, path, source, response.status, files=tuple(files))
        )

    def _below(self, path: str) -> str:
        """Return a path below the landing zone; empty for any other."""
        item, _, rest = path.partition("/Files/LandingZone/")
        return rest if item == self.database else ""


def _what(scenario: Scenario) -> str:
    """Return what happens to a request, for the evidence."""
    said = []
    if scenario.fault is not None:
        done = {Effect.RESET_BEFORE: "connection ends, not done", Effect.RESET_AFTER: "done, connection ends"}
        said = [done.get(scenario.fault.effect, f"answered with {scenario.fault.status}")]
    said += ["the command is killed"] if scenario.kills else []
    return ", ".join(said + (["held until a second command has run"] if scenario.second else []))


def _files(emulator: Emulator, path: str) -> Iterator[tuple[str, str]]:
    """Yield the visible files at a path with digests of their content."""
    tree, zone = emulator.onelake.tree, emulator.onelake.landing_zone
    node = tree.get(f"{zone}/{path}")
    found = [] if node is None else [(f"{zone}/{path}", node)]
    if node is not None and node.folder:
        found = tree.below(f"{zone}/{path}", recursive=True)
    for full, file in found:
        below = full.removeprefix(f"{zone}/")
        if not file.folder and is_metadata(below):
            yield below, _keys(file.content)
        elif not file.folder and is_data(below):
            yield below, hashlib.sha256(file.content).hexdigest()[:12] if file.size else ""


def _keys(metadata: bytes) -> str:
    """Return the key columns that metadata declares; empty for what cannot be read."""
    with suppress(ValueError, AttributeError):
        return json.dumps(json.loads(metadata).get("keyColumns", []))
    return ""


@dataclass(frozen=True, slots=True)
class Publisher:
    """The command under test."""

    command: Sequence[str]
    timeout: float
    """Seconds that one start may take."""

    def start(self, environment: Mapping[str, str], output: Path) -> "subprocess.Popen[bytes]":
        """Start it in its own process group. Raise OSError if it cannot be started."""
        with output.open("ab") as file:
            return subprocess.Popen(
                self.command,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )


class _Run:
    """One scenario: its emulator, its journal, and the processes of the command."""

    def __init__(self, publisher: Publisher, exercise: Exercise, emulator: Emulator, journal: Journal) -> None:
        self._publisher, self._emulator, self._journal = publisher, emulator, journal
        self._folder = Path(emulator.addresses.directory)
        self._output = self._folder / "output.log"
        (self._folder / "state").mkdir()
        self._environment = {
            **emulator.addresses.environment,
            "MIRRORGATE_EXERCISE": exercise.name,
            "MIRRORGATE_STATE": str(self._folder / "state"),
            "MIRRORGATE_TOKEN": TOKEN,
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._second: subprocess.Popen[bytes] | None = None
        """The second command, if it is still running when the first one continues."""
        self._was_killed = self._second_failed = False
        journal.at_fault = self._at_fault
        self._step = Step.LOAD

    def step(self, step: Step) -> str | None:
        """Publish a step. Return why that failed, or None; the status SKIPPED as text for a step it does not have."""
        self._step, said = step, ""
        for _ in range(MAX_STARTS):
            self._was_killed = self._second_failed = False
            self._process = self._start()
            try:
                status = self._process.wait(self._publisher.timeout)
                if self._second is not None:
                    self._second_failed = self._second.wait(self._publisher.timeout) != 0
            except subprocess.TimeoutExpired:
                return f"{step}: the command did not end in {self._publisher.timeout:g} s"
            finally:
                for process in filter(None, (self._process, self._second)):
                    _signal_all(process.pid, signal.SIGKILL)
                    process.wait()
                self._second = None
            if status == SKIPPED:
                return str(SKIPPED)
            if status == 0 and not self._was_killed and not self._second_failed:
                return None
            said = f"exit status {status}: {self._last_line()}"
        return f"{step}: after {MAX_STARTS} starts {said}"

    def _start(self) -> "subprocess.Popen[bytes]":
        self._journal.events.append(start_of(self._step, time.monotonic()))
        return self._publisher.start({**self._environment, "MIRRORGATE_STEP": self._step}, self._output)

    def _at_fault(self, scenario: Scenario) -> None:
        process = self._process
        assert process is not None
        if scenario.ends_tokens:
            self._emulator.service.storage_tokens.intersection_update({TOKEN})
        if scenario.kills:
            self._was_killed = True
            _signal_all(process.pid, signal.SIGKILL)
        if scenario.second:
            _signal_all(process.pid, signal.SIGSTOP)
            second = self._start()
            try:
                self._second_failed = second.wait(_SECOND_SECONDS) != 0
            except subprocess.TimeoutExpired:
                self._second = second
            finally:
                _signal_all(process.pid, signal.SIGCONT)

    def _last_line(self) -> str:
        lines = self._output.read_text(encoding="utf-8", errors="replace").split("\n")
        return next((line.strip()[:_MAX_OUTPUT] for line in reversed(lines) if line.strip()), "no output")

    def settle(self) -> None:
        """Let the replicator apply all that has landed."""
        before, now = None, self._states()
        while before != now:
            self._emulator.replicator.run_once()
            before, now = now, self._states()

    def _states(self) -> list[object]:
        return [_lasting(table) for table in self._tables]

    @property
    def _tables(self) -> list[dict[str, Any]]:
        """The tables as Fabric's REST API shows them."""
        return self._emulator.service.databases[self._emulator.addresses.database].tables

    def tables(self) -> Tables:
        """Return the rows of the Delta tables."""
        zone, target = self._zone(), MirrorTarget(str(self._root / "Tables"))
        found = {}
        for table in list_tables(zone):
            delta = target.open(replace(table, schema=table.schema or DEFAULT_SCHEMA))
            if delta is not None:
                rows = arrow_dataset(delta).to_table().to_pylist()
                found[str(table)] = Counter(json.dumps(row, sort_keys=True, default=str) for row in rows)
        return found

    @property
    def _root(self) -> Path:
        return self._emulator.onelake.tree.root / self._emulator.addresses.database

    def _zone(self) -> LocalZone:
        return LocalZone(self._root / "Files" / "LandingZone")

    def failures(self) -> dict[str, str]:
        """Return the tables that have stopped, with the reason."""
        return {
            f"{table['sourceSchemaName']}.{table['sourceTableName']}": f"{error['errorCode']}: {error['message']}"
            for table in self._tables
            if (error := table.get("error"))
        }

    def landed(self) -> int:
        """Return the number of rows in the Parquet files of the landing zone."""
        zone, rows = self._zone(), 0
        for table in list_tables(zone):
            for file in list_files(zone, table).numbered.values():
                with suppress(OSError, pa.ArrowException), zone.read_file(file.path) as content:
                    rows += pq.read_metadata(content).num_rows
        return rows

    def findings(self) -> list[str]:
        """Return the errors of `mirrorgate verify`."""
        found = ZoneVerification(self._zone()).run(datetime.now(UTC), lambda _table, _done, _total: None)
        return [
            f"verify: {finding.code} {finding.file or finding.table or ''}: {finding.detail}"
            for finding in found
            if finding.severity is Severity.ERROR and finding.code is not FindingCode.CHECK_FAILED
        ]


def _lasting(table: Mapping[str, Any]) -> object:
    """Return what changes in the state of a table only when a file is applied."""
    metrics = table["metrics"]
    return [table["sourceTableName"], table["status"], metrics["processedRows"], metrics["processedBytes"]]


def _signal_all(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process, its group and its descendants, as far as /proc names them."""
    for one in [pid, *_descendants(pid)]:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(one, number) if one != pid else os.killpg(pid, number)


def _descendants(pid: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            parents.setdefault(int(stat.read_text().rpartition(")")[2].split()[1]), []).append(int(stat.parent.name))
    found = [pid]
    for one in found:
        found += parents.get(one, [])
    return found[1:]


def observe(publisher: Publisher, exercise: Exercise, plain: Observation) -> Observation:
    """Run the scenario of an exercise on a fresh emulator. Raise OSError if the command cannot be started.

    `plain`: the run without faults, which shows what its uploads are for; without events, if this is that run.
    """
    scenario, journal = exercise.scenario, Journal(exercise.scenario, other_uploads(plain.events))
    with ExitStack() as stack:
        folder = tempfile.TemporaryDirectory(prefix="mirrorgate-certify-", ignore_cleanup_errors=True)
        emulator = stack.enter_context(running(Path(stack.enter_context(folder)), faults=journal))
        journal.database = emulator.addresses.database
        emulator.onelake.on_done = lambda request, response: journal.note(emulator, request, response)
        run = _Run(publisher, exercise, emulator, journal)
        rows: list[tuple[Step, Tables]] = []
        trouble, skipped = "", None
        for step in scenario.steps:
            said = run.step(step)
            run.settle()
            if said == str(SKIPPED):
                skipped = step
                break
            rows.append((step, run.tables()))
            if said is not None:
                trouble = said
                break
        return Observation(journal.events, rows, run.failures(), run.findings(), run.landed(), trouble, skipped)


def certify(publisher: Publisher, exercises: Sequence[Exercise], tell: Told) -> list[Result]:
    """Run exercises and return their results. Raise OSError if the command cannot be started.

    The run without faults is the first one in any case: the others are compared with it.
    """
    results, plain = [], None
    for exercise in exercises:
        tell(exercise, None)
        if plain is None:
            plain = observe(publisher, EXERCISES[0], Observation())
        seen = plain if exercise.scenario == Scenario() else observe(publisher, exercise, plain)
        result = judge(exercise, seen, plain)
        results.append(result)
        tell(exercise, result)
    return results


def page(results: Sequence[Result], command: str, version: str) -> str:
    """Return the results as a Markdown page."""
    numbers = Counter(result.verdict for result in results)
    said = ", ".join(f"{numbers[verdict]} {verdict}" for verdict in Verdict if numbers[verdict])
    lines = [
        "# Certification of a publisher",
        "",
        f"`{command}` on Mirrorgate's emulator {version}: {said}.",
        "",
        "| exercise | verdict | what happens, and what has to be true | evidence |",
        "|---|---|---|---|",
    ]
    for result in results:
        shown = "<br>".join(line.replace("|", "\\|") for line in result.evidence)
        lines.append(f"| `{result.name}` | {result.verdict} | {result.about} | {shown} |")
    if failed := [result for result in results if result.verdict is Verdict.FAILED]:
        lines += ["", "## What to do", ""]
        lines += [f"- `{result.name}`: {result.remedy} Source: {result.source}." for result in failed]
    return "\n".join(lines) + "\n"
