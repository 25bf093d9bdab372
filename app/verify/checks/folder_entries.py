"""What else is in a table folder: links, folders, hidden files, or nothing at all."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from app.landing.folder_marker import MARKER
from app.landing.landed_state import CONSUMED_FOLDERS
from app.landing.publish import METADATA
from app.landing.zone import PathKind
from app.verify.codes import FindingCode
from app.verify.finding import Finding
from app.verify.table_view import TableView

KEPT_HIDDEN: Final = timedelta(days=7)
"""Age at which a hidden file is no longer one that somebody is writing."""
EMPTY_AT_MOST: Final = timedelta(days=14)
"""How long mirroring accepts a table without data."""

_PARTITION: Final = re.compile(r"[^=]+=.*", re.DOTALL)
_DATA_NAME: Final = re.compile(r".+\.(?:parquet|csv)", re.IGNORECASE | re.DOTALL)


def special_entries(view: TableView) -> Iterator[Finding]:
    """Find links, FIFOs, sockets and devices; none of them was opened."""
    for path, entry in sorted(view.entries.items()):
        if entry.kind is PathKind.SPECIAL:
            yield view.finding(FindingCode.SPECIAL_ENTRY, "it is neither a regular file nor a folder", path)


def folders(view: TableView) -> Iterator[Finding]:
    """Find folders in the table folder that mirroring does not read."""
    names = sorted(name for name, kind in view.files.kinds.items() if kind is PathKind.FOLDER)
    visible = [name for name in names if not name.startswith(("_", "."))]
    partitions = [name for name in visible if _PARTITION.fullmatch(name)]
    if partitions:
        detail = f"partition folders: {len(partitions):,}; what is in them was not checked"
        yield view.finding(FindingCode.PARTITION_FOLDER, detail, f"{view.table.folder}/{partitions[0]}")
    for name in visible:
        path = f"{view.table.folder}/{name}"
        if _DATA_NAME.fullmatch(name):
            yield view.finding(FindingCode.FOLDER_INSTEAD_OF_FILE, "it is a folder", path)
        elif name not in partitions:
            yield view.finding(FindingCode.FOREIGN_FOLDER, "mirroring reads no folder below a table folder", path)


def missing_data(view: TableView) -> Iterator[Finding]:
    """Find a table with metadata and without any data file."""
    files = view.files
    has_folders = any(kind is PathKind.FOLDER and not name.startswith("_") for name, kind in files.kinds.items())
    metadata = view.entries.get(f"{view.table.folder}/{METADATA}")
    if files.numbered or files.unnumbered or metadata is None or has_folders:
        return
    age = view.now - (metadata.modified or view.now)
    code = FindingCode.NO_DATA_FOR_TWO_WEEKS if age >= EMPTY_AT_MOST else FindingCode.NO_DATA
    yield view.finding(code, f"the metadata is {max(age.days, 0)} days old, and there is no data file")


def hidden_files(view: TableView) -> Iterator[Finding]:
    """Find hidden files that somebody began to write long ago."""
    expected = (METADATA, MARKER, *CONSUMED_FOLDERS)
    old = [
        path
        for path, entry in view.entries.items()
        if (name := path.rpartition("/")[2]).startswith("_")
        and name not in expected
        and entry.kind is PathKind.FILE
        and view.now - (entry.modified or view.now) > KEPT_HIDDEN
    ]
    if old:
        yield view.finding(FindingCode.OLD_HIDDEN_FILES, f"hidden files older than 7 days: {len(old):,}", min(old))
