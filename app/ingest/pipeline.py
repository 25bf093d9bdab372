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
from app.domain.model.dead_letter import MOST_BYTES, NewLetter
from app.domain.model.request_identity import RequestIdentity, StoredReceipt, replayed
from app.domain.model.table import Table
from app.errors import Code, Problem, RejectedInput, TemporarilyUnavailable
from app.ingest.backlog import BacklogWatch
from app.ingest.columnar_reader import PlainReader
from app.ingest.columnar_requests import PlainRequest, untyped_request
from app.ingest.decoded import Decoded
from app.ingest.loop_bridge import Waiter, Wakeups
from app.ingest.readers import Decode
from app.ingest.request_typing import TypedRequest, Typist
from app.ingest.table_cache import NotRemembered, TableDirectory
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
class Accepted:
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
    directory: TableDirectory = field(init=False)
    _plain_reader: PlainReader = field(init=False)
    _wakeups: Wakeups | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.directory = TableDirectory(self.engine.begin)
        self._plain_reader = PlainReader(self.directory)

    async def accept(self, decode: Decode, principal: Principal, identity: RequestIdentity | None = None) -> Accepted:
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
            counts = (answer["ignored"], answer["duplicates"])
            return Accepted(receipts, *counts, replayed=True, dead_letters=answer.get("dead_letters", 0))

    async def replay(self, decode: Decode, principal: Principal, replay: LetterReplay) -> Receipt:
        """Stage the one change of a dead letter and settle the letter, in one transaction."""
        decoded = await self._decoded(decode, principal)
        accepted = await self._staged_typed(decoded, principal, None, replay)
        if not accepted.receipts:
            detail = "the table has accepted later changes of this source by now, and enforces their order"
            raise RejectedInput.of((Problem(Code.OUT_OF_ORDER, detail, 0),))
        return accepted.receipts[0]

    async def result_of(self, staged: "Future[list[Receipt]]") -> list[Receipt]:
        """The receipts of a request that was submitted to the group commit."""
        return await self._running_wakeups().result_of(staged)

    def _running_wakeups(self) -> Wakeups:
        loop = asyncio.get_running_loop()
        if self._wakeups is None or self._wakeups.loop is not loop:
            self._wakeups = Wakeups(loop)
        return self._wakeups

    async def _accept(self, decode: Decode, principal: Principal, identity: RequestIdentity | None) -> Accepted:
        if decode.is_small:
            decoded = decode.read(self.directory, principal, self.marker_first)
            plain = await self._staged_together(decoded, principal, identity)
            if plain is None:
                await self.look_for(identity)
        else:
            await self.look_for(identity)
            plain = decode.plain and await self._staged_plain(decode.plain(principal), identity)
            if plain is None:
                decoded = await self._decoded(decode, principal)
        return plain or await self._staged_typed(decoded, principal, identity)

    async def _decoded(self, decode: Decode, principal: Principal) -> Decoded:
        return await asyncio.to_thread(decode.read, self.directory, principal, self.marker_first)

    async def _staged_together(
        self, decoded: Decoded, principal: Principal, identity: RequestIdentity | None
    ) -> Accepted | None:
        """Stage a small request with its neighbours; None where it must be looked at alone."""
        request = untyped_request(decoded, self.directory, principal, identity)
        if request is None:
            return None
        await self.admit(request.table, identity)
        waiter: Waiter[list[Receipt]] = Waiter(self._running_wakeups())
        try:
            self.group_commit.submit_pending(request, waiter)
            receipts = await waiter.result()
        except (FallBack, TableMoved):
            return None
        return Accepted(receipts, decoded.ignored)

    async def _staged_plain(self, request: PlainRequest, identity: RequestIdentity | None) -> Accepted | None:
        """Stage a large request without a look at each change; None where there must be one."""
        batch = await self._read_plain(request)
        if batch is None:
            return None
        await self.admit(batch.table, identity)
        try:
            return Accepted(await self.result_of(self.group_commit.submit([batch], identity)))
        except (TableMoved, RejectedInput):
            return None

    async def _read_plain(self, request: PlainRequest) -> Batch | None:
        """What a body holds if it is plain. Its table is asked for beside the reader, which waits for nothing."""
        for _ in range(_NAMES):
            waiter: Waiter[Batch | None] = Waiter(self._running_wakeups())
            self._plain_reader.submit(request, waiter)
            try:
                return await waiter.result()
            except NotRemembered as unknown:
                if await asyncio.to_thread(self.directory.route, unknown.source) is None:
                    break
        return None

    async def _staged_typed(
        self,
        decoded: Decoded,
        principal: Principal,
        identity: RequestIdentity | None,
        replay: LetterReplay | None = None,
    ) -> Accepted:
        typist = Typist(self.directory, principal, self.marker_first)
        if self.backlog is not None:
            typist.admit = self.backlog.check
        staging = _Staging(typist, self, identity, replay)
        for _ in range(_ATTEMPTS):
            try:
                return await staging.stage(decoded)
            except TableMoved:
                staging.typist.forget(decoded)
        raise TemporarilyUnavailable(Code.TABLE_BUSY, "the tables of this request keep changing")

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


@dataclass(frozen=True, slots=True)
class _Staging:
    """Typing and staging one request."""

    typist: Typist
    ingest: Ingest
    identity: RequestIdentity | None
    replay: LetterReplay | None

    async def stage(self, decoded: Decoded) -> Accepted:
        """Without the messages that are rejected, where those are kept: each round leaves out at least one more.

        Raises RejectedInput, TableMoved or AlreadyStaged.
        """
        while True:
            try:
                typed: TypedRequest = await asyncio.to_thread(self.typist.type_request, decoded)
                letters = await asyncio.to_thread(self._letters, decoded, typed)
                receipts = await self._staged(decoded, typed, letters)
            except RejectedInput as error:
                decoded = await asyncio.to_thread(decoded.setting_aside, error)
            else:
                DUPLICATE_CHANGES.inc(typed.duplicates)
                dead_letters = sum(len(entry.letters) for entry in letters)
                return Accepted(receipts, decoded.ignored, typed.duplicates, dead_letters=dead_letters)

    async def _staged(self, decoded: Decoded, typed: TypedRequest, letters: list[TableLetters]) -> list[Receipt]:
        if not typed.batches and not letters and self.identity is None:
            return []
        submitted = self.ingest.group_commit.submit(
            typed.batches,
            self.identity,
            ignored=decoded.ignored,
            duplicates=typed.duplicates,
            letters=letters,
            replay=self.replay,
        )
        try:
            return await self.ingest.result_of(submitted)
        except RejectedInput as error:
            if not error.problems or error.code is Code.DEAD_LETTERS_FULL:
                raise
            raise decoded.rejection(error.problems) from error

    def _letters(self, decoded: Decoded, typed: TypedRequest) -> list[TableLetters]:
        """The rejected messages as they stand in the body. Raises RejectedInput `dead_letters_full` for a long one."""
        if decoded.written is None or not typed.rejected:
            return []
        written = decoded.written([entry.index for _, rejected in typed.rejected for entry in rejected])
        key_id = self.typist.principal.key_id
        letters = [
            TableLetters(table, [NewLetter(entry, written[entry.index]) for entry in rejected], key_id)
            for table, rejected in typed.rejected
        ]
        for entry in letters:
            if any(len(letter.written.content) > MOST_BYTES for letter in entry.letters):
                raise dead_letters_full(
                    entry, f"a rejected message is longer than the {MOST_BYTES} bytes that are kept"
                )
        return letters
