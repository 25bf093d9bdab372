"""The dead letters of one transaction's requests: those that it stores, and those that it replay."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import sqlalchemy as sa

from app.domain.model.dead_letter import MAX_WAITING_BYTES, MAX_WAITING_LETTERS, LetterState
from app.domain.model.request_identity import RequestIdentity
from app.domain.model.table import BatchSequence, TableId
from app.errors import Code, RejectedInput
from app.staging.batches.batch import Receipt, StagingRequest
from app.staging.batches.dead_letters import (
    LetterReplay,
    LockedLetter,
    TableLetters,
    count_waiting,
    insert_letters,
    lock_letters,
    mark_replayed,
)

NO_LONGER_WAITING: Final = frozenset({Code.UNKNOWN_DEAD_LETTER, Code.DEAD_LETTER_SETTLED})
"""Rejections that say that there is no waiting letter."""


@dataclass
class DeadLetterTransaction:
    """`lock` after the tables are locked; then requests are checked and added one by one."""

    requests: Sequence[StagingRequest]
    _waiting: dict[TableId, tuple[int, int]] = field(default_factory=dict)
    """Letters of a table, and their bytes, with those that this transaction adds."""
    _places: dict[int, LockedLetter] = field(default_factory=dict)
    _new: list[tuple[TableLetters, RequestIdentity | None]] = field(default_factory=list)
    _settled: list[tuple[LetterReplay, BatchSequence]] = field(default_factory=list)

    def lock(self, connection: sa.Connection) -> None:
        """Read, under the tables' locks, what the requests depend on."""
        if tables := {entry.table.table_id for request in self.requests for entry in request.letters}:
            self._waiting = count_waiting(connection, tables)
        if settled := {request.replay.letter_id for request in self.requests if request.replay}:
            self._places = lock_letters(connection, settled)

    def check(self, request: StagingRequest) -> None:
        """Raises RejectedInput `dead_letters_full`, `dead_letter_settled` or `generation_mismatch`."""
        for entry in request.letters:
            letters, size = self._with(entry)
            if letters > MAX_WAITING_LETTERS or size > MAX_WAITING_BYTES:
                raise dead_letters_full(entry, f"of table {entry.table.name} as many dead letters wait as are kept")
        if request.replay is not None:
            self._check_settlement(request, request.replay)

    def add(self, request: StagingRequest, receipts: Sequence[Receipt]) -> None:
        """Store the letters of a request that is staged in this transaction, and settle the one it replay."""
        for entry in request.letters:
            self._waiting[entry.table.table_id] = self._with(entry)
            self._new.append((entry, request.identity))
        if request.replay is not None:
            [receipt] = receipts
            self._settled.append((request.replay, receipt.sequence))
            del self._places[request.replay.letter_id]

    def store(self, connection: sa.Connection) -> None:
        """Dies with the transaction."""
        insert_letters(connection, self._new)
        mark_replayed(connection, self._settled)

    def _with(self, entry: TableLetters) -> tuple[int, int]:
        letters, size = self._waiting.get(entry.table.table_id, (0, 0))
        return letters + len(entry.letters), size + sum(len(letter.written.content) for letter in entry.letters)

    def _check_settlement(self, request: StagingRequest, replay: LetterReplay) -> None:
        """A letter is settled once, by a batch of its own table and generation."""
        place = self._places.get(replay.letter_id)
        if place is None or place.state is not LetterState.WAITING:
            raise settled_letter(replay.letter_id)
        batch = request.batches[0].table
        if (place.table_id, place.generation) != (batch.table_id, batch.generation):
            raise ended_letter(place.generation)


def unknown_letter(letter_id: int) -> RejectedInput:
    """No table of the name has the letter."""
    return RejectedInput(Code.UNKNOWN_DEAD_LETTER, f"the table has no dead letter {letter_id}")


def settled_letter(letter_id: int) -> RejectedInput:
    """The rejection to replay a letter that does not wait."""
    return RejectedInput(Code.DEAD_LETTER_SETTLED, f"dead letter {letter_id} waits no longer")


def dead_letters_full(entry: TableLetters, detail: str) -> RejectedInput:
    """The rejection of a request whose dead letters cannot be kept, with what is wrong with its messages."""
    problems = tuple(problem for letter in entry.letters for problem in letter.rejected.problems)
    return RejectedInput(Code.DEAD_LETTERS_FULL, detail, problems=problems)


def ended_letter(generation: int) -> RejectedInput:
    """The rejection to replay a letter of a generation that is over."""
    detail = f"the dead letter is of generation {generation}, which has ended"
    remedy = "Send the message itself again if the present generation needs it; discard the letter otherwise."
    return RejectedInput(Code.GENERATION_MISMATCH, detail, remedy=remedy)
