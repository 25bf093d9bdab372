"""The tables of a landing zone, and the data files of a table folder in the order of their numbers.

`list_tables` finds the tables: each folder of the zone's root, and each folder of a `<name>.schema` folder.

`list_files` also lists the two folders below the table folder into which Fabric moves consumed files, so that a reader
that starts late still finds the files that Fabric has not purged.

`list_partitions` lists the files of a partitioned table, which are in `Key=Value` folders, each with numbers from 1.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from app.landing.landed_state import CONSUMED_FOLDERS
from app.landing.zone import LandingZone, PathKind

SCHEMA_SUFFIX: Final = ".schema"


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table folder. Names are as the publisher wrote them, so they can have blanks, dots or be very long."""

    schema: str | None
    name: str
    folder: str
    """Path below the zone's root."""

    def __str__(self) -> str:
        """Return `schema.name`, or `name` for a table without a schema."""
        return f"{self.schema}.{self.name}" if self.schema else self.name

    @classmethod
    def at(cls, folder: str) -> "PublishedTable":
        """Return the table of a folder, given as its path below the zone's root."""
        parent, _, name = folder.rpartition("/")
        return cls(parent.removesuffix(SCHEMA_SUFFIX) if parent else None, name, folder)


def list_tables(zone: LandingZone) -> list[PublishedTable]:
    """Return the tables of a zone, sorted by folder. Raise OSError if the store fails.

    Names that start with `_` or `.` are not tables: mirroring ignores the first, and the others are hidden.
    """
    found: list[PublishedTable] = []
    for folder in _folders(zone, ""):
        if folder.lower().endswith(SCHEMA_SUFFIX) and len(folder) > len(SCHEMA_SUFFIX):
            schema = folder[: -len(SCHEMA_SUFFIX)]
            found += [PublishedTable(schema, name, f"{folder}/{name}") for name in _folders(zone, folder)]
        else:
            found.append(PublishedTable(None, folder, folder))
    return sorted(found, key=lambda table: table.folder)


def _folders(zone: LandingZone, parent: str) -> list[str]:
    kinds = zone.kinds(parent)
    return sorted(name for name, kind in kinds.items() if kind is PathKind.FOLDER and not name.startswith(("_", ".")))


_ENDINGS: Final = r"\.(?:parquet|(?:csv|tsv|psv|txt)(?:\.gz|\.zst|\.snappy)?)"
_NUMBERED: Final = re.compile(rf"(\d{{20}}){_ENDINGS}", re.ASCII | re.IGNORECASE)
_DATA: Final = re.compile(rf".+{_ENDINGS}", re.ASCII | re.IGNORECASE | re.DOTALL)
_PARTITION: Final = re.compile(r"[^=]+=.*", re.DOTALL)
MAX_PARTITION_LEVELS: Final = 8
_DIGITS: Final = 20


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data file: its number if its name is one, its name, and its path below the zone's root."""

    number: int | None
    name: str
    path: str
    partition: str = ""
    """The `Key=Value` folders below the table folder in which the file is; empty in a table without partitions."""

    @property
    def place(self) -> str:
        """The name with the partition, which tells files of a table apart, also when Fabric moves them."""
        return f"{self.partition}/{self.name}"


@dataclass(frozen=True, slots=True)
class TableFiles:
    """The listing of a table folder at one moment."""

    numbered: Mapping[int, DataFile]
    """By number, ascending. Of two files with one number, the one that is still in the table folder."""
    unnumbered: tuple[DataFile, ...]
    """Data files with other names, such as GUIDs, sorted by name. Hidden files (`_…`, `.…`) are not data."""
    repeated: tuple[DataFile, ...]
    """Further files of a number that `numbered` has."""
    kinds: Mapping[str, PathKind]
    """Every entry of the table folder itself."""
    partitions: Mapping[str, "TableFiles"] = field(default_factory=dict)
    """The files of each partition, by its folders below the table folder; a partition has no further ones."""

    @property
    def last(self) -> int:
        """The highest number, 0 without a numbered file."""
        return max(self.numbered, default=0)


def list_files(zone: LandingZone, table: PublishedTable) -> TableFiles:
    """List the data files of a table. Costs one listing for each of three folders. Raise OSError."""
    own = zone.kinds(table.folder)
    consumed = consumed_folders(table.folder, own)
    return order_files({table.folder: own} | {folder: zone.kinds(folder) for folder in consumed})


def consumed_folders(folder: str, own: Mapping[str, PathKind]) -> list[str]:
    """Return the paths of the folders of consumed files that the folder of a table or a partition has."""
    return [f"{folder}/{name}" for name in CONSUMED_FOLDERS if own.get(name) is PathKind.FOLDER]


def list_partitions(zone: LandingZone, folder: str, files: TableFiles, above: str = "") -> dict[str, TableFiles]:
    """List the files of all partitions below a table folder, by their folders. Raise OSError if the store fails."""
    found: dict[str, TableFiles] = {}
    for name in partition_folders(files.kinds) if above.count("/") < MAX_PARTITION_LEVELS else ():
        partition, path = f"{above}{name}", f"{folder}/{above}{name}"
        own = zone.kinds(path)
        listings = {path: own} | {consumed: zone.kinds(consumed) for consumed in consumed_folders(path, own)}
        found[partition] = order_files(listings, partition)
        found |= list_partitions(zone, folder, found[partition], f"{partition}/")
    return found


def partition_folders(kinds: Mapping[str, PathKind]) -> list[str]:
    """Return the names of the folders of partitions, sorted."""
    return sorted(name for name, kind in kinds.items() if kind is PathKind.FOLDER and is_partition(name))


def is_partition(name: str) -> bool:
    """Return True if a folder is that of a partition, by its name."""
    return not name.startswith(("_", ".")) and _PARTITION.fullmatch(name) is not None


def order_files(listings: Mapping[str, Mapping[str, PathKind]], partition: str = "") -> TableFiles:
    """Return the data files in listings by folder: first the table folder's, then those of consumed files."""
    found = [
        replace(file, partition=partition) for path, kinds in listings.items() for file in _data_files(path, kinds)
    ]
    own = next(iter(listings.values()))
    numbered: dict[int, DataFile] = {}
    repeated = [
        file for file in found if file.number is not None and numbered.setdefault(file.number, file) is not file
    ]
    unnumbered = sorted((file for file in found if file.number is None), key=lambda file: file.name)
    return TableFiles(dict(sorted(numbered.items())), tuple(unnumbered), tuple(repeated), own)


def _data_files(folder: str, kinds: Mapping[str, PathKind]) -> list[DataFile]:
    return [
        DataFile(_number(name), name, f"{folder}/{name}")
        for name, kind in sorted(kinds.items())
        if kind is PathKind.FILE and not name.startswith(("_", ".")) and _DATA.fullmatch(name)
    ]


def number_of(name: str) -> int:
    """Return the number in the name of a numbered file."""
    return int(name[:_DIGITS])


def _number(name: str) -> int | None:
    match = _NUMBERED.fullmatch(name)
    return int(match[1]) if match and int(match[1]) else None
