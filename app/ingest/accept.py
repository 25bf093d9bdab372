"""A request from bytes to receipts.

Typing runs before any lock is taken. When a table moves between typing and staging, the request is typed again;
the sequence lock decides, not this process's memory.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeAlias

from app.domain.access import Principal
from app.domain.input_limits import UNLIMITED, InputLimits
from app.domain.names import TableName
from app.domain.request_identity import RequestIdentity, StoredReceipt, replayed
from app.domain.source_name import SourceName
from app.domain.table import Table
from app.domain.table_schema import TypeName
from app.errors import Code, RejectedInput, TemporarilyUnavailable
from app.formats.arcion import decode_arcion
from app.formats.arcion_csv import decode_arcion_csv
from app.formats.csv_layout import CsvLayout
from app.formats.replicate import decode_replicate
from app.ingest.backlog import BacklogWatch
from app.ingest.directory import TableDirectory
from app.ingest.plain_requests import plain_arcion_batch, untyped_request
from app.ingest.replicate_tables import ReplicateTables
from app.ingest.typed_request import Decoded, SourceChanges, TypedRequest, Typist
from app.staging.database import Engine, translated_errors
from app.staging.group_commit import GroupCommit
from app.staging.request_receipts import read_receipts
from app.staging.typed_batch import AlreadyStaged, Receipt, TableMoved, TypedBatch
from app.staging.untyped_request import TypeAlone
from app.telemetry import DUPLICATE_CHANGES, WRONG_HASHES

_ATTEMPTS: Final = 5
"""How often a request is typed anew because its tables keep moving; then the caller retries."""

SMALL_BODY: Final = 2**14
"""Bytes of a body that is decoded where it arrives, and typed together with others."""

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
    replayed: bool = False
    """The request had been accepted before; this is the answer it got."""


@dataclass
class Ingest:
    """Accepts requests of one API process. Its methods raise RejectedInput or TemporarilyUnavailable."""

    engine: Engine
    group_commit: GroupCommit
    marker_first: bool = False
    """Where landing files have the row marker, which the metadata chain tells when a table is registered."""
    backlog: BacklogWatch | None = None
    """Whom to ask whether a table may take more; without one, each may."""
    directory: TableDirectory = field(init=False)

    def __post_init__(self) -> None:
        self.directory = TableDirectory(self.engine.begin)

    async def accept(self, decode: "Decode", principal: Principal, identity: RequestIdentity | None = None) -> Accepted:
        """Stage what `decode` makes of a body; returns after commit.

        A request that was staged before under its `identity` gets the answer that it got then.
        """
        return await self.answered(self._accept(decode, principal, identity))

    async def answered(self, accepting: Awaitable[Accepted]) -> Accepted:
        """What a request is answered, the first time or again."""
        try:
            return await accepting
        except AlreadyStaged as staged:
            answer = staged.answer
            receipts = [Receipt(**receipt) for receipt in answer["receipts"]]
            return Accepted(receipts, answer["ignored"], answer["duplicates"], replayed=True)

    async def _accept(self, decode: "Decode", principal: Principal, identity: RequestIdentity | None) -> Accepted:
        if decode.is_small:
            decoded = decode.read(self.directory, principal, self.marker_first)
            plain = await self._staged_together(decoded, principal, identity)
            if plain is None:
                await self.look_for(identity)
        else:
            await self.look_for(identity)
            plain = decode.plain and await self._staged_plain(decode.plain, principal, identity)
            if plain is None:
                decoded = await asyncio.to_thread(decode.read, self.directory, principal, self.marker_first)
        return plain or await self._staged_typed(decoded, principal, identity)

    async def _staged_together(
        self, decoded: Decoded, principal: Principal, identity: RequestIdentity | None
    ) -> Accepted | None:
        """Stage a small request with its neighbours; None where it must be looked at alone."""
        request = untyped_request(decoded, self.directory, principal, identity)
        if request is None:
            return None
        await self.admit(request.table, identity)
        try:
            receipts = await asyncio.wrap_future(self.group_commit.submit_untyped(request))
        except (TypeAlone, TableMoved):
            return None
        return Accepted(receipts, decoded.ignored)

    async def _staged_plain(
        self, plain: "ReadPlain", principal: Principal, identity: RequestIdentity | None
    ) -> Accepted | None:
        """Stage a large request without a look at each change; None where there must be one."""
        batch = await asyncio.to_thread(plain, self.directory, principal)
        if batch is None:
            return None
        await self.admit(batch.table, identity)
        try:
            return Accepted(await asyncio.wrap_future(self.group_commit.submit([batch], identity)))
        except TableMoved:
            return None

    async def _staged_typed(self, decoded: Decoded, principal: Principal, identity: RequestIdentity | None) -> Accepted:
        typist = Typist(self.directory, principal, self.marker_first)
        if self.backlog is not None:
            typist.admit = self.backlog.check
        for _ in range(_ATTEMPTS):
            try:
                typed: TypedRequest = await asyncio.to_thread(typist.type_request, decoded)
                receipts = await self._staged(decoded, typed, identity)
            except TableMoved:
                typist.forget(decoded)
            else:
                DUPLICATE_CHANGES.inc(typed.duplicates)
                return Accepted(receipts, decoded.ignored, typed.duplicates)
        raise TemporarilyUnavailable(Code.TABLE_BUSY, "the tables of this request keep changing")

    async def _staged(self, decoded: Decoded, typed: TypedRequest, identity: RequestIdentity | None) -> list[Receipt]:
        if not typed.batches and identity is None:
            return []
        counts = {"ignored": decoded.ignored, "duplicates": typed.duplicates}
        try:
            return await asyncio.wrap_future(self.group_commit.submit(typed.batches, identity, **counts))
        except RejectedInput as error:
            raise (decoded.refusal(error.problems) if error.problems else error) from error

    async def admit(self, table: Table, identity: RequestIdentity | None) -> None:
        """Raises TemporarilyUnavailable `backlog_full`, or AlreadyStaged: what is staged may be asked for again."""
        try:
            if self.backlog is not None:
                self.backlog.check(table)
        except TemporarilyUnavailable:
            await self.look_for(identity)
            raise

    async def look_for(self, identity: RequestIdentity | None) -> None:
        """Spare a repeated request the work. Raises AlreadyStaged, or RejectedInput for another request."""
        if identity is None:
            return
        stored = await asyncio.to_thread(self._stored, identity)
        answer = replayed(identity, stored)
        if answer is not None:
            raise AlreadyStaged(answer)

    def _stored(self, identity: RequestIdentity) -> StoredReceipt | None:
        with translated_errors(), self.engine.begin() as connection:
            return read_receipts(connection, [identity]).get(identity.receipt_id)


ReadPlain: TypeAlias = Callable[[TableDirectory, Principal], TypedBatch | None]


@dataclass(frozen=True, slots=True)
class Decode:
    """Reads a body; for CSV and Replicate the tables count, and metadata messages change them."""

    read: Callable[[TableDirectory, Principal, bool], Decoded]
    is_small: bool = False
    """Whether reading is so short, and asks no database, that a thread of its own would cost more."""
    plain: ReadPlain | None = None
    """Reads and types the body if it is plain, and takes much less time for it."""


def arcion_json(
    body: bytes, table: TableName | None = None, *, override: bool = False, limits: InputLimits = UNLIMITED
) -> Decode:
    """Reads an Arcion JSON body. `table` must be the one that the messages feed, unless it is to `override` what
    they say."""
    requested = SourceName(None, table) if table else None

    def decode(directory: TableDirectory, principal: Principal, marker_first: bool) -> Decoded:
        if override and table is None:
            raise RejectedInput(Code.BAD_REQUEST, "override=true needs `table`")
        messages = decode_arcion(body, table if override else None, limits)
        WRONG_HASHES.inc(messages.wrong_hashes)
        sources: dict[int, SourceChanges] = {}
        for entry in messages:  # an address is one object, so that its name need not be folded for each message
            found = sources.get(id(entry.source))
            if found is None:
                found = sources[id(entry.source)] = SourceChanges(entry.source)
            found.changes.append(entry.change)
        return Decoded(list(sources.values()), requested=requested, most_value_bytes=_most_value_bytes(body, limits))

    plain = partial(plain_arcion_batch, body, requested, override=override, limits=limits)
    return Decode(decode, is_small=len(body) <= min(SMALL_BODY, limits.value_bytes), plain=plain)


def arcion_csv(body: bytes, table: TableName, layout: CsvLayout, limits: InputLimits = UNLIMITED) -> Decode:
    """Reads an Arcion CSV body for one table."""

    def decode(directory: TableDirectory, principal: Principal, marker_first: bool) -> Decoded:
        source = SourceName(None, table)
        found = directory.look_again(source)
        if found is None or not principal.may_touch(found.name):
            withheld = directory.withheld(source, principal)
            raise RejectedInput(Code.UNKNOWN_TABLE, f"table {table} is not registered", withheld=withheld)
        trimmed = frozenset(column.name for column in found.schema.columns if column.type.name not in _TEXT)
        decoded = decode_arcion_csv(body, layout, trimmed, limits)
        most = _most_value_bytes(body, limits)
        return Decoded([SourceChanges(source, decoded.changes)], lines=decoded.lines, most_value_bytes=most)

    return Decode(decode)


def replicate_json(body: bytes, table: TableName | None = None, *, limits: InputLimits = UNLIMITED) -> Decode:
    """Reads a Replicate body, and registers what its metadata messages declare."""

    def decode(directory: TableDirectory, principal: Principal, marker_first: bool) -> Decoded:
        request = decode_replicate(body, limits)
        settled = ReplicateTables(directory, principal, marker_first).settle(request, table)
        sources = [SourceChanges(SourceName(None, name), changes, task) for name, task, changes in settled]
        return Decoded(sources, request.ignored, most_value_bytes=_most_value_bytes(body, limits))

    return Decode(decode)


def _most_value_bytes(body: bytes, limits: InputLimits) -> int | None:
    return limits.value_bytes if len(body) > limits.value_bytes else None
