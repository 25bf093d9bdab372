"""The order in which a table's files are applied, whatever names them: numbers, times or partitions.

Each file gets a place: its number, or where neither times nor partitions give a table one sequence of numbers, its
place in the order in which the mirror applies it. So everything else counts places. Files that are ordered by time are
sorted by it, and by name where times are the same. Partitions follow each other by their names.

Invariant: the place of an applied file never changes. The table stops if a new file sorts before an applied one.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

from deltalake import DeltaTable

from app.landing.zone import LandingZone
from app.mirror.target import Position, partition_number
from app.published.table_files import (
    DataFile,
    PublishedTable,
    TableFiles,
    consumed_folders,
    list_files,
    list_partitions,
    number_of,
)
from app.published.table_metadata import TableMetadata
from mirrorgate.errors import Code, InvariantBroken

_TAIL_BYTES: Final = 64 * 2**10
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class OrderedFiles:
    """The files of a table by their places."""

    files: TableFiles
    """`numbered` is by place."""
    times: Mapping[int, int] = field(default_factory=dict)
    """Microseconds since 1970 of each file by its place, for files that are ordered by time."""
    waits: InvariantBroken | None = None
    """Reasons of the wait of files without a position."""
    ties: InvariantBroken | None = None
    """Doubts about the order of files that are applied nevertheless."""

    def reached(self, position: Position, applied: Sequence[DataFile]) -> Position:
        """Return the position after these files, with what finds it again."""
        partitions = {file.partition: number_of(file.name) for file in applied if file.partition}
        return replace(position, last_time=self.times.get(position.file_number, 0), partitions=partitions)


def order_table(
    zone: LandingZone,
    table: PublishedTable,
    metadata: TableMetadata,
    delta: DeltaTable | None,
    applied: Position | None,
) -> OrderedFiles:
    """List the files of a table in their order. Raise OSError, or InvariantBroken `landing_order_unsupported`."""
    files = list_files(zone, table)
    if metadata.is_partitioned:
        partitions = list_partitions(zone, table.folder, files)
        return _by_partition(table, replace(files, partitions=partitions), delta, applied)
    if metadata.is_ordered_by_time:
        return _by_time(zone, table, files, applied)
    if files.unnumbered and not files.numbered:
        detail = f"the names of the {len(files.unnumbered)} data files of table {table} are not numbers"
        raise InvariantBroken(Code.LANDING_ORDER_UNSUPPORTED, detail)
    return OrderedFiles(files)


def fingerprint(zone: LandingZone, file: DataFile) -> int:
    """Return 62 bits that tell a file from others: a digest over its size and its end, which has Parquet's footer."""
    with zone.read_file(file.path) as opened:
        size = opened.seek(0, 2)
        opened.seek(max(0, size - _TAIL_BYTES))
        digest = hashlib.sha256(size.to_bytes(8, "big") + opened.read(_TAIL_BYTES)).digest()
    return int.from_bytes(digest[:8], "big") >> 2 or 1


def _placed(files: TableFiles, ordered: Sequence[DataFile], first: int) -> TableFiles:
    places = {place: replace(file, number=place) for place, file in enumerate(ordered, first)}
    return replace(files, numbered=places, unnumbered=(), repeated=())


def _by_time(zone: LandingZone, table: PublishedTable, files: TableFiles, applied: Position | None) -> OrderedFiles:
    """Order files by the time of their last change. Those that nothing has a time of are not there any more."""
    folders = [table.folder, *consumed_folders(table.folder, files.kinds)]
    entries = {f"{folder}/{name}": entry for folder in folders for name, entry in zone.entries(folder).items()}
    times: dict[str, int] = {}
    for file in (*files.numbered.values(), *files.unnumbered):
        modified = entries[file.path].modified if file.path in entries else None
        if modified is not None:
            times[file.path] = round((modified - _EPOCH).total_seconds() * 1_000_000)
    by_path = {file.path: file for file in (*files.numbered.values(), *files.unnumbered)}
    ordered = [by_path[path] for path in sorted(times, key=lambda path: (times[path], by_path[path].name))]
    first = 1 if applied is None else _first_place(zone, table, ordered, times, applied)
    placed = _placed(files, ordered, first)
    by_place = {place: times[file.path] for place, file in placed.numbered.items()}
    return OrderedFiles(placed, by_place, ties=_ties(table, ordered, times))


def _first_place(
    zone: LandingZone, table: PublishedTable, ordered: Sequence[DataFile], times: Mapping[str, int], applied: Position
) -> int:
    """Return the place of the first file: 1, or more where Fabric has purged files that are applied.

    Raise InvariantBroken if files that are not applied are older than the last applied one.
    """
    older = [file for file in ordered if times[file.path] < applied.last_time]
    same = [file for file in ordered if times[file.path] == applied.last_time]
    if ordered and not older and not same:
        return 1  # the folder was recreated: Fabric leaves the last file
    known = next((at for at, file in enumerate(same, 1) if fingerprint(zone, file) == applied.last_file), len(same))
    first = applied.file_number + 1 - len(older) - known
    if first < 1:
        late = f"{1 - first} files of table {table} are older than the last file that is applied, and came after it"
        raise InvariantBroken(
            Code.LANDING_ORDER_UNSUPPORTED,
            late,
            remedy="Number the files and remove `fileDetectionStrategy`. To apply the table again in the order of its "
            "times, delete its Delta table.",
        )
    return first


def _ties(table: PublishedTable, ordered: Sequence[DataFile], times: Mapping[str, int]) -> InvariantBroken | None:
    tied = [pair for pair in pairwise(ordered) if times[pair[0].path] == times[pair[1].path]]
    if not tied:
        return None
    (one, other), count = tied[0], len({file.path for pair in tied for file in pair})
    detail = f"{count} files of table {table} share their time with another, first {one.name} and {other.name}"
    return InvariantBroken(Code.LANDING_TIME_TIES, detail)


def _by_partition(
    table: PublishedTable, files: TableFiles, delta: DeltaTable | None, applied: Position | None
) -> OrderedFiles:
    """Order files by partition and number. Applied files have no place: their partition's number is in the log."""
    done = {name: 0 if delta is None else partition_number(delta, name) for name in files.partitions}
    if applied is None or any(number > files.partitions[name].last for name, number in done.items()):
        done, last = dict.fromkeys(done, 0), 0  # the folder was recreated: Fabric leaves the last file of a partition
    else:
        last = applied.file_number
    pending, waits = [], None
    for name, partition in files.partitions.items():
        following = [*_following(partition, done[name])]
        pending += following
        expected = done[name] + len(following) + 1
        behind = [number for number in partition.numbered if number > expected]
        if behind and waits is None:
            detail = f"partition {name} of table {table} waits for file {expected}; the next one is {behind[0]}"
            waits = InvariantBroken(Code.LANDING_FILE_GAP, detail)
    return OrderedFiles(_placed(files, pending, last + 1), waits=waits)


def _following(partition: TableFiles, number: int) -> Iterator[DataFile]:
    while (number := number + 1) in partition.numbered:
        yield partition.numbered[number]
