"""The write use case: the bytes of a request -> durable change batches -> receipts.

Typing runs before any lock is taken. When a table's schema or state moves between typing and staging, the
request is typed again; the sequence lock decides, not this module's cache.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import structlog

from app.domain.access import Principal, Right
from app.domain.change import Change
from app.domain.landing_rows import landing_rows
from app.domain.names import TableName
from app.domain.table import Table
from app.domain.table_schema import TypeName
from app.errors import Code, Problem, RejectedInput, TemporarilyUnavailable
from app.formats.arcion import decode_arcion
from app.formats.arcion_csv import CsvLayout, CsvMode, decode_arcion_csv
from app.formats.replicate import DataChange, TableMetadata, decode_replicate, latest_by_table
from app.staging.database import Engine, translated_errors
from app.staging.group_commit import GroupCommit, Receipt, TableMoved, TypedBatch
from app.staging.table_registry import (
    RegistrationOutcome,
    find_table,
    find_table_by_replicate_schema,
    record_replicate_metadata,
    register_table,
    replicate_metadata,
)
from app.telemetry import WRONG_HASHES

__all__ = ["Accepted", "CsvLayout", "CsvMode", "Ingest"]

log = structlog.get_logger()

_ATTEMPTS: Final = 5
"""How often a request is typed anew because its tables keep moving; then the caller retries."""

_TEXT: Final = frozenset({TypeName.STRING, TypeName.JSON})
"""Types whose values may begin or end with blanks."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of a request: one receipt per table, after commit; `ignored` messages had no body."""

    receipts: list[Receipt]
    ignored: int = 0


@dataclass(frozen=True, slots=True)
class _Decoded:
    """Changes by table, in order of first appearance, and the messages that were ignored."""

    changes: Mapping[str, tuple[TableName, list[Change]]]
    ignored: int = 0
    lines: Sequence[int] = ()
    """Where the messages begin in a body of lines, by their index."""

    def refusal(self, problems: Sequence[Problem]) -> RejectedInput:
        """Problems found later than decoding, each with its line where there are lines."""
        ordered = sorted(problems, key=lambda problem: problem.index or 0)
        if self.lines:
            ordered = [replace(p, detail=f"line {self.lines[p.index or 0]}: {p.detail}") for p in ordered]
        return RejectedInput.of(tuple(ordered))


@dataclass
class Ingest:
    """Accepts requests of one API process."""

    engine: Engine
    group_commit: GroupCommit
    _tables: dict[str, Table] = field(default_factory=dict)
    """Tables as last seen, by folded name; may be out of date, which the sequence lock notices."""

    async def accept_arcion(
        self, body: bytes, principal: Principal, table: TableName | None = None, *, override: bool = False
    ) -> Accepted:
        """Stage an Arcion JSON body; returns after commit. Raises RejectedInput or TemporarilyUnavailable.

        `table` must be the one that the messages name, unless it is to `override` what they say.
        """
        if override and table is None:
            raise RejectedInput(Code.BAD_REQUEST, "override=true needs `table`")
        return await self._accept(lambda: self._decode_arcion(body, table, override), principal)

    async def accept_arcion_csv(
        self, body: bytes, principal: Principal, table: TableName, layout: CsvLayout
    ) -> Accepted:
        """Stage an Arcion CSV body for one table; returns after commit."""
        return await self._accept(lambda: self._decode_arcion_csv(body, principal, table, layout), principal)

    async def accept_replicate(self, body: bytes, principal: Principal, table: TableName | None = None) -> Accepted:
        """Register what the body's metadata messages declare, then stage its data messages."""
        return await self._accept(lambda: self._decode_replicate(body, principal, table), principal)

    async def _accept(self, decode: Callable[[], _Decoded], principal: Principal) -> Accepted:
        decoded = await asyncio.to_thread(decode)
        if not decoded.changes:
            return Accepted([], decoded.ignored)
        for _ in range(_ATTEMPTS):
            batches = await asyncio.to_thread(self._type, decoded, principal)
            try:
                receipts = await asyncio.wrap_future(self.group_commit.submit(batches))
                return Accepted(receipts, decoded.ignored)
            except TableMoved:
                for folded_name in decoded.changes:
                    self._tables.pop(folded_name, None)
        raise TemporarilyUnavailable(Code.TABLE_BUSY, "the tables of this request keep changing")

    def _decode_arcion(self, body: bytes, table: TableName | None, override: bool) -> _Decoded:
        changes: dict[str, tuple[TableName, list[Change]]] = {}
        decoded = decode_arcion(body, table if override else None)
        WRONG_HASHES.inc(decoded.wrong_hashes)
        for addressed in decoded:
            if table is not None and addressed.table.folded != table.folded:
                detail = f"the message is addressed to {addressed.table}, the request to {table}"
                raise _refusal(Code.TABLE_MISMATCH, detail, addressed.change.index, "/tableName")
            changes.setdefault(addressed.table.folded, (addressed.table, []))[1].append(addressed.change)
        return _Decoded(changes)

    def _decode_arcion_csv(self, body: bytes, principal: Principal, name: TableName, layout: CsvLayout) -> _Decoded:
        table = self._find(name) if principal.may_touch(name) else None
        if table is None:
            raise RejectedInput(Code.UNKNOWN_TABLE, f"table {name} is not registered")
        trimmed = frozenset(column.name for column in table.schema.columns if column.type.name not in _TEXT)
        decoded = decode_arcion_csv(body, layout, trimmed)
        return _Decoded({name.folded: (name, decoded.changes)}, lines=decoded.lines)

    def _decode_replicate(self, body: bytes, principal: Principal, table: TableName | None) -> _Decoded:
        request = decode_replicate(body)
        if request.metadata:
            self._register(latest_by_table(request.metadata), principal)
        by_schema: dict[str | None, TableName] = {e.schema_id: e.table for e in request.metadata if e.schema_id}
        changes: dict[str, tuple[TableName, list[Change]]] = {}
        for change in request.changes:
            name = self._route(change, table, by_schema)
            changes.setdefault(name.folded, (name, []))[1].append(change.change)
        return _Decoded(changes, request.ignored)

    def _route(self, message: DataChange, table: TableName | None, by_schema: dict[str | None, TableName]) -> TableName:
        """The table of a data message: `?table=`, its own address, or its schema id's metadata."""
        index = message.change.index
        if message.schema_id and message.schema_id not in by_schema:
            with translated_errors(), self.engine.begin() as connection:
                found = find_table_by_replicate_schema(connection, message.schema_id)
            if found is not None:
                by_schema[message.schema_id] = found.name
        candidates = [name for name in (table, message.table, by_schema.get(message.schema_id)) if name is not None]
        if not candidates:
            code = Code.SCHEMA_UNKNOWN if message.schema_id else Code.UNKNOWN_TABLE
            raise _refusal(code, "nothing tells the table of this message", index, "/messageSchemaId")
        if any(name.folded != candidates[0].folded for name in candidates):
            raise _refusal(Code.TABLE_MISMATCH, "parts of the request name different tables", index, "")
        return candidates[0]

    def _register(self, metadata: Sequence[TableMetadata], principal: Principal) -> None:
        """Register or evolve the tables of MD messages; they stay registered whatever becomes of the data."""
        for entry in metadata:
            if not principal.may_touch(entry.table):
                raise _refusal(Code.UNKNOWN_TABLE, "no such table", entry.index, f"{entry.at}/lineage")
            if not principal.has(Right.REGISTER):
                raise RejectedInput(Code.FORBIDDEN, "metadata messages need a key with the right `register`")
            with translated_errors(), self.engine.begin() as connection:
                registration = register_table(connection, entry.table, entry.schema)
                known = replicate_metadata(connection, registration.table.table_id) or {}
                if entry.table_version < known.get("table_version", 0):
                    detail = f"table version {entry.table_version} is older than {known['table_version']}"
                    raise _refusal(Code.STALE_METADATA, detail, entry.index, f"{entry.at}/lineage/tableVersion")
                facts = {"schema_id": entry.schema_id, "table_version": entry.table_version}
                record_replicate_metadata(connection, registration.table.table_id, facts)
            self._tables.pop(entry.table.folded, None)
            if registration.outcome is not RegistrationOutcome.UNCHANGED:
                log.info(
                    "table_registered", table=str(entry.table), outcome=registration.outcome, by="metadata message"
                )

    def _type(self, decoded: _Decoded, principal: Principal) -> list[TypedBatch]:
        """Typed batches of every table, or all problems of the whole request."""
        batches: list[TypedBatch] = []
        problems: list[Problem] = []
        for name, changes in decoded.changes.values():
            table = self._find(name) if principal.may_touch(name) else None
            if table is None:
                detail = f"table {name} is not registered"
                problems.extend(Problem(Code.UNKNOWN_TABLE, detail, change.index) for change in changes)
                continue
            if not table.state.accepts_changes:
                raise RejectedInput(Code.TABLE_NOT_ACCEPTING, f"table {table.name} is {table.state}")
            try:
                batches.append(TypedBatch(table, landing_rows(changes, table.schema)))
            except RejectedInput as error:
                problems.extend(error.problems)
        if problems:
            raise decoded.refusal(problems)
        return batches

    def _find(self, name: TableName) -> Table | None:
        table = self._tables.get(name.folded)
        if table is None:
            with translated_errors(), self.engine.begin() as connection:
                table = find_table(connection, name)
            if table is not None:
                self._tables[name.folded] = table
        return table


def _refusal(code: Code, detail: str, index: int, pointer: str) -> RejectedInput:
    return RejectedInput.of((Problem(code, detail, index, pointer),))
