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
from app.formats.arcion_csv import decode_arcion_csv
from app.formats.csv_layout import CsvLayout, CsvMode
from app.formats.replicate import decode_replicate
from app.formats.replicate_metadata import SourceHistory, TableMetadata, VersionId, by_table, follow
from app.formats.replicate_versions import TableConversation, adopt, table_of
from app.staging.database import Connection, Engine, translated_errors
from app.staging.group_commit import GroupCommit, Receipt, TableMoved, TypedBatch
from app.staging.table_registry import (
    Registration,
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
    marker_first: bool = False
    """Where landing files have the row marker, which the metadata chain tells when a table is registered."""
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
                self._forget(decoded)
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
        conversations: dict[str, TableConversation] = {}
        described: dict[str, TableName | None] = {}
        for folded_name, entries in by_table(request.metadata).items():
            conversation = TableConversation(self._register(entries, principal), entries)
            conversations[folded_name] = conversation
            described |= dict.fromkeys(conversation.schema_ids(), entries[0].table)
        changes: dict[str, tuple[TableName, list[Change]]] = {}
        problems: list[Problem] = []
        for message in request.changes:
            try:
                name = table_of(message, table, self._described(message.schema_id, principal, described))
                known = conversations.get(name.folded)
                if known is None:
                    known = conversations[name.folded] = TableConversation(self._history(name, principal))
                changes.setdefault(name.folded, (name, []))[1].append(known.settle(message))
            except RejectedInput as error:
                problems.extend(error.problems)
        if problems:
            raise RejectedInput.of(tuple(problems))
        for folded_name, conversation in conversations.items():
            if conversation.adopted:
                self._adopt(changes[folded_name][0], conversation.adopted)
        return _Decoded(changes, request.ignored)

    def _described(
        self, schema_id: str | None, principal: Principal, described: dict[str, TableName | None]
    ) -> TableName | None:
        """The table that this schema id describes; one outside the caller's patterns is as unknown as none."""
        if schema_id and schema_id not in described:
            with translated_errors(), self.engine.begin() as connection:
                found = find_table_by_replicate_schema(connection, schema_id)
            described[schema_id] = found.name if found is not None and principal.may_touch(found.name) else None
        return described.get(schema_id or "")

    def _history(self, name: TableName, principal: Principal) -> SourceHistory | None:
        """What earlier metadata messages said of a table."""
        if not principal.may_touch(name):
            return None
        with translated_errors(), self.engine.begin() as connection:
            table = find_table(connection, name)
            stored = replicate_metadata(connection, table.table_id) if table else None
        return SourceHistory.from_json(stored) if stored else None

    def _register(self, entries: Sequence[TableMetadata], principal: Principal) -> SourceHistory | None:
        """Register or evolve the table of these MD messages; it stays so whatever becomes of the data.

        Returns what was stored before. Messages older than that are only a repetition, see `follow`.
        """
        name = entries[0].table
        if not principal.may_touch(name):
            raise _refusal(Code.UNKNOWN_TABLE, "no such table", entries[0].index, f"{entries[0].at}/lineage")
        if not principal.has(Right.REGISTER):
            raise RejectedInput(Code.FORBIDDEN, "metadata messages need a key with the right `register`")
        before = self._history(name, principal)
        outcomes: list[RegistrationOutcome] = []
        with translated_errors(), self.engine.begin() as connection:
            follow(before, entries)
            for entry in entries:
                if before is not None and entry.table_version < before.current.table_version:
                    continue
                registration = _evolved(connection, entry, marker_first=self.marker_first)
                outcomes.append(registration.outcome)
            table_id = registration.table.table_id
            stored = replicate_metadata(connection, table_id, lock=True)
            history = follow(SourceHistory.from_json(stored) if stored else None, entries)
            record_replicate_metadata(connection, table_id, history.to_json())
        self._tables.pop(name.folded, None)
        for outcome in outcomes:
            if outcome is not RegistrationOutcome.UNCHANGED:
                log.info("table_registered", table=str(name), outcome=outcome, by="metadata message")
        return before

    def _adopt(self, name: TableName, external_schema_ids: Mapping[VersionId, str]) -> None:
        """Store external schema ids that came for the first time with their versions."""
        with translated_errors(), self.engine.begin() as connection:
            table = find_table(connection, name)
            stored = replicate_metadata(connection, table.table_id, lock=True) if table else None
            if table and stored:
                history = adopt(SourceHistory.from_json(stored), external_schema_ids)
                record_replicate_metadata(connection, table.table_id, history.to_json())

    def _type(self, decoded: _Decoded, principal: Principal) -> list[TypedBatch]:
        """Typed batches of every table, or all problems of the whole request.

        A refusal counts only when the tables still are as they were last seen; otherwise the present ones decide.
        """
        seen = self._look_up(decoded, principal)
        try:
            return _typed(decoded, seen)
        except RejectedInput:
            self._forget(decoded)
            present = self._look_up(decoded, principal)
            if present == seen:
                raise
            return _typed(decoded, present)

    def _look_up(self, decoded: _Decoded, principal: Principal) -> dict[str, Table | None]:
        """The request's tables by folded name; None for a missing one and for one that the caller may not touch."""
        return {
            folded_name: self._find(name) if principal.may_touch(name) else None
            for folded_name, (name, _) in decoded.changes.items()
        }

    def _forget(self, decoded: _Decoded) -> None:
        for folded_name in decoded.changes:
            self._tables.pop(folded_name, None)

    def _find(self, name: TableName) -> Table | None:
        table = self._tables.get(name.folded)
        if table is None:
            with translated_errors(), self.engine.begin() as connection:
                table = find_table(connection, name)
            if table is not None:
                self._tables[name.folded] = table
        return table


def _typed(decoded: _Decoded, tables: Mapping[str, Table | None]) -> list[TypedBatch]:
    """Typed batches under these tables, or every problem found."""
    batches: list[TypedBatch] = []
    problems: list[Problem] = []
    for folded_name, (name, changes) in decoded.changes.items():
        table = tables[folded_name]
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


def _evolved(connection: Connection, entry: TableMetadata, *, marker_first: bool) -> Registration:
    """The table after one metadata message; a refusal names the message."""
    present = find_table(connection, entry.table)
    try:
        wanted = entry.schema_after(present.schema if present else None)
        return register_table(connection, entry.table, wanted, marker_first=marker_first)
    except RejectedInput as error:
        raise _refusal(error.code, error.detail, entry.index, f"{entry.at}/tableStructure") from None


def _refusal(code: Code, detail: str, index: int, pointer: str) -> RejectedInput:
    return RejectedInput.of((Problem(code, detail, index, pointer),))
