"""Compacts, clusters and vacuums mirrored tables, and pins versions of them, beside a running mirror.

Each operation is a Delta commit that changes no row and no application transaction, so the mirror continues where it
was. If a commit of the mirror gets in between, the operation starts again with the new version. Repeating an operation
that has nothing to do commits nothing. What a vacuum can delete is decided in
docs/contribute/decisions/0037-delta-mirror.md.
"""

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError

from app.landing.parquet_file import ROW_GROUP_ROWS
from app.mirror.commit import delta_writer
from app.mirror.inspection.health import MIN_FILE_BYTES, data_files, read_checkpoint
from app.mirror.inspection.history import CLUSTERED_BY, PointInTime, open_table, read_history, read_key_columns, reading
from app.mirror.target import PIN, VACUUMED, MirrorTarget, live_files, read_pins
from mirrorgate.errors import Code, RejectedInput, TemporarilyUnavailable

TARGET_FILE_BYTES: Final = 1 << 30
"""Direct Lake loads few large files fastest (decision 0037)."""
DEFAULT_RETENTION_HOURS: Final = 168
MIN_ORPHAN_AGE_HOURS: Final = 24
"""Files that no version names are deleted only from this age: a younger one can be of a commit that is not done."""

_MAX_TRIES: Final = 5
_MAX_MEMORY: Final = 512 << 20
_PIN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
_LOG_CLEANUP: Final = "delta.enableExpiredLogCleanup"
"""While a version is pinned, the log remains: without its entries, no reader finds the version's files."""
_TOMBSTONE_RETENTION: Final = "delta.deletedFileRetentionDuration"


@dataclass(frozen=True, slots=True)
class Optimized:
    """The result of `optimize` for one table. Equal versions mean that there was nothing to do."""

    table: str
    version_before: int
    version: int
    files_before: int
    files: int
    bytes_before: int
    bytes: int
    clustered_by: tuple[str, ...]
    """The key columns, if the rows are clustered; empty without a key or without --cluster."""


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """The files that `vacuum` deleted in one table, or would delete in a dry run."""

    table: str
    version: int
    files: tuple[str, ...]
    dry_run: bool


@dataclass(frozen=True, slots=True)
class Pin:
    """A version of a table that is kept from every vacuum."""

    table: str
    name: str
    version: int


def list_pins(target: MirrorTarget, name: str) -> list[Pin]:
    """Return the pins of a table, by their names."""
    table = open_table(target, name)
    with reading(name):
        return [Pin(name, pin, version) for pin, version in read_pins(table).items()]


def pin_version(target: MirrorTarget, name: str, pin: str, at: PointInTime = None) -> Pin:
    """Keep a version and its log from every vacuum under a name, in place of another version with that name.

    The pin is a property of the table: one commit, which changes no row. A process that dies before it leaves nothing.
    Raises RejectedInput `bad_name`, or `unknown_version` if a vacuum has removed files of the version.
    """
    if _PIN_NAME.fullmatch(pin) is None:
        raise RejectedInput(Code.BAD_NAME, "the name of a pin has 1 to 100 of a-z, A-Z, 0-9, `.`, `_` and `-`")
    version = open_table(target, name, at)
    with reading(name):
        if not data_files(target, version).keys() >= live_files(version).keys():
            raise FileNotFoundError(f"version {version.version()} is no longer whole")
        _set_properties(target, name, {f"{PIN}{pin}": str(version.version()), _LOG_CLEANUP: "false"})
    return Pin(name, pin, version.version())


def unpin_version(target: MirrorTarget, name: str, pin: str) -> bool:
    """Remove a pin, and return whether there was one. The next vacuum deletes what nothing else needs."""
    pins = {one.name for one in list_pins(target, name)}
    if pin not in pins:
        return False
    with reading(name):
        last = {_LOG_CLEANUP: "true"} if pins == {pin} else {}
        _set_properties(target, name, {f"{PIN}{pin}": "", **last})
    return True


def _set_properties(target: MirrorTarget, name: str, properties: dict[str, str]) -> None:
    _repeatedly(target, name, lambda table: table.alter.set_table_properties(properties, raise_if_not_exists=False))


def count_small_files(target: MirrorTarget, name: str) -> int:
    """Return how many data files of a table's newest version are below MIN_FILE_BYTES."""
    with reading(name):
        sizes = live_files(open_table(target, name)).values()
    return sum(size < MIN_FILE_BYTES for size in sizes)


def optimize_table(
    target: MirrorTarget, name: str, *, cluster: bool = False, row_group_rows: int = ROW_GROUP_ROWS
) -> Optimized:
    """Rewrite small files as large ones, sorted by key with `cluster`, and write a checkpoint.

    Raises TemporarilyUnavailable `mirror_away` if the mirror changes the same files repeatedly.
    """
    before = open_table(target, name)
    with reading(name):
        old = live_files(before)
        keys = read_key_columns(read_history(target, before)) if cluster else ()
        if keys:
            _repeatedly(target, name, lambda table: _cluster(target, table, keys, row_group_rows))
        else:
            _repeatedly(target, name, lambda table: _compact(table, row_group_rows))
        after = open_table(target, name)
        new = live_files(after)
        checkpoint = read_checkpoint(target, after)
        if checkpoint is None or checkpoint.version < after.version():
            after.create_checkpoint()
        sizes = (sum(old.values()), sum(new.values()))
        return Optimized(name, before.version(), after.version(), len(old), len(new), *sizes, keys)


def vacuum_table(
    target: MirrorTarget, names: list[str], name: str, *, retention_hours: int, dry_run: bool = False
) -> Vacuumed:
    """Delete the data files that no version within the retention needs. `names` are all tables of the target.

    A file that was live at any moment within the retention remains, and so do the files of pinned versions.
    """
    table = open_table(target, name)
    orphans = _deletes_orphans(names, name, table, retention_hours)
    with reading(name):
        listed = {_file_name(path) for path in _vacuum(table, retention_hours, orphans=orphans, dry_run=True)}
        files = tuple(path for path in data_files(target, table) if _file_name(path) in listed) if listed else ()
        if files and not dry_run:
            _vacuum(table, retention_hours, orphans=orphans, dry_run=False)
        return Vacuumed(name, open_table(target, name).version(), files, dry_run)


def _deletes_orphans(names: list[str], name: str, table: DeltaTable, retention_hours: int) -> bool:
    """Return whether files that no version names can be deleted, as killed writers leave them.

    Not with a short retention, because they can be of a running commit. Not with a retention beyond that of the log's
    tombstones: a file without a tombstone can then still be needed. Not if another table is in the table's folder.
    """
    return (
        MIN_ORPHAN_AGE_HOURS <= retention_hours <= DEFAULT_RETENTION_HOURS
        and _TOMBSTONE_RETENTION not in table.metadata().configuration
        and not any(other.startswith(f"{name}.") for other in names)
    )


def _file_name(path: str) -> str:
    """Return the last part of a path. deltalake lists old files again after they are deleted, some as full paths."""
    return path.rpartition("/")[2]


def _vacuum(table: DeltaTable, retention_hours: int, *, orphans: bool, dry_run: bool) -> list[str]:
    return table.vacuum(
        keep_versions=[*{*read_pins(table).values()}] or None,
        retention_hours=retention_hours,
        dry_run=dry_run,
        enforce_retention_duration=retention_hours >= DEFAULT_RETENTION_HOURS,
        full=orphans,
        commit_properties=CommitProperties(app_transactions=[Transaction(VACUUMED, int(time.time()))]),
    )


def _repeatedly(target: MirrorTarget, name: str, work: Callable[[DeltaTable], None]) -> None:
    """Do the work on the newest version, again if a commit of the mirror removed a file that it read."""
    for _ in range(_MAX_TRIES):
        try:
            work(open_table(target, name))
        except CommitFailedError:
            continue
        return
    raise TemporarilyUnavailable(
        Code.MIRROR_AWAY,
        f"the mirror changed {name} during each of {_MAX_TRIES} tries",
        remedy="Repeat the command while the table changes less, or pause the mirror.",
    )


def _compact(table: DeltaTable, row_group_rows: int) -> None:
    table.optimize.compact(
        target_size=TARGET_FILE_BYTES,
        max_concurrent_tasks=1,
        writer_properties=delta_writer(row_group_rows),
    )


def _cluster(target: MirrorTarget, table: DeltaTable, keys: tuple[str, ...], row_group_rows: int) -> None:
    """Sort the whole table by its key, unless nothing has changed since that was done."""
    for entry in read_history(target, table):
        if entry.clustered_by == keys:
            return
        if not entry.keeps_content:
            break
    table.optimize.z_order(
        keys,
        target_size=TARGET_FILE_BYTES,
        max_concurrent_tasks=1,
        max_spill_size=_MAX_MEMORY,
        writer_properties=delta_writer(row_group_rows),
        commit_properties=CommitProperties(custom_metadata={CLUSTERED_BY: json.dumps(keys)}),
    )
