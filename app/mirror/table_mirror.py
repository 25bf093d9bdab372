"""Apply the next landing files of one table to its Delta table: one commit at a time, in the order of their numbers.

`advance_table` makes a commit. Invariant: a commit contains files that follow the position without a gap, and moves the
position behind them. A process that dies anywhere neither repeats nor skips a file.

`view_table` finds what the mirror sees of a table before it applies anything: the zone's files, and how far the Delta
table is. `read_batch` reads the rows of the next files in order until a limit is reached.

`generation_of` recognizes a new generation. Each generation has a Delta table: `move_aside` keeps the one that ended
beside the new one as `<table>@g<generation>`.

`report_of` reports how far the mirror has applied a table: what a mirror process, the commands and the API show.
"""

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from app.domain.mirror_report import FolderOwner, MirrorState, TableReport
from app.landing.landed_state import FolderMarker, read_marker
from app.landing.parquet_file import ROW_GROUP_ROWS
from app.landing.zone import LandingZone, PathKind
from app.mirror.commit import (
    INSERT,
    UPSERT,
    Effect,
    MirrorColumn,
    commit_effect,
    conform,
    create_table,
    fold,
    grown,
    known_columns,
)
from app.mirror.file_order import OrderedFiles, fingerprint, order_table
from app.mirror.target import (
    DamagedTable,
    MirrorTarget,
    Position,
    arrow_dataset,
    is_store_error,
    read_pins,
    read_position,
    shown,
    store_error,
)
from app.published.data_file import read_rows, read_schema, with_partition, without_marker
from app.published.table_files import SCHEMA_SUFFIX, DataFile, PublishedTable, TableFiles
from app.published.table_metadata import TableMetadata, read_metadata
from mirrorgate.errors import Code, InvariantBroken

_JUDGED_COMMITS: Final = 100
_KEEPS_ROWS: Final = re.compile("OPTIMIZE|VACUUM|PROPERTIES|CONSTRAINT|PROTOCOL|FEATURE|CLUSTER|REORG|STATS|METADATA")
"""Finds the names of operations that leave rows and columns as they are."""


def generation_of(
    zone: LandingZone,
    marker: FolderMarker | None,
    files: TableFiles,
    found: Position | None,
    *,
    first_file: int,
    kept: Sequence[int],
) -> int:
    """Return the generation of a folder's content, given the position of the Delta table that is there.

    `first_file` is the fingerprint of file 1, 0 without one. `kept` are the generations beside the table: a process may
    have died when it had moved the last one aside.

    Dropping and recreating the landing folder of a table begins a new generation at file 1. A gateway numbers
    generations in the folder's marker; a table that is dropped and registered again under its name starts at 1 again.
    There, and in another publisher's folder, a new generation shows by files that all lie before the position, or by
    other content of the last applied file. Another publisher may have overwritten that file, so in its folder the
    content of file 1 must differ too.

    Raise OSError if the zone fails.
    """
    named = 1 if marker is None else marker.generation
    if found is None:
        return max(named, max(kept, default=0) + 1)
    if named > found.generation:
        return named
    if not first_file:
        return found.generation  # Fabric purges the oldest files, and a recreated folder has file 1
    may_be_overwritten = marker is None and found.first_file in (0, first_file)
    return found.generation + _is_recreated(zone, files, found, may_be_overwritten=may_be_overwritten)


def _is_recreated(zone: LandingZone, files: TableFiles, found: Position, *, may_be_overwritten: bool) -> bool:
    if files.last < found.file_number:
        return True
    if may_be_overwritten:
        return False
    last = files.numbered.get(found.file_number)
    return last is None or fingerprint(zone, last) != found.last_file


def move_aside(target: MirrorTarget, table: PublishedTable, ended: Position, *, replace: bool) -> bool:
    """Keep the Delta table of an ended generation beside its place, or delete it with `replace`.

    Return whether the place is empty now. An object store cannot rename: the last rows are copied, and the next
    generation overwrites the table. A process that dies here leaves the table in one of the two places.
    Raise InvariantBroken `mirror_target_foreign` if the name is taken.
    """
    kept = target.uri(table, generation=ended.generation)
    if target.is_remote:
        last = target.open(table)
        if last is not None and not replace:
            create_table(kept, arrow_dataset(last).to_table(), ended, {}, target.open_options(), replaces=True)
        return False
    if Path(kept).exists():
        raise InvariantBroken(
            Code.MIRROR_TARGET_FOREIGN, f"generation {ended.generation} of table {table} is kept in the target already"
        )
    Path(target.uri(table)).rename(kept)
    if replace:
        shutil.rmtree(kept)
    return True


@dataclass(frozen=True, slots=True)
class LandedBatch:
    """The rows of files that follow each other without a gap."""

    last_file: int
    columns: list[MirrorColumn]
    """The table's columns after the last file."""
    rows: pa.Table
    """With these columns, in the order of the files and of their rows."""
    markers: pa.ChunkedArray
    """int32, one per row; a file without markers has those that the metadata gives its rows."""
    counts: Counter[int]
    """Rows by marker."""

    def key_columns(self, declared: Sequence[str]) -> list[str]:
        """Return the declared key columns as the table spells them; none if the table does not have them all."""
        by_name = {column.name.casefold(): column.name for column in self.columns}
        found = [by_name[name.casefold()] for name in declared if name.casefold() in by_name]
        return found if len(found) == len(declared) else []


def read_batch(
    zone: LandingZone,
    pending: Sequence[DataFile],
    metadata: TableMetadata,
    known: Sequence[MirrorColumn],
    *,
    max_bytes: int,
) -> LandedBatch:
    """Read files until `max_bytes` of decoded rows are there. A file that cannot be applied ends the batch.

    If that is the first file, raise what is wrong with it: InvariantBroken, or OSError if the store fails.
    """
    columns = list(known)
    tables: list[pa.Table] = []
    markers: list[pa.ChunkedArray] = []
    size = last_file = 0
    for file in pending:
        try:
            rows, marks, columns = _read_one(zone, file, metadata, columns)
        except (InvariantBroken, OSError):
            if not tables:
                raise
            break
        tables.append(rows)
        markers.append(marks)
        size, last_file = size + rows.nbytes, file.number or last_file
        if size >= max_bytes:
            break
    rows = pa.concat_tables([conform(table, columns) for table in tables])
    joined = pa.chunked_array([chunk for marks in markers for chunk in marks.chunks], pa.int32())
    counts = Counter({item["values"]: item["counts"] for item in pc.value_counts(joined).to_pylist()})
    return LandedBatch(last_file, columns, rows, joined, counts)


def _read_one(
    zone: LandingZone, file: DataFile, metadata: TableMetadata, known: list[MirrorColumn]
) -> tuple[pa.Table, pa.ChunkedArray, list[MirrorColumn]]:
    """Return a file's rows, their markers, and the table's columns after the file."""
    landed = with_partition(read_rows(zone, file, metadata), file)
    columns = grown(known, file.path, landed.columns.schema)
    markers = landed.markers
    if markers is None:
        marker = UPSERT if metadata.upsert_by_default else INSERT
        markers = pa.chunked_array([pa.repeat(pa.scalar(marker, pa.int32()), landed.columns.num_rows)])
    if pc.any(pc.not_equal(markers, INSERT)).as_py():
        _require_keys(file, metadata, landed.columns.column_names)
    return conform(landed.columns, columns), markers, columns


def _require_keys(file: DataFile, metadata: TableMetadata, names: Sequence[str]) -> None:
    """Raise InvariantBroken `mirror_key_missing` unless a file with updates, deletes or upserts has all keys."""
    found = {name.casefold() for name in names}
    lacking = [name for name in metadata.key_columns if name.casefold() not in found]
    if lacking or not metadata.key_columns:
        why = f"and lacks key column {lacking[0]}" if lacking else "of a table without key columns"
        raise InvariantBroken(Code.MIRROR_KEY_MISSING, f"{file.path}: it has updates, deletes or upserts {why}")


@dataclass(frozen=True, slots=True)
class TableView:
    """One table in the zone and in the target, at one moment."""

    table: PublishedTable
    order: OrderedFiles
    metadata: TableMetadata
    delta: DeltaTable | None
    """The Delta table; None before the first commit of the folder's generation."""
    position: Position
    """Position that `delta` has reached; file 0 without one."""
    ended: Position | None
    """The position of a Delta table that is still there, of a generation that has ended."""
    owner: FolderOwner | None
    """The gateway's table whose folder this is."""
    first_file: int
    """The fingerprint of the folder's file 1; 0 without one, and for an owned folder after the first commit."""

    @property
    def files(self) -> TableFiles:
        """The data files, by their places."""
        return self.order.files

    def columns(self) -> list[MirrorColumn]:
        """Return the columns of the Delta table, none without one."""
        return [] if self.delta is None else known_columns(self.delta)

    def pending(self) -> list[DataFile]:
        """Return the files that follow the position without a gap."""
        number, found = self.position.file_number + 1, []
        while number in self.files.numbered:
            found.append(self.files.numbered[number])
            number += 1
        return found

    def waiting(self) -> list[DataFile]:
        """Return every file after the position, behind a gap or not."""
        return [file for number, file in self.files.numbered.items() if number > self.position.file_number]


def view_table(zone: LandingZone, target: MirrorTarget, table: PublishedTable) -> TableView:
    """Look at a table. Raise UnreadableMetadata, InvariantBroken `mirror_target_foreign`, or OSError."""
    metadata = read_metadata(zone, table)
    delta = target.open(table)
    found = None if delta is None else read_position(delta)
    order = order_table(zone, table, metadata, delta, found)
    files = order.files
    if delta is None:
        _require_own_folder(zone, target, table)
    else:
        _require_own_rows(table, delta, found)
    read = read_marker(zone, table.folder)
    marker = read if isinstance(read, FolderMarker) else None
    first_file = fingerprint(zone, files.numbered[1]) if 1 in files.numbered else 0
    generation = generation_of(
        zone, marker, files, found, first_file=first_file, kept=[] if found else target.kept_generations(table)
    )
    owner = None if marker is None else FolderOwner(marker.installation_id, marker.generation)
    if found is not None and found.generation == generation:
        return TableView(table, order, metadata, delta, found, None, owner, first_file)
    return TableView(table, order, metadata, None, Position(generation, 0), found, owner, first_file)


def _require_own_rows(table: PublishedTable, delta: DeltaTable, found: Position | None) -> None:
    """Raise InvariantBroken if another program wrote the table, or changed its rows after the mirror's last version.

    A RESTORE to that version undoes this. One to an older version does not: it leaves the position where it was.
    """
    if found is None:
        raise InvariantBroken(Code.MIRROR_TARGET_FOREIGN, f"the target has a Delta table {table} of another writer")
    commits, at = delta.history(1), delta.version()
    if commits and FILES not in commits[0]:
        commits = delta.history(_JUDGED_COMMITS)
    own = next((commit["version"] for commit in commits if FILES in commit), 0)
    for commit in (commit for commit in commits if commit["version"] > own):
        operation, facts = str(commit.get("operation")), commit.get("operationParameters") or {}
        if commit["version"] > at or _KEEPS_ROWS.search(operation):
            continue
        at = int(facts["version"]) if operation == "RESTORE" and str(facts.get("version")).isdigit() else -1
        if at < own:
            detail = f"another program changed the Delta table {table}: version {commit['version']} is of {operation}"
            raise InvariantBroken(Code.MIRROR_TARGET_FOREIGN, detail)


def is_same_folder(zone: LandingZone, view: TableView) -> bool:
    """Return whether the folder still has the content that was looked at, and was not recreated meanwhile."""
    if view.owner is not None:
        marker = read_marker(zone, view.table.folder)
        if not isinstance(marker, FolderMarker) or marker.generation != view.owner.generation:
            return False
    return not view.first_file or fingerprint(zone, view.files.numbered[1]) == view.first_file


def _require_own_folder(zone: LandingZone, target: MirrorTarget, table: PublishedTable) -> None:
    """Raise InvariantBroken if the Delta table would lie inside another one, whose VACUUM would delete its files."""
    if table.schema is None:
        is_nested = zone.kind(f"{table.name}{SCHEMA_SUFFIX}") is PathKind.FOLDER
    else:
        is_nested = target.open(table.schema) is not None
    if is_nested:
        raise InvariantBroken(
            Code.MIRROR_TARGET_FOREIGN,
            f"table {table}: a table and a schema of one name would share a folder of the target",
            remedy="Rename the table or the schema at its publisher, or mirror one of them alone (--table).",
        )


def report_of(zone: LandingZone, view: TableView) -> TableReport:
    """Return the report of a table that nothing stops. Raise OSError if the zone fails."""
    waiting = view.waiting()
    if not waiting and view.order.waits is not None:
        return _report(zone, view, MirrorState.WAITING, view.order.waits)
    if not waiting:
        return _report(zone, view, MirrorState.IN_STEP, view.order.ties)
    expected = view.position.file_number + 1
    if waiting[0].number == expected:
        return _report(zone, view, MirrorState.BEHIND, view.order.ties)
    gap = InvariantBroken(
        Code.LANDING_FILE_GAP,
        f"table {view.table} waits for file {expected}; the next file that is there is {waiting[0].number}",
    )
    return _report(zone, view, MirrorState.WAITING, gap)


def stopped(
    zone: LandingZone, target: MirrorTarget, table: PublishedTable, view: TableView | None, error: InvariantBroken
) -> TableReport:
    """Return the report of a table that an error stops. `view` is None if the table could not even be looked at."""
    if view is not None:
        return _report(zone, view, MirrorState.STOPPED, error)
    marker = read_marker(zone, table.folder)
    owner = FolderOwner(marker.installation_id, marker.generation) if isinstance(marker, FolderMarker) else None
    return replace(_without_view(target, table, MirrorState.STOPPED), owner=owner).because(error)


def _report(
    zone: LandingZone, view: TableView, state: MirrorState, error: InvariantBroken | None = None
) -> TableReport:
    waiting = view.waiting()
    report = replace(
        _of_delta(view.table, state, view.delta, view.position),
        last_file=max(view.files.last, view.position.file_number if view.files.partitions else 0),
        pending_files=len(waiting),
        oldest_pending_at=zone.modified_at(waiting[0].path) if waiting else None,
        owner=None if view.ended else view.owner,
        is_partitioned=view.metadata.is_partitioned,
    )
    return report if error is None else report.because(error)


def _without_view(target: MirrorTarget, table: PublishedTable, state: MirrorState) -> TableReport:
    delta = target.open(table)
    found = None if delta is None else read_position(delta)
    return _of_delta(table, state, delta, found or Position(1, 0))


def _of_delta(table: PublishedTable, state: MirrorState, delta: DeltaTable | None, position: Position) -> TableReport:
    report = TableReport(str(table), state, generation=position.generation, file_number=position.file_number)
    if delta is None:
        return report
    newest = delta.history(1)
    committed_at = datetime.fromtimestamp(newest[0]["timestamp"] / 1000, UTC) if newest else None
    return replace(report, version=delta.version(), committed_at=committed_at)


FILES: Final = "mirrorgate.files"
GENERATION: Final = "mirrorgate.generation"
ROWS: Final = "mirrorgate.rows"
KEY_COLUMNS: Final = "mirrorgate.key_columns"
DELETED_KEYS: Final = "mirrorgate.deleted_keys"
APPENDED_ROWS: Final = "mirrorgate.appended_rows"
"""Keys of a commit's custom metadata. All values are strings."""


@dataclass(frozen=True, slots=True)
class MirrorLimits:
    """Limits of one commit, and the treatment of a generation that has ended."""

    max_files: int = 64
    max_bytes: int = 256 * 2**20
    """Bytes of decoded rows after which no further file is read."""
    replace_old: bool = False
    """True if the Delta table of an ended generation is deleted instead of kept."""
    row_group_rows: int = ROW_GROUP_ROWS


def inspect_table(zone: LandingZone, target: MirrorTarget, table: PublishedTable) -> TableReport:
    """Return how far the mirror has applied a table; write nothing. Raise OSError if a store fails.

    Of the next file, only the columns are read: damage in its rows shows when the mirror applies it.
    """

    def check_columns(view: TableView, pending: list[DataFile]) -> TableView:
        grown(view.columns(), pending[0].path, without_marker(read_schema(zone, pending[0], view.metadata)))
        return view

    return _report_after(zone, target, table, check_columns)


def advance_table(zone: LandingZone, target: MirrorTarget, table: PublishedTable, limits: MirrorLimits) -> TableReport:
    """Apply the next files of a table in at most one commit, and return how far the table is then.

    Safe to kill anywhere, and beside another mirror: the log accepts each file once. Raise OSError if a store fails, or
    a file vanishes between listing and reading.
    """

    def apply(view: TableView, pending: list[DataFile]) -> TableView:
        try:
            return _apply(zone, target, view, pending[: limits.max_files], limits)
        except CommitFailedError as error:
            newer = view_table(zone, target, table)
            if view.delta is None or newer.delta is None or newer.delta.version() > view.delta.version():
                return newer  # OPTIMIZE or another mirror was faster; the next call continues
            if is_store_error(error):
                raise
            detail = f"the Delta table {table} has properties with which the mirror cannot write it: {shown(error)}"
            raise InvariantBroken(Code.MIRROR_TARGET_FOREIGN, detail) from error

    return _report_after(zone, target, table, apply)


def _report_after(
    zone: LandingZone,
    target: MirrorTarget,
    table: PublishedTable,
    handle: Callable[[TableView, list[DataFile]], TableView],
) -> TableReport:
    """Look at a table, handle the files that follow its position, and report what `handle` leaves."""
    view = None
    with store_errors(target, table):
        if zone.kind(table.folder) is not PathKind.FOLDER:
            return _without_view(target, table, MirrorState.DROPPED)
        try:
            view = view_table(zone, target, table)
            pending = view.pending()
            if pending:
                view = handle(view, pending)
        except InvariantBroken as error:
            return stopped(zone, target, table, view, error)
        return report_of(zone, view)


def _apply(
    zone: LandingZone, target: MirrorTarget, view: TableView, pending: list[DataFile], limits: MirrorLimits
) -> TableView:
    """Read files, commit them, and return the view after the commit.

    Commit nothing if the folder was recreated meanwhile: the next look shows it.
    """
    batch = read_batch(zone, pending, view.metadata, view.columns(), max_bytes=limits.max_bytes)
    keys = batch.key_columns(view.metadata.key_columns)
    effect = fold(batch.rows, batch.markers, keys)
    position = Position(
        view.position.generation,
        batch.last_file,
        first_file=view.position.first_file if view.delta else view.first_file,
        last_file=fingerprint(zone, view.files.numbered[batch.last_file]),
    )
    position = view.order.reached(position, [file for file in pending if (file.number or 0) <= batch.last_file])
    facts = _facts(view.position.file_number + 1, position, batch, effect, keys)
    if not is_same_folder(zone, view):
        return view
    batch = replace(batch, rows=batch.rows.schema.empty_table())  # the commit needs the effect and much memory
    pa.default_memory_pool().release_unused()
    delta = view.delta
    if delta is not None:
        commit_effect(delta, effect, batch.columns, position, facts, limits.row_group_rows)
    else:
        old = target.open(view.table)
        replace_old = limits.replace_old and not (old is not None and read_pins(old))
        is_free = view.ended is None or move_aside(target, view.table, view.ended, replace=replace_old)
        uri = target.uri(view.table)
        delta = create_table(
            uri,
            effect.rows,
            position,
            facts,
            target.open_options(),
            replaces=not is_free,
            row_group_rows=limits.row_group_rows,
        )
    return replace(view, delta=delta, position=position, ended=None)


def _facts(first: int, position: Position, batch: LandedBatch, effect: Effect, keys: list[str]) -> dict[str, str]:
    """Return a commit's custom metadata, from which history and diff explain the version."""
    return {
        FILES: f"{first}-{batch.last_file}",
        GENERATION: str(position.generation),
        ROWS: json.dumps({str(marker): batch.counts[marker] for marker in (0, 1, 2, 4)}),
        KEY_COLUMNS: json.dumps(keys),
        DELETED_KEYS: str(0 if effect.deleted_keys is None else effect.deleted_keys.num_rows),
        APPENDED_ROWS: str(effect.rows.num_rows),
    }


@contextmanager
def store_errors(target: MirrorTarget, table: PublishedTable) -> Iterator[None]:
    """Turn an object store's errors and a damaged log into `store_error`, other errors of deltalake into OSError."""
    try:
        yield
    except (DeltaError, OSError) as error:
        meant = store_error(f"the Delta table {table}", error)
        if isinstance(meant, DamagedTable) or (target.is_remote and is_store_error(error)):
            raise meant from error
        if not isinstance(error, DeltaError):
            raise
        raise OSError(f"the Delta table {table} cannot be read or written: {shown(error)}") from error
