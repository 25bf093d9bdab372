"""Compare a landing zone with the journal of acknowledged changes, using only PyArrow.

It remembers all it has seen, so that what changes, comes back or goes away is noticed too.
"""

import io
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from tests.chaos.checks.consumer_view import SeenFile, SeenFolder
from tests.chaos.checks.journal import Journal, Life, Row, plain

MARKER_COLUMN = "__rowMarker__"


class Violation(Exception):
    """The gateway broke its promise."""


@dataclass
class Result:
    """What came of a history, or of several."""

    kills: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    files: int = 0
    batches: int = 0
    violation: str | None = None

    def add(self, other: "Result") -> None:
        """Count what came of another history too; its violation, if any, is that of both."""
        self.kills += other.kills
        self.faults += other.faults
        self.events += other.events
        self.rows, self.files = self.rows + other.rows, self.files + other.files
        self.batches += other.batches
        self.violation = other.violation


class Consumer(Protocol):
    """A reader of a landing zone, which moves files away as mirroring does."""

    def folders(self) -> list[SeenFolder]: ...

    def consume(self, folder: str, number: int) -> None: ...


@dataclass
class KnownFile:
    """A landing file as it was when it was first seen; its rows until they have been compared."""

    signature: str
    digest: str
    first: int
    last: int
    rows: list[Row] | None


@dataclass
class KnownLife:
    """What has been seen of one generation of one table."""

    identity: str
    files: dict[int, KnownFile] = field(default_factory=dict)
    consumed: set[int] = field(default_factory=set)

    @property
    def through(self) -> int:
        """The last batch that landed."""
        return self.files[len(self.files)].last if self.files else 0


@dataclass(frozen=True)
class Counts:
    """What the gateway itself says of a table."""

    generation: int
    state: str
    accepted: int
    staged: int
    published: int


class Oracle:
    """Raises Violation from whatever call first shows one."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lives: dict[Life, KnownLife] = {}
        self._newest: dict[str, int] = {}
        self.rows_checked = 0
        self.files_checked = 0

    def look(self, consumer: Consumer, recorded: Mapping[Life, int], consumes: Callable[[], bool]) -> None:
        """Check what the consumer sees now, then let it consume some files, of each table any but the last."""
        folders = consumer.folders()
        self.see(folders)
        self._see_ledger(recorded, folders)
        for folder in folders:
            for number in sorted(folder.visible)[:-1]:
                if consumes():
                    consumer.consume(folder.folder, number)

    def see(self, folders: Iterable[SeenFolder]) -> None:
        """Check the current content of the landing zone."""
        for folder in folders:
            try:
                self._see(folder)
            except FileNotFoundError:
                continue  # dropped while it was read; the next look tells
        for life, known in self._lives.items():
            self._compare(life, known)

    def finish(self, folders: list[SeenFolder], counts: Mapping[str, Counts]) -> None:
        """Once nothing is pending: all that was acknowledged has landed, and the gateway's own counts say so."""
        self.see(folders)
        if unanswered := self._journal.unanswered():
            raise Violation(f"never answered: {unanswered}")
        for folder in folders:
            self._read_again(folder)
        for life in {*self._journal.lives(), *self._lives}:
            self._finish_life(life, counts[life[0]])

    def _see_ledger(self, recorded: Mapping[Life, int], folders: Iterable[SeenFolder]) -> None:
        """Check that the folders hold every file that was recorded as published before they were read."""
        for folder in folders:
            life = (folder.table, _generation(folder))
            numbers = folder.visible.keys() | folder.processed.keys()
            if missing := set(range(1, recorded.get(life, 0) + 1)) - numbers:
                raise Violation(f"{life}: recorded as published, but not there: {sorted(missing)}")

    def _finish_life(self, life: Life, counts: Counts) -> None:
        known, last = self._lives.get(life), self._journal.last_sequence(life)
        if last and self._journal.batches(life, 1, last) is None:
            raise Violation(f"{life}: the acknowledged sequences have a hole")
        if known and (left := [number for number, file in known.files.items() if file.rows is not None]):
            raise Violation(f"{life}: files {left} hold batches that nobody was told were accepted")
        if life[1] != counts.generation:
            return
        if counts.state != "active":
            raise Violation(f"{life}: the table is {counts.state}")
        landed = known.through if known else 0
        if landed != last:
            raise Violation(f"{life}: batches up to {last} were acknowledged, up to {landed} landed")
        rows = sum(len(request.rows) for request in self._journal.batches(life, 1, last) or ())
        if {counts.accepted, counts.staged, counts.published} != {rows}:
            raise Violation(f"{life}: {rows} rows were acknowledged; the gateway counts {counts}")

    def _see(self, folder: SeenFolder) -> None:
        table = folder.table
        if folder.strays:
            raise Violation(f"{table}: names that mirroring does not know: {folder.strays}")
        if folder.marker is None or not folder.has_metadata:
            if folder.visible or folder.processed:
                raise Violation(f"{table}: files without metadata or marker")
            return
        generation = _generation(folder)
        if generation < self._newest.setdefault(table, generation):
            raise Violation(f"{table}: generation {generation} came back")
        self._newest[table] = generation
        known = self._lives.setdefault((table, generation), KnownLife(folder.identity))
        if known.identity != folder.identity:
            raise Violation(f"{table}: the folder of generation {generation} was made twice")
        self._see_numbers(folder, known)
        for number, file in sorted((folder.processed | folder.visible).items()):
            self._see_file((table, generation), known, number, file)

    def _see_numbers(self, folder: SeenFolder, known: KnownLife) -> None:
        numbers = folder.visible.keys() | folder.processed.keys()
        if numbers != set(range(1, len(numbers) + 1)):
            raise Violation(f"{folder.table}: a gap in the numbers {sorted(numbers)}")
        if missing := known.files.keys() - numbers:
            raise Violation(f"{folder.table}: files that were visible are gone: {sorted(missing)}")
        known.consumed |= folder.processed.keys()
        if back := folder.visible.keys() & known.consumed:
            raise Violation(f"{folder.table}: numbers came back after they were consumed: {sorted(back)}")

    def _see_file(self, life: Life, known: KnownLife, number: int, file: SeenFile) -> None:
        before = known.files.get(number)
        if before is None:
            known.files[number] = _read(life, number, file, after=known.through)
            self.files_checked += 1
        elif before.signature != file.signature:
            raise Violation(f"{life}: file {number} changed after it was visible")

    def _read_again(self, folder: SeenFolder) -> None:
        known = self._lives.get((folder.table, _generation(folder)))
        for number, file in (folder.processed | folder.visible).items():
            if known and sha256(file.read()).hexdigest() != known.files[number].digest:
                raise Violation(f"{folder.table}: file {number} changed after it was visible")

    def _compare(self, life: Life, known: KnownLife) -> None:
        for number, file in known.files.items():
            if file.rows is None:
                continue
            requests = self._journal.batches(life, file.first, file.last)
            if requests is None:
                continue
            wanted = [row for request in requests for row in request.rows]
            if wanted != file.rows:
                place = next(
                    (at for at, pair in enumerate(zip(wanted, file.rows, strict=False)) if pair[0] != pair[1]), -1
                )
                raise Violation(
                    f"{life}: file {number} (batches {file.first} to {file.last}) holds {len(file.rows)} rows, "
                    f"{len(wanted)} were acknowledged; the first that differs: {place}"
                )
            self.rows_checked += len(wanted)
            file.rows = None


def _generation(folder: SeenFolder) -> int:
    return int((folder.marker or {}).get("generation", 0))


def _read(life: Life, number: int, file: SeenFile, *, after: int) -> KnownFile:
    """Check a file that is seen for the first time against its footer."""
    content = file.read()
    try:
        table = pq.read_table(io.BytesIO(content))
    except (pa.ArrowInvalid, OSError) as error:
        raise Violation(f"{life}: file {number} is not whole Parquet: {error}") from error
    footer = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    says = {name: footer.get(f"mirrorgate.{name}") for name in ("table", "generation", "number", "rows")}
    if says != {"table": life[0], "generation": str(life[1]), "number": str(number), "rows": str(table.num_rows)}:
        raise Violation(f"{life}: file {number} says that it is {says}")
    first, last = int(footer["mirrorgate.first_sequence"]), int(footer["mirrorgate.last_sequence"])
    if (number, first, last, table.num_rows) == (1, 1, 0, 0):  # the seed file
        return KnownFile(file.signature, sha256(content).hexdigest(), first, last, None)
    if not after + 1 == first <= last:
        raise Violation(f"{life}: file {number} has the batches {first} to {last}, the one before ends with {after}")
    if not table.num_rows:
        raise Violation(f"{life}: file {number} has no rows")
    return KnownFile(file.signature, sha256(content).hexdigest(), first, last, _rows(table))


def _rows(table: pa.Table) -> list[Row]:
    names = [MARKER_COLUMN, *(name for name in table.column_names if name != MARKER_COLUMN)]
    columns = [[plain(value) for value in table.column(name).to_pylist()] for name in names]
    return [list(row) for row in zip(*columns, strict=True)]
