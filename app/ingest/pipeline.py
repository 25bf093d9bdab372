"""The path of a request from its bytes to receipts, on one page.

    gather     all bodies that wait, of any format: short ones for the staging thread     reader_thread
    decode     messages, then the images of each table together -> tuples with shapes    formats.*.columnar
    rows       the rules of the landing zone, once per shape -> typed Arrow              domain.rows
    stage      one transaction for all requests that wait, under sequence locks          staging.writer
    answer     the receipts, after COMMIT

Formats differ only in how they decode. What is wrong or unusual, and every format without a columnar decoder, takes the
exact path instead (`ExactPath`): change by change, which explains each rejection. There is no third path.

Invariant: decoding and typing run before any lock is taken, and the sequence lock checks their result. A table that
changed in between makes the request start again; nothing that this process remembers decides.

The exact path handles every request. Where its tables keep dead letters, rejected messages are set aside and the others
are staged. It reports all problems of a request together.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from typing import Final, NamedTuple, TypeAlias

from app.domain.access.mask_secret import MaskSecret
from app.domain.access.rights import Principal
from app.domain.loads import LoadId, LoadStep
from app.domain.model.dead_letter import MAX_LETTER_BYTES, NewLetter
from app.domain.model.request_identity import RequestIdentity, StoredReceipt, replayed
from app.domain.model.table import Table
from app.ingest.backlog import BacklogWatch
from app.ingest.changed_tables import retry_moved
from app.ingest.columnar import Asked, Decline, Declined, count_columnar_path, count_exact_path
from app.ingest.parsed_request import ParsedRequest, registered_answer
from app.ingest.reader_thread import ColumnarReader, LoopBridge, LoopFuture, UnreadBody
from app.ingest.readers import BodyReader
from app.ingest.request_typing import RequestTyper, TypedRequest
from app.ingest.table_cache import NotCached, TableCache
from app.observability.api_metrics import DUPLICATE_CHANGES
from app.staging.batches.batch import (
    AlreadyStaged,
    LetterReplay,
    MarkerNeeded,
    Receipt,
    StagingRequest,
    TableLetters,
    TableMoved,
)
from app.staging.batches.dead_letters import dead_letters_full
from app.staging.batches.idempotency import read_receipts
from app.staging.connection.database import Engine, translated_errors
from app.staging.writer.group_commit import GroupCommit
from app.staging.writer.request_queue import WaitingRequest
from mirrorgate.errors import Code, RejectedInput, TemporarilyUnavailable


class IngestResult(NamedTuple):
    """One receipt per table, after COMMIT, and how many messages did not become changes of a batch."""

    receipts: list[Receipt]
    ignored: int = 0
    """Messages without a body, and metadata messages that repeat an earlier version."""
    duplicates: int = 0
    """Changes that a table with `source_order=enforce` had accepted before."""
    replayed: bool = False
    """True if the request was accepted before and this is its stored answer."""
    dead_letters: int = 0
    """Rejected messages that are kept."""
    registered: Sequence[Mapping[str, str]] = ()
    """The tables that the request created, or gave columns."""


async def or_stored_result(request: Awaitable[IngestResult]) -> IngestResult:
    """Return the result of a request, or its stored result if the request was accepted before."""
    try:
        return await request
    except AlreadyStaged as staged:
        answer = staged.answer
        receipts = [Receipt(**receipt) for receipt in answer["receipts"]]
        counts = (answer["ignored"], answer["duplicates"])
        return IngestResult(
            receipts,
            *counts,
            replayed=True,
            dead_letters=answer.get("dead_letters", 0),
            registered=answer.get("registered", ()),
        )


Stager: TypeAlias = Callable[[StagingRequest], Awaitable[list[Receipt]]]
"""Stages a request, and returns its receipts after COMMIT."""


@dataclass(frozen=True, slots=True)
class ExactPath:
    """Typing and staging of one request. With a `replay`, that dead letter is settled in the same transaction."""

    typer: RequestTyper
    stage: Stager
    identity: RequestIdentity | None
    replay: LetterReplay | None = None
    load: LoadStep | None = None

    async def ingest(self, reader: BodyReader, *, has_moved: bool = False) -> IngestResult:
        """Read a body, stage it and return after COMMIT. With `has_moved`, its tables are looked up again first.

        Each attempt reads it as its tables say then. Raises RejectedInput, TemporarilyUnavailable or AlreadyStaged.
        """
        first: ParsedRequest | None = None

        async def attempt() -> IngestResult:
            nonlocal first
            parsed = await asyncio.to_thread(reader.exact, self.typer.table_cache, self.typer.principal)
            first = first or parsed  # later attempts register nothing
            parsed = replace(parsed, ignored=first.ignored, registered=first.registered)
            if has_moved:
                self.typer.forget(parsed)
            try:
                return await self._stage(parsed)
            except MarkerNeeded as needed:
                await asyncio.to_thread(self.typer.give_marker, needed.table)
                self.typer.forget(parsed)
                raise
            except TableMoved:
                self.typer.forget(parsed)
                raise

        return await retry_moved(attempt)

    async def _stage(self, parsed: ParsedRequest) -> IngestResult:
        """Stage what is left of the request; each round sets at least one more rejected message aside.

        Raises RejectedInput where a message cannot become a dead letter, TableMoved or AlreadyStaged.
        """
        while True:
            try:
                typed: TypedRequest = await asyncio.to_thread(self.typer.type_request, parsed)
                letters = await asyncio.to_thread(self._letters, parsed, typed)
                receipts = await self._submit(parsed, typed, letters)
            except RejectedInput as error:
                parsed = await asyncio.to_thread(parsed.without_rejected, error)
            else:
                DUPLICATE_CHANGES.inc(typed.duplicates)
                dead_letters = sum(len(entry.letters) for entry in letters)
                counts = (parsed.ignored, typed.duplicates)
                registered = registered_answer(parsed.registered)
                return IngestResult(receipts, *counts, dead_letters=dead_letters, registered=registered)

    async def _submit(self, parsed: ParsedRequest, typed: TypedRequest, letters: list[TableLetters]) -> list[Receipt]:
        if not typed.batches and not letters and self.identity is None:
            return []
        registered = registered_answer(parsed.registered)
        counts = (parsed.ignored, typed.duplicates)
        content = StagingRequest(typed.batches, self.identity, *counts, letters, self.replay, registered, self.load)
        try:
            return await self.stage(content)
        except RejectedInput as error:
            if not error.problems or error.code is Code.DEAD_LETTERS_FULL:
                raise
            raise parsed.rejection(error.problems) from error

    def _letters(self, parsed: ParsedRequest, typed: TypedRequest) -> list[TableLetters]:
        """Return the dead letters to store. Raises RejectedInput `dead_letters_full` for a message that is too long."""
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
                detail = f"a rejected message is longer than {MAX_LETTER_BYTES} bytes, the limit of a dead letter"
                raise dead_letters_full(entry, detail)
        return letters


_MAX_LOOKUPS: Final = 16
"""Tables of one request that are looked up before the exact path takes it."""


@dataclass
class Ingest:
    """Acceptance of the requests of one API process. Its methods raise RejectedInput or TemporarilyUnavailable."""

    engine: Engine
    group_commit: GroupCommit
    marker_first: InitVar[bool] = False
    """See `TableCache`."""
    backlog: BacklogWatch | None = None
    """Checks whether a table can take more changes; without it, every table can."""
    mask_secret: MaskSecret | None = None
    """The secret of masked values."""
    table_cache: TableCache = field(init=False)
    _columnar_reader: ColumnarReader = field(init=False)
    _bridge: LoopBridge[UnreadBody] | None = field(init=False, default=None)

    def __post_init__(self, marker_first: bool) -> None:
        self.table_cache = TableCache(self.engine.begin, mask_secret=self.mask_secret, marker_first=marker_first)
        self._columnar_reader = ColumnarReader(self.table_cache, self.group_commit, self.check_room)

    def close(self) -> None:
        """Stop the reader thread after the requests that it has. Call it when no more requests arrive."""
        self._columnar_reader.close()

    async def accept(
        self,
        reader: BodyReader,
        principal: Principal,
        identity: RequestIdentity | None = None,
        load_id: LoadId | None = None,
    ) -> IngestResult:
        """Stage the changes of a body, or rows of a load session, and return after COMMIT.

        A request that was accepted before under its `identity` gets its stored result.
        """
        load = None if load_id is None else LoadStep(load_id)
        return await or_stored_result(self._accept(reader, principal, identity, load))

    async def replay(self, reader: BodyReader, principal: Principal, replay: LetterReplay) -> Receipt:
        """Stage the one change of a dead letter and settle the letter, in one transaction."""
        result = await self._exact_path(reader, principal, None, replay).ingest(reader)
        if not result.receipts:
            detail = "the table enforces the source's order and has accepted later changes of this source since"
            raise RejectedInput.at(Code.OUT_OF_ORDER, detail, 0)
        return result.receipts[0]

    async def stage(self, content: StagingRequest) -> list[Receipt]:
        """Stage a typed request, and return its receipts after COMMIT. Raises what `GroupCommit.submit` says."""
        waiter: LoopFuture[list[Receipt]] = LoopFuture(self._running_bridge())
        self.group_commit.stage(WaitingRequest(content, waiter))
        return await waiter.result()

    def check_room(self, table: Table) -> None:
        """Raise TemporarilyUnavailable `backlog_full` if the table can take no more changes now."""
        if self.backlog is not None:
            self.backlog.check(table)

    async def check_not_staged(self, identity: RequestIdentity | None) -> None:
        """Raise AlreadyStaged if the request was accepted before, so that a repeat is not read on the exact path.

        Raises RejectedInput where its `identity` belongs to another request.
        """
        if identity is None:
            return
        stored = await asyncio.to_thread(self._stored_receipt, identity)
        answer = replayed(identity, stored)
        if answer is not None:
            raise AlreadyStaged(answer)

    async def _accept(
        self, reader: BodyReader, principal: Principal, identity: RequestIdentity | None, load: LoadStep | None
    ) -> IngestResult:
        try:
            result = await self._take_columnar_path(reader, principal, identity, load)
        except Declined as declined:
            await self.check_not_staged(identity)
            count_exact_path(reader.source_format, declined.reason)
            has_moved = declined.reason is Decline.TABLE_MOVED
            return await self._exact_path(reader, principal, identity, load=load).ingest(reader, has_moved=has_moved)
        except TemporarilyUnavailable as error:
            if error.code is Code.BACKLOG_FULL:
                await self.check_not_staged(identity)  # a repeated request needs no room
            raise
        count_columnar_path(reader.source_format)
        return result

    async def _take_columnar_path(
        self, reader: BodyReader, principal: Principal, identity: RequestIdentity | None, load: LoadStep | None
    ) -> IngestResult:
        """Read and stage a request together with those that wait. Raises Declined."""
        if not reader.is_columnar:
            raise Declined(Decline.NO_COLUMNAR_READER)
        request, bridge = Asked(reader, principal), self._running_bridge()
        for _ in range(_MAX_LOOKUPS):
            body = UnreadBody(self._columnar_reader, request, LoopFuture(bridge), identity, load)
            bridge.send(body)
            try:
                return IngestResult(await body.waiter.result(), body.ignored)
            except NotCached as unknown:  # the reader thread never waits for a query
                if await asyncio.to_thread(unknown.look_up) is None:
                    break
            except TableMoved:
                raise Declined(Decline.TABLE_MOVED) from None
            except RejectedInput:
                raise Declined(Decline.REJECTED) from None
        raise Declined(Decline.TABLE)

    def _exact_path(
        self,
        reader: BodyReader,
        principal: Principal,
        identity: RequestIdentity | None,
        replay: LetterReplay | None = None,
        load: LoadStep | None = None,
    ) -> ExactPath:
        in_load = load is not None
        typer = RequestTyper(
            self.table_cache, principal, self.check_room, in_load, replay is not None, reader.limits.reserve
        )
        return ExactPath(typer, self.stage, identity, replay, load)

    def _running_bridge(self) -> LoopBridge[UnreadBody]:
        loop = asyncio.get_running_loop()
        bridge = self._bridge
        if bridge is None or bridge.loop is not loop:
            bridge = self._bridge = LoopBridge(loop, self._columnar_reader.submit)
            self.group_commit.gather = bridge.pass_turns
        return bridge

    def _stored_receipt(self, identity: RequestIdentity) -> StoredReceipt | None:
        with translated_errors(), self.engine.begin() as connection:
            return read_receipts(connection, [identity]).get(identity.receipt_id)
