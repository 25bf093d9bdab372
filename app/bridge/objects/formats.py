"""The way to read a source's objects: the endpoint, and the reader of an object by its name.

A reader cuts an object into pieces, one for each request. A piece has the index of its first message, from 0, and a
hash of the decompressed content before its end. A position keeps both, so a resumed object is checked before its next
message is sent.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from mirrorgate.arrow_rows import CONTENT_TYPE, ParquetCutter
from mirrorgate.chunking.avro_messages import split_replicate
from mirrorgate.chunking.chunks import Limits
from mirrorgate.chunking.json_messages import split_json
from mirrorgate.file_content import Cutter, Mark, StreamCutter
from mirrorgate.file_paths import plain_name
from mirrorgate.source import Source, SourceFormat


class ObjectFormat(StrEnum):
    """The format of a source's objects."""

    ARCION = "arcion"
    REPLICATE = "replicate"
    """Messages in JSON or in Avro envelopes, as their bytes tell."""
    REPLICATE_FILES = "replicate-files"
    """CSV or JSON of Replicate's file targets, with a metadata file (.dfm) for each data file."""
    ROWS = "rows"
    DEBEZIUM = "debezium"


class Content(StrEnum):
    """The encoding of an object's messages."""

    AUTO = "auto"
    """CSV if the name ends with .csv, before .gz or .zst; rows in Parquet if it ends with .parquet; otherwise JSON or
    Avro.
    """
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"
    """Plain rows in Parquet."""


_CSV_PARAMETERS: Final = frozenset({"columns", "header", "delimiter", "quote", "escape", "null"})
"""Parameters of CSV bodies, which JSON bodies do not have."""
_CSV: Final = {ObjectFormat.ARCION: SourceFormat.CSV, ObjectFormat.ROWS: SourceFormat.ROWS_CSV}


@dataclass(frozen=True, slots=True)
class Piece:
    """One request of an object: its messages from `first` to before `after`."""

    body: bytes
    first: int
    after: int
    end: int
    content: str
    not_counted: int = 0
    """Messages at the start of the body that are not messages of the object."""


class ObjectReader(Protocol):
    """Reader of objects of one format."""

    @property
    def content_type(self) -> str | None:
        """Media type of the bodies, None if their bytes tell."""

    def pieces(self, blocks: Iterable[bytes], limits: Limits, mark: Mark | None) -> Iterator[Piece]:
        """Yield the pieces after `mark`, which is in this object, or all. Raises RejectedInput."""


@dataclass(frozen=True)
class StreamReader:
    """Reader of formats that a cutter cuts: JSON, CSV, Avro envelopes and Parquet."""

    cutter: Cutter
    content_type: str | None = None

    def pieces(self, blocks: Iterable[bytes], limits: Limits, mark: Mark | None) -> Iterator[Piece]:
        """Yield the pieces after `mark`, which is in this object, or all. Raises RejectedInput."""
        for chunk, content in self.cutter.chunks(blocks, limits, 0, mark):
            yield Piece(chunk.body, chunk.first, chunk.after, chunk.end, content)


@dataclass(frozen=True, slots=True)
class Reading:
    """The way to read and post one object."""

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
        return Reading(
            source_format.value, StreamReader(Source(_CSV[source_format], table, given).cutter(), "text/csv"), given
        )
    given = {name: value for name, value in parameters.items() if name not in _CSV_PARAMETERS}
    if given.get("mode") == "realtime":
        del given["mode"]  # JSON messages say what they are; only bare snapshot rows need the mode
    is_parquet = content is Content.PARQUET or (content is Content.AUTO and plain_name(key).endswith(".parquet"))
    if is_parquet and source_format is ObjectFormat.ROWS:
        return Reading(source_format.value, StreamReader(ParquetCutter(), CONTENT_TYPE), given)
    split = split_replicate if source_format is ObjectFormat.REPLICATE else split_json
    return Reading(source_format.value, StreamReader(StreamCutter(split)), given)
