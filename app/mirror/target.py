"""Locations of the mirror's Delta tables, and the landing files that each has applied.

The target is a folder, ADLS Gen2, OneLake or S3; a table is at `<to>/<schema>/<table>`, or `<to>/<table>` without a
schema. A name is a folder as it is, but for the characters that deltalake cannot have in a path (1.6 panics, or loses
the history) and for a name that ends like a kept generation. Those become `~` and two hexadecimal digits per byte.

The position is in the table's own log: Delta's application transactions are part of a commit, so it moves with the rows
or not at all, even if a kill ends the process. A second commit of the same file conflicts with the first one.
"""

import glob
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import pyarrow.dataset as ds
from deltalake import DeltaTable, Transaction
from deltalake.exceptions import TableNotFoundError
from pyarrow import fs

from app.mirror.object_store import remote_tables, store_options
from app.published.table_files import PublishedTable


def arrow_dataset(delta: DeltaTable) -> ds.Dataset:
    """Return the open version of a table as a dataset, without reading it.

    Of a local folder, Arrow itself reads the files. deltalake's file system is written in Python: when Arrow's threads
    release it while the interpreter ends, the process aborts (deltalake 1.6, one in 30 short runs).
    """
    address = urlsplit(delta.table_uri)
    if address.scheme != "file":
        return delta.to_pyarrow_dataset()
    return delta.to_pyarrow_dataset(filesystem=fs.SubTreeFileSystem(unquote(address.path), fs.LocalFileSystem()))


FILES: Final = "mirrorgate"
GENERATION: Final = "mirrorgate.generation"
FIRST_FILE: Final = "mirrorgate.first_file"
LAST_FILE: Final = "mirrorgate.last_file"
LAST_TIME: Final = "mirrorgate.last_time"
_PARTITION: Final = "mirrorgate.partition:"


@dataclass(frozen=True, slots=True)
class Position:
    """The generation of a table and its last applied file, with the fingerprints of its first and last file."""

    generation: int
    file_number: int
    first_file: int = 0
    """0: unknown."""
    last_file: int = 0
    last_time: int = 0
    """Microseconds since 1970 of the last file, in a table whose files are ordered by time."""
    partitions: Mapping[str, int] = field(default_factory=dict)
    """Numbers of the last applied files of those partitions that the commit changes."""

    def transactions(self) -> list[Transaction]:
        """Return the application transactions of a commit that reaches this position."""
        return [
            Transaction(FILES, self.file_number),
            Transaction(GENERATION, self.generation),
            Transaction(FIRST_FILE, self.first_file),
            Transaction(LAST_FILE, self.last_file),
            *([Transaction(LAST_TIME, self.last_time)] if self.last_time else []),
            *(Transaction(f"{_PARTITION}{name}", number) for name, number in self.partitions.items()),
        ]


def read_position(table: DeltaTable) -> Position | None:
    """Return the position of a table; None for a table that the mirror did not write."""
    file_number, generation = table.transaction_version(FILES), table.transaction_version(GENERATION)
    if file_number is None or generation is None:
        return None
    first_file, last_file = table.transaction_version(FIRST_FILE), table.transaction_version(LAST_FILE)
    last_time = table.transaction_version(LAST_TIME)
    return Position(generation, file_number, first_file or 0, last_file or 0, last_time or 0)


def partition_number(table: DeltaTable, partition: str) -> int:
    """Return the number of the last file of a partition that is applied to a table; 0 for none."""
    return table.transaction_version(f"{_PARTITION}{partition}") or 0


VACUUMED: Final = "mirrorgate.vacuumed"
"""Application transaction whose number is the time of the last vacuum that deleted files, in seconds."""


def vacuum_time(table: DeltaTable) -> datetime | None:
    """Return when a vacuum of this program last deleted files of a table."""
    seconds = table.transaction_version(VACUUMED)
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


PIN: Final = "mirrorgate.pin."
"""Begins the names of table properties whose values are pinned versions; a pin that was removed is empty."""


def read_pins(table: DeltaTable) -> dict[str, int]:
    """Return the versions of a table that are kept from every vacuum, by the names of their pins."""
    properties = table.metadata().configuration
    pins = {name.removeprefix(PIN): value for name, value in properties.items() if name.startswith(PIN)}
    return {name: int(version) for name, version in sorted(pins.items()) if version.isdigit()}


KEPT: Final = "@g"
"""Separates the name of a table from the number of a kept generation."""

_UNSAFE: Final = re.compile(r"[#?\[\]^|\\%~\x00-\x1f\x7f]|@(?=g\d+$)", re.ASCII)
_KEPT_NAME: Final = re.compile(r"(.+)@g(\d{1,18})", re.ASCII | re.DOTALL)
_ESCAPED: Final = re.compile(r"(?:~[0-9a-f]{2})+", re.ASCII)


def table_path(table: PublishedTable, generation: int | None = None) -> str:
    """Return the path of a table; with `generation`, of one that is kept."""
    kept = "" if generation is None else f"{KEPT}{generation}"
    parts = [part for part in (table.schema, table.name) if part is not None]
    return "/".join(_UNSAFE.sub(_escape, part) for part in parts) + kept


def table_paths(name: str) -> list[str]:
    """Return the paths that a name can mean, the likeliest first.

    The first dot separates a schema or is part of the name. `@g1` at the end means a kept generation or is part of it.
    """
    schema, dot, rest = name.partition(".")
    tables = [PublishedTable(schema, rest, "")] if dot else []
    tables.append(PublishedTable(None, name, ""))
    return [path for table in tables for path in (*_kept_paths(table), table_path(table))]


def _kept_paths(table: PublishedTable) -> list[str]:
    found = _KEPT_NAME.fullmatch(table.name)
    return [table_path(PublishedTable(table.schema, found[1], ""), int(found[2]))] if found else []


def table_name(path: str) -> str:
    """Return the name of the table at a path: `schema.name` or `name`, with `@g1` for a kept generation."""
    return ".".join(_ESCAPED.sub(_unescape, part) for part in path.split("/"))


def _escape(found: re.Match[str]) -> str:
    return "".join(f"~{byte:02x}" for byte in found[0].encode())


def _unescape(found: re.Match[str]) -> str:
    return bytes.fromhex(found[0].replace("~", "")).decode(errors="replace")


LOG_FOLDER: Final = "_delta_log"


@dataclass(frozen=True, slots=True)
class MirrorTarget:
    """The root of mirrored tables, and the options that deltalake needs to reach it. It pickles, for executors."""

    location: str
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The options that were given; they can have secrets."""

    @property
    def is_remote(self) -> bool:
        """True if the target is an object store."""
        return "://" in self.location

    def open_options(self) -> dict[str, str] | None:
        """Return the options for one opening of a table, as `store_options`."""
        return store_options(self.location, self.storage_options)

    def uri(self, table: PublishedTable, *, generation: int | None = None) -> str:
        """Return the address of a table; with `generation`, of one that is kept beside it."""
        return self._at(table_path(table, generation))

    def _at(self, path: str) -> str:
        return f"{self.location.rstrip('/')}/{path}"

    def open(self, table: PublishedTable | str, *, version: int | None = None) -> DeltaTable | None:
        """Open a table at its last or the given version; None if there is none.

        A name is `schema.name` or `name`, with `@g1` for a kept generation. A name with a dot can be either.

        Raise deltalake's DeltaError, also for a version that does not exist, and OSError if the store fails.
        """
        paths = [table_path(table)] if isinstance(table, PublishedTable) else table_paths(table)
        opened = (self.open_at(self._at(path), version=version) for path in paths)
        return next((delta for delta in opened if delta is not None), None)

    def open_at(self, uri: str, *, version: int | None = None) -> DeltaTable | None:
        """Open the Delta table at an address, as `open`."""
        if not self.is_remote and not (Path(uri) / LOG_FOLDER).is_dir():
            return None
        try:
            return DeltaTable(uri, version=version, storage_options=self.open_options())
        except TableNotFoundError:
            return None

    def tables(self) -> list[str]:
        """Return the names of the Delta tables in the target, kept generations (`name@g1`) included, sorted."""
        found = remote_tables(self.location, self.open_options() or {}) if self.is_remote else self._local_tables()
        return sorted(table_name(path) for path in found)

    def kept_generations(self, table: PublishedTable) -> list[int]:
        """Return the generations of a table that are kept beside it. In an object store, none is ever moved."""
        if self.is_remote:
            return []
        place = Path(self.uri(table))
        beside = place.parent.glob(f"{glob.escape(place.name)}{KEPT}*")
        found = (path.name.removeprefix(f"{place.name}{KEPT}") for path in beside)
        return sorted(int(number) for number in found if number.isascii() and number.isdigit())

    def _local_tables(self) -> list[str]:
        root = Path(self.location)
        one, two = root.glob(f"*/{LOG_FOLDER}"), root.glob(f"*/*/{LOG_FOLDER}")
        return [log.parent.relative_to(root).as_posix() for log in (*one, *two)]
