"""Resolves the table and the source version of each data message of a request.

A schema id names a schema, not a table: two tables can have the same one. A data message belongs to the last metadata
(MD) message of its table before it, in the same request or an earlier one, unless its own schema id names an earlier
version. What Postgres stores of the tables is passed in.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from app.domain.model.change import Change
from app.domain.model.names import TableName
from app.formats.replicate.data_messages import DataChange, DataMessage
from app.formats.replicate.history import SourceHistory, SourceVersion, VersionId
from app.formats.replicate.masks import ColumnLayout, apply_layout, check_without_layout
from app.formats.replicate.metadata import TableMetadata
from mirrorgate.errors import Code, Problem, RejectedInput

Recall: TypeAlias = Callable[[], SourceHistory | None]
"""Returns all stored versions of a table's source."""


class SchemaAnnouncements:
    """The MD messages of one request by schema id, in order, each with the table that it describes."""

    def __init__(self, entries: Iterable[TableMetadata] = ()) -> None:
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
        raise _rejection(message, Code.AMBIGUOUS_SCHEMA_ID, detail, "/messageSchemaId")
    if not described:
        code = Code.SCHEMA_UNKNOWN if message.schema_id else Code.UNKNOWN_TABLE
        raise _rejection(
            message,
            code,
            "no address, metadata message or parameter `table` gives the table of this message",
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
    entries: Sequence[TableMetadata] = ()
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
            raise _rejection(message, Code.SCHEMA_MISMATCH, detail, "/messageSchemaId")
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
            raise _rejection(message, Code.SCHEMA_MISMATCH, detail, message.headers_at.of("externalSchemaId"))
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
    return _rejection(message, Code.TABLE_MISMATCH, "parts of the request name different tables", "")


def _rejection(message: DataMessage, code: Code, detail: str, pointer: str) -> RejectedInput:
    return RejectedInput.of((Problem(code, detail, message.index, pointer),))
