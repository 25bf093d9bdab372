"""The versions of a mirrored table: when each was committed, by which operation, and which landing files it applied.

The mirror writes what it applied into the custom metadata of its commits (docs/explanation/delta-mirror.md). A version
without that metadata is of `optimize`, `vacuum` or `restore`, or of another program that writes the table.

The folder of a Delta table as a file system of Arrow.
"""

import json
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

from app.mirror.table_mirror import APPENDED_ROWS, DELETED_KEYS, FILES, GENERATION, KEY_COLUMNS, ROWS
from app.mirror.target import MirrorTarget


def table_store(target: MirrorTarget, table: DeltaTable, folder: str = "") -> fs.FileSystem:
    """Open the folder of a table, or a folder in it, as the root of a file system. Its calls raise OSError.

    Of a local folder, Arrow itself reads the files (`arrow_dataset` says why); else the object store of deltalake.
    """
    uri = f"{table.table_uri.rstrip('/')}/{folder}"
    address = urlsplit(uri)
    if address.scheme == "file":
        return fs.SubTreeFileSystem(unquote(address.path), fs.LocalFileSystem())
    return fs.PyFileSystem(DeltaStorageHandler(uri, target.open_options()))


CLUSTERED_BY: Final = "mirrorgate.clustered_by"
"""Key of the custom metadata of an `optimize --cluster`: the columns as a JSON list."""

MIRROR: Final = "mirror"
OPTIMIZE: Final = "optimize"
VACUUM: Final = "vacuum"
_COMMIT: Final = re.compile(r"([0-9]{20})\.json")
_READERS: Final = 8
PROPERTIES: Final = "properties"
_OPERATIONS: Final = {
    "VACUUM START": VACUUM,
    "VACUUM END": VACUUM,
    "OPTIMIZE": OPTIMIZE,
    "SET TBLPROPERTIES": PROPERTIES,
}


@dataclass(frozen=True, slots=True)
class TableVersion:
    """One version of a mirrored table. The fields after `operation` are None unless the mirror committed it."""

    version: int
    time: datetime
    operation: str
    """`mirror`, `optimize`, `vacuum`, `properties` (a pin), `restore`, or another program's operation in lower case."""
    files: tuple[int, int] | None
    """First and last landing file that the version applied."""
    generation: int | None
    rows: Mapping[str, int] | None
    """Rows that were read, by row marker."""
    deleted_keys: int | None
    appended_rows: int | None
    key_columns: tuple[str, ...] | None
    clustered_by: tuple[str, ...] | None
    """The columns by which an `optimize` sorted the rows."""

    def to_json(self) -> dict[str, Any]:
        """Return the entry as `mirror history --json` prints it."""
        return {
            "version": self.version,
            "time": self.time.isoformat(),
            "operation": self.operation,
            "files": None if self.files is None else [*self.files],
            "rows": None if self.rows is None else dict(self.rows),
            "deleted_keys": self.deleted_keys,
            "appended_rows": self.appended_rows,
            "generation": self.generation,
        }

    @property
    def keeps_content(self) -> bool:
        """True if the version has the same rows as the one before it."""
        return self.operation in (OPTIMIZE, VACUUM, PROPERTIES)


def read_history(target: MirrorTarget, table: DeltaTable, limit: int | None = None) -> list[TableVersion]:
    """Read the versions up to the open one, the newest first. Versions whose log is gone are missing.

    deltalake's `history` numbers the commits from the version that is open, whichever is the newest in the log, so it
    is wrong for an older version and beside a running mirror (docs/contribute/decisions/0037). Raises OSError.
    """
    log = table_store(target, table, "_delta_log")
    versions = [version for version in commit_versions(log) if version <= table.version()]
    chosen = versions[::-1][:limit]
    with ThreadPoolExecutor(_READERS) as pool:
        read = pool.map(lambda version: _commit_info(log, version), chosen)
        return [_entry(version, info) for version, info in zip(chosen, read, strict=True) if info is not None]


def commit_versions(log: fs.FileSystem) -> list[int]:
    """List the versions whose commits are in the log, sorted."""
    entries = log.get_file_info(fs.FileSelector("", allow_not_found=True))
    return sorted(int(found[1]) for entry in entries if (found := _COMMIT.fullmatch(entry.base_name)))


def read_key_columns(history: list[TableVersion]) -> tuple[str, ...]:
    """Return the key columns that the newest mirror commit names; empty for a table without a key."""
    return next((entry.key_columns for entry in history if entry.key_columns is not None), ())


def _commit_info(log: fs.FileSystem, version: int) -> Mapping[str, Any] | None:
    """Return what a commit says about itself; nothing for a commit that the cleanup of the log removes meanwhile."""
    try:
        with log.open_input_file(f"{version:020}.json") as file:
            lines = file.read().split(b"\n")
    except FileNotFoundError:
        return None
    actions = [json.loads(line) for line in lines if b'"commitInfo"' in line]
    return next((action["commitInfo"] for action in actions if "commitInfo" in action), {})


def _entry(version: int, commit: Mapping[str, Any]) -> TableVersion:
    first, _, last = str(commit.get(FILES, "")).partition("-")
    files = (int(first), int(last)) if first.isdigit() and last.isdigit() else None
    operation = str(commit.get("operation", "unknown"))
    rows, keys, clustered = (_json(commit.get(name)) for name in (ROWS, KEY_COLUMNS, CLUSTERED_BY))
    return TableVersion(
        version=version,
        time=datetime.fromtimestamp(int(commit.get("timestamp", 0)) / 1000, UTC),
        operation=MIRROR if files is not None else _OPERATIONS.get(operation, operation.lower()),
        files=files,
        generation=_number(commit.get(GENERATION)),
        rows={str(marker): int(count) for marker, count in rows.items()} if isinstance(rows, dict) else None,
        deleted_keys=_number(commit.get(DELETED_KEYS)),
        appended_rows=_number(commit.get(APPENDED_ROWS)),
        key_columns=tuple(map(str, keys)) if isinstance(keys, list) else None,
        clustered_by=tuple(map(str, clustered)) if isinstance(clustered, list) else None,
    )


def _number(text: object) -> int | None:
    return int(str(text)) if str(text).isdigit() else None


def _json(text: object) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return None
