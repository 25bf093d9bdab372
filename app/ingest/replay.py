"""Replays of dead letters: a kept message goes through ingestion again, read as its request was.

Invariant: a letter is settled in the transaction that stages its message, so a crash leaves both done or neither. A
dead letter that is rejected again remains waiting, with its present errors.
"""

import asyncio
import time
from dataclasses import dataclass
from typing import Final

from app.domain.access.rights import Principal
from app.domain.model.dead_letter import LetterFormat, WrittenMessage
from app.domain.model.names import TableName, unknown_table
from app.domain.model.table import Table
from app.formats.debezium.values import DebeziumReading
from app.formats.rows.messages import RowsLayout
from app.ingest.parsed_request import ParsedRequest
from app.ingest.pipeline import Ingest
from app.ingest.readers.arcion import ArcionCsv, ArcionJson
from app.ingest.readers.body_reader import BodyReader
from app.ingest.readers.debezium import DebeziumJson
from app.ingest.readers.replicate import read_again
from app.ingest.readers.rows import RowsCsv, RowsJson
from app.ingest.table_cache import TableCache
from app.staging.batches.batch import LetterReplay, Receipt
from app.staging.batches.dead_letters import (
    NO_LONGER_WAITING,
    find_letter,
    next_waiting,
    read_message,
    renew_errors,
    require_waiting,
    unknown_letter,
)
from app.staging.connection.database import translated_errors
from app.staging.tables.registry import find_table
from mirrorgate.errors import Code, RejectedInput
from mirrorgate.parameters import CsvDialect, CsvLayout, CsvMode, RowOperation


@dataclass(frozen=True, slots=True)
class KeptMessage(BodyReader):
    """A kept message of a table, as it was read in its request; the body is that message or a corrected one."""

    written: WrittenMessage
    table: TableName

    def exact(self, table_cache: TableCache, principal: Principal) -> ParsedRequest:
        """Read the message. Raises RejectedInput also if it is not one change."""
        if self.written.format is LetterFormat.REPLICATE:
            parsed = read_again(self.body, self.table, self.written.reading, table_cache, principal)
        else:
            parsed = self._reader().exact(table_cache, principal)
        if sum(len(entry.changes) for entry in parsed.sources) != 1:
            raise RejectedInput(Code.BAD_REQUEST, "a replay must be one change, in the format of the kept message")
        return parsed

    def _reader(self) -> BodyReader:
        body, table, reading = self.body, self.table, self.written.reading
        match self.written.format:
            case LetterFormat.ARCION_CSV:
                layout = CsvLayout(CsvMode(reading["mode"]), tuple(reading["columns"]), False, *reading["signs"])
                return ArcionCsv(body, table, layout)
            case LetterFormat.ROWS:
                return RowsJson(body, table, RowOperation(reading["op"]))
            case LetterFormat.ROWS_CSV:
                dialect, columns = CsvDialect(*reading["signs"]), tuple(reading["columns"])
                return RowsCsv(body, table, RowsLayout(RowOperation(reading["op"]), dialect, columns))
            case LetterFormat.DEBEZIUM:
                return DebeziumJson(body, table, DebeziumReading.from_json(reading))
        snapshot_rows = reading.get("snapshot_rows", False)
        return ArcionJson(body, table, override=reading["override"], snapshot_rows=snapshot_rows)


MAX_REPLAY_SECONDS: Final = 5.0
"""After so long, a request replays no further letter: a caller sees progress and does not run into its own timeout."""


@dataclass(frozen=True, slots=True)
class ReplayedLetters:
    """The outcome of replaying several dead letters in order."""

    replayed: int
    rejected: int
    next_after: int | None
    """The last dead letter that was tried, if more are waiting after it."""


@dataclass(frozen=True, slots=True)
class Replays:
    """Replay of dead letters by one API process. Its methods raise RejectedInput or TemporarilyUnavailable."""

    ingest: Ingest

    async def replay(
        self, name: TableName, letter_id: int, principal: Principal, correction: bytes | None = None
    ) -> Receipt:
        """Accept the message of a waiting dead letter, or the `correction` in its place."""
        written = await asyncio.to_thread(self._waiting, name, letter_id)
        reader = KeptMessage(written.content if correction is None else correction, written, name)
        replay = LetterReplay(letter_id, principal.key_id, corrected=correction is not None)
        try:
            return await self.ingest.replay(reader, principal, replay)
        except RejectedInput as error:
            if correction is None and error.problems:
                await asyncio.to_thread(self._renew_errors, letter_id, error)
            raise

    async def replay_waiting(self, name: TableName, principal: Principal, *, after: int, limit: int) -> ReplayedLetters:
        """Replay the oldest `limit` waiting letters after letter `after`, in order, and fewer after MAX_REPLAY_SECONDS.

        A dead letter that is rejected again remains waiting and does not hold the others back.
        """
        table, letter_ids = await asyncio.to_thread(self._next, name, after, limit + 1)
        replayed = rejected = 0
        give_up = time.monotonic() + MAX_REPLAY_SECONDS
        for place, letter_id in enumerate(letter_ids[:limit]):
            if place and time.monotonic() >= give_up:
                return ReplayedLetters(replayed, rejected, letter_ids[place - 1])
            try:
                await self.replay(table.name, letter_id, principal)
                replayed += 1
            except RejectedInput as error:
                if error.code in NO_LONGER_WAITING:
                    continue  # another caller has settled it since
                if not error.problems:
                    raise
                rejected += 1
        return ReplayedLetters(replayed, rejected, letter_ids[limit - 1] if len(letter_ids) > limit else None)

    def _waiting(self, name: TableName, letter_id: int) -> WrittenMessage:
        """Return the message of a dead letter that waits in the table's present generation."""
        with translated_errors(), self.ingest.engine.begin() as connection:
            letter, table = find_letter(connection, name, letter_id), find_table(connection, name)
            if letter is None:
                raise unknown_letter(letter_id)
            require_waiting(letter, table)
            return read_message(connection, letter_id)

    def _next(self, name: TableName, after: int, limit: int) -> tuple[Table, list[int]]:
        with translated_errors(), self.ingest.engine.begin() as connection:
            table = find_table(connection, name)
            if table is None:
                raise unknown_table(name)
            return table, next_waiting(connection, table.table_id, table.generation, after=after, limit=limit)

    def _renew_errors(self, letter_id: int, error: RejectedInput) -> None:
        with translated_errors(), self.ingest.engine.begin() as connection:
            renew_errors(connection, letter_id, error.problems)
