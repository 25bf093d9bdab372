"""Apply the metadata messages of a Replicate request to tables, then route its data messages.

`ReplicateTables` does both for one request. Invariant: a metadata message takes effect in its own transaction and
remains in effect, whether or not the data messages are accepted. Sending the request again repeats it without a change.

`Destinations` finds the table that a message is for, from the message's source, its schema id and `?table=`. Everything
is looked up once per request, past the table cache: a metadata message can change a table, and the sequence lock does
not check what is decided here. The columnar path uses `SourceCache` of `app.ingest.readers.replicate` instead. Tables
that the caller may not touch count as unknown.

`register_versions` registers and evolves a table as its metadata (MD) messages declare, and stores the versions of its
source.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import msgspec
import structlog
from msgspec import UNSET

from app.domain.access.rights import Principal, Right
from app.domain.model.change import Change, Image
from app.domain.model.dead_letter import RejectedMessage, is_kept
from app.domain.model.names import SourceName, TableName
from app.domain.model.table import Table, case_detail
from app.formats.replicate.avro_records import plan_of
from app.formats.replicate.history import (
    SchemaAnnouncements,
    SourceHistory,
    SourceVersion,
    VersionId,
    VersionResolver,
    columns_in_another_case,
    extend,
    named_table,
    new_entries,
    renamed_columns,
    table_of,
    with_external_ids,
)
from app.formats.replicate.messages import DataChange, RejectedData, ReplicateRequest
from app.formats.replicate.metadata import MetadataMessage, by_table
from app.formats.replicate.standard_form import with_key, with_missing_keys
from app.ingest.changed_tables import log_registration, register
from app.ingest.table_cache import TableCache
from app.staging.batches.sequence_lock import lock_counters
from app.staging.connection.database import Connection, translated_errors
from app.staging.tables.registration import Registration, find_locked_table
from app.staging.tables.replicate_sources import (
    SourceFacts,
    data_schemas,
    names_with_schema_id,
    record_replicate_metadata,
    replicate_metadata,
    source_facts,
)
from mirrorgate.errors import Code, Problem, RejectedInput


@dataclass
class Destinations:
    """The tables that the sources of one request feed, and what Postgres stores of those sources."""

    table_cache: TableCache
    principal: Principal
    _found: dict[SourceName, tuple[TableName | None, Table | None]] = field(default_factory=dict)
    """By source: the table that it feeds, and a table fed by a source that differs in letter case only."""
    _described: dict[str, list[TableName]] = field(default_factory=dict)
    """By schema id: the caller's tables that have it or had it."""
    _facts: dict[str, SourceFacts | None] = field(default_factory=dict)
    """By folded table name: what is stored, of the source's versions the current one only."""

    def requested(self, name: TableName) -> TableName:
        """Return the name of the table that `?table=` means, or the same name if the caller has no such table."""
        return self.of(SourceName.address(name)) or name

    def of(self, source: SourceName, requested: TableName | None = None) -> TableName | None:
        """Return the table that a source feeds, None if the caller has no such table.

        Raises RejectedInput `source_case_mismatch`, unless another table is `requested` for the source.
        """
        if source not in self._found:
            table = self.table_cache.refresh(source)
            twin = self.table_cache.twin(source, self.principal) if table is None else None
            visible = table is not None and self.principal.may_touch(table.name)
            self._found[source] = (table.name if table is not None and visible else None, twin)
        destination, twin = self._found[source]
        if twin is not None and (requested is None or requested.folded == twin.name.folded):
            raise RejectedInput(Code.SOURCE_CASE_MISMATCH, case_detail(source, twin))
        return destination

    def of_message(self, source: SourceName | None, requested: TableName | None) -> TableName | None:
        """Return the table that a message's own address names; where it feeds none, `?table=` decides."""
        if source is None:
            return None
        return self.of(source, requested) or (source.table if requested is None else None)

    def of_metadata(self, entry: MetadataMessage, requested: TableName | None) -> MetadataMessage:
        """Return a metadata message with its destination: the table of its source, else that of `?table=`.

        A source whose name differs from the table's gets a separate order. Raises RejectedInput `table_mismatch`,
        `source_case_mismatch` or `bad_name`.
        """
        destination = self.of(entry.source, requested)
        if requested is not None and destination is not None and requested.folded != destination.folded:
            detail = f"the message describes {entry.source}, but `table` names another table"
            raise RejectedInput(Code.TABLE_MISMATCH, detail)
        if destination is None and requested is not None and requested.folded != entry.source.folded:
            self._check_source(entry, requested)
            destination = requested
        if (destination or entry.table).folded == entry.source.folded:
            return replace(entry, destination=destination)
        return replace(entry, destination=destination, task=f"{entry.task or ''}/{entry.source}")

    def described_by(self, schema_id: str | None) -> Sequence[TableName]:
        """Return the caller's tables that have this schema id or had it."""
        if not schema_id:
            return ()
        found = self._described.get(schema_id)
        if found is None:
            with translated_errors(), self.table_cache.begin() as connection:
                named = names_with_schema_id(connection, schema_id)
                self.table_cache.note_described(schema_id, named)
                found = self._described[schema_id] = [name for name in named if self.principal.may_touch(name)]
                if len(found) == 1 and found[0].folded not in self._facts:
                    self._facts[found[0].folded] = source_facts(connection, found[0])
        return found

    def facts(self, name: TableName) -> SourceFacts | None:
        """Return what is stored of a table's source, with its current version only; one query per table."""
        if name.folded not in self._facts:
            self._facts[name.folded] = self.read_facts(name)
        return self._facts[name.folded]

    def read_facts(self, name: TableName, *, whole: bool = False) -> SourceFacts | None:
        """Query what is stored of a table's source now; `whole`: with all versions."""
        with translated_errors(), self.table_cache.begin() as connection:
            return source_facts(connection, name, whole=whole)

    def _check_source(self, entry: MetadataMessage, requested: TableName) -> None:
        """Raise RejectedInput `table_mismatch` if `?table=` names a table that another source feeds."""
        history = history_of(self.read_facts(requested)) if self.principal.may_touch(requested) else None
        if history is not None and history.current.source not in {None, str(entry.source)}:
            detail = f"another source than {entry.source} feeds table {requested}; its option `sources` can name both"
            raise RejectedInput(Code.TABLE_MISMATCH, detail)


@dataclass
class StoredSchemas:
    """The Avro schemas that metadata messages of earlier requests declared, for the messages of one request."""

    table_cache: TableCache
    principal: Principal
    requested: TableName | None = None
    """The table in `?table=`."""
    _found: dict[str, str | None] = field(default_factory=dict)

    def find(self, schema_id: str) -> str | None:
        """Return the schema of a schema id, None if no table of the caller has one.

        Raises RejectedInput `ambiguous_schema_id` if tables have different ones, and `?table=` does not decide.
        """
        if schema_id not in self._found:
            self._found[schema_id] = self._read(schema_id)
        return self._found[schema_id]

    def _read(self, schema_id: str) -> str | None:
        with translated_errors(), self.table_cache.begin() as connection:
            named = data_schemas(connection, schema_id)
        visible = [(name, text) for name, text in named if self.principal.may_touch(name)]
        if self.requested is not None:
            wanted = Destinations(self.table_cache, self.principal).requested(self.requested)
            visible = [(name, text) for name, text in visible if name.folded == wanted.folded] or visible
        texts = {text for _, text in visible if text is not None}
        if len(texts) > 1 and len({plan_of(text) for text in texts}) > 1:
            detail = "tables have different Avro schemas under this schema id; name the one that is meant with `table`"
            raise RejectedInput(Code.AMBIGUOUS_SCHEMA_ID, detail)
        return min(texts, default=None)


def history_of(facts: SourceFacts | None) -> SourceHistory | None:
    """Return the stored versions of a table's source."""
    return SourceHistory.from_json(facts.metadata) if facts is not None and facts.metadata else None


log = structlog.get_logger()


_BY: Final = "metadata message"


def register_versions(
    table_cache: TableCache,
    principal: Principal,
    before: SourceHistory | None,
    entries: Sequence[MetadataMessage],
) -> int:
    """Apply metadata messages of one table in one transaction, and return how many were new.

    Messages that repeat an earlier version change nothing, see `new_entries`. A crash before COMMIT leaves the table
    as it was. Raises RejectedInput.
    """
    accepted = new_entries(before, entries)
    if not accepted:
        return 0
    name = entries[0].table
    registrations: list[Registration] = []
    with translated_errors(), table_cache.begin() as connection:
        versions = list(before.versions) if before else []
        for entry in accepted:
            registration = _evolved(connection, entry, _previous(versions, entry), table_cache, principal)
            registrations.append(registration)
            versions.append(SourceVersion.of(entry))
        table_id = registration.table.table_id
        stored = replicate_metadata(connection, table_id, lock=True)
        present = SourceHistory.from_json(stored) if stored else None
        history = extend(present, entries)
        if history != present:
            record_replicate_metadata(connection, table_id, history.to_json())
    table_cache.forget_table(name)
    for registration in registrations:
        log_registration(registration, _BY)
    return len(accepted)


def _previous(versions: Sequence[SourceVersion], entry: MetadataMessage) -> SourceVersion | None:
    """Return the version that a message follows: the last one of its task, or of any task if its task has none."""
    own = [version for version in versions if version.task == entry.task]
    followed = own or versions
    return followed[-1] if followed else None


def _evolved(
    connection: Connection,
    entry: MetadataMessage,
    previous: SourceVersion | None,
    table_cache: TableCache,
    principal: Principal,
) -> Registration:
    """Register what one metadata message declares. A rejection names the message."""
    present = find_locked_table(connection, entry.table)
    try:
        if present is None:
            wanted = entry.schema_after(None)
        else:
            wanted = entry.schema_after(present.schema, present.options)
            _check_renames(connection, entry, previous, present)
        return register(connection, table_cache, principal, SourceName.address(entry.table), wanted, _BY)
    except RejectedInput as error:
        if any(problem.index is not None for problem in error.problems):
            raise
        raise RejectedInput.at(error.code, error.detail, entry.index, f"{entry.at}/tableStructure") from None


def _check_renames(
    connection: Connection, entry: MetadataMessage, previous: SourceVersion | None, present: Table
) -> None:
    """Raise RejectedInput `column_renamed`, unless the table has accepted no row yet and so has nothing to lose."""
    problems = [*columns_in_another_case(entry, present.schema, present.options)]
    renamed = [] if problems else [*renamed_columns(entry, previous, present.schema, present.options)]
    if renamed and lock_counters(connection, [present.table_id])[present.table_id].last_sequence:
        problems += renamed
    if problems:
        raise RejectedInput.of(tuple(problems))


@dataclass(frozen=True, slots=True)
class EarlierReading:
    """The source version that a replayed message was first read under; None if no metadata message had told one."""

    version: Sequence[Any] | None
    """Schema id, table version and task; dead letters of early releases lack the task."""

    def is_of(self, version: VersionId) -> bool:
        """Return True if the message was read under this version."""
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
    """Number of metadata messages that `route` ignored because they repeat an earlier version."""
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
                    route = _Route(name, self._resolver(name), partial(self._present, name), request.routing_columns)
                    routes[told_by] = route
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

    def _register_all(self, metadata: Iterable[MetadataMessage], requested: TableName | None) -> None:
        entries = []
        for entry in metadata:
            try:
                entries.append(self._destinations.of_metadata(entry, requested))
            except RejectedInput as error:
                raise RejectedInput.at(error.code, error.detail, entry.index, f"{entry.at}/lineage") from None
        for folded_name, of_table in by_table(entries).items():
            self._resolvers[folded_name] = self._register(of_table)
        self._announced = SchemaAnnouncements(entries)

    def _register(self, entries: Sequence[MetadataMessage]) -> VersionResolver:
        """Register or evolve the table of these metadata messages."""
        name = entries[0].table
        table = self.table_cache.route(SourceName.address(name))
        destination = name if table is None else table.name
        if not self.principal.may_touch(destination):
            pointer, detail = f"{entries[0].at}/lineage", f"table {name} is not registered"
            raise RejectedInput.at(Code.UNKNOWN_TABLE, detail, entries[0].index, pointer, withheld=destination.folded)
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
            raise RejectedInput.at(error.code, error.detail, message.index, "") from None
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
        raise RejectedInput.at(Code.SCHEMA_MISMATCH, detail, 0, "")

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
