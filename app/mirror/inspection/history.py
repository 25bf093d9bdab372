"""The versions of a mirrored table, opened by name, version or time, and the mirror's progress.

`read_history` reads what the mirror applied from the custom metadata of its commits (docs/explanation/delta-mirror.md).
A version without that metadata is of `optimize`, `vacuum` or `restore`, or of another program that writes the table.

`find_table` and `open_table` are the start of every command on mirrored tables, so that a misspelled name, a version
that is gone and a target that cannot be read have the same answer everywhere. A time means the newest version that was
committed at or before it, by the commit times that `read_history` returns. The times of the log's files would change
with each copy of the folder.

`table_store` opens the folder of a Delta table as a file system of Arrow.

`inspect_tables` reports how far the mirror has applied tables, and `read_upkeep` their last upkeep.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import partial
from typing import Any, Final, TypeAlias
from urllib.parse import unquote, urlsplit

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, DeltaProtocolError
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

from app.domain.mirror_report import MirrorState, TableReport
from app.domain.model.landing_file import file_name
from app.domain.model.table import FileNumber
from app.landing.parquet_file import read_identity
from app.landing.zone import LandingZone, PathKind
from app.mirror.table_mirror import APPENDED_ROWS, DELETED_KEYS, FILES, GENERATION, KEY_COLUMNS, ROWS, inspect_table
from app.mirror.target import KEPT, LOG_FOLDER, DamagedTable, MirrorTarget, shown, store_error, vacuum_time
from app.published.table_files import SCHEMA_SUFFIX, PublishedTable, list_tables
from mirrorgate.errors import Code, InvariantBroken, Misconfigured, RejectedInput


def table_store(target: MirrorTarget, table: DeltaTable, folder: str = "") -> fs.FileSystem:
    """Open the folder of a table, or a folder in it, as the root of a file system. Its calls raise OSError.

    Of a local folder, Arrow itself reads the files (`arrow_dataset` says why); else the object store of deltalake.
    """
    uri = f"{table.table_uri.rstrip('/')}/{folder}"
    address = urlsplit(uri)
    if address.scheme == "file":
        return fs.SubTreeFileSystem(unquote(address.path), fs.LocalFileSystem())
    return fs.PyFileSystem(DeltaStorageHandler(uri, target.open_options()))


CLUSTERED_BY: Final = "mirrorgate.clustered_by"
"""Key of the custom metadata of an `optimize --cluster`: the columns as a JSON list."""

MIRROR: Final = "mirror"
OPTIMIZE: Final = "optimize"
VACUUM: Final = "vacuum"
_COMMIT: Final = re.compile(r"([0-9]{20})\.json")
_READERS: Final = 8
PROPERTIES: Final = "properties"
_OPERATIONS: Final = {
    "VACUUM START": VACUUM,
    "VACUUM END": VACUUM,
    "OPTIMIZE": OPTIMIZE,
    "SET TBLPROPERTIES": PROPERTIES,
}


@dataclass(frozen=True, slots=True)
class TableVersion:
    """One version of a mirrored table. The fields after `operation` are None unless the mirror committed it."""

    version: int
    time: datetime
    operation: str
    """`mirror`, `optimize`, `vacuum`, `properties` (a pin), `restore`, or another program's operation in lower case."""
    files: tuple[int, int] | None
    """First and last landing file that the version applied."""
    generation: int | None
    rows: Mapping[str, int] | None
    """Rows that were read, by row marker."""
    deleted_keys: int | None
    appended_rows: int | None
    key_columns: tuple[str, ...] | None
    clustered_by: tuple[str, ...] | None
    """The columns by which an `optimize` sorted the rows."""

    def to_json(self) -> dict[str, Any]:
        """Return the entry as `mirror history --json` prints it."""
        left_out = ("key_columns", "clustered_by")
        figures = {name: getattr(self, name) for name in self.__slots__ if name not in left_out}
        return figures | {"time": self.time.isoformat(), "files": self.files and [*self.files]}

    @property
    def keeps_content(self) -> bool:
        """True if the version has the same rows as the one before it."""
        return self.operation in (OPTIMIZE, VACUUM, PROPERTIES)


def read_history(target: MirrorTarget, table: DeltaTable, limit: int | None = None) -> list[TableVersion]:
    """Read the versions up to the open one, the newest first. Versions whose log is gone are missing.

    deltalake's `history` numbers the commits from the version that is open, whichever is the newest in the log, so it
    is wrong for an older version and beside a running mirror (docs/contribute/decisions/0037). Raises OSError.
    """
    log = table_store(target, table, LOG_FOLDER)
    versions = [version for version in commit_versions(log) if version <= table.version()]
    chosen = versions[::-1][:limit]
    with ThreadPoolExecutor(_READERS) as pool:
        read = pool.map(lambda version: _commit_info(log, version), chosen)
        return [_entry(version, info) for version, info in zip(chosen, read, strict=True) if info is not None]


def commit_versions(log: fs.FileSystem) -> list[int]:
    """List the versions whose commits are in the log, sorted."""
    entries = log.get_file_info(fs.FileSelector("", allow_not_found=True))
    return sorted(int(found[1]) for entry in entries if (found := _COMMIT.fullmatch(entry.base_name)))


def read_key_columns(history: list[TableVersion]) -> tuple[str, ...]:
    """Return the key columns that the newest mirror commit names; empty for a table without a key."""
    return next((entry.key_columns for entry in history if entry.key_columns is not None), ())


def _commit_info(log: fs.FileSystem, version: int) -> Mapping[str, Any] | None:
    """Return what a commit says about itself; nothing for a commit that the cleanup of the log removes meanwhile."""
    try:
        with log.open_input_file(f"{version:020}.json") as file:
            lines = file.read().split(b"\n")
    except FileNotFoundError:
        return None
    actions = [json.loads(line) for line in lines if b'"commitInfo"' in line]
    return next((action["commitInfo"] for action in actions if "commitInfo" in action), {})


def _entry(version: int, commit: Mapping[str, Any]) -> TableVersion:
    first, _, last = str(commit.get(FILES, "")).partition("-")
    files = (int(first), int(last)) if first.isdigit() and last.isdigit() else None
    operation = str(commit.get("operation", "unknown"))
    rows, keys, clustered = (_json(commit.get(name)) for name in (ROWS, KEY_COLUMNS, CLUSTERED_BY))
    return TableVersion(
        version=version,
        time=datetime.fromtimestamp(int(commit.get("timestamp", 0)) / 1000, UTC),
        operation=MIRROR if files is not None else _OPERATIONS.get(operation, operation.lower()),
        files=files,
        generation=_number(commit.get(GENERATION)),
        rows={str(marker): int(count) for marker, count in rows.items()} if isinstance(rows, dict) else None,
        deleted_keys=_number(commit.get(DELETED_KEYS)),
        appended_rows=_number(commit.get(APPENDED_ROWS)),
        key_columns=tuple(map(str, keys)) if isinstance(keys, list) else None,
        clustered_by=tuple(map(str, clustered)) if isinstance(clustered, list) else None,
    )


def _number(text: object) -> int | None:
    return int(str(text)) if str(text).isdigit() else None


def _json(text: object) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return None


PointInTime: TypeAlias = int | datetime | None
"""A version, a time with its offset, or None for the newest version."""

MAX_NAMES_IN_ERRORS: Final = 8


def table_names(target: MirrorTarget) -> list[str]:
    """List the mirrored tables, sorted. Raises Misconfigured `mirror_missing` if the target has none."""
    with reading(target.location):
        names = sorted(target.tables())
    if not names:
        raise Misconfigured(Code.MIRROR_MISSING, f"{target.location} holds no Delta table")
    return names


def find_table(names: list[str], name: str) -> str:
    """Return the table that a user means by `name`, as `matching_tables`. Raises RejectedInput `unknown_table`."""
    matching = matching_tables(names, name)
    if not matching:
        raise unknown_table(names, name)
    if len(matching) > 1:
        raise RejectedInput(
            Code.UNKNOWN_TABLE,
            f"{name} can be several tables: {_listed(matching)}",
            remedy="Write the table with its schema, in exactly this letter case.",
        )
    return matching[0]


def matching_tables(names: list[str], name: str) -> list[str]:
    """Return the tables that `name` can mean: `schema.table`, else `table` of any schema.

    Letter case matters only between tables that differ in nothing else.
    """
    wanted = name.casefold()
    exact = [known for known in names if known == name]
    folded = [known for known in names if known.casefold() == wanted]
    return exact or folded or [known for known in names if known.partition(".")[2].casefold() == wanted]


def unknown_table(names: list[str], name: str) -> RejectedInput:
    """Return the error for a table that the mirror does not have, with the nearest names."""
    folded = {form.casefold(): known for known in names for form in (known, known.rpartition(".")[2])}
    near = [folded[form] for form in get_close_matches(name.casefold(), folded, n=3)]
    hint = f"; the nearest: {_listed(list(dict.fromkeys(near)))}" if near else ""
    return RejectedInput(
        Code.UNKNOWN_TABLE, f"the mirror has no table {name}{hint}", remedy=f"The mirror has: {_listed(names)}."
    )


def open_table(target: MirrorTarget, name: str, at: PointInTime = None) -> DeltaTable:
    """Open a table that `find_table` found. Raises RejectedInput `unknown_version` if it has no version at `at`."""
    with reading(name):
        table = target.open(name)
    if table is None:
        raise unknown_table(table_names(target), name)
    version = _version_at(target, table, name, at)
    if version == table.version():
        return table
    try:
        table.load_as_version(version)
    except (DeltaError, OSError) as error:
        raise RejectedInput(
            Code.UNKNOWN_VERSION, f"the log of {name} no longer has version {version}: {shown(error)}"
        ) from error
    return table


def _version_at(target: MirrorTarget, table: DeltaTable, name: str, at: PointInTime) -> int:
    """Return the version number of a point in time. Raises RejectedInput `unknown_version`."""
    newest = table.version()
    if at is None:
        return newest
    if isinstance(at, int):
        if not 0 <= at <= newest:
            raise RejectedInput(Code.UNKNOWN_VERSION, f"{name} has no version {at}: its newest version is {newest}")
        return at
    with reading(name):
        history = read_history(target, table)
    for entry in history:
        if entry.time <= at:
            return entry.version
    first = f": its first version is of {history[-1].time.isoformat()}" if history else ""
    raise RejectedInput(Code.UNKNOWN_VERSION, f"{name} has no version as old as {at.isoformat()}{first}")


def parse_point(text: str) -> int | datetime:
    """Read a version number or an ISO 8601 time. A time without an offset is UTC. Raises ValueError."""
    if text.isascii() and text.isdigit():
        return int(text)
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Translate faults of the target. Raises TemporarilyUnavailable `mirror_away`, or `unknown_version` for lost files.

    A data file that the log names and the target lacks was removed by a vacuum. A table with Delta features that
    deltalake cannot read as Arrow, such as deletion vectors, is `bad_query`.
    """
    try:
        yield
    except BrokenPipeError:  # the reader of this program's output has enough, as in `… | head`
        raise
    except FileNotFoundError as error:
        raise RejectedInput(
            Code.UNKNOWN_VERSION,
            f"{what}: a data file of this version was removed, as a vacuum does: {shown(error)}",
            remedy="Choose a version within the retention of `mirrorgate mirror vacuum`. If it is the newest one, stop "
            "the mirror, delete the folder of this Delta table, and start the mirror.",
        ) from error
    except DeltaProtocolError as error:
        raise RejectedInput(
            Code.BAD_QUERY,
            f"{what}: {shown(error)}",
            remedy="Read it with Spark or Fabric's SQL endpoint. `mirror history` and `mirror health` can read it.",
        ) from error
    except (DeltaError, OSError) as error:
        raise store_error(what, error) from error


def _listed(names: list[str]) -> str:
    more = len(names) - MAX_NAMES_IN_ERRORS
    return ", ".join(names[:MAX_NAMES_IN_ERRORS]) + (f" and {more:,} more" if more > 0 else "")


FAULTS: Final = frozenset({MirrorState.WAITING, MirrorState.STOPPED})
"""States that need a person."""

_UPKEEP_VERSIONS: Final = 100
"""Versions among which the last compaction is looked for: by default, 64 small files cause one."""


def published_tables(zone: LandingZone, target: MirrorTarget) -> list[PublishedTable]:
    """List the tables of the zone and the tables that only the target has, sorted by name; no kept generation.

    Raises TemporarilyUnavailable `mirror_away` if the zone or the target cannot be read.
    """
    with reading(target.location):
        found = {str(table): table for table in list_tables(zone)}
        for name in target.tables():
            if name not in found and KEPT not in name:
                found[name] = _dropped_table(name)
    return [found[name] for name in sorted(found)]


def inspect_tables(zone: LandingZone, target: MirrorTarget, tables: list[PublishedTable]) -> Iterator[TableReport]:
    """Inspect tables, in their order, several at a time. Raises TemporarilyUnavailable `mirror_away`.

    A table of a gateway whose last file is not the gateway's is stopped: that drain publishes nothing there either. So
    is a table whose Delta log is damaged.
    """
    with reading(target.location), ThreadPoolExecutor(_READERS) as pool:
        yield from pool.map(partial(_inspect, zone, target), tables)


def _inspect(zone: LandingZone, target: MirrorTarget, table: PublishedTable) -> TableReport:
    try:
        report = inspect_table(zone, target, table)
    except DamagedTable as error:
        return TableReport(str(table), MirrorState.STOPPED, generation=0).because(error)
    if report.state is not MirrorState.IN_STEP or report.owner is None or not report.last_file:
        return report
    path = f"{table.folder}/{file_name(FileNumber(report.last_file))}"
    if zone.kind(path) is not PathKind.FILE:  # consumed since the listing
        return report
    with zone.read_file(path) as file:
        identity = read_identity(file)
    if identity is not None and identity.number == report.last_file:
        return report
    detail = f"{path} is applied and is not a file of the gateway that the folder belongs to"
    return replace(report, state=MirrorState.STOPPED).because(InvariantBroken(Code.FOREIGN_FILE, detail))


@dataclass(frozen=True, slots=True)
class LastUpkeep:
    """Times of a table's last compaction and of the last vacuum that deleted files; None if its log does not say."""

    compacted_at: datetime | None = None
    vacuumed_at: datetime | None = None


def read_upkeep(target: MirrorTarget, names: Sequence[str]) -> dict[str, LastUpkeep]:
    """Return the last upkeep of tables, as their newest versions say. Raises TemporarilyUnavailable `mirror_away`."""
    with reading(target.location), ThreadPoolExecutor(_READERS) as pool:
        return dict(zip(names, pool.map(partial(_read_upkeep, target), names), strict=True))


def _read_upkeep(target: MirrorTarget, name: str) -> LastUpkeep:
    delta = None
    with suppress(DamagedTable), reading(name):
        delta = target.open(name)
    if delta is None:
        return LastUpkeep()
    newest = read_history(target, delta, _UPKEEP_VERSIONS)
    return LastUpkeep(next((one.time for one in newest if one.operation == OPTIMIZE), None), vacuum_time(delta))


def report_to_json(report: TableReport, upkeep: LastUpkeep) -> dict[str, Any]:
    """Return a report as `mirror status --json` prints it, with the names that the API uses."""
    reason = {"code": report.code, "detail": report.detail, "remedy": report.remedy}
    names = ("table", "state", "version", "generation", "file_number", "last_file", "pending_files", "committed_at")
    return {name: getattr(report, name) for name in names} | {
        "lag_seconds": round(lag_seconds(report), 3),
        "reason": None if report.code is None else reason,
        "compacted_at": upkeep.compacted_at,
        "vacuumed_at": upkeep.vacuumed_at,
    }


def lag_seconds(report: TableReport) -> float:
    """Return the age of the oldest file that is not applied, 0 in step."""
    if report.oldest_pending_at is None:
        return 0.0
    return max(0.0, (datetime.now(UTC) - report.oldest_pending_at).total_seconds())


def _dropped_table(name: str) -> PublishedTable:
    schema, dot, table = name.partition(".")
    return (
        PublishedTable(schema, table, f"{schema}{SCHEMA_SUFFIX}/{table}") if dot else PublishedTable(None, name, name)
    )
