"""Applies the metadata messages of a Replicate request, then routes its data messages to tables.

Invariant: a metadata message takes effect in its own transaction and stays in effect, whether or not the data
messages are accepted. Sending the request again repeats it without a change.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET

from app.domain.access.rights import Principal, Right
from app.domain.model.change import Change, Image
from app.domain.model.dead_letter import RejectedMessage, is_kept
from app.domain.model.names import TableName
from app.domain.model.source_name import SourceName
from app.domain.model.table import Table
from app.errors import Code, Problem, RejectedInput
from app.formats.replicate.data_messages import DataChange, RejectedData
from app.formats.replicate.forms.key_records import with_key, with_missing_keys
from app.formats.replicate.history import SourceHistory, VersionId, with_external_ids
from app.formats.replicate.messages import ReplicateRequest
from app.formats.replicate.metadata import TableMetadata, by_table
from app.formats.replicate.versions import SchemaAnnouncements, VersionResolver, named_table, table_of
from app.ingest.replicate.destinations import Destinations, history_of
from app.ingest.replicate.registration import register_versions, rejection
from app.ingest.table_cache import TableCache
from app.staging.connection.database import translated_errors
from app.staging.tables.replicate_sources import record_replicate_metadata, replicate_metadata, source_facts


@dataclass(frozen=True, slots=True)
class EarlierReading:
    """The source version that a replayed message was first read under; None if no metadata message had told one."""

    version: Sequence[Any] | None
    """Schema id, table version and task; dead letters of early releases lack the task."""

    def is_of(self, version: VersionId) -> bool:
        """Tell whether the message was read under this version."""
        return self.version is not None and version[: len(self.version)] == tuple(self.version)


@dataclass(slots=True)
class _Route:
    """The destination of messages that give the same source, schema id and position among the metadata messages."""

    table: TableName
    resolver: VersionResolver
    present: Callable[[], Table | None]
    """Returns the table, None if the caller has no such table."""
    routing_columns: frozenset[str]
    changes: dict[str, list[Change]] = field(default_factory=dict)
    """By source task; other routes to the table share these lists."""

    def completed(self, message: DataChange) -> DataChange:
        """Return a message with the key that was sent beside it, and without columns that are not data.

        Raises RejectedInput `missing_key`.
        """
        if message.key is UNSET and not self.routing_columns:
            return message
        table, change = self.present(), message.change
        if table is None:
            return message
        if message.key is not UNSET:
            keys = table.schema.key_columns
            if change.before is None and change.after is None:
                change = with_key(change, message.key, message.key_at, keys)
            elif message.column_mask is None:  # a mask says which columns the row has
                change = with_missing_keys(change, message.key, keys)
        if extra := self.routing_columns - {*table.schema.names, *table.options.exclude}:
            before, after = _without(change.before, extra), _without(change.after, extra)
            change = msgspec.structs.replace(change, before=before, after=after)
        return msgspec.structs.replace(message, change=change)


@dataclass
class ReplicateTables:
    """The tables of one Replicate request."""

    table_cache: TableCache
    principal: Principal
    keep_rejected: bool = False
    """Set wrong data messages aside instead of rejecting the request."""
    earlier: EarlierReading | None = None
    """Set for a replayed message: metadata that arrived since does not apply to it."""
    rejected: list[tuple[TableName, RejectedMessage]] = field(default_factory=list)
    """The messages that `route` set aside, with their tables."""
    repeated: int = 0
    """How many metadata messages `route` ignored because they repeat an earlier version."""
    _resolvers: dict[str, VersionResolver] = field(default_factory=dict)
    _tables: dict[str, Table | None] = field(default_factory=dict)
    """By folded name: the caller's tables, after the metadata messages of the request."""
    _announced: SchemaAnnouncements = field(default_factory=SchemaAnnouncements)

    def __post_init__(self) -> None:
        self._destinations = Destinations(self.table_cache, self.principal)

    def route(
        self, request: ReplicateRequest, requested: TableName | None
    ) -> list[tuple[TableName, str, list[Change]]]:
        """Apply the metadata messages, then return the changes by table and source task.

        `requested` is `?table=`. Raises RejectedInput naming every data message whose table or masks do not fit.
        """
        requested = requested and self._destinations.requested(requested)
        self._register_all(request.metadata, requested)
        routed: dict[tuple[str, str], tuple[TableName, str, list[Change]]] = {}
        routes: dict[tuple[SourceName | None, str | None, int], _Route] = {}
        problems: list[Problem] = []
        for message in request.changes:
            try:
                told_by = (message.source, message.schema_id, self._announced.before(message))
                route = routes.get(told_by)
                if route is None:
                    name = self._table_of(message, requested)
                    route = routes[told_by] = self._route(name, request.routing_columns)
                change, task = route.resolver.resolve(route.completed(message))
                changes = route.changes.get(task)
                if changes is None:
                    name = route.table
                    _, _, changes = routed.setdefault((name.folded, task), (name, task, []))
                    route.changes[task] = changes
                changes.append(change)
            except RejectedInput as error:
                if route is not None and self.keep_rejected and is_kept(error.problems):
                    self.rejected.append((route.table, RejectedMessage(message.index, error.problems)))
                else:
                    problems.extend(error.problems)
        for rejected in request.rejected:
            try:
                name, _ = self._written_under(rejected, requested)
                self.rejected.append((name, RejectedMessage(rejected.index, rejected.problems)))
            except RejectedInput as error:
                problems.extend(error.problems)
        if problems:
            raise RejectedInput.of(tuple(problems))
        for name, _, _ in routed.values():
            if adopted := self._resolvers[name.folded].adopted:
                self._store_external_ids(name, adopted)
        return [*routed.values()]

    def _route(self, name: TableName, routing_columns: frozenset[str]) -> _Route:
        return _Route(name, self._resolver(name), partial(self._present, name), routing_columns)

    def _present(self, name: TableName) -> Table | None:
        if name.folded not in self._tables:
            table = self.table_cache.refresh(SourceName.address(name))
            visible = table is not None and self.principal.may_touch(table.name)
            self._tables[name.folded] = table if visible else None
        return self._tables[name.folded]

    def written_under(
        self, request: ReplicateRequest, requested: TableName | None, indexes: Collection[int]
    ) -> dict[int, VersionId | None]:
        """Return the versions that these data messages of a routed request were written under."""
        requested = requested and self._destinations.requested(requested)
        messages: list[DataChange | RejectedData] = [*request.changes, *request.rejected]
        return {
            message.index: self._written_under(message, requested)[1]
            for message in messages
            if message.index in indexes
        }

    def _written_under(
        self, message: DataChange | RejectedData, requested: TableName | None
    ) -> tuple[TableName, VersionId | None]:
        name = self._table_of(message, requested)
        version = self._resolver(name).version_of(message)
        return name, None if version is None else version.identity

    def _register_all(self, metadata: Iterable[TableMetadata], requested: TableName | None) -> None:
        entries = []
        for entry in metadata:
            try:
                entries.append(self._destinations.of_metadata(entry, requested))
            except RejectedInput as error:
                raise rejection(error.code, error.detail, entry.index, f"{entry.at}/lineage") from None
        for folded_name, of_table in by_table(entries).items():
            self._resolvers[folded_name] = self._register(of_table)
        self._announced = SchemaAnnouncements(entries)

    def _register(self, entries: Sequence[TableMetadata]) -> VersionResolver:
        """Register or evolve the table of these metadata messages."""
        name = entries[0].table
        table = self.table_cache.route(SourceName.address(name))
        destination = name if table is None else table.name
        if not self.principal.may_touch(destination):
            pointer, detail = f"{entries[0].at}/lineage", f"table {name} is not registered"
            raise rejection(Code.UNKNOWN_TABLE, detail, entries[0].index, pointer, withheld=destination.folded)
        if not self.principal.may(Right.REGISTER, destination):
            raise RejectedInput(Code.FORBIDDEN, "metadata messages need a key with the right `register`")
        facts = self._destinations.read_facts(name, whole=True)
        before = history_of(facts)
        registered = register_versions(self.table_cache, self.principal, before, entries)
        self.repeated += len(entries) - registered
        if facts is None:
            return VersionResolver(before, entries)
        return VersionResolver(before, entries, facts.excluded)

    def _table_of(self, message: DataChange | RejectedData, requested: TableName | None) -> TableName:
        try:
            own = self._destinations.of_message(message.source, requested)
        except RejectedInput as error:
            raise rejection(error.code, error.detail, message.index, "") from None
        named, announced = named_table(message, requested, own), self._announced.table(message)
        return table_of(message, named, announced, lambda: self._destinations.described_by(message.schema_id))

    def _resolver(self, name: TableName) -> VersionResolver:
        known = self._resolvers.get(name.folded)
        if known is None:
            known = self._resolvers[name.folded] = self._stored_resolver(name)
        return known

    def _stored_resolver(self, name: TableName) -> VersionResolver:
        """Return the resolver of a table for which the request has no metadata messages."""
        if not self.principal.may_touch(name):
            return VersionResolver(None)
        if self.earlier is not None:
            return self._earlier_resolver(name, self.earlier)
        facts = self._destinations.facts(name)
        if facts is None:
            return VersionResolver(None)
        return VersionResolver(
            history_of(facts),
            excluded=facts.excluded,
            recall=lambda: history_of(self._destinations.read_facts(name, whole=True)),
        )

    def _earlier_resolver(self, name: TableName, earlier: EarlierReading) -> VersionResolver:
        """Return the resolver for a replayed message: the history only as far as it went at the first reading."""
        facts = self._destinations.read_facts(name, whole=True)
        if facts is None:
            return VersionResolver(None)
        if earlier.version is None:
            return VersionResolver(None, (), facts.excluded)
        history = history_of(facts)
        versions = history.versions if history else ()
        for end, version in enumerate(versions, start=1):
            if earlier.is_of(version.identity):
                then = SourceHistory(versions[:end])
                return VersionResolver(then, (), facts.excluded, is_behind=end < len(versions))
        detail = "the metadata that the message was written under is no longer kept"
        raise rejection(Code.SCHEMA_MISMATCH, detail, 0, "")

    def _store_external_ids(self, name: TableName, external_ids: Mapping[VersionId, str]) -> None:
        """Store external schema ids that appeared for the first time with their versions."""
        with translated_errors(), self.table_cache.begin() as connection:
            facts = source_facts(connection, name)
            stored = replicate_metadata(connection, facts.table_id, lock=True) if facts else None
            if facts and stored:
                history = with_external_ids(SourceHistory.from_json(stored), external_ids)
                record_replicate_metadata(connection, facts.table_id, history.to_json())
        self.table_cache.forget_table(name)


def _without(image: Image | None, columns: frozenset[str]) -> Image | None:
    return image and {name: value for name, value in image.items() if name not in columns}
