"""What Replicate requests do to tables: register and evolve them, and find which one each data message is for."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from app.domain.access.rights import Principal, Right
from app.domain.model.change import Change
from app.domain.model.dead_letter import RejectedMessage, is_kept
from app.domain.model.names import TableName
from app.domain.model.source_name import SourceName
from app.domain.model.source_routing import case_detail
from app.domain.model.table import Table
from app.errors import Code, Problem, RejectedInput
from app.formats.replicate.history import SourceHistory, VersionId, adopt
from app.formats.replicate.messages import DataChange, RejectedData, ReplicateRequest
from app.formats.replicate.metadata import TableMetadata, by_table
from app.formats.replicate.versions import SchemaAnnouncements, VersionResolver, named_table, table_of
from app.ingest.replicate.registration import register_versions, rejection
from app.ingest.table_cache import TableCache
from app.staging.connection.database import translated_errors
from app.staging.tables.replicate_sources import (
    SourceFacts,
    names_with_schema_id,
    record_replicate_metadata,
    replicate_metadata,
    source_facts,
)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class EarlierReading:
    """The version of its source that a message was first read under; None: no metadata message had told one."""

    version: Sequence[Any] | None
    """Schema id, table version and task; letters from before tasks were told apart lack the last."""

    def is_of(self, version: VersionId) -> bool:
        """Tell whether the message was read under this version."""
        return self.version is not None and version[: len(self.version)] == tuple(self.version)


@dataclass(slots=True)
class _Route:
    """Where messages go that say the same of their table."""

    table: TableName
    conversation: VersionResolver
    changes: dict[str, list[Change]] = field(default_factory=dict)
    """Those of each source task, which another route to the table shares."""


@dataclass
class ReplicateTables:
    """The tables of one Replicate request."""

    table_cache: TableCache
    principal: Principal
    marker_first: bool
    keep_rejected: bool = False
    """Leave out data messages that are wrong."""
    earlier: EarlierReading | None = None
    """For a message that is read again; metadata that came since says nothing of it."""
    rejected: list[tuple[TableName, RejectedMessage]] = field(default_factory=list)
    """What `settle` left out, by table."""
    repeated: int = 0
    """Metadata messages that `settle` ignored, because their task had left them behind before."""
    _conversations: dict[str, VersionResolver] = field(default_factory=dict)
    _announced: SchemaAnnouncements = field(default_factory=SchemaAnnouncements)
    _described: dict[str, list[TableName]] = field(default_factory=dict)
    """The tables that the caller may touch, by the schema ids that they have or had."""
    _facts: dict[str, SourceFacts | None] = field(default_factory=dict)
    """What is stored of tables, by folded name; of a source's versions the current one."""
    _destinations: dict[SourceName, tuple[TableName | None, Table | None]] = field(default_factory=dict)
    """By source the table that it feeds, and one that a source in another letter case feeds."""

    def route(
        self, request: ReplicateRequest, requested: TableName | None
    ) -> list[tuple[TableName, str, list[Change]]]:
        """Do what the metadata messages say, then give the changes by table and source task.

        `requested` is `?table=`. Raises RejectedInput naming every data message whose table or masks do not fit.
        """
        requested = requested and self._requested(requested)
        self._register_all(request.metadata, requested)
        settled: dict[tuple[str, str], tuple[TableName, str, list[Change]]] = {}
        routes: dict[tuple[SourceName | None, str | None, int], _Route] = {}
        problems: list[Problem] = []
        for message in request.changes:
            try:
                told_by = (message.source, message.schema_id, self._announced.before(message))
                route = routes.get(told_by)
                if route is None:
                    name = self._table_of(message, requested)
                    route = routes[told_by] = _Route(name, self._conversation(name))
                change, task = route.conversation.resolve(message)
                changes = route.changes.get(task)
                if changes is None:
                    name = route.table
                    _, _, changes = settled.setdefault((name.folded, task), (name, task, []))
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
        for name, _, _ in settled.values():
            if adopted := self._conversations[name.folded].adopted:
                self._adopt(name, adopted)
        return [*settled.values()]

    def written_under(
        self, request: ReplicateRequest, requested: TableName | None, indexes: Collection[int]
    ) -> dict[int, VersionId | None]:
        """The versions that these data messages of a settled request were written under."""
        requested = requested and self._requested(requested)
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
        version = self._conversation(name).version_of(message)
        return name, None if version is None else version.identity

    def _requested(self, name: TableName) -> TableName:
        """Return the name of the table that `?table=` means; the same name where the caller sees none."""
        return self._destination(SourceName.address(name)) or name

    def _destination(self, source: SourceName, requested: TableName | None = None) -> TableName | None:
        """Return the table that a source feeds, None where the caller sees none.

        Raises RejectedInput `source_case_mismatch`, unless another table is `requested` for the source.
        """
        if source not in self._destinations:
            table = self.table_cache.refresh(source)
            twin = self.table_cache.twin(source, self.principal) if table is None else None
            visible = table is not None and self.principal.may_touch(table.name)
            self._destinations[source] = (table.name if table is not None and visible else None, twin)
        destination, twin = self._destinations[source]
        if twin is not None and (requested is None or requested.folded == twin.name.folded):
            raise RejectedInput(Code.SOURCE_CASE_MISMATCH, case_detail(source, twin))
        return destination

    def _routed(self, entry: TableMetadata, requested: TableName | None) -> TableMetadata:
        """Return the message as one for the table that its source feeds, or that `?table=` names for a source that
        feeds none. A source of another name has an order of its own.

        Raises RejectedInput `table_mismatch`, `source_case_mismatch` or `bad_name`.
        """
        destination = self._destination(entry.source, requested)
        if requested is not None and destination is not None and requested.folded != destination.folded:
            detail = f"the message describes {entry.source}, the request is for another table"
            raise RejectedInput(Code.TABLE_MISMATCH, detail)
        if destination is None and requested is not None and requested.folded != entry.source.folded:
            self._check_source(entry, requested)
            destination = requested
        if (destination or entry.table).folded == entry.source.folded:
            return replace(entry, destination=destination)
        return replace(entry, destination=destination, task=f"{entry.task or ''}/{entry.source}")

    def _check_source(self, entry: TableMetadata, requested: TableName) -> None:
        """Raises RejectedInput `table_mismatch` where `?table=` names a table that another source feeds."""
        history = _history(self._read(requested)) if self.principal.may_touch(requested) else None
        if history is not None and history.current.source not in {None, str(entry.source)}:
            detail = f"another source than {entry.source} feeds table {requested}; its option `sources` can name both"
            raise RejectedInput(Code.TABLE_MISMATCH, detail)

    def _register_all(self, metadata: Iterable[TableMetadata], requested: TableName | None) -> None:
        routed = []
        for entry in metadata:
            try:
                routed.append(self._routed(entry, requested))
            except RejectedInput as error:
                raise rejection(error.code, error.detail, entry.index, f"{entry.at}/lineage") from None
        for folded_name, entries in by_table(routed).items():
            self._conversations[folded_name] = self._register(entries)
        self._announced = SchemaAnnouncements(routed)

    def _conversation(self, name: TableName) -> VersionResolver:
        known = self._conversations.get(name.folded)
        if known is None:
            known = self._conversations[name.folded] = self._remembered(name)
        return known

    def _table_of(self, message: DataChange | RejectedData, requested: TableName | None) -> TableName:
        try:
            own = self._own_table(message.source, requested)
        except RejectedInput as error:
            raise rejection(error.code, error.detail, message.index, "") from None
        named, announced = named_table(message, requested, own), self._announced.table(message)
        return table_of(message, named, announced, lambda: self._described_by(message.schema_id))

    def _own_table(self, source: SourceName | None, requested: TableName | None) -> TableName | None:
        """Return the table that a message's own address names; `?table=` decides for one that feeds no table."""
        if source is None:
            return None
        return self._destination(source, requested) or (source.table if requested is None else None)

    def _described_by(self, schema_id: str | None) -> Sequence[TableName]:
        """Return the tables that have this schema id, or had it; those outside the caller's patterns do not count."""
        if not schema_id:
            return ()
        found = self._described.get(schema_id)
        if found is None:
            with translated_errors(), self.table_cache.begin() as connection:
                named = names_with_schema_id(connection, schema_id)
                found = self._described[schema_id] = [name for name in named if self.principal.may_touch(name)]
                if len(found) == 1 and found[0].folded not in self._facts:
                    self._facts[found[0].folded] = source_facts(connection, found[0])
        return found

    def _remembered(self, name: TableName) -> VersionResolver:
        """Return the conversation of a table of which the request has no metadata messages."""
        if not self.principal.may_touch(name):
            return VersionResolver(None)
        if self.earlier is not None:
            return self._as_read_before(name, self.earlier)
        if name.folded not in self._facts:
            self._facts[name.folded] = self._read(name)
        facts = self._facts[name.folded]
        if facts is None:
            return VersionResolver(None)
        return VersionResolver(
            _history(facts),
            excluded=facts.excluded,
            completes=facts.completes,
            recall=lambda: _history(self._read(name, whole=True)),
        )

    def _read(self, name: TableName, *, whole: bool = False) -> SourceFacts | None:
        with translated_errors(), self.table_cache.begin() as connection:
            return source_facts(connection, name, whole=whole)

    def _as_read_before(self, name: TableName, earlier: EarlierReading) -> VersionResolver:
        """Return the conversation for a message that is read again: the history only as far as it went then."""
        facts = self._read(name, whole=True)
        if facts is None:
            return VersionResolver(None)
        if earlier.version is None:
            return VersionResolver(None, (), facts.excluded, facts.completes)
        history = _history(facts)
        versions = history.versions if history else ()
        for end, version in enumerate(versions, start=1):
            if earlier.is_of(version.identity):
                then = SourceHistory(versions[:end])
                return VersionResolver(then, (), facts.excluded, facts.completes, is_behind=end < len(versions))
        detail = "the metadata that the message was written under is no longer kept"
        raise rejection(Code.SCHEMA_MISMATCH, detail, 0, "")

    def _register(self, entries: Sequence[TableMetadata]) -> VersionResolver:
        """Register or evolve the table of these MD messages; it stays so whatever becomes of the data."""
        name = entries[0].table
        table = self.table_cache.route(SourceName.address(name))
        destination = name if table is None else table.name
        if not self.principal.may_touch(destination):
            pointer = f"{entries[0].at}/lineage"
            raise rejection(Code.UNKNOWN_TABLE, "no such table", entries[0].index, pointer, withheld=destination.folded)
        if not self.principal.may(Right.REGISTER, destination):
            raise RejectedInput(Code.FORBIDDEN, "metadata messages need a key with the right `register`")
        facts = self._read(name, whole=True)
        before = _history(facts)
        registered = register_versions(
            self.table_cache, self.principal, before, entries, marker_first=self.marker_first
        )
        self.repeated += len(entries) - registered
        if facts is None:
            return VersionResolver(before, entries)
        return VersionResolver(before, entries, facts.excluded, facts.completes)

    def _adopt(self, name: TableName, external_schema_ids: Mapping[VersionId, str]) -> None:
        """Store external schema ids that came for the first time with their versions."""
        with translated_errors(), self.table_cache.begin() as connection:
            facts = source_facts(connection, name)
            stored = replicate_metadata(connection, facts.table_id, lock=True) if facts else None
            if facts and stored:
                history = adopt(SourceHistory.from_json(stored), external_schema_ids)
                record_replicate_metadata(connection, facts.table_id, history.to_json())


def _history(facts: SourceFacts | None) -> SourceHistory | None:
    return SourceHistory.from_json(facts.metadata) if facts is not None and facts.metadata else None
