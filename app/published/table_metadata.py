"""`_metadata.json` of a table folder, by any publisher. Microsoft's page *Landing zone requirements and formats*.

`parse_metadata` reads keys without regard to letter case, because published samples differ (`keyColumns`,
`KeyColumns`).

`UnreadableFile` and `UnreadableMetadata` are raised for what a landing zone contains and cannot be read: they stop one
table, and never its reader.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from app.landing.publish import METADATA
from app.landing.zone import LandingZone, PathKind
from app.published.table_files import PublishedTable
from mirrorgate.errors import Code, InvariantBroken


class UnreadableFile(InvariantBroken):
    """A data file that is not Parquet or delimited text, is not whole, or has columns that nothing can read."""

    def __init__(self, path: str, reason: str) -> None:
        """Name the file by its path in the zone. `reason` contains no value."""
        super().__init__(Code.LANDING_FILE_UNREADABLE, f"{path}: {reason}")
        self.path = path
        self.reason = reason


class UnreadableMetadata(InvariantBroken):
    """A missing `_metadata.json`, or one that says nothing usable."""

    def __init__(self, path: str, reason: str) -> None:
        """Name the file by its path in the zone."""
        super().__init__(Code.LANDING_METADATA_UNREADABLE, f"{path}: {reason}")
        self.path = path
        self.reason = reason


BY_UPDATE_TIME: Final = "LastUpdateTimeFileDetection"
_MAX_BYTES: Final = 2**20


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """A publisher's declaration of a table."""

    key_columns: tuple[str, ...]
    upsert_by_default: bool = False
    """True if a row without a marker is an upsert (`isUpsertDefaultRowMarker`)."""
    detection: str | None = None
    """`fileDetectionStrategy`; None for sequential names."""
    file_format: str | None = None
    """`fileFormat` in lower case; None if it is not given."""
    is_partitioned: bool = False
    """True if files lie in `Key=Value` folders (`isPartitionEnabled`)."""
    raw: Mapping[str, Any] | None = None
    """The JSON object with its keys in lower case."""

    @property
    def is_ordered_by_time(self) -> bool:
        """True if files are ordered by the time of the last update instead of by number."""
        return (self.detection or "").casefold() == BY_UPDATE_TIME.casefold()

    @property
    def is_delimited_text(self) -> bool:
        """True if the data files are delimited text: without `fileFormat`, if the rest describes text."""
        if self.file_format is not None:
            return self.file_format != "parquet"
        raw = self.raw or {}
        extension = str(raw.get("fileextension") or "").lstrip(".").lower()
        return extension != "parquet" and bool(extension or raw.get("schemadefinition"))


def read_metadata(zone: LandingZone, table: PublishedTable) -> TableMetadata:
    """Read a table's metadata. Raise UnreadableMetadata, or OSError if the store fails."""
    path = f"{table.folder}/{METADATA}"
    kind = zone.kind(path)
    if kind is not PathKind.FILE:
        raise UnreadableMetadata(path, "it is missing" if kind is PathKind.ABSENT else "it is not a file")
    with zone.read_file(path) as file:
        content = file.read(_MAX_BYTES + 1)
    return parse_metadata(path, content)


def parse_metadata(path: str, content: bytes) -> TableMetadata:
    """Read the bytes of a `_metadata.json`. Raise UnreadableMetadata."""
    if len(content) > _MAX_BYTES:
        raise UnreadableMetadata(path, f"it is larger than {_MAX_BYTES} bytes")
    try:
        found = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise UnreadableMetadata(path, "it is not JSON in UTF-8") from None
    if not isinstance(found, dict):
        raise UnreadableMetadata(path, "it is not a JSON object")
    raw = {str(name).lower(): value for name, value in found.items()}
    return TableMetadata(
        key_columns=_names(path, raw.get("keycolumns")),
        upsert_by_default=_flag(path, "isUpsertDefaultRowMarker", raw.get("isupsertdefaultrowmarker")),
        detection=_text(path, "fileDetectionStrategy", raw.get("filedetectionstrategy")),
        file_format=(_text(path, "fileFormat", raw.get("fileformat")) or "").lower() or None,
        is_partitioned=_flag(path, "isPartitionEnabled", raw.get("ispartitionenabled")),
        raw=raw,
    )


def _names(path: str, value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
        raise UnreadableMetadata(path, "keyColumns is not a list of column names")
    if len({name.casefold() for name in value}) < len(value):
        raise UnreadableMetadata(path, "keyColumns names a column twice")
    return tuple(value)


def _flag(path: str, name: str, value: object) -> bool:
    """Return a flag. Published samples write `true` as a string, too."""
    if value is None or isinstance(value, bool):
        return bool(value)
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise UnreadableMetadata(path, f"{name} is neither true nor false")


def _text(path: str, name: str, value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise UnreadableMetadata(path, f"{name} is not a string")
