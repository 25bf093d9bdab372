"""Dead letters in Postgres: rejected messages, kept until an operator settles them by a replay or by discarding them.

A dead letter is stored in the transaction of its request, and settled as replayed in the transaction that stages its
message, under the sequence locks of the tables. So the limits on waiting letters hold, and a crash leaves neither a
lost dead letter nor one that is replayed twice.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeAlias

import sqlalchemy as sa

from app.domain.model.dead_letter import (
    MAX_WAITING_BYTES,
    MAX_WAITING_LETTERS,
    LetterFormat,
    LetterState,
    NewLetter,
    WrittenMessage,
    errors_of,
)
from app.domain.model.names import TableName
from app.domain.model.request_identity import RequestIdentity
from app.domain.model.table import BatchSequence, Generation, Table, TableId
from app.staging.batches.batch import LetterReplay, Receipt, StagingRequest, TableLetters
from app.staging.connection.page_turn import Turn, read_turn
from mirrorgate.errors import Code, Problem, RejectedInput

INSERT_LETTER = sa.text("""
    INSERT INTO mirrorgate.dead_letters (table_id, generation, format, reading, message, errors, message_index,
        principal, request_name, producer_sequence)
    VALUES (:table_id, :generation, :format, CAST(:reading AS jsonb), :message, CAST(:errors AS jsonb), :message_index,
        :principal, :request_name, :producer_sequence)""")
"""Store a dead letter."""

SELECT_WAITING = sa.text("""
    SELECT table_id, count(*) AS letters, sum(octet_length(message))::bigint AS bytes FROM mirrorgate.dead_letters
    WHERE table_id = ANY(:table_ids) AND state = 'waiting' GROUP BY table_id""")
"""Count the waiting dead letters of some tables, and the bytes of their messages."""

LOCK_LETTERS = sa.text("""
    SELECT letter_id, table_id, generation, state FROM mirrorgate.dead_letters
    WHERE letter_id = ANY(:letter_ids) ORDER BY letter_id FOR UPDATE""")
"""Lock dead letters, and read what a replay depends on."""

MARK_REPLAYED = sa.text("""
    UPDATE mirrorgate.dead_letters
    SET state = 'replayed', settled_at = clock_timestamp(), settled_by = :principal, corrected = :corrected,
        replayed_sequence = :sequence
    WHERE letter_id = :letter_id""")
"""Settle a dead letter as replayed by a batch."""

DISCARD = sa.text("""
    UPDATE mirrorgate.dead_letters d
    SET state = 'discarded', settled_at = clock_timestamp(), settled_by = :principal
    FROM (
        SELECT letter_id FROM mirrorgate.dead_letters
        WHERE table_id = :table_id AND state = 'waiting' AND generation = :generation
          AND letter_id BETWEEN :first AND :last
        ORDER BY letter_id FOR UPDATE) waiting
    WHERE d.letter_id = waiting.letter_id""")
"""Discard the waiting dead letters of a generation in a range of ids."""

RENEW_ERRORS = sa.text("""
    UPDATE mirrorgate.dead_letters SET errors = CAST(:errors AS jsonb)
    WHERE letter_id = :letter_id AND state = 'waiting'""")
"""Replace the errors of a waiting dead letter."""

_SELECT_LETTERS = """
    SELECT d.letter_id, d.table_id, d.generation, d.format, d.message_index, octet_length(d.message) AS message_bytes,
        d.errors, d.principal, d.request_name, d.producer_sequence, d.received_at, d.state, d.settled_at, d.settled_by,
        d.corrected, d.replayed_sequence
    FROM mirrorgate.dead_letters d"""
"""Read dead letters without their messages; the beginning of two statements."""

_OF_NAME = "d.table_id IN (SELECT table_id FROM mirrorgate.tables WHERE folded_name = :folded_name)"
"""Select the dead letters of every table that has or had a name; a condition of two statements."""

SELECT_LETTERS = sa.text(f"""{_SELECT_LETTERS}
    WHERE {_OF_NAME} AND d.letter_id > :after AND (CAST(:state AS text) IS NULL OR d.state = :state)
    ORDER BY d.letter_id LIMIT :limit""")
"""Read a page of the dead letters of a table name."""

SELECT_LETTER = sa.text(f"{_SELECT_LETTERS} WHERE {_OF_NAME} AND d.letter_id = :letter_id")
"""Read one dead letter of a table name."""

_MATCHES = """
    WHERE d.table_id = ANY(:table_ids) AND (CAST(:state AS text) IS NULL OR d.state = :state)
      AND (CAST(:with_error AS jsonb) IS NULL OR d.errors @> CAST(:with_error AS jsonb))"""
"""Select the dead letters of some tables that match a filter; a condition of two statements."""

SELECT_OLDER = sa.text(f"{_SELECT_LETTERS} {_MATCHES} AND d.letter_id < :before ORDER BY d.letter_id DESC LIMIT :limit")
"""Read matching dead letters before a dead letter, newest first."""

SELECT_NEWER = sa.text(f"{_SELECT_LETTERS} {_MATCHES} AND d.letter_id > :after ORDER BY d.letter_id LIMIT :limit")
"""Read matching dead letters after a dead letter, oldest first."""

SELECT_ANY = sa.text(f"{_SELECT_LETTERS} WHERE d.letter_id = ANY(:letter_ids) ORDER BY d.letter_id")
"""Read dead letters of any table."""

SELECT_MESSAGE = sa.text("SELECT format, message, reading FROM mirrorgate.dead_letters WHERE letter_id = :letter_id")
"""Read the message of a dead letter, and how to decode it."""

SELECT_NEXT = sa.text("""
    SELECT letter_id FROM mirrorgate.dead_letters
    WHERE table_id = :table_id AND generation = :generation AND state = 'waiting' AND letter_id > :after
    ORDER BY letter_id LIMIT :limit""")
"""Read the ids of the next waiting dead letters of a generation."""

DISCARD_ENDED = sa.text("""
    UPDATE mirrorgate.dead_letters d
    SET state = 'discarded', settled_at = clock_timestamp(), settled_by = 'retention'
    FROM mirrorgate.tables t
    WHERE t.table_id = d.table_id AND d.state = 'waiting' AND (t.state = 'dropped' OR d.generation < t.generation)""")
"""Discard the waiting dead letters of all generations that have ended: no replay can stage them any more."""

PURGE_LETTERS = sa.text("""
    DELETE FROM mirrorgate.dead_letters WHERE letter_id = ANY(ARRAY(
        SELECT letter_id FROM mirrorgate.dead_letters
        WHERE state <> 'waiting' AND settled_at < clock_timestamp() - make_interval(secs => :seconds)
        ORDER BY settled_at LIMIT :limit))""")
"""Delete the dead letters that were settled first and are past their retention."""


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """The dead letters to list: of these tables, in this state, with this code among their errors; None matches any."""

    table_ids: Sequence[TableId]
    state: LetterState | None = None
    code: str | None = None


@dataclass(frozen=True, slots=True)
class StoredLetter:
    """A dead letter without its message."""

    letter_id: int
    table_id: TableId
    generation: Generation
    format: LetterFormat
    message_index: int
    message_bytes: int
    errors: Sequence[Mapping[str, Any]]
    principal: str
    request_name: str | None
    producer_sequence: int | None
    received_at: datetime
    state: LetterState
    settled_at: datetime | None
    settled_by: str | None
    corrected: bool
    replayed_sequence: BatchSequence | None


def insert_letters(connection: sa.Connection, entries: Sequence[tuple[TableLetters, RequestIdentity | None]]) -> None:
    """Store dead letters with the names of the requests that left them; dying before COMMIT leaves none."""
    rows = [_row(entry, letter, identity) for entry, identity in entries for letter in entry.letters]
    if rows:
        connection.execute(INSERT_LETTER, rows)


Replayed: TypeAlias = tuple[LetterReplay, BatchSequence, Table]
"""A dead letter that is settled, with the batch and the table of its message."""


def mark_replayed(connection: sa.Connection, settled: Sequence[Replayed]) -> None:
    """Settle locked dead letters as replayed, each by its batch; dying before COMMIT leaves them waiting."""
    rows = [
        {"letter_id": one.letter_id, "principal": one.principal, "corrected": one.corrected, "sequence": sequence}
        for one, sequence, _ in settled
    ]
    if rows:
        connection.execute(MARK_REPLAYED, rows)


def discard_letters(
    connection: sa.Connection, table_id: TableId, generation: Generation, *, first: int, last: int, principal: str
) -> int:
    """Discard the waiting dead letters of a generation with ids from `first` to `last`; return how many."""
    parameters = {"table_id": table_id, "generation": generation, "first": first, "last": last}
    return connection.execute(DISCARD, parameters | {"principal": principal}).rowcount


def renew_errors(connection: sa.Connection, letter_id: int, problems: Sequence[Problem]) -> None:
    """Record why a waiting dead letter was rejected again."""
    connection.execute(RENEW_ERRORS, {"letter_id": letter_id, "errors": json.dumps(errors_of(problems))})


def list_letters(
    connection: sa.Connection, name: TableName, *, state: LetterState | None, after: int, limit: int
) -> list[StoredLetter]:
    """Return up to `limit` letters after letter `after` of every table that has or had this name, in order."""
    parameters = {"folded_name": name.folded, "state": state, "after": after, "limit": limit}
    return [_letter(row) for row in connection.execute(SELECT_LETTERS, parameters)]


def newest_letters(connection: sa.Connection, wanted: LetterFilter, turn: Turn, limit: int) -> list[StoredLetter]:
    """Return up to `limit` matching dead letters of a page, newest first."""
    with_error = None if wanted.code is None else json.dumps([{"code": wanted.code}])
    parameters = {"table_ids": list(wanted.table_ids), "state": wanted.state, "with_error": with_error, "limit": limit}
    return [_letter(row) for row in read_turn(connection, SELECT_OLDER, SELECT_NEWER, turn, parameters)]


def find_letters(connection: sa.Connection, letter_ids: Collection[int]) -> list[StoredLetter]:
    """Return the dead letters with these ids, of any table, in order; missing ones are left out."""
    rows = connection.execute(SELECT_ANY, {"letter_ids": list(letter_ids)})
    return [_letter(row) for row in rows]


def find_letter(connection: sa.Connection, name: TableName, letter_id: int) -> StoredLetter | None:
    """Return a dead letter of a table that has or had this name."""
    row = connection.execute(SELECT_LETTER, {"folded_name": name.folded, "letter_id": letter_id}).one_or_none()
    return None if row is None else _letter(row)


def read_message(connection: sa.Connection, letter_id: int) -> WrittenMessage:
    """Return the message of an existing dead letter."""
    row = connection.execute(SELECT_MESSAGE, {"letter_id": letter_id}).one()
    return WrittenMessage(LetterFormat(row.format), bytes(row.message), row.reading)


def next_waiting(
    connection: sa.Connection, table_id: TableId, generation: Generation, *, after: int, limit: int
) -> list[int]:
    """Return the ids of the next waiting dead letters of a generation after dead letter `after`, in order."""
    parameters = {"table_id": table_id, "generation": generation, "after": after, "limit": limit}
    return list(connection.execute(SELECT_NEXT, parameters).scalars())


def _row(entry: TableLetters, letter: NewLetter, identity: RequestIdentity | None) -> dict[str, object]:
    return {
        "table_id": entry.table.table_id,
        "generation": entry.table.generation,
        "format": letter.written.format,
        "reading": json.dumps(letter.written.reading),
        "message": letter.written.content,
        "errors": json.dumps(errors_of(letter.rejected.problems)),
        "message_index": letter.rejected.index,
        "principal": entry.principal,
        "request_name": identity.name if identity else None,
        "producer_sequence": (identity.producer_sequence or None) if identity else None,
    }


def _letter(row: sa.Row[Any]) -> StoredLetter:
    return StoredLetter(**{**row._mapping, "format": LetterFormat(row.format), "state": LetterState(row.state)})


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
    _locked: dict[int, sa.Row[Any]] = field(default_factory=dict)
    """The table, generation and state of the dead letters that requests replay, without those that are settled here."""
    _new: list[tuple[TableLetters, RequestIdentity | None]] = field(default_factory=list)
    replayed: list[Replayed] = field(default_factory=list)

    def lock(self, connection: sa.Connection) -> None:
        """Read, under the tables' locks, what the requests depend on, and lock the dead letters that they replay."""
        if tables := {entry.table.table_id for request in self.requests for entry in request.letters}:
            rows = connection.execute(SELECT_WAITING, {"table_ids": list(tables)})
            self._waiting = {TableId(row.table_id): (row.letters, row.bytes) for row in rows}
        if letter_ids := {request.replay.letter_id for request in self.requests if request.replay}:
            rows = connection.execute(LOCK_LETTERS, {"letter_ids": sorted(letter_ids)})
            self._locked |= {row.letter_id: row for row in rows}

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
            self.replayed.append((request.replay, receipt.sequence, request.batches[0].table))
            del self._locked[request.replay.letter_id]

    def store(self, connection: sa.Connection) -> None:
        """Write the new dead letters and settle the replayed ones; dying before COMMIT leaves everything as it was."""
        insert_letters(connection, self._new)
        mark_replayed(connection, self.replayed)

    def _with(self, entry: TableLetters) -> tuple[int, int]:
        letters, size = self._waiting.get(entry.table.table_id, (0, 0))
        return letters + len(entry.letters), size + sum(len(letter.written.content) for letter in entry.letters)

    def _check_replay(self, request: StagingRequest, replay: LetterReplay) -> None:
        """Require that the dead letter still waits, and that the batch is of its table and generation."""
        letter = self._locked.get(replay.letter_id)
        if letter is None or letter.state != LetterState.WAITING:
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
