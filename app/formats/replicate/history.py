"""The history of a table's source: the versions that its metadata (MD) messages declared, as Postgres keeps them.

Versions are compared within one task, because each Replicate task numbers the versions of a table for itself. Earlier
versions remain readable, so that data messages sent before a change of the table still find their columns.

A schema id names a schema, not a table: two tables can have the same one. A data message belongs to the last MD message
of its table before it, in the same request or an earlier one, unless its own schema id names an earlier version. What
Postgres stores of the tables is passed in.

Mirroring cannot rename a column. Treated as one column that left and one that was added, all earlier rows would keep
NULL under the new name, so metadata that seems to rename one is found here.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, TypeAlias

from app.domain.model.change import Change
from app.domain.model.names import TableName
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import TableSchema
from app.formats.replicate.masks import ColumnLayout, apply_layout, check_without_layout
from app.formats.replicate.messages import DataChange, DataMessage
from app.formats.replicate.metadata import MetadataMessage, SourceColumn
from mirrorgate.errors import Code, Problem, RejectedInput
from mirrorgate.errors.exceptions import pointer_to

MAX_EARLIER_VERSIONS: Final = 32
"""Versions kept besides the current one; bounded, because every MD message rewrites all of them."""

VersionId: TypeAlias = tuple[str | None, int, str | None]
"""Schema id, table version and task of an MD message."""


@dataclass(frozen=True, slots=True)
class SourceVersion:
    """The source table as one MD message described it, without columns if they were not recorded."""

    schema_id: str | None
    table_version: int
    columns: Mapping[str, SourceColumn]
    external_schema_id: str | None = None
    task: str | None = None
    """Server and name of the task that wrote the message."""
    source: str | None = None
    """The source's own name for the table, if it was recorded."""
    data_schema: str | None = None
    """The Avro schema of its data messages, if the message had one."""

    @classmethod
    def of(cls, entry: MetadataMessage) -> "SourceVersion":
        """Return the version that an MD message describes."""
        names = {"task": entry.task, "source": str(entry.source), "data_schema": entry.data_schema}
        return cls(entry.schema_id, entry.table_version, entry.columns, **names)

    @property
    def identity(self) -> VersionId:
        """Schema id, table version and task."""
        return (self.schema_id, self.table_version, self.task)

    def is_same(self, other: "SourceVersion") -> bool:
        """Return True if one MD message declared both. External schema ids of its data are not compared."""
        return (self.identity, self.columns) == (other.identity, other.columns)

    def to_json(self) -> dict[str, Any]:
        """Return the version as it is stored."""
        return {
            "schema_id": self.schema_id,
            "table_version": self.table_version,
            "external_schema_id": self.external_schema_id,
            "task": self.task,
            "source": self.source,
            "columns": {name: column._asdict() for name, column in self.columns.items()},
            **({} if self.data_schema is None else {"data_schema": self.data_schema}),
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "SourceVersion":
        """Read a stored version."""
        columns = {name: SourceColumn(**column) for name, column in stored.get("columns", {}).items()}
        version = (stored.get("schema_id"), stored.get("table_version", 0))
        names = ("external_schema_id", "task", "source", "data_schema")
        others = (stored.get(name) for name in names)
        return cls(*version, columns, *others)


@dataclass(frozen=True, slots=True)
class SourceHistory:
    """The source versions of a table, the current one last."""

    versions: tuple[SourceVersion, ...]

    @property
    def current(self) -> SourceVersion:
        """The version that the latest MD message declared."""
        return self.versions[-1]

    def find(self, version: SourceVersion) -> int | None:
        """Return the index of the same version, None if it is not kept."""
        return next((index for index, known in enumerate(self.versions) if known.is_same(version)), None)

    def to_json(self) -> dict[str, Any]:
        """Return the history as it is stored."""
        return self.current.to_json() | {"earlier": [version.to_json() for version in self.versions[:-1]]}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "SourceHistory":
        """Read a stored history."""
        earlier = stored.get("earlier", [])
        return cls(tuple(SourceVersion.from_json(version) for version in [*earlier, stored]))


def new_entries(stored: SourceHistory | None, entries: Sequence[MetadataMessage]) -> list[MetadataMessage]:
    """Return the MD messages of one table that do not repeat an earlier version.

    A message with an older version of its task changes nothing if it was accepted before: the topic is being read
    again. Raises RejectedInput `stale_metadata` if it was never accepted.
    """
    versions = list(stored.versions) if stored else []
    accepted = []
    for entry in entries:
        version = SourceVersion.of(entry)
        newest = max((known.table_version for known in versions if known.task == version.task), default=None)
        if newest is None or version.table_version >= newest:
            accepted.append(entry)
            versions.append(version)
        elif not any(known.is_same(version) for known in versions):
            raise _stale(entry, newest)
    return accepted


def extend(stored: SourceHistory | None, entries: Sequence[MetadataMessage]) -> SourceHistory:
    """Return the history after the MD messages of one request for one table, in order; see `new_entries`."""
    versions = list(stored.versions) if stored else []
    for entry in new_entries(stored, entries):
        version = SourceVersion.of(entry)
        known = next((known for known in reversed(versions) if known.is_same(version)), version)
        if version.data_schema not in {None, known.data_schema}:
            renewed = replace(known, data_schema=version.data_schema)
            versions, known = [renewed if other is known else other for other in versions], renewed
        if not versions or versions[-1] is not known:
            versions = [other for other in versions if other is not known] + [known]
    return SourceHistory(tuple(versions[-1 - MAX_EARLIER_VERSIONS :]))


def with_external_ids(history: SourceHistory, adopted: Mapping[VersionId, str]) -> SourceHistory:
    """Return the history with external schema ids that appeared for the first time."""
    versions = (
        replace(version, external_schema_id=version.external_schema_id or adopted.get(version.identity))
        for version in history.versions
    )
    return SourceHistory(tuple(versions))


def _stale(entry: MetadataMessage, newest: int) -> RejectedInput:
    detail = f"table version {entry.table_version} is older than {newest} of the same task, and was never accepted"
    pointer = f"{entry.at}/lineage/tableVersion"
    return RejectedInput.at(Code.STALE_METADATA, detail, entry.index, pointer)


def renamed_columns(
    entry: MetadataMessage, previous: SourceVersion | None, present: TableSchema, options: TableOptions
) -> Iterable[Problem]:
    """Return the columns new to the table that have the ordinal and the type of one that the metadata drops.

    `previous` is the version that the source had before. Columns that the table already has are not new: they were
    registered. Options are applied to the metadata as at registration.
    """
    known = {column.name: column for column in present.columns}
    added = [column for column in options.declared(entry.schema).columns if column.name not in known]
    before = {} if previous is None else {column.ordinal: name for name, column in previous.columns.items()}
    for column in added:
        old = known.get(before.get(entry.columns[column.name].ordinal, ""))
        if old is not None and old.name not in entry.columns and old.type == column.type:
            yield _problem(entry, column.name, f"column {old.name!r} seems to have been renamed to {column.name!r}")


def columns_in_another_case(entry: MetadataMessage, present: TableSchema, options: TableOptions) -> Iterable[Problem]:
    """Return the columns that the table has in another letter case, which no file can hold beside them."""
    known = {name.casefold(): name for name in present.names}
    for column in options.declared(entry.schema).columns:
        old = known.get(column.name.casefold(), column.name)
        if old != column.name:
            yield _problem(
                entry, column.name, f"column {old!r} of the table is now {column.name!r}, in another letter case"
            )


def _problem(entry: MetadataMessage, column: str, detail: str) -> Problem:
    pointer = pointer_to(f"{entry.at}/tableStructure/tableColumns", column)
    return Problem(Code.COLUMN_RENAMED, detail, entry.index, pointer, column)


Recall: TypeAlias = Callable[[], SourceHistory | None]
"""Returns all stored versions of a table's source."""


class SchemaAnnouncements:
    """The MD messages of one request by schema id, in order, each with the table that it describes."""

    def __init__(self, entries: Iterable[MetadataMessage] = ()) -> None:
        self._indexes: dict[str, list[int]] = {}
        self._tables: dict[str, list[TableName]] = {}
        for entry in sorted(entries, key=lambda entry: entry.index):
            if entry.schema_id:
                self._indexes.setdefault(entry.schema_id, []).append(entry.index)
                self._tables.setdefault(entry.schema_id, []).append(entry.table)

    def before(self, message: DataMessage) -> int:
        """Return how many MD messages with this data message's schema id precede it."""
        indexes = self._indexes.get(message.schema_id or "")
        return bisect_left(indexes, message.index) if indexes else 0

    def table(self, message: DataMessage) -> TableName | None:
        """Return the table of the last MD message that precedes this data message and has its schema id."""
        count = self.before(message)
        return self._tables[message.schema_id or ""][count - 1] if count else None


def table_of(
    message: DataMessage,
    named: TableName | None,
    announced: TableName | None,
    known: Callable[[], Collection[TableName]],
) -> TableName:
    """Return the table of a data message: the one that is `named`, or that its schema id describes.

    `named` is the table of `?table=` or of the message's own address, see `named_table`. `announced` is the table of
    the last MD message before it in the request; `known` returns the caller's tables that have the schema id from
    other MD messages. Raises RejectedInput `table_mismatch` if they disagree, `ambiguous_schema_id` if several tables
    have the id and no name is given, `schema_unknown` or `unknown_table` if no table has it.
    """
    if announced is not None and (named is None or named.folded == announced.folded):
        return announced
    described = [name for name in (announced, *known()) if name is not None]
    if named is not None:
        if described and named.folded not in {name.folded for name in described}:
            raise _mismatch(message)
        return named
    if len(described) > 1:
        detail = "several tables have this schema id; name the one that is meant with `table`"
        raise RejectedInput.at(Code.AMBIGUOUS_SCHEMA_ID, detail, message.index, "/messageSchemaId")
    if not described:
        code = Code.SCHEMA_UNKNOWN if message.schema_id else Code.UNKNOWN_TABLE
        raise RejectedInput.at(
            code,
            "no address, metadata message or parameter `table` gives the table of this message",
            message.index,
            "/messageSchemaId",
        )
    return described[0]


def named_table(message: DataMessage, requested: TableName | None, own: TableName | None) -> TableName | None:
    """Return the table that `?table=` and the message's own address name. Raises RejectedInput `table_mismatch`."""
    if requested is not None and own is not None and requested.folded != own.folded:
        raise _mismatch(message)
    return requested or own


class _Found(NamedTuple):
    """The version of a data message; `is_late` if the gateway knows of a later change of the source table."""

    version: SourceVersion
    is_late: bool


@dataclass
class VersionResolver:
    """Resolver of the versions of one table's messages in one request, from what was stored and its MD messages."""

    stored: SourceHistory | None
    """All versions if the request has MD messages; else the current one is enough, with `recall` for the others."""
    entries: Sequence[MetadataMessage] = ()
    excluded: frozenset[str] = frozenset()
    """Columns that are not staged."""
    is_behind: bool = False
    """True if the table has newer versions than `stored`, for a replayed message."""
    recall: Recall | None = None
    adopted: dict[VersionId, str] = field(default_factory=dict)
    """External schema ids that appear here for the first time, to be stored with their versions."""
    _layouts: dict[VersionId, ColumnLayout] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._indexes = [entry.index for entry in self.entries]
        self._versions = [self._as_stored(SourceVersion.of(entry)) for entry in self.entries]
        self._found = [_Found(version, self._stays_behind(at)) for at, version in enumerate(self._versions)]
        self._usual: _Found | None = None
        """The version of every message that has no other ids, if the request has no MD messages."""
        self._last: _Found | None = None
        self._before = self._found[:1]
        """The possible versions of data before the first MD message."""
        if self.stored is not None:
            self._before = [_Found(self.stored.current, self.is_behind)]
            if not self._versions:
                self._usual = self._before[0]
            elif first := self.stored.find(self._versions[0]):
                self._before.append(_Found(self.stored.versions[first - 1], is_late=False))

    def resolve(self, message: DataChange) -> tuple[Change, str]:
        """Return the change with its masks applied under its version, and the task that wrote it.

        The task is "" if no metadata message gave it. An update lacks the columns that the table got after its version:
        row images give them, or they land NULL in a table without images. Raises RejectedInput
        `schema_mismatch`, and what `apply_layout` and `check_without_layout` raise.
        """
        found = self._find(message)
        arguments = (message.change, message.column_mask, message.change_mask, message.headers_at)
        if found is None or not found.version.columns:
            check_without_layout(*arguments)
            return message.change, "" if found is None else found.version.task or ""
        version = found.version
        if found is not self._last:
            self._last, self._layout = found, self._layout_of(version)
        return apply_layout(*arguments, self._layout), version.task or ""

    def _layout_of(self, version: SourceVersion) -> ColumnLayout:
        layout = self._layouts.get(version.identity)
        if layout is None:
            layout = self._layouts[version.identity] = ColumnLayout(version.columns, self.excluded)
        return layout

    def version_of(self, message: DataMessage) -> SourceVersion | None:
        """Return the version that a message was written under, None if no metadata message told one.

        Raises RejectedInput `schema_mismatch`.
        """
        found = self._find(message)
        return found and found.version

    def _find(self, message: DataMessage) -> _Found | None:
        usual, schema_id = self._usual, message.schema_id
        if usual is not None and schema_id in (usual.version.schema_id, None) and message.external_schema_id is None:
            return usual
        candidates = self._candidates(message.index)
        fitting = next((found for found in candidates if _has_id(found.version, message.schema_id)), None)
        external_id = message.external_schema_id
        if fitting is not None and external_id in {None, self._external_id(fitting.version)}:
            return fitting
        if candidates and (earlier := self._earlier(message, strictly=fitting is not None)) is not None:
            return _Found(earlier, is_late=True)
        if candidates and fitting is None:
            detail = "no metadata message of the table had the schema id of this message"
            raise RejectedInput.at(Code.SCHEMA_MISMATCH, detail, message.index, "/messageSchemaId")
        if fitting is not None and external_id is not None and not fitting.is_late:
            self._note_external_id(message, fitting.version, external_id)
        return fitting

    def _candidates(self, index: int) -> Sequence[_Found]:
        """Return the versions that a message at this index of the request can have.

        Before the first MD message that is the stored one. In a repeated request it can also be the one before that MD
        message, because metadata is kept even if the data was rejected.
        """
        at = bisect_left(self._indexes, index)
        return self._found[at - 1 : at] if at else self._before

    def _earlier(self, message: DataMessage, *, strictly: bool) -> SourceVersion | None:
        """Return the last version before a message that has its ids, `strictly` the external one too."""
        if message.schema_id is None and message.external_schema_id is None:
            return None
        history = self.recall() if self.recall else self.stored
        before = self._versions[: bisect_left(self._indexes, message.index)]
        for version in reversed([*(history.versions if history else ()), *before]):
            external_id = self._external_id(version)
            may_lack = message.external_schema_id is None or external_id is None
            same = external_id == message.external_schema_id or (may_lack and not strictly)
            if same and (message.schema_id is None or version.schema_id == message.schema_id):
                return version
        return None

    def _external_id(self, version: SourceVersion) -> str | None:
        return version.external_schema_id or self.adopted.get(version.identity)

    def _note_external_id(self, message: DataMessage, version: SourceVersion, external_schema_id: str) -> None:
        if self._external_id(version) is not None:
            detail = "the external schema id changed without a metadata message"
            raise RejectedInput.at(
                Code.SCHEMA_MISMATCH, detail, message.index, message.headers_at.of("externalSchemaId")
            )
        self.adopted[version.identity] = external_schema_id

    def _as_stored(self, version: SourceVersion) -> SourceVersion:
        at = self.stored.find(version) if self.stored else None
        return version if self.stored is None or at is None else self.stored.versions[at]

    def _stays_behind(self, at: int) -> bool:
        """Return True if stored versions are newer than an MD message, and the request does not reach them."""
        later = [self.stored.find(version) if self.stored else None for version in self._versions[at:]]
        own = later[0]
        if self.stored is None or own is None or own == len(self.stored.versions) - 1:
            return False
        return all(index is not None and index <= own for index in later)


def _has_id(version: SourceVersion, schema_id: str | None) -> bool:
    return schema_id is None or version.schema_id is None or version.schema_id == schema_id


def _mismatch(message: DataMessage) -> RejectedInput:
    return RejectedInput.at(Code.TABLE_MISMATCH, "parts of the request name different tables", message.index, "")
