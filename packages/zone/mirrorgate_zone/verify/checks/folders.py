"""The root of the zone, and table folders: their entries, the names and numbers of data files, and `_metadata.json`."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final

from app.landing.landed_state import CONSUMED_FOLDERS, MARKER
from app.landing.publish import METADATA, PARTNER_EVENTS, SCRATCH
from app.landing.zone import Entry, LandingZone, PathKind
from app.published.table_files import SCHEMA_SUFFIX, PublishedTable, TableFiles, partition_folders
from app.published.table_metadata import TableMetadata
from mirrorgate_zone.verify.codes import Finding, FindingCode
from mirrorgate_zone.verify.file_reading import TableView

KEPT_HIDDEN: Final = timedelta(days=7)
"""Age at which a hidden file is no longer one that a program is still writing."""
EMPTY_AT_MOST: Final = timedelta(days=14)
"""Time for which mirroring accepts a table without data."""

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
    partitions = partition_folders(view.files.kinds)
    if partitions and not (view.metadata is not None and view.metadata.is_partitioned):
        detail = f"partition folders: {len(partitions):,}"
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
    if view.ordered_files() or metadata is None or has_folders:
        return
    age = view.now - (metadata.modified or view.now)
    code = FindingCode.NO_DATA_FOR_TWO_WEEKS if age >= EMPTY_AT_MOST else FindingCode.NO_DATA
    yield view.finding(code, f"the metadata is {max(age.days, 0)} days old, and there is no data file")


def hidden_files(view: TableView) -> Iterator[Finding]:
    """Find hidden files that a program began to write long ago."""
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


_NUMBER: Final = re.compile(r"(\d+)\.(.+)", re.ASCII | re.DOTALL)
_DATA_FILE_NAME: Final = re.compile(
    r".*\.(?:parquet|csv|txt|tsv|psv)(?:\.gz|\.zst|\.snappy)?", re.IGNORECASE | re.DOTALL
)
_DIGITS: Final = 20


def file_names(view: TableView) -> Iterator[Finding]:
    """Check the name of each visible file of the table folder and of its partitions."""
    by_time = view.metadata is not None and view.metadata.is_ordered_by_time
    allowed = _extensions(view.metadata)
    for folder, files in _numbered_folders(view):
        for name, kind in sorted(files.kinds.items()):
            if kind is PathKind.FILE and not name.startswith("_"):
                problem = _problem(name, allowed, by_time=by_time)
                if problem is not None:
                    yield view.finding(*problem, f"{folder}/{name}")


def numbers(view: TableView) -> Iterator[Finding]:
    """Check that the numbers are continuous and unique, in each partition by itself."""
    if view.metadata is not None and view.metadata.is_ordered_by_time:
        return
    for folder, files in _numbered_folders(view):
        yield from _numbers(view, folder, files)


def _numbered_folders(view: TableView) -> Iterator[tuple[str, TableFiles]]:
    """Yield the table folder and the folders of its partitions, each with its files."""
    yield view.table.folder, view.files
    for partition, files in view.files.partitions.items():
        yield f"{view.table.folder}/{partition}", files


def _numbers(view: TableView, folder: str, files: TableFiles) -> Iterator[Finding]:
    found = [*files.numbered]
    if found and found[0] > 1 and not any(name in files.kinds for name in CONSUMED_FOLDERS):
        first = files.numbered[found[0]]
        yield view.finding(FindingCode.FIRST_FILE_MISSING, f"the first file has number {found[0]}", first.path)
    for number, following in pairwise(found):
        if following > number + 1:
            missing, last = number + 1, following - 1
            what = f"file {missing} is missing" if missing == last else f"files {missing} to {last} are missing"
            extension = files.numbered[number].name[_DIGITS:]
            path = f"{folder}/{missing:0{_DIGITS}d}{extension}"
            yield view.finding(FindingCode.NUMBER_GAP, f"{what}, and file {following} is there", path)
    for file in files.repeated:
        if file.number is not None:
            other = files.numbered[file.number]
            yield view.finding(FindingCode.NUMBER_REPEATED, f"{other.path} has the same number", file.path)


def _problem(name: str, allowed: frozenset[str], *, by_time: bool) -> tuple[FindingCode, str] | None:
    match = _NUMBER.fullmatch(name)
    extension = match[2] if match else name.partition(".")[2]
    is_data = _DATA_FILE_NAME.fullmatch(name) is not None
    expected = " or ".join(f".{one}" for one in sorted(allowed))
    if match and len(match[1]) == _DIGITS:
        if int(match[1]) == 0:
            return FindingCode.NUMBER_ZERO, "numbers begin at 1"
        return None if extension in allowed else (FindingCode.WRONG_EXTENSION, f"the extension must be {expected}")
    if not is_data and extension not in allowed:
        return FindingCode.FOREIGN_FILE, "its name is not that of a data file"
    if by_time:
        return None
    if match:
        return FindingCode.WRONG_DIGITS, f"the name has {len(match[1])} digits instead of {_DIGITS}"
    return FindingCode.NAME_NOT_A_NUMBER, f"the name must be {_DIGITS} digits and {expected}"


def _extensions(metadata: TableMetadata | None) -> frozenset[str]:
    """Return the extensions that the table's data files can have."""
    if metadata is None or not metadata.is_delimited_text:
        return frozenset({"parquet"})
    declared = str((metadata.raw or {}).get("fileextension") or "csv").lstrip(".")
    return frozenset({declared, *(f"{declared}.{codec}" for codec in ("gz", "zst", "snappy"))})


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
    """Find metadata that is damaged, or later than the data."""
    path = _path(view)
    if METADATA not in view.files.kinds:
        return  # `missing_metadata` judges it by the columns of the files
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


def missing_metadata(view: TableView) -> Iterator[Finding]:
    """Find a table without metadata: for inserts only, mirroring needs none."""
    if METADATA not in view.files.kinds:
        inserts = bool(view.checked) and all(file.marker is None for file in view.checked)
        code = FindingCode.METADATA_MISSING_FOR_INSERTS if inserts else FindingCode.METADATA_MISSING
        yield view.finding(code, "the folder has no _metadata.json", _path(view))


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
    if view.metadata is None or not view.metadata.is_delimited_text:
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


MAX_TABLES: Final = 1_000

_MAX_EVENT_BYTES: Final = 2**20
_MAX_DEPTH: Final = 4


@dataclass(frozen=True, slots=True)
class ZoneView:
    """The zone at the moment of its listing."""

    zone: LandingZone
    tables: Sequence[PublishedTable]
    now: datetime


def partner_events(view: ZoneView) -> Iterator[Finding]:
    """Check the file that names the publisher."""
    kind = view.zone.kind(PARTNER_EVENTS)
    if kind is PathKind.ABSENT:
        yield Finding(FindingCode.PARTNER_EVENTS_MISSING, f"the root has no {PARTNER_EVENTS}", file=PARTNER_EVENTS)
    elif (problem := _events_problem(view.zone, kind)) is not None:
        yield Finding(FindingCode.PARTNER_EVENTS_DAMAGED, problem, file=PARTNER_EVENTS)


def outside_tables(view: ZoneView) -> Iterator[Finding]:
    """Find files and special entries at the root and in schema folders, and schema folders without a table."""
    schemas = [
        name
        for name, kind in view.zone.kinds("").items()
        if kind is PathKind.FOLDER and name.lower().endswith(SCHEMA_SUFFIX) and not name.startswith(("_", "."))
    ]
    used = {table.folder.rpartition("/")[0] for table in view.tables}
    for folder in ["", *sorted(schemas)]:
        for name, kind in sorted(view.zone.kinds(folder).items()):
            path = f"{folder}/{name}" if folder else name
            if kind is PathKind.SPECIAL:
                yield Finding(FindingCode.SPECIAL_ENTRY, "it is neither a regular file nor a folder", file=path)
            elif kind is PathKind.FILE and not name.startswith("_"):
                yield Finding(FindingCode.FILE_OUTSIDE_TABLE, "it is in no table folder", file=path)
        if folder and folder not in used:
            yield Finding(FindingCode.EMPTY_SCHEMA_FOLDER, f"folder {folder} has no table folder", file=folder)


DEFAULT_SCHEMA: Final = "dbo"
"""Schema in which Fabric puts a table of a zone without schema folders, unless the mirrored database names another."""


def table_names(view: ZoneView) -> Iterator[Finding]:
    """Check the number of tables, and that their names differ in more than letter case and Fabric's default schema."""
    if len(view.tables) > MAX_TABLES:
        yield Finding(FindingCode.TOO_MANY_TABLES, f"the zone has {len(view.tables):,} tables")
    same: defaultdict[str, list[PublishedTable]] = defaultdict(list)
    for table in view.tables:
        same[str(replace(table, schema=table.schema or DEFAULT_SCHEMA)).casefold()].append(table)
    for tables in same.values():
        if len(tables) > 1:
            folders = ", ".join(table.folder for table in tables)
            yield Finding(FindingCode.TABLE_NAMES_DIFFER_IN_CASE, f"folders {folders}", str(tables[0]))


def old_scratch(view: ZoneView) -> Iterator[Finding]:
    """Find hidden files at the root and in `_scratchPad` that a program began to write long ago."""
    old = [path for path, entry in _hidden(view.zone, "", 0) if _is_leftover(path, entry, view.now)]
    if old:
        detail = f"hidden files older than 7 days: {len(old):,}"
        yield Finding(FindingCode.OLD_HIDDEN_FILES, detail, file=min(old))


ZONE_CHECKS: Final[tuple[Callable[[ZoneView], Iterator[Finding]], ...]] = (
    partner_events,
    outside_tables,
    table_names,
    old_scratch,
)


def _events_problem(zone: LandingZone, kind: PathKind) -> str | None:
    """Return what is wrong with `_partnerEvents.json`, None if nothing is."""
    if kind is not PathKind.FILE:
        return "it is not a file"
    with zone.read_file(PARTNER_EVENTS) as file:
        content = file.read(_MAX_EVENT_BYTES)
    try:
        found = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return "it is not JSON in UTF-8"
    source = found.get("sourceInfo") if isinstance(found, dict) else None
    if not isinstance(source, dict) or not isinstance(found.get("partnerName"), str):
        return "it is not an object with partnerName and sourceInfo"
    return None if isinstance(source.get("sourceType"), str) else "sourceInfo has no sourceType"


def _hidden(zone: LandingZone, folder: str, depth: int) -> Iterator[tuple[str, Entry]]:
    """Yield the files below a folder whose path has a hidden part."""
    for name, entry in zone.entries(folder).items():
        path = f"{folder}/{name}" if folder else name
        if not folder and not name.startswith("_"):
            continue
        if entry.kind is PathKind.FILE:
            yield path, entry
        elif entry.kind is PathKind.FOLDER and depth < _MAX_DEPTH:
            yield from _hidden(zone, path, depth + 1)


def _is_leftover(path: str, entry: Entry, now: datetime) -> bool:
    """Return whether a file is old. A gateway's own markers remain: empty files, and the owner of the zone."""
    is_marker = path in (PARTNER_EVENTS, f"{SCRATCH}/{MARKER}") or entry.size == 0
    return not is_marker and entry.modified is not None and now - entry.modified > KEPT_HIDDEN
