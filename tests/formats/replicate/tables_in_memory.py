"""Process Replicate messages without a database: decode, route, resolve, land."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any

import msgspec

from app.domain.model.change import Change
from app.domain.model.names import ROW_MARKER, TableName
from app.domain.model.table_schema import TableSchema, evolve
from app.domain.rows.landing_rows import landing_rows
from app.formats.replicate.history import (
    SchemaAnnouncements,
    SourceHistory,
    VersionResolver,
    extend,
    named_table,
    new_entries,
    table_of,
    with_external_ids,
)
from app.formats.replicate.messages import decode_replicate
from app.formats.replicate.metadata import by_table
from mirrorgate.errors import Code, Problem, RejectedInput

Row = list[Any]
"""A landing row as the samples write it: the marker, then the values in file order."""


@dataclass
class Tables:
    """Registered tables, and what metadata messages said of them, as JSON like in the database."""

    schemas: dict[str, TableSchema] = field(default_factory=dict)
    stored: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def post(self, body: bytes, requested: str | None = None) -> tuple[dict[str, list[Row]], int]:
        """Return the rows that land per table, and how many messages were ignored."""
        request = decode_replicate(body)
        ignored = request.ignored
        resolvers: dict[str, VersionResolver] = {}
        announced = SchemaAnnouncements(request.metadata)
        for name, entries in by_table(request.metadata).items():
            before = self._history(name)
            resolvers[name] = VersionResolver(before, entries)
            after = extend(before, entries)
            schema = self.schemas.get(name)
            accepted = new_entries(before, entries)
            ignored += len(entries) - len(accepted)
            for entry in accepted:
                wanted = entry.schema_after(schema)
                schema = evolve(schema, wanted) if schema is not None else wanted
            if schema is not None:
                self.schemas[name] = schema
            self.stored[name] = msgspec.json.decode(msgspec.json.encode(after.to_json()))
        changes: dict[str, list[Change]] = {}
        table = TableName.parse(requested) if requested else None
        for message in request.changes:
            known = self._described_by(message.schema_id)
            named = named_table(message, table, message.source and message.source.table)
            name = table_of(message, named, announced.table(message), known.copy).folded
            resolver = resolvers.setdefault(name, VersionResolver(self._history(name)))
            changes.setdefault(name, []).append(resolver.resolve(message)[0])
        for name, resolver in resolvers.items():
            if resolver.adopted and (history := self._history(name)):
                self.stored[name] = with_external_ids(history, resolver.adopted).to_json()
        return {name: self._land(name, found) for name, found in changes.items()}, ignored

    def _described_by(self, schema_id: str | None) -> list[TableName]:
        histories = {name: self._history(name) for name in self.stored}
        return [
            TableName.parse(name)
            for name, history in histories.items()
            if schema_id and history and schema_id in {version.schema_id for version in history.versions}
        ]

    def _history(self, name: str) -> SourceHistory | None:
        stored = self.stored.get(name)
        return SourceHistory.from_json(stored) if stored else None

    def _land(self, name: str, changes: list[Change]) -> list[Row]:
        if name not in self.schemas:
            raise RejectedInput.of((Problem(Code.UNKNOWN_TABLE, "not registered", changes[0].index),))
        batch = landing_rows(changes, self.schemas[name]).batch
        return [[row.pop(ROW_MARKER), *map(as_json, row.values())] for row in batch.to_pylist()]


def as_json(value: Any) -> Any:
    """Return a typed value as the samples write it."""
    if isinstance(value, bytes):
        return value.hex().upper()
    if isinstance(value, Decimal):
        return str(value)
    return value.isoformat() if isinstance(value, date) else value
