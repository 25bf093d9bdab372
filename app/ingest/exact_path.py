"""The exact path: types and stages one request change by change, and tells what is wrong with each message.

It handles every request. Where its tables keep dead letters, rejected messages are set aside and the others are
staged. It reports all problems of a request together.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from app.domain.loads.load_session import LoadStep
from app.domain.model.dead_letter import MAX_LETTER_BYTES, NewLetter
from app.domain.model.request_identity import RequestIdentity
from app.errors import Code, RejectedInput
from app.ingest.ingest_result import IngestResult
from app.ingest.moved_tables import retry_moved
from app.ingest.parsed_request import ParsedRequest, registered_answer
from app.ingest.readers import BodyReader
from app.ingest.request_typing import RequestTyper, TypedRequest
from app.observability.api_metrics import DUPLICATE_CHANGES
from app.staging.batches.batch import MarkerNeeded, Receipt, StagingRequest, TableMoved
from app.staging.batches.dead_letter_transaction import dead_letters_full
from app.staging.batches.dead_letters import LetterReplay, TableLetters

Stage: TypeAlias = Callable[[StagingRequest], Awaitable[list[Receipt]]]
"""Stages a request, and returns its receipts after COMMIT."""


@dataclass(frozen=True, slots=True)
class ExactPath:
    """Types and stages one request. With a `replay`, it settles that dead letter in the same transaction."""

    typer: RequestTyper
    stage: Stage
    identity: RequestIdentity | None
    replay: LetterReplay | None = None
    load: LoadStep | None = None

    async def ingest(self, reader: BodyReader, *, has_moved: bool = False) -> IngestResult:
        """Read a body, stage it and return after COMMIT. With `has_moved`, its tables are looked up again first.

        Raises RejectedInput, TemporarilyUnavailable or AlreadyStaged.
        """
        typer = self.typer
        parsed = await asyncio.to_thread(reader.exact, typer.table_cache, typer.principal)
        if has_moved:
            typer.forget(parsed)

        async def attempt() -> IngestResult:
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
