"""`_metadata.json`: whether it is there in time and usable, and what it declares."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from app.landing.folder_marker import MARKER
from app.landing.publish import METADATA
from app.verify.codes import FindingCode
from app.verify.finding import Finding
from app.verify.table_view import TableView

MAX_KEYS: Final = 4

_WITHDRAWN: Final = "conditionalupdatecolumn"
_PARTITIONS: Final = "ispartitionenabled"
_KNOWN: Final = frozenset(
    {
        "keycolumns",
        "filedetectionstrategy",
        "isupsertdefaultrowmarker",
        "fileformat",
        "fileextension",
        "fileformattypeproperties",
        "schemadefinition",
        _WITHDRAWN,
        _PARTITIONS,
    }
)
_FORMATS: Final = (None, "parquet", "csv", "delimitedtext")


def metadata_presence(view: TableView) -> Iterator[Finding]:
    """Find metadata that is missing, damaged, or later than the data."""
    path = _path(view)
    if METADATA not in view.files.kinds:
        yield view.finding(FindingCode.METADATA_MISSING, "the folder has no _metadata.json", path)
        return
    if view.damage is not None:
        yield view.finding(FindingCode.METADATA_DAMAGED, view.damage, path)
    times = [time for file in view.ordered_files() if (time := view.modified(file)) is not None]
    entry = view.entries.get(path)
    written = entry.modified if entry is not None else None
    # A gateway renames a folder into place with its metadata, and renews the file when a table gets its keys.
    if written is not None and times and written > min(times) and MARKER not in view.files.kinds:
        seconds = (written - min(times)).total_seconds()
        detail = f"_metadata.json is {seconds:,.0f} s newer than the first data file"
        yield view.finding(FindingCode.METADATA_AFTER_DATA, detail, path)


def metadata_content(view: TableView) -> Iterator[Finding]:
    """Check the keys of the JSON object and the number of key columns."""
    raw, path = _raw(view), _path(view)
    for name in sorted(set(raw) - _KNOWN):
        yield view.finding(FindingCode.UNKNOWN_METADATA_KEY, f"the key {name!r} (letter case ignored)", path)
    if _WITHDRAWN in raw:
        yield view.finding(FindingCode.WITHDRAWN_METADATA_KEY, "it names ConditionalUpdateColumn", path)
    if str(raw.get(_PARTITIONS, False)).lower() == "true":
        yield view.finding(FindingCode.PARTITIONS_ENABLED, "isPartitionEnabled is true", path)
    count = len(view.metadata.key_columns) if view.metadata is not None else 0
    if count > MAX_KEYS:
        yield view.finding(FindingCode.TOO_MANY_KEYS, f"{count} key columns", path)


def detection(view: TableView) -> Iterator[Finding]:
    """Check the order of files by time, which a publisher can ask for."""
    if view.metadata is None or view.metadata.detection is None:
        return
    if not view.metadata.is_ordered_by_time:
        yield view.finding(
            FindingCode.UNKNOWN_DETECTION, f"fileDetectionStrategy is {view.metadata.detection!r}", _path(view)
        )
        return
    yield view.finding(FindingCode.ORDERED_BY_TIME, f"fileDetectionStrategy is {view.metadata.detection}", _path(view))
    files = [(time, file.path) for file in view.ordered_files() if (time := view.modified(file)) is not None]
    times = Counter(time for time, _ in files)
    tied = [path for time, path in files if times[time] > 1]
    if tied:
        detail = f"{len(tied):,} files share their time with another; the first two are {tied[0]} and {tied[1]}"
        yield view.finding(FindingCode.TIME_TIES, detail, tied[0])


def text_description(view: TableView) -> Iterator[Finding]:
    """Check the description of delimited text."""
    raw, path = _raw(view), _path(view)
    declared = view.metadata.file_format if view.metadata is not None else None
    if declared not in _FORMATS:
        yield view.finding(FindingCode.UNKNOWN_FILE_FORMAT, f"fileFormat is {declared!r}", path)
    if declared in (None, "parquet"):
        return
    if declared == "delimitedtext" and not raw.get("fileextension"):
        yield view.finding(FindingCode.TEXT_WITHOUT_EXTENSION, "FileExtension is missing", path)
    properties = raw.get("fileformattypeproperties")
    if isinstance(properties, dict) and any(
        str(name).lower() == "firstrowasheader" and str(value).lower() == "false" for name, value in properties.items()
    ):
        yield view.finding(FindingCode.TEXT_WITHOUT_HEADER, "FirstRowAsHeader is false", path)
    if "schemadefinition" not in raw:
        yield view.finding(FindingCode.TEXT_WITHOUT_TYPES, "SchemaDefinition is missing", path)


def _path(view: TableView) -> str:
    return f"{view.table.folder}/{METADATA}"


def _raw(view: TableView) -> Mapping[str, Any]:
    return (view.metadata.raw or {}) if view.metadata is not None else {}
