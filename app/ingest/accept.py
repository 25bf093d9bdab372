"""A request from bytes to receipts.

Typing runs before any lock is taken. When a table moves between typing and staging, the request is typed again;
the sequence lock decides, not this process's memory.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from app.domain.access import Principal
from app.domain.names import TableName
from app.domain.table_options import SourceName
from app.domain.table_schema import TypeName
from app.errors import Code, RejectedInput, TemporarilyUnavailable
from app.formats.arcion import decode_arcion
from app.formats.arcion_csv import CsvLayout, decode_arcion_csv
from app.formats.replicate import decode_replicate
from app.ingest.directory import TableDirectory
from app.ingest.replicate_tables import ReplicateTables
from app.ingest.typed_request import Decoded, SourceChanges, TypedRequest, Typist
from app.staging.database import Engine
from app.staging.group_commit import GroupCommit
from app.staging.typed_batch import Receipt, TableMoved
from app.telemetry import DUPLICATE_CHANGES, WRONG_HASHES

_ATTEMPTS: Final = 5
"""How often a request is typed anew because its tables keep moving; then the caller retries."""

_TEXT: Final = frozenset({TypeName.STRING, TypeName.JSON})
"""Types whose values may begin or end with blanks."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of a request: one receipt per table, after commit.

    `ignored` messages had no body; `duplicates` are changes that a table with `source_order=enforce` had accepted
    before.
    """

    receipts: list[Receipt]
    ignored: int = 0
    duplicates: int = 0


@dataclass
class Ingest:
    """Accepts requests of one API process. Its methods raise RejectedInput or TemporarilyUnavailable."""

    engine: Engine
    group_commit: GroupCommit
    marker_first: bool = False
    """Where landing files have the row marker, which the metadata chain tells when a table is registered."""
    directory: TableDirectory = field(init=False)

    def __post_init__(self) -> None:
        self.directory = TableDirectory(self.engine.begin)

    async def accept(self, decode: "Decode", principal: Principal) -> Accepted:
        """Stage what `decode` makes of a body; returns after commit."""
        decoded = await asyncio.to_thread(decode, self.directory, principal, self.marker_first)
        typist = Typist(self.directory, principal, self.marker_first)
        for _ in range(_ATTEMPTS):
            try:
                typed: TypedRequest = await asyncio.to_thread(typist.type_request, decoded)
                receipts = await self._staged(decoded, typed)
            except TableMoved:
                typist.forget(decoded)
            else:
                DUPLICATE_CHANGES.inc(typed.duplicates)
                return Accepted(receipts, decoded.ignored, typed.duplicates)
        raise TemporarilyUnavailable(Code.TABLE_BUSY, "the tables of this request keep changing")

    async def _staged(self, decoded: Decoded, typed: TypedRequest) -> list[Receipt]:
        if not typed.batches:
            return []
        try:
            return await asyncio.wrap_future(self.group_commit.submit(typed.batches))
        except RejectedInput as error:
            raise decoded.refusal(error.problems) from error


Decode = Callable[[TableDirectory, Principal, bool], Decoded]
"""Reads a body; for CSV and Replicate the tables count, and metadata messages change them."""


def arcion_json(body: bytes, table: TableName | None = None, *, override: bool = False) -> Decode:
    """Reads an Arcion JSON body. `table` must be the one that the messages feed, unless it is to `override` what
    they say."""

    def decode(directory: TableDirectory, principal: Principal, marker_first: bool) -> Decoded:
        if override and table is None:
            raise RejectedInput(Code.BAD_REQUEST, "override=true needs `table`")
        messages = decode_arcion(body, table if override else None)
        WRONG_HASHES.inc(messages.wrong_hashes)
        sources: dict[str, SourceChanges] = {}
        for entry in messages:
            sources.setdefault(entry.source.folded, SourceChanges(entry.source)).changes.append(entry.change)
        return Decoded(list(sources.values()), requested=SourceName(None, table) if table else None)

    return decode


def arcion_csv(body: bytes, table: TableName, layout: CsvLayout) -> Decode:
    """Reads an Arcion CSV body for one table."""

    def decode(directory: TableDirectory, principal: Principal, marker_first: bool) -> Decoded:
        source = SourceName(None, table)
        found = directory.look_again(source)
        if found is None or not principal.may_touch(found.name):
            raise RejectedInput(Code.UNKNOWN_TABLE, f"table {table} is not registered")
        trimmed = frozenset(column.name for column in found.schema.columns if column.type.name not in _TEXT)
        decoded = decode_arcion_csv(body, layout, trimmed)
        return Decoded([SourceChanges(source, decoded.changes)], lines=decoded.lines)

    return decode


def replicate_json(body: bytes, table: TableName | None = None) -> Decode:
    """Reads a Replicate body, and registers what its metadata messages declare."""

    def decode(directory: TableDirectory, principal: Principal, marker_first: bool) -> Decoded:
        request = decode_replicate(body)
        settled = ReplicateTables(directory, principal, marker_first).settle(request, table)
        sources = [SourceChanges(SourceName(None, name), changes, task) for name, task, changes in settled]
        return Decoded(sources, request.ignored)

    return decode
