"""The log of a Delta table: its last checkpoint, its length, and the files in the table's folder."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from deltalake import DeltaTable
from pyarrow import fs

from app.mirror.inspection.table_store import table_store
from app.mirror.target import LOG_FOLDER, MirrorTarget

_LAST_CHECKPOINT: Final = "_last_checkpoint"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The last checkpoint: readers start there and read each later commit."""

    version: int
    written_at: datetime | None


def read_checkpoint(target: MirrorTarget, table: DeltaTable) -> Checkpoint | None:
    """Return the last checkpoint, None without one. Raises OSError."""
    log = table_store(target, table, LOG_FOLDER)
    try:
        with log.open_input_file(_LAST_CHECKPOINT) as file:
            version = json.loads(file.read()).get("version")
    except (FileNotFoundError, ValueError):
        return None
    return Checkpoint(int(version), log.get_file_info(_LAST_CHECKPOINT).mtime) if version is not None else None


def data_files(target: MirrorTarget, table: DeltaTable) -> dict[str, int]:
    """Return the size of each Parquet file in the table's folder, of any version. Raises OSError."""
    entries = table_store(target, table).get_file_info(fs.FileSelector("", recursive=True))
    return {
        entry.path: entry.size or 0
        for entry in entries
        if entry.type is fs.FileType.File and entry.path.endswith(".parquet") and not entry.path.startswith(LOG_FOLDER)
    }
