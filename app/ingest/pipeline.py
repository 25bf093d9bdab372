"""A request from bytes to receipts.

Typing runs before any lock is taken. When a table moves between typing and staging, the request is typed again;
the sequence lock decides, not this process's memory.
"""

import asyncio
from collections.abc import Awaitable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final

from app.domain.access.rights import Principal
from app.domain.model.dead_letter import MAX_LETTER_BYTES, NewLetter
from app.domain.model.request_identity import RequestIdentity, StoredReceipt, replayed
from app.domain.model.table import Table
from app.errors import Code, Problem, RejectedInput, TemporarilyUnavailable
from app.ingest.backlog import BacklogWatch
from app.ingest.columnar_reader import ColumnarReader
from app.ingest.columnar_requests import ColumnarRequest, pending_request
from app.ingest.loop_bridge import LoopBridge, LoopFuture
from app.ingest.parsed_request import ParsedRequest
from app.ingest.readers import BodyReader
from app.ingest.request_typing import RequestTyper, TypedRequest
from app.ingest.table_cache import NotCached, TableCache
from app.observability.telemetry import DUPLICATE_CHANGES
from app.staging.batches.batch import AlreadyStaged, Batch, Receipt, TableMoved
from app.staging.batches.dead_letter_transaction import dead_letters_full
from app.staging.batches.dead_letters import LetterReplay, TableLetters
from app.staging.batches.idempotency import read_receipts
from app.staging.batches.pending_request import FallBack
from app.staging.connection.database import Engine, translated_errors
from app.staging.writer.group_commit import GroupCommit

_ATTEMPTS: Final = 5
"""How often a request is typed anew because its tables keep moving; then the caller retries."""

_NAMES: Final = 3
"""A request may name its table in two ways, each of which may have to be asked for; then it is read."""


@dataclass(frozen=True, slots=True)
class IngestResult:
    """What became of a request: one receipt per table, after commit.

    `ignored` messages had no body; `duplicates` are changes that a table with `source_order=enforce` had accepted
    before; `dead_letters` messages were rejected and are kept.
    """

    receipts: list[Receipt]
    ignored: int = 0
    duplicates: int = 0
    replayed: bool = False
    """The request had been accepted before; this is the answer it got."""
    dead_letters: int = 0


@dataclass
class Ingest:
    """Accepts requests of one API process. Its methods raise RejectedInput or TemporarilyUnavailable."""

    engine: Engine
    group_commit: GroupCommit
    marker_first: bool = False
    """Where landing files have the row marker, which the metadata chain tells when a table is registered."""
    backlog: BacklogWatch | None = None
    """Whom to ask whether a table may take more; without one, each may."""
    table_cache: TableCache = field(init=False)
    _columnar_reader: ColumnarReader = field(init=False)
    _bridge: LoopBridge | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.table_cache = TableCache(self.engine.begin)
        self._columnar_reader = ColumnarReader(self.table_cache)

    async def accept(
        self, reader: BodyReader, principal: Principal, identity: RequestIdentity | None = None
    ) -> IngestResult:
        """Stage what `decode` makes of a body; returns after commit.

        A request that was staged before under its `identity` gets the answer that it got then.
        """
        return await self.or_stored_result(self._accept(reader, principal, identity))

    async def or_stored_result(self, accepting: Awaitable[IngestResult]) -> IngestResult:
        """What a request is or_stored_result, the first time or again."""
        try:
            return await accepting
        except AlreadyStaged as staged:
            answer = staged.answer
            receipts = [Receipt(**receipt) for receipt in answer["receipts"]]
            counts = (answer["ignored"], answer["duplicates"])
            return IngestResult(receipts, *counts, replayed=True, dead_letters=answer.get("dead_letters", 0))

    async def replay(self, reader: BodyReader, principal: Principal, replay: LetterReplay) -> Receipt:
        """Stage the one change of a dead letter and settle the letter, in one transaction."""
        parsed = await self._parse(reader, principal)
        accepted = await self._staged_typed(parsed, principal, None, replay)
        if not accepted.receipts:
            detail = "the table has accepted later changes of this source by now, and enforces their order"
            raise RejectedInput.of((Problem(Code.OUT_OF_ORDER, detail, 0),))
        return accepted.receipts[0]

    async def result_of(self, staged: "Future[list[Receipt]]") -> list[Receipt]:
        """The receipts of a request that was submitted to the group commit."""
        return await self._running_bridge().result_of(staged)

    def _running_bridge(self) -> LoopBridge:
        loop = asyncio.get_running_loop()
        if self._bridge is None or self._bridge.loop is not loop:
            self._bridge = LoopBridge(loop)
        return self._bridge

    async def _accept(self, reader: BodyReader, principal: Principal, identity: RequestIdentity | None) -> IngestResult:
        if reader.is_small:
            parsed = reader.read(self.table_cache, principal, self.marker_first)
            plain = await self._staged_together(parsed, principal, identity)
            if plain is None:
                await self.check_not_staged(identity)
        else:
            await self.check_not_staged(identity)
            plain = reader.columnar and await self._staged_plain(reader.columnar(principal), identity)
            if plain is None:
                parsed = await self._parse(reader, principal)
        return plain or await self._staged_typed(parsed, principal, identity)

    async def _parse(self, reader: BodyReader, principal: Principal) -> ParsedRequest:
        return await asyncio.to_thread(reader.read, self.table_cache, principal, self.marker_first)

    async def _staged_together(
        self, parsed: ParsedRequest, principal: Principal, identity: RequestIdentity | None
    ) -> IngestResult | None:
        """Stage a small request with its neighbours; None where it must be looked at alone."""
        request = pending_request(parsed, self.table_cache, principal, identity)
        if request is None:
            return None
        await self.check_backlog(request.table, identity)
        waiter: LoopFuture[list[Receipt]] = LoopFuture(self._running_bridge())
        try:
            self.group_commit.submit_pending(request, waiter)
            receipts = await waiter.result()
        except (FallBack, TableMoved):
            return None
        return IngestResult(receipts, parsed.ignored)

    async def _staged_plain(self, request: ColumnarRequest, identity: RequestIdentity | None) -> IngestResult | None:
        """Stage a large request without a look at each change; None where there must be one."""
        batch = await self._read_plain(request)
        if batch is None:
            return None
        await self.check_backlog(batch.table, identity)
        try:
            return IngestResult(await self.result_of(self.group_commit.submit([batch], identity)))
        except (TableMoved, RejectedInput):
            return None

    async def _read_plain(self, request: ColumnarRequest) -> Batch | None:
        """What a body holds if it is plain. Its table is asked for beside the reader, which waits for nothing."""
        for _ in range(_NAMES):
            waiter: LoopFuture[Batch | None] = LoopFuture(self._running_bridge())
            self._columnar_reader.submit(request, waiter)
            try:
                return await waiter.result()
            except NotCached as unknown:
                if await asyncio.to_thread(self.table_cache.route, unknown.source) is None:
                    break
        return None

    async def _staged_typed(
        self,
        parsed: ParsedRequest,
        principal: Principal,
        identity: RequestIdentity | None,
        replay: LetterReplay | None = None,
    ) -> IngestResult:
        typer = RequestTyper(self.table_cache, principal, self.marker_first)
        if self.backlog is not None:
            typer.check_backlog = self.backlog.check
        staging = _Staging(typer, self, identity, replay)
        for _ in range(_ATTEMPTS):
            try:
                return await staging.stage(parsed)
            except TableMoved:
                staging.typer.forget(parsed)
        raise TemporarilyUnavailable(Code.TABLE_BUSY, "the tables of this request keep changing")

    async def check_backlog(self, table: Table, identity: RequestIdentity | None) -> None:
        """Raises TemporarilyUnavailable `backlog_full`, or AlreadyStaged: what is staged may be asked for again."""
        try:
            if self.backlog is not None:
                self.backlog.check(table)
        except TemporarilyUnavailable:
            await self.check_not_staged(identity)
            raise

    async def check_not_staged(self, identity: RequestIdentity | None) -> None:
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


@dataclass(frozen=True, slots=True)
class _Staging:
    """Typing and staging one request."""

    typer: RequestTyper
    ingest: Ingest
    identity: RequestIdentity | None
    replay: LetterReplay | None

    async def stage(self, parsed: ParsedRequest) -> IngestResult:
        """Without the messages that are rejected, where those are kept: each round leaves out at least one more.

        Raises RejectedInput, TableMoved or AlreadyStaged.
        """
        while True:
            try:
                typed: TypedRequest = await asyncio.to_thread(self.typer.type_request, parsed)
                letters = await asyncio.to_thread(self._letters, parsed, typed)
                receipts = await self._staged(parsed, typed, letters)
            except RejectedInput as error:
                parsed = await asyncio.to_thread(parsed.setting_aside, error)
            else:
                DUPLICATE_CHANGES.inc(typed.duplicates)
                dead_letters = sum(len(entry.letters) for entry in letters)
                return IngestResult(receipts, parsed.ignored, typed.duplicates, dead_letters=dead_letters)

    async def _staged(self, parsed: ParsedRequest, typed: TypedRequest, letters: list[TableLetters]) -> list[Receipt]:
        if not typed.batches and not letters and self.identity is None:
            return []
        submitted = self.ingest.group_commit.submit(
            typed.batches,
            self.identity,
            ignored=parsed.ignored,
            duplicates=typed.duplicates,
            letters=letters,
            replay=self.replay,
        )
        try:
            return await self.ingest.result_of(submitted)
        except RejectedInput as error:
            if not error.problems or error.code is Code.DEAD_LETTERS_FULL:
                raise
            raise parsed.rejection(error.problems) from error

    def _letters(self, parsed: ParsedRequest, typed: TypedRequest) -> list[TableLetters]:
        """The rejected messages as they stand in the body. Raises RejectedInput `dead_letters_full` for a long one."""
        if parsed.written is None or not typed.rejected:
            return []
        written = parsed.written([entry.index for _, rejected in typed.rejected for entry in rejected])
        key_id = self.typer.principal.key_id
        letters = [
            TableLetters(table, [NewLetter(entry, written[entry.index]) for entry in rejected], key_id)
            for table, rejected in typed.rejected
        ]
        for entry in letters:
            if any(len(letter.written.content) > MAX_LETTER_BYTES for letter in entry.letters):
                raise dead_letters_full(
                    entry, f"a rejected message is longer than the {MAX_LETTER_BYTES} bytes that are kept"
                )
        return letters
