"""What Replicate requests do to tables: register and evolve them, and find which one each data message is for."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import structlog

from app.domain.access import Principal, Right
from app.domain.change import Change
from app.domain.dead_letter import RefusedMessage, is_kept
from app.domain.names import TableName
from app.domain.source_name import SourceName
from app.domain.table import Table
from app.errors import Code, Problem, RejectedInput
from app.formats.replicate import DataChange, RefusedData, ReplicateRequest
from app.formats.replicate_metadata import SourceHistory, TableMetadata, VersionId, by_table
from app.formats.replicate_versions import TableConversation, adopt, table_of
from app.ingest.directory import TableDirectory
from app.ingest.replicate_registration import refusal, register_versions
from app.staging.database import translated_errors
from app.staging.table_registry import (
    find_table,
    find_table_by_replicate_schema,
    record_replicate_metadata,
    replicate_metadata,
)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class EarlierReading:
    """The version of its source that a message was first read under; None: no metadata message had told one."""

    version: VersionId | None


@dataclass(slots=True)
class _Route:
    """Where messages go that say the same of their table."""

    table: TableName
    conversation: TableConversation
    changes: dict[str, list[Change]] = field(default_factory=dict)
    """Those of each source task, which another route to the table shares."""


@dataclass
class ReplicateTables:
    """The tables of one Replicate request."""

    directory: TableDirectory
    principal: Principal
    marker_first: bool
    keep_refused: bool = False
    """Leave out data messages that are wrong."""
    earlier: EarlierReading | None = None
    """For a message that is read again; metadata that came since says nothing of it."""
    refused: list[tuple[TableName, RefusedMessage]] = field(default_factory=list)
    """What `settle` left out, by table."""
    _conversations: dict[str, TableConversation] = field(default_factory=dict)
    _described: dict[str, TableName | None] = field(default_factory=dict)
    _stored: dict[str, tuple[Table, Mapping[str, Any] | None]] = field(default_factory=dict)
    """Tables that schema ids describe, by name, with what earlier metadata messages said of them."""
    _destinations: dict[str, TableName] = field(default_factory=dict)

    def settle(
        self, request: ReplicateRequest, requested: TableName | None
    ) -> list[tuple[TableName, str, list[Change]]]:
        """Do what the metadata messages say, then give the changes by table and source task.

        `requested` is `?table=`. Raises RejectedInput naming every data message whose table or masks do not fit.
        """
        requested = requested and self._destination(requested)
        self._register_all(request.metadata, requested)
        settled: dict[tuple[str, str], tuple[TableName, str, list[Change]]] = {}
        routes: dict[tuple[TableName | None, str | None], _Route] = {}
        problems: list[Problem] = []
        for message in request.changes:
            try:
                told_by = (message.table, message.schema_id)
                route = routes.get(told_by)
                if route is None:
                    name = self._table_of(message, requested)
                    route = routes[told_by] = _Route(name, self._conversation(name))
                change, task = route.conversation.settle(message)
                changes = route.changes.get(task)
                if changes is None:
                    name = route.table
                    _, _, changes = settled.setdefault((name.folded, task), (name, task, []))
                    route.changes[task] = changes
                changes.append(change)
            except RejectedInput as error:
                if route is not None and self.keep_refused and is_kept(error.problems):
                    self.refused.append((route.table, RefusedMessage(message.index, error.problems)))
                else:
                    problems.extend(error.problems)
        for refused in request.refused:
            try:
                name, _ = self._written_under(refused, requested)
                self.refused.append((name, RefusedMessage(refused.index, refused.problems)))
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
        requested = requested and self._destination(requested)
        messages: list[DataChange | RefusedData] = [*request.changes, *request.refused]
        return {
            message.index: self._written_under(message, requested)[1]
            for message in messages
            if message.index in indexes
        }

    def _written_under(
        self, message: DataChange | RefusedData, requested: TableName | None
    ) -> tuple[TableName, VersionId | None]:
        name = self._table_of(message, requested)
        version = self._conversation(name).version_of(message)
        return name, None if version is None else version.identity

    def _destination(self, name: TableName) -> TableName:
        """The name of the table that a source of this name feeds; the same name where the caller sees none."""
        if name.folded not in self._destinations:
            table = self.directory.look_again(SourceName(None, name))
            visible = table is not None and self.principal.may_touch(table.name)
            self._destinations[name.folded] = table.name if table is not None and visible else name
        return self._destinations[name.folded]

    def _routed(self, entry: TableMetadata) -> TableMetadata:
        """The message as one for the table that its source feeds. Another source has an order of its own."""
        name = self._destination(entry.table)
        if name.folded == entry.table.folded:
            return entry
        return replace(entry, table=name, task=f"{entry.task or ''}/{entry.table}")

    def _register_all(self, metadata: Iterable[TableMetadata], requested: TableName | None) -> None:
        routed = []
        for entry in metadata:
            if requested is not None and self._destination(entry.table).folded != requested.folded:
                detail = f"the message describes {entry.table}, the request is for another table"
                raise refusal(Code.TABLE_MISMATCH, detail, entry.index, f"{entry.at}/lineage")
            routed.append(self._routed(entry))
        for folded_name, entries in by_table(routed).items():
            before, excluded = self._register(entries)
            conversation = TableConversation(before, entries, excluded)
            self._conversations[folded_name] = conversation
            self._described |= dict.fromkeys(conversation.schema_ids(), entries[0].table)

    def _conversation(self, name: TableName) -> TableConversation:
        known = self._conversations.get(name.folded)
        if known is None:
            history, excluded = self._known(name)
            known = self._conversations[name.folded] = TableConversation(history, excluded=excluded)
        return known

    def _table_of(self, message: DataChange | RefusedData, requested: TableName | None) -> TableName:
        if message.table is not None:
            message = msgspec.structs.replace(message, table=self._destination(message.table))
        return table_of(message, requested, self._described_by(message.schema_id))

    def _described_by(self, schema_id: str | None) -> TableName | None:
        """The table that this schema id describes; one outside the caller's patterns is as unknown as none."""
        if schema_id and schema_id not in self._described:
            with translated_errors(), self.directory.begin() as connection:
                found = find_table_by_replicate_schema(connection, schema_id)
                if found is not None and not self.principal.may_touch(found.name):
                    found = None
                stored = replicate_metadata(connection, found.table_id) if found else None
            if found is not None:
                self._stored.setdefault(found.name.folded, (found, stored))
            self._described[schema_id] = found.name if found is not None else None
        return self._described.get(schema_id or "")

    def _known(self, name: TableName) -> tuple[SourceHistory | None, frozenset[str]]:
        """What earlier metadata messages said of a table, and its excluded columns."""
        if not self.principal.may_touch(name):
            return None, frozenset()
        table, stored = self._stored.get(name.folded) or self._read(name)
        excluded = frozenset(table.options.exclude if table else ())
        history = SourceHistory.from_json(stored) if stored else None
        return self._as_read_before(history), excluded

    def _read(self, name: TableName) -> tuple[Table | None, Mapping[str, Any] | None]:
        with translated_errors(), self.directory.begin() as connection:
            table = find_table(connection, name)
            return table, replicate_metadata(connection, table.table_id) if table else None

    def _as_read_before(self, history: SourceHistory | None) -> SourceHistory | None:
        """The history, for a message that is read again only as far as it went then."""
        if self.earlier is None:
            return history
        if self.earlier.version is None:
            return None
        for place, version in enumerate(history.versions if history else ()):
            if history and version.identity == self.earlier.version:
                return SourceHistory(history.versions[: place + 1])
        detail = "the metadata that the message was written under is no longer kept"
        raise refusal(Code.SCHEMA_MISMATCH, detail, 0, "")

    def _register(self, entries: Sequence[TableMetadata]) -> tuple[SourceHistory | None, frozenset[str]]:
        """Register or evolve the table of these MD messages; it stays so whatever becomes of the data.

        Returns what was stored before, and the excluded columns. Messages older than what was stored are only a
        repetition, see `follow`.
        """
        name = entries[0].table
        table = self.directory.route(SourceName(None, name))
        destination = name if table is None else table.name
        if not self.principal.may_touch(destination):
            pointer = f"{entries[0].at}/lineage"
            raise refusal(Code.UNKNOWN_TABLE, "no such table", entries[0].index, pointer, withheld=destination.folded)
        if not self.principal.may(Right.REGISTER, destination):
            raise RejectedInput(Code.FORBIDDEN, "metadata messages need a key with the right `register`")
        before, excluded = self._known(name)
        register_versions(self.directory, self.principal, before, entries, marker_first=self.marker_first)
        return before, excluded

    def _adopt(self, name: TableName, external_schema_ids: Mapping[VersionId, str]) -> None:
        """Store external schema ids that came for the first time with their versions."""
        with translated_errors(), self.directory.begin() as connection:
            table = find_table(connection, name)
            stored = replicate_metadata(connection, table.table_id, lock=True) if table else None
            if table and stored:
                history = adopt(SourceHistory.from_json(stored), external_schema_ids)
                record_replicate_metadata(connection, table.table_id, history.to_json())
