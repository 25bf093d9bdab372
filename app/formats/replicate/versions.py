"""Which table and which version of its source each data message of a request belongs to.

A schema id names a schema, not a table: two tables may have the same. What is stored of the tables comes in as plain
values. Positions count: a data message belongs to the last metadata (MD) message of its table before it, in the same
request or an earlier one, unless its own schema id names an earlier version.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import msgspec

from app.domain.model.change import Change
from app.domain.model.names import TableName
from app.errors import Code, Problem, RejectedInput
from app.formats.replicate.history import SourceHistory, SourceVersion, VersionId
from app.formats.replicate.masks import ColumnLayout, apply_layout, check_without_layout
from app.formats.replicate.messages import DataChange, DataMessage
from app.formats.replicate.metadata import TableMetadata

Recall: TypeAlias = Callable[[], SourceHistory | None]
"""Reads all versions of a table's source that are kept."""


class SchemaAnnouncements:
    """The MD messages of one request by schema id, in order; each with the table that it describes."""

    def __init__(self, entries: Iterable[TableMetadata] = ()) -> None:
        self._places: dict[str, list[int]] = {}
        self._tables: dict[str, list[TableName]] = {}
        for entry in sorted(entries, key=lambda entry: entry.index):
            if entry.schema_id:
                self._places.setdefault(entry.schema_id, []).append(entry.index)
                self._tables.setdefault(entry.schema_id, []).append(entry.table)

    def before(self, message: DataMessage) -> int:
        """Return how many MD messages with the schema id of this data message stand before it."""
        places = self._places.get(message.schema_id or "")
        return bisect_left(places, message.index) if places else 0

    def table(self, message: DataMessage) -> TableName | None:
        """Return the table of the last MD message before this data message that has its schema id."""
        count = self.before(message)
        return self._tables[message.schema_id or ""][count - 1] if count else None


def table_of(
    message: DataMessage,
    named: TableName | None,
    announced: TableName | None,
    known: Callable[[], Collection[TableName]],
) -> TableName:
    """Return the table of a data message: the one that is `named`, or that its schema id describes.

    `named` is the table of `?table=` or of the message's own address, see `named_table`.
    `announced` is what the last MD message of the request before it says; `known` gives the tables visible to the
    caller that have the schema id by other MD messages. Raises RejectedInput `table_mismatch` where they disagree,
    `ambiguous_schema_id` where several tables have the id and nothing else tells which one is meant,
    `schema_unknown` or `unknown_table` where nothing tells any.
    """
    if announced is not None and (named is None or named.folded == announced.folded):
        return announced
    described = [name for name in (announced, *known()) if name is not None]
    if named is not None:
        if described and named.folded not in {name.folded for name in described}:
            raise _mismatch(message)
        return named
    if len(described) > 1:
        detail = "several tables have this schema id, and nothing else tells which one is meant"
        raise _rejection(message, Code.AMBIGUOUS_SCHEMA_ID, detail, "/messageSchemaId")
    if not described:
        code = Code.SCHEMA_UNKNOWN if message.schema_id else Code.UNKNOWN_TABLE
        raise _rejection(message, code, "nothing tells the table of this message", "/messageSchemaId")
    return described[0]


def named_table(message: DataMessage, requested: TableName | None, own: TableName | None) -> TableName | None:
    """Return the table that `?table=` and the message's own address name. Raises RejectedInput `table_mismatch`."""
    if requested is not None and own is not None and requested.folded != own.folded:
        raise _mismatch(message)
    return requested or own


class _Found(NamedTuple):
    """The version of a data message. `is_late`: the source's table has changed since, as the gateway knows."""

    version: SourceVersion
    is_late: bool


@dataclass
class VersionResolver:
    """The messages of one table in one request: what was stored before it, and its MD messages in order."""

    stored: SourceHistory | None
    """All versions where the request has MD messages; else the current one may do, with `recall` for the others."""
    entries: Sequence[TableMetadata] = ()
    excluded: frozenset[str] = frozenset()
    """Columns that are never staged."""
    completes: bool = False
    """Whether the table completes partial updates from row images."""
    is_behind: bool = False
    """Whether the table has newer versions than `stored`: those of a message that is read again."""
    recall: Recall | None = None
    adopted: dict[VersionId, str] = field(default_factory=dict)
    """External schema ids seen here for the first time, to be stored with their versions."""
    _layouts: dict[VersionId, ColumnLayout] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._places = [entry.index for entry in self.entries]
        self._versions = [self._as_stored(SourceVersion.of(entry)) for entry in self.entries]
        self._found = [_Found(version, self._stays_behind(place)) for place, version in enumerate(self._versions)]
        self._usual: _Found | None = None
        """The version of every message without other ids than its own, where the request has no MD messages."""
        self._last: _Found | None = None
        self._before = self._found[:1]
        """The versions that data before the first MD message may have."""
        if self.stored is not None:
            self._before = [_Found(self.stored.current, self.is_behind)]
            if not self._versions:
                self._usual = self._before[0]
            elif first := self.stored.find(self._versions[0]):
                self._before.append(_Found(self.stored.versions[first - 1], is_late=False))

    def resolve(self, message: DataChange) -> tuple[Change, str]:
        """Return the change with its masks applied by the version it belongs to, and the task that wrote it.

        The task is "" where no metadata message tells. An update of an earlier version does not know the columns
        that were added since: row images give them, or they land NULL in a table without images. Raises
        RejectedInput `schema_mismatch`, and what `apply_layout` and `check_without_layout` raise.
        """
        found = self._find(message)
        arguments = (message.change, message.column_mask, message.change_mask, message.headers_at)
        if found is None or not found.version.columns:
            check_without_layout(*arguments)
            return message.change, "" if found is None else found.version.task or ""
        version = found.version
        if found is not self._last:
            self._last, self._layout = found, self._layout_of(version)
        change = apply_layout(*arguments, self._layout)
        if found.is_late and self.completes:
            change = msgspec.structs.replace(change, is_late=True)
        return change, version.task or ""

    def _layout_of(self, version: SourceVersion) -> ColumnLayout:
        layout = self._layouts.get(version.identity)
        if layout is None:
            layout = self._layouts[version.identity] = ColumnLayout(version.columns, self.excluded)
        return layout

    def version_of(self, message: DataMessage) -> SourceVersion | None:
        """Return the version that a message was written under, None where no metadata message told one.

        Raises RejectedInput `schema_mismatch`.
        """
        found = self._find(message)
        return found and found.version

    def _find(self, message: DataMessage) -> _Found | None:
        usual, schema_id = self._usual, message.schema_id
        if usual is not None and schema_id in (usual.version.schema_id, None) and message.external_schema_id is None:
            return usual
        placed = self._placed(message.index)
        fitting = next((found for found in placed if _has_id(found.version, message.schema_id)), None)
        external_id = message.external_schema_id
        if fitting is not None and external_id in {None, self._external_id(fitting.version)}:
            return fitting
        if placed and (earlier := self._earlier(message, strictly=fitting is not None)) is not None:
            return _Found(earlier, is_late=True)
        if placed and fitting is None:
            detail = "the message was written for a schema id that no metadata message of the table had"
            raise _rejection(message, Code.SCHEMA_MISMATCH, detail, "/messageSchemaId")
        if fitting is not None and external_id is not None and not fitting.is_late:
            self._adopt(message, fitting.version, external_id)
        return fitting

    def _placed(self, index: int) -> Sequence[_Found]:
        """Return the version at this place of the request.

        Before its first MD message that is the stored one, or the one that preceded this MD message when the
        request is repeated: its metadata is kept even if its data was rejected.
        """
        place = bisect_left(self._places, index)
        return self._found[place - 1 : place] if place else self._before

    def _earlier(self, message: DataMessage, *, strictly: bool) -> SourceVersion | None:
        """Return the last version before the place of a message that has its ids, `strictly` the external one too."""
        if message.schema_id is None and message.external_schema_id is None:
            return None
        history = self.recall() if self.recall else self.stored
        before = self._versions[: bisect_left(self._places, message.index)]
        for version in reversed([*(history.versions if history else ()), *before]):
            external_id = self._external_id(version)
            may_lack = message.external_schema_id is None or external_id is None
            same = external_id == message.external_schema_id or (may_lack and not strictly)
            if same and (message.schema_id is None or version.schema_id == message.schema_id):
                return version
        return None

    def _external_id(self, version: SourceVersion) -> str | None:
        return version.external_schema_id or self.adopted.get(version.identity)

    def _adopt(self, message: DataMessage, version: SourceVersion, external_schema_id: str) -> None:
        if self._external_id(version) is not None:
            detail = "the external schema id changed and no metadata message came with it"
            raise _rejection(message, Code.SCHEMA_MISMATCH, detail, f"{message.headers_at}externalSchemaId")
        self.adopted[version.identity] = external_schema_id

    def _as_stored(self, version: SourceVersion) -> SourceVersion:
        place = self.stored.find(version) if self.stored else None
        return version if self.stored is None or place is None else self.stored.versions[place]

    def _stays_behind(self, place: int) -> bool:
        """Tell whether the stored versions go beyond an MD message, and the request does not catch up with them."""
        places = [self.stored.find(version) if self.stored else None for version in self._versions[place:]]
        own = places[0]
        if self.stored is None or own is None or own == len(self.stored.versions) - 1:
            return False
        return all(later is not None and later <= own for later in places)


def _has_id(version: SourceVersion, schema_id: str | None) -> bool:
    return schema_id is None or version.schema_id is None or version.schema_id == schema_id


def _mismatch(message: DataMessage) -> RejectedInput:
    return _rejection(message, Code.TABLE_MISMATCH, "parts of the request name different tables", "")


def _rejection(message: DataMessage, code: Code, detail: str, pointer: str) -> RejectedInput:
    return RejectedInput.of((Problem(code, detail, message.index, pointer),))
