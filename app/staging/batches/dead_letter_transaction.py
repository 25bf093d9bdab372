"""The part of a staging transaction that concerns dead letters.

It runs under the sequence locks of the tables, so the limits on waiting letters hold, and a letter is replayed once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import sqlalchemy as sa

from app.domain.model.dead_letter import MAX_WAITING_BYTES, MAX_WAITING_LETTERS, LetterState
from app.domain.model.request_identity import RequestIdentity
from app.domain.model.table import BatchSequence, Table, TableId
from app.staging.batches.batch import Receipt, StagingRequest
from app.staging.batches.dead_letters import (
    LetterReplay,
    LockedLetter,
    StoredLetter,
    TableLetters,
    count_waiting,
    insert_letters,
    lock_letters,
    mark_replayed,
)
from mirrorgate.errors import Code, RejectedInput

NO_LONGER_WAITING: Final = frozenset({Code.UNKNOWN_DEAD_LETTER, Code.DEAD_LETTER_SETTLED})
"""Codes of the rejections that mean: no such dead letter is waiting."""


@dataclass
class DeadLetterTransaction:
    """The dead letters of one staging transaction: those that it stores, and those that it settles by a replay.

    Call `lock` after the tables are locked; then `check` and `add` each request, and `store` at the end.
    """

    requests: Sequence[StagingRequest]
    _waiting: dict[TableId, tuple[int, int]] = field(default_factory=dict)
    """Waiting dead letters per table, and their bytes, including those that this transaction adds."""
    _locked: dict[int, LockedLetter] = field(default_factory=dict)
    """The dead letters that requests replay, without those that this transaction has settled."""
    _new: list[tuple[TableLetters, RequestIdentity | None]] = field(default_factory=list)
    _replayed: list[tuple[LetterReplay, BatchSequence]] = field(default_factory=list)

    def lock(self, connection: sa.Connection) -> None:
        """Read, under the tables' locks, what the requests depend on, and lock the dead letters that they replay."""
        if tables := {entry.table.table_id for request in self.requests for entry in request.letters}:
            self._waiting = count_waiting(connection, tables)
        if letter_ids := {request.replay.letter_id for request in self.requests if request.replay}:
            self._locked = lock_letters(connection, letter_ids)

    def check(self, request: StagingRequest) -> None:
        """Raise RejectedInput `dead_letters_full`, `dead_letter_settled` or `generation_mismatch` if due."""
        for entry in request.letters:
            letters, size = self._with(entry)
            if letters > MAX_WAITING_LETTERS or size > MAX_WAITING_BYTES:
                raise dead_letters_full(entry, f"table {entry.table.name} has as many waiting dead letters as are kept")
        if request.replay is not None:
            self._check_replay(request, request.replay)

    def add(self, request: StagingRequest, receipts: Sequence[Receipt]) -> None:
        """Add the letters of a request that this transaction stages, and the letter that the request replays."""
        for entry in request.letters:
            self._waiting[entry.table.table_id] = self._with(entry)
            self._new.append((entry, request.identity))
        if request.replay is not None:
            [receipt] = receipts
            self._replayed.append((request.replay, receipt.sequence))
            del self._locked[request.replay.letter_id]

    def store(self, connection: sa.Connection) -> None:
        """Write the new dead letters and settle the replayed ones; dying before COMMIT leaves everything as it was."""
        insert_letters(connection, self._new)
        mark_replayed(connection, self._replayed)

    def _with(self, entry: TableLetters) -> tuple[int, int]:
        letters, size = self._waiting.get(entry.table.table_id, (0, 0))
        return letters + len(entry.letters), size + sum(len(letter.written.content) for letter in entry.letters)

    def _check_replay(self, request: StagingRequest, replay: LetterReplay) -> None:
        """Require that the dead letter still waits, and that the batch is of its table and generation."""
        letter = self._locked.get(replay.letter_id)
        if letter is None or letter.state is not LetterState.WAITING:
            raise settled_letter(replay.letter_id)
        table = request.batches[0].table
        if (letter.table_id, letter.generation) != (table.table_id, table.generation):
            raise ended_letter(letter.generation)


def require_waiting(letter: StoredLetter, table: Table | None) -> Table:
    """Return the live table of a letter's name if the dead letter waits in its present generation.

    Raises RejectedInput `generation_mismatch` or `dead_letter_settled`.
    """
    if table is None or (table.table_id, table.generation) != (letter.table_id, letter.generation):
        raise ended_letter(letter.generation)
    if letter.state is not LetterState.WAITING:
        raise settled_letter(letter.letter_id)
    return table


def unknown_letter(letter_id: int) -> RejectedInput:
    """Return the rejection for a dead letter that no table of the name has."""
    return RejectedInput(Code.UNKNOWN_DEAD_LETTER, f"the table has no dead letter {letter_id}")


def settled_letter(letter_id: int) -> RejectedInput:
    """Return the rejection for settling a dead letter that is settled."""
    return RejectedInput(Code.DEAD_LETTER_SETTLED, f"dead letter {letter_id} is already replayed or discarded")


def dead_letters_full(entry: TableLetters, detail: str) -> RejectedInput:
    """Return the rejection of a request whose dead letters cannot be kept, with the problems of its messages."""
    problems = tuple(problem for letter in entry.letters for problem in letter.rejected.problems)
    return RejectedInput(Code.DEAD_LETTERS_FULL, detail, problems=problems)


def ended_letter(generation: int) -> RejectedInput:
    """Return the rejection for settling a dead letter whose generation has ended."""
    detail = f"the dead letter belongs to generation {generation}, which has ended"
    remedy = "If the present generation needs the message, send the message again. The drain discards the dead letter."
    return RejectedInput(Code.GENERATION_MISMATCH, detail, remedy=remedy)
