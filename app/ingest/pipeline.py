"""The path of a request from a body reader to receipts.

Chooses among three paths: small requests are typed together in the staging thread, large columnar bodies in the reader
thread, everything else on the slow path (docs/architecture.md). A fast path stages the request or declines it; only
the slow path rejects.

Invariant: typing runs before any lock is taken, and the sequence lock checks its result. A table that changed in
between makes the request start again; nothing that this process remembers decides.
"""

import asyncio
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final

from app.domain.access.rights import Principal
from app.domain.model.request_identity import RequestIdentity, StoredReceipt, replayed
from app.domain.model.table import Table
from app.errors import Code, Problem, RejectedInput, TemporarilyUnavailable
from app.ingest.backlog import BacklogWatch
from app.ingest.fast_path.columnar_reader import ColumnarReader
from app.ingest.fast_path.columnar_requests import ColumnarRequest, pending_request
from app.ingest.fast_path.decline import Decline, count_fast_path, count_slow_path
from app.ingest.ingest_result import IngestResult, or_stored_result
from app.ingest.loop_bridge import LoopBridge, LoopFuture
from app.ingest.parsed_request import ParsedRequest
from app.ingest.readers import BodyReader
from app.ingest.request_typing import RequestTyper
from app.ingest.slow_path import SlowPath
from app.ingest.table_cache import NotCached, TableCache
from app.staging.batches.batch import AlreadyStaged, Batch, Receipt, TableMoved
from app.staging.batches.dead_letters import LetterReplay
from app.staging.batches.idempotency import read_receipts
from app.staging.batches.pending_request import FallBack
from app.staging.connection.database import Engine, translated_errors
from app.staging.writer.group_commit import GroupCommit

_MAX_COLUMNAR_READS: Final = 3
"""Two lookups can miss the cache, that of `?table=` and that of the messages' address; the third read finds both."""


@dataclass
class Ingest:
    """Accepts the requests of one API process. Its methods raise RejectedInput or TemporarilyUnavailable."""

    engine: Engine
    group_commit: GroupCommit
    marker_first: bool = False
    """True if landing files have the row marker as their first column; newly registered tables record it."""
    backlog: BacklogWatch | None = None
    """Checks whether a table can take more changes; without it, every table can."""
    table_cache: TableCache = field(init=False)
    _columnar_reader: ColumnarReader = field(init=False)
    _bridge: LoopBridge | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.table_cache = TableCache(self.engine.begin)
        self._columnar_reader = ColumnarReader(self.table_cache)

    def close(self) -> None:
        """Stop the reader thread after the requests that it has. Call it when no more requests arrive."""
        self._columnar_reader.close()

    async def accept(
        self, reader: BodyReader, principal: Principal, identity: RequestIdentity | None = None
    ) -> IngestResult:
        """Stage the changes of a body and return after COMMIT.

        A request that was accepted before under its `identity` gets its stored result.
        """
        return await or_stored_result(self._accept(reader, principal, identity))

    async def replay(self, reader: BodyReader, principal: Principal, replay: LetterReplay) -> Receipt:
        """Stage the one change of a dead letter and settle the letter, in one transaction."""
        parsed = await self._parse(reader, principal)
        result = await self._slow_path(principal, None, replay).ingest(parsed)
        if not result.receipts:
            detail = "the table enforces the source's order and has accepted later changes of this source since"
            raise RejectedInput.of((Problem(Code.OUT_OF_ORDER, detail, 0),))
        return result.receipts[0]

    async def receipts_of(self, submitted: "Future[list[Receipt]]") -> list[Receipt]:
        """Wait in the event loop for the receipts of a request that was submitted to the group commit."""
        return await self._running_bridge().result_of(submitted)

    async def check_backlog(self, table: Table, identity: RequestIdentity | None) -> None:
        """Raise TemporarilyUnavailable `backlog_full` if the table can take no more changes now.

        A repeated request needs no room: for one, this raises AlreadyStaged.
        """
        try:
            if self.backlog is not None:
                self.backlog.check(table)
        except TemporarilyUnavailable:
            await self.check_not_staged(identity)
            raise

    async def check_not_staged(self, identity: RequestIdentity | None) -> None:
        """Raise AlreadyStaged if the request was accepted before, so that a repeat costs no typing.

        Raises RejectedInput where its `identity` belongs to another request.
        """
        if identity is None:
            return
        stored = await asyncio.to_thread(self._stored_receipt, identity)
        answer = replayed(identity, stored)
        if answer is not None:
            raise AlreadyStaged(answer)

    async def _accept(self, reader: BodyReader, principal: Principal, identity: RequestIdentity | None) -> IngestResult:
        result: IngestResult | Decline
        if reader.is_small:
            parsed = reader.read(self.table_cache, principal, self.marker_first)
            result = await self._ingest_small(parsed, principal, identity)
            if isinstance(result, Decline):
                await self.check_not_staged(identity)
        else:
            await self.check_not_staged(identity)
            result = Decline.NO_FAST_PATH
            if reader.columnar is not None:
                result = await self._ingest_columnar(reader.columnar(principal), identity)
            if isinstance(result, Decline):
                parsed = await self._parse(reader, principal)
        if isinstance(result, Decline):
            count_slow_path(reader.source_format, result)
            return await self._slow_path(principal, identity).ingest(parsed)
        count_fast_path(reader.source_format, "small" if reader.is_small else "columnar")
        return result

    async def _parse(self, reader: BodyReader, principal: Principal) -> ParsedRequest:
        return await asyncio.to_thread(reader.read, self.table_cache, principal, self.marker_first)

    async def _ingest_small(
        self, parsed: ParsedRequest, principal: Principal, identity: RequestIdentity | None
    ) -> IngestResult | Decline:
        """Stage a small request together with its neighbors, or say why it needs the slow path."""
        request = pending_request(parsed, self.table_cache, principal, identity)
        if request is None:
            return Decline.NOT_ELIGIBLE
        await self.check_backlog(request.table, identity)
        receipts: LoopFuture[list[Receipt]] = LoopFuture(self._running_bridge())
        try:
            self.group_commit.submit_pending(request, receipts)
            return IngestResult(await receipts.result(), parsed.ignored)
        except FallBack:
            return Decline.NOT_TYPED_TOGETHER
        except TableMoved:
            return Decline.TABLE_MOVED

    async def _ingest_columnar(
        self, request: ColumnarRequest, identity: RequestIdentity | None
    ) -> IngestResult | Decline:
        """Stage a large columnar body, or say why it needs the slow path."""
        batch = await self._read_columnar(request)
        if batch is None:
            return Decline.NOT_COLUMNAR
        await self.check_backlog(batch.table, identity)
        try:
            return IngestResult(await self.receipts_of(self.group_commit.submit([batch], identity)))
        except TableMoved:
            return Decline.TABLE_MOVED
        except RejectedInput:
            return Decline.REJECTED

    async def _read_columnar(self, request: ColumnarRequest) -> Batch | None:
        """Read a columnar body in the reader thread. Table lookups run beside it, because it never waits."""
        for _ in range(_MAX_COLUMNAR_READS):
            batch: LoopFuture[Batch | None] = LoopFuture(self._running_bridge())
            self._columnar_reader.submit(request, batch)
            try:
                return await batch.result()
            except NotCached as unknown:
                if await asyncio.to_thread(unknown.look_up) is None:
                    break
        return None

    def _slow_path(
        self, principal: Principal, identity: RequestIdentity | None, replay: LetterReplay | None = None
    ) -> SlowPath:
        typer = RequestTyper(self.table_cache, principal, self.marker_first)
        if self.backlog is not None:
            typer.check_backlog = self.backlog.check
        return SlowPath(typer, self.group_commit, self.receipts_of, identity, replay)

    def _running_bridge(self) -> LoopBridge:
        loop = asyncio.get_running_loop()
        if self._bridge is None or self._bridge.loop is not loop:
            self._bridge = LoopBridge(loop)
        return self._bridge

    def _stored_receipt(self, identity: RequestIdentity) -> StoredReceipt | None:
        with translated_errors(), self.engine.begin() as connection:
            return read_receipts(connection, [identity]).get(identity.receipt_id)
