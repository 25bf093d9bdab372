"""Generations of a table: dropping and recreating its landing folder begins a new one at file 1.

A gateway numbers generations in the folder's marker; a table that is dropped and registered again under its name starts
at 1 again. There, and in another publisher's folder, a new generation shows by files that all lie before the position,
or by other content of the last applied file. Another publisher may have overwritten that file, so in its folder the
content of file 1 must differ too. Each generation has a Delta table: the one that ended is
kept beside the new one as `<table>@g<generation>`.
"""

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from app.errors import Code, InvariantBroken
from app.landing.folder_marker import FolderMarker
from app.landing.zone import LandingZone
from app.mirror.arrow_dataset import arrow_dataset
from app.mirror.commit import create_table
from app.mirror.position import Position
from app.mirror.target import MirrorTarget
from app.published.table_files import DataFile, TableFiles
from app.published.table_folders import PublishedTable

_TAIL_BYTES: Final = 64 * 2**10


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


def fingerprint(zone: LandingZone, file: DataFile) -> int:
    """Return 62 bits that tell a file from others: a digest over its size and its end, which has Parquet's footer."""
    with zone.read_file(file.path) as opened:
        size = opened.seek(0, 2)
        opened.seek(max(0, size - _TAIL_BYTES))
        digest = hashlib.sha256(size.to_bytes(8, "big") + opened.read(_TAIL_BYTES)).digest()
    return int.from_bytes(digest[:8], "big") >> 2 or 1


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
