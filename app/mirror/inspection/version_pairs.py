"""Finds the two versions that a comparison is about: two that the user names, or those around a landing file."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import duckdb
from deltalake import DeltaTable

from app.errors import Code, RejectedInput
from app.mirror.inspection.difference import Difference, compare_versions
from app.mirror.inspection.history import TableVersion, read_history, read_key_columns
from app.mirror.inspection.opening import PointInTime, find_table, open_table, reading, table_names
from app.mirror.target import MirrorTarget


@dataclass(frozen=True, slots=True)
class VersionPair:
    """Two open versions of one table. `before` is None for the table before its first version."""

    before: DeltaTable | None
    after: DeltaTable
    key_columns: tuple[str, ...]
    described: str

    @contextmanager
    def compared(self, memory: str) -> Iterator[Difference]:
        """Compare the versions. Raises RejectedInput `unknown_version` if a vacuum has removed files of one."""
        try:
            with (
                reading(self.described),
                compare_versions(self.before, self.after, self.key_columns, memory=memory) as found,
            ):
                yield found
        except duckdb.OutOfMemoryException as error:
            raise RejectedInput(Code.BAD_QUERY, str(error), remedy="Raise --memory, or free disk space.") from error


def between(target: MirrorTarget, table: str, first: PointInTime, last: PointInTime) -> VersionPair:
    """Return the pair of two versions or times. Raises RejectedInput `unknown_table` or `unknown_version`."""
    name = find_table(table_names(target), table)
    before, after = open_table(target, name, first), open_table(target, name, last)
    newer = max(before, after, key=DeltaTable.version)
    return VersionPair(
        before,
        after,
        read_key_columns(_history(target, name, newer)),
        f"{name}: version {before.version()} to {after.version()}",
    )


def of_file(target: MirrorTarget, table: str, number: int) -> VersionPair:
    """Return the version that applied a landing file, and the version before it.

    Raises RejectedInput `unknown_version` if no version that the log still has applied the file.
    """
    name = find_table(table_names(target), table)
    after = open_table(target, name)
    history = _history(target, name, after)
    found = next((one for one in history if one.files is not None and one.files[0] <= number <= one.files[1]), None)
    if found is None:
        applied = max((one.files[1] for one in history if one.files is not None), default=0)
        raise RejectedInput(Code.UNKNOWN_VERSION, f"{name} has no version of file {number}: its last file is {applied}")
    before = open_table(target, name, found.version - 1) if found.version else None
    return VersionPair(
        before, open_table(target, name, found.version), read_key_columns(history), _described(name, found)
    )


def _history(target: MirrorTarget, name: str, table: DeltaTable) -> list[TableVersion]:
    with reading(name):
        return read_history(target, table)


def _described(name: str, version: TableVersion) -> str:
    first, last = version.files or (0, 0)
    files = f"file {first}" if first == last else f"files {first}-{last}, applied in one version"
    return f"{name}: version {version.version}, {files}"
