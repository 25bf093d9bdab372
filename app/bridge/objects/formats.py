"""How the objects of a source are read: the endpoint, the reader of an object by its name, and which objects wait."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.bridge.objects.reading import ObjectReader, StreamReader
from app.client.chunking.json_messages import split_json
from app.client.file_paths import name_of
from app.client.send.source import Source, SourceFormat

_PACKED: Final = (".gz", ".gzip", ".zst", ".zstd")


class ObjectFormat(StrEnum):
    """What the objects of a source hold."""

    ARCION = "arcion"
    REPLICATE = "replicate"
    REPLICATE_FILES = "replicate-files"
    """CSV or JSON of Replicate's file targets, with a metadata file (.dfm) for each data file."""
    ROWS = "rows"
    DEBEZIUM = "debezium"


class Content(StrEnum):
    """How the messages of an object are written."""

    AUTO = "auto"
    """CSV if the name ends with .csv, before .gz or .zst; JSON otherwise."""
    JSON = "json"
    CSV = "csv"


_CSV_PARAMETERS: Final = frozenset({"columns", "header", "delimiter", "quote", "escape", "null"})
"""Parameters of CSV bodies, which JSON bodies do not have."""
_CSV: Final = {ObjectFormat.ARCION: SourceFormat.CSV, ObjectFormat.ROWS: SourceFormat.ROWS_CSV}


@dataclass(frozen=True, slots=True)
class Reading:
    """How one object is read and posted."""

    endpoint: str
    reader: ObjectReader
    parameters: Mapping[str, str]


def reading_of(
    source_format: ObjectFormat, content: Content, key: str, table: str | None, parameters: Mapping[str, str]
) -> Reading:
    """Return how an object is read. `replicate-files` are read with their metadata instead."""
    is_csv = content is Content.CSV or (content is Content.AUTO and plain_name(key).endswith(".csv"))
    if is_csv and source_format in _CSV:
        given = {name: value for name, value in parameters.items() if name != "override"}
        split = Source(_CSV[source_format], table, given).split
        return Reading(source_format.value, StreamReader(split, "text/csv"), given)
    given = {name: value for name, value in parameters.items() if name not in _CSV_PARAMETERS}
    if given.get("mode") == "realtime":
        del given["mode"]  # JSON messages say what they are; only bare snapshot rows need the mode
    return Reading(source_format.value, StreamReader(split_json), given)


def plain_name(key: str) -> str:
    """Return the last segment of a key in small letters, without the suffix of a compressed file."""
    name = name_of(key).lower()
    for suffix in _PACKED:
        name = name.removesuffix(suffix)
    return name
