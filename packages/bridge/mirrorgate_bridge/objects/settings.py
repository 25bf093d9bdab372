"""The file of the bridge of object storage, checked before anything connects, and the readers of its objects.

`ObjectsSettings` has the sections of the file and their defaults.

`reading_of` chooses the way to read a source's objects: the endpoint, and the reader of an object by its name.

`ObjectReader` cuts an object into pieces, one for each request. A `Piece` has the index of its first message, from 0,
and a hash of the decompressed content before its end. A position keeps both, so a resumed object is checked before its
next message is sent.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Protocol

from pydantic import BeforeValidator

from mirrorgate.arrow_rows import CONTENT_TYPE, ParquetCutter
from mirrorgate.chunking.avro_messages import split_replicate
from mirrorgate.chunking.chunks import Limits
from mirrorgate.chunking.json_messages import split_json
from mirrorgate.errors import Misconfigured
from mirrorgate.errors.store_faults import without_queries
from mirrorgate.file_content import Cutter, Mark, StreamCutter, digest_of
from mirrorgate.file_paths import FileNames, FileOrder, PathTemplate, plain_name
from mirrorgate.object_store import shows_growing_objects
from mirrorgate.source import Source, SourceFormat
from mirrorgate_bridge.settings_file import (
    GatewaySettings,
    HealthSettings,
    LogSettings,
    Name,
    Problem,
    Section,
    StopSettings,
    own_names,
    read_settings_file,
    seconds,
    size,
    whole_number,
    wrong,
)


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


DEFAULT_SETTLE_SECONDS: Final = 5.0
_OWN_PARAMETERS: Final = {
    "table": "Write it as `table` or `table_from_path` of the source.",
    "on_reject": "Write it as `on_reject` of the source.",
    "dry_run": "A dry run stages nothing, so the bridge does not allow it.",
}


def _listed(given: Any) -> Any:
    """Read a list; a single string is a list of one."""
    return (given,) if isinstance(given, str) else given


def _template(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    try:
        return PathTemplate.parse(given)
    except Misconfigured as error:
        raise wrong(error.detail, error.remedy) from None


Texts = Annotated[tuple[str, ...], BeforeValidator(_listed)]
Templates = Annotated[tuple[Annotated[PathTemplate, BeforeValidator(_template)], ...], BeforeValidator(_listed)]


class SourceSettings(Section):
    """One source. Its name is part of the producers' names at the gateway: never change it."""

    url: str
    """Address of the store, or a folder."""
    name: Name = ""
    """Part of the producers' names. Without one, the address without characters that names do not have."""
    format: ObjectFormat
    """Format of the objects."""
    options: Mapping[str, str] = {}
    """Settings of the store."""
    content: Content = Content.AUTO
    """Form in which objects are read. `auto` reads a name that ends with `.csv` (before `.gz` or `.zst`) as CSV."""
    table: str | None = None
    """Table of all objects."""
    table_from_path: Templates = ()
    """Instead of `table`: a template, or a list whose first match counts. An object that matches none is left out and
    reported.
    """
    parameters: Mapping[Annotated[str, own_names(_OWN_PARAMETERS)], str] = {}
    """Query parameters of the endpoint."""
    key_columns: Texts = ()
    """Key columns of `replicate-files`; without them, those of the `.dfm`."""
    order: FileOrder = FileOrder.NAME
    """Order of a table's objects. `replicate-files` has the default `load-first`, because the names of its full loads
    sort after those of the changes.
    """
    only: Texts = ("*",)
    """Patterns of names that are read, such as `*.json`; with a `/`, of the whole path."""
    ignore: Texts = ()
    """Patterns of names that are left out."""
    settle: Annotated[float, seconds(0, 86_400)] = 0.0
    """Time without a change after which an object is complete. The default is `5 s` in Azure Data Lake and folders,
    which show objects while they grow, and with `order: modified`.
    """
    done_marker: str | None = None
    """Suffix of marker objects, instead of `settle`."""
    on_reject: Literal["stop", "dead_letter"] = "stop"
    """Treatment of a message that the gateway rejects."""
    late: Literal["stop", "report"] = "stop"
    """Treatment of an object that appears behind the position, or changes after it was read."""

    def model_post_init(self, _: Any) -> None:
        """Set the defaults that depend on other values."""
        given = self.model_fields_set
        if "name" not in given:
            self.__dict__["name"] = default_name(self.url)
        if "order" not in given and self.format is ObjectFormat.REPLICATE_FILES:
            self.__dict__["order"] = FileOrder.LOAD_FIRST
        by_time = self.order is FileOrder.MODIFIED  # S3's times are whole seconds: an object of the same one may follow
        if "settle" not in given and self.done_marker is None and (by_time or shows_growing_objects(self.url)):
            self.__dict__["settle"] = DEFAULT_SETTLE_SECONDS

    @cached_property
    def names(self) -> FileNames:
        """Names of the paths with changes."""
        return FileNames(self.only, self.ignore, self.done_marker)

    @classmethod
    def contradictions(cls, given: Mapping[str, Any]) -> Iterator[Problem]:
        """Yield what contradicts another value of the source."""
        names_table = bool(given.get("table") or given.get("table_from_path"))
        if given.get("format") in (ObjectFormat.ROWS, ObjectFormat.REPLICATE_FILES) and not names_table:
            remedy = "Add `table: sales.orders` or `table_from_path: '{schema}/{table}/…'`."
            yield (), wrong(f"{given['format']} name no table", remedy)
        if given.get("table") and given.get("table_from_path"):
            yield (), wrong("table and table_from_path are both given", "Give one of them.")
        if "settle" in given and given.get("done_marker"):
            yield (), wrong("settle and done_marker are both given", "Give one of them.")
        if given.get("key_columns") and given.get("format") != ObjectFormat.REPLICATE_FILES:
            yield ("key_columns",), wrong("key_columns is a setting of replicate-files", "Remove it.")


class BatchSettings(Section):
    """Limits of a request."""

    max_bytes: Annotated[int, size(1024, 64 * 2**20)] = 8 * 2**20
    """Maximum bytes of a request."""
    max_messages: Annotated[int, whole_number(1, 500_000)] | None = None
    """Maximum messages of a request."""


class ObjectsSettings(Section):
    """The whole file. Invariant: it has been checked without a connection."""

    name: Name
    """Part of the producers' names: another name reads every object again."""
    gateway: GatewaySettings
    sources: tuple[SourceSettings, ...]
    batch: BatchSettings = BatchSettings()
    poll: Annotated[float, seconds(0.01, 86_400)] = 10.0
    """Time between two listings."""
    recheck: Annotated[float, seconds(0.01, 86_400 * 7)] = 600.0
    """Time between two complete listings, which find late and changed objects."""
    stop: StopSettings = StopSettings()
    health: HealthSettings | None = HealthSettings()
    """None for a bridge without a health port."""
    log: LogSettings = LogSettings()

    @classmethod
    def contradictions(cls, given: Mapping[str, Any]) -> Iterator[Problem]:
        """Yield sources that cannot be told apart, or that there are none."""
        sources = given.get("sources")
        if sources in ([], ()):
            yield ("sources",), wrong("has no source", "Add at least one `- url:` with its `format:`.")
        names: set[str] = set()
        for place, source in enumerate(sources if isinstance(sources, list) else []):
            if isinstance(source, dict) and isinstance(source.get("url"), str):
                name = str(source.get("name") or default_name(source["url"]))
                if name in names:
                    remedy = "Give each source its own `name`."
                    yield ("sources", place), wrong(f"the source {name!r} is already declared", remedy)
                names.add(name)


def read_settings(path: Path, environment: Mapping[str, str]) -> ObjectsSettings:
    """Return the settings of a file. Raises BadFile with every problem, each with its line and path in the file."""
    return read_settings_file(path, environment, ObjectsSettings)


def default_name(url: str) -> str:
    """Return the name of a source that has none; a hash at its end tells long and foreign addresses apart."""
    text = without_queries(url.partition("?")[0]).rstrip("/").replace("://", "-").replace("/", "-")
    name = re.sub(r"[^!-.0-~]+", "-", text)
    return name if name == text and len(name) <= 100 else f"{name[-83:]}-{digest_of(text)}"
