"""Landing files and tables as a publisher makes them: values in memory, before anything is written."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.mirror.model.kinds import KINDS, Kind
from tests.mirror.model.values import Value

INSERT, UPDATE, DELETE, UPSERT = 0, 1, 2, 4


@dataclass(frozen=True)
class Column:
    """A column of a landing file; `kind` names one of `KINDS`."""

    name: str
    kind: str
    required: bool = False
    """Whether the Parquet column is REQUIRED."""

    @property
    def of_kind(self) -> Kind:
        return KINDS[self.kind]

    @property
    def folded(self) -> str:
        """The name as Fabric compares it."""
        return self.name.lower()


@dataclass(frozen=True)
class Row:
    """A row in apply order; a column without a value is NULL."""

    values: Mapping[str, Value]
    marker: int | None = None


@dataclass(frozen=True)
class FileLayout:
    """How a file is written; nothing of it changes what the rows mean."""

    marker_first: bool = False
    marker_type: str = "int32"
    row_group_rows: int = 1_000_000
    compression: str = "zstd"
    with_arrow_schema: bool = True
    """Without it a reader knows Parquet's types only: a dictionary is a string, a large string is a string."""


@dataclass(frozen=True)
class LandedFile:
    """The content of one landing file."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    has_markers: bool = True
    layout: FileLayout = field(default_factory=FileLayout)


ID_AND_NAME: Final = (Column("Id", "int64", required=True), Column("name", "string"))
"""The columns of small tables."""


def rows_file(
    *rows: tuple[int | None, int | None, str | None],
    columns: tuple[Column, Column] = ID_AND_NAME,
    has_markers: bool = True,
) -> LandedFile:
    """Return a file of rows: marker, key, name."""
    made = tuple(Row({"Id": key, "name": name}, marker) for marker, key, name in rows)
    return LandedFile(columns, made, has_markers)


@dataclass(frozen=True)
class Metadata:
    """What `_metadata.json` says."""

    key_columns: tuple[str, ...] = ()
    upsert_by_default: bool = False
    keys_as: str = "keyColumns"


@dataclass
class Generation:
    """A table from its registration to its drop: its metadata and its files 1, 2, …"""

    metadata: Metadata
    files: list[LandedFile] = field(default_factory=list)
