"""Idempotency: receipts by idempotency key or producer number, stored in the transaction of their batches.

A repeated request gets the stored answer and stages nothing. The transaction also stores the producer's position
(decision 0045). Rows of producers are locked before the tables of a
request, keys after them, each in sorted order, so that transactions never deadlock.
"""

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import sqlalchemy as sa

from app.domain.model.request_identity import (
    RequestIdentity,
    StoredAnswer,
    StoredReceipt,
    check_producer_sequence,
    replayed,
)
from app.staging.batches.batch import AlreadyStaged, StagingRequest

ReceiptId: TypeAlias = tuple[str, str, int]
"""Principal, name (a key or a producer), and producer number (0 for a key)."""

ProducerId: TypeAlias = tuple[str, str]
"""Principal and name of the producer."""

ProducerAdvance: TypeAlias = tuple[int, str | None]
"""The last number of a producer, and the last position that was given; None leaves the stored one unchanged."""


@dataclass(frozen=True, slots=True)
class ProducerProgress:
    """The last durable number and position of a producer, and the answer to the number while its receipt is kept."""

    sequence: int
    position: str | None
    answer: StoredAnswer | None


INSERT_PRODUCERS = sa.text("""
    INSERT INTO mirrorgate.producers (principal, producer)
    SELECT principal, producer FROM unnest(CAST(:principals AS text[]), CAST(:producers AS text[]))
        AS new (principal, producer)
    ON CONFLICT DO NOTHING""")
"""Create the rows of new producers."""

LOCK_PRODUCERS = sa.text("""
    SELECT p.principal, p.producer, p.last_sequence FROM mirrorgate.producers p
    JOIN unnest(CAST(:principals AS text[]), CAST(:producers AS text[])) AS wanted (principal, producer)
        USING (principal, producer)
    ORDER BY p.principal, p.producer FOR UPDATE OF p""")
"""Lock producers, and read their last durable numbers."""

ADVANCE_PRODUCER = sa.text("""
    UPDATE mirrorgate.producers
    SET last_sequence = :last_sequence, position = coalesce(CAST(:position AS text), position)
    WHERE principal = :principal AND producer = :producer""")
"""Record a producer's last durable number, and its position if one was given."""

LOCK_KEYS = sa.text("SELECT pg_advisory_xact_lock(key) FROM unnest(CAST(:keys AS bigint[])) AS key")
"""Lock idempotency keys, which have no row yet, until the transaction ends."""

SELECT_RECEIPTS = sa.text("""
    SELECT r.principal, r.name, r.producer_sequence, r.fingerprint, r.answer FROM mirrorgate.request_receipts r
    JOIN unnest(CAST(:principals AS text[]), CAST(:names AS text[]), CAST(:sequences AS bigint[]))
        AS wanted (principal, name, producer_sequence) USING (principal, name, producer_sequence)""")
"""Read the stored receipts among some."""

INSERT_RECEIPT = sa.text("""
    INSERT INTO mirrorgate.request_receipts (principal, name, producer_sequence, fingerprint, answer)
    VALUES (:principal, :name, :producer_sequence, :fingerprint, CAST(:answer AS jsonb))""")
"""Store a receipt."""

SELECT_PRODUCER = sa.text("""
    SELECT p.last_sequence, p.position, r.answer FROM mirrorgate.producers p
    LEFT JOIN mirrorgate.request_receipts r
      ON r.principal = p.principal AND r.name = p.producer AND r.producer_sequence = p.last_sequence
    WHERE p.principal = :principal AND p.producer = :producer AND p.last_sequence > 0""")
"""Read a producer's last durable number and position, and the answer to the number while its receipt is kept."""

PURGE_RECEIPTS = sa.text("""
    DELETE FROM mirrorgate.request_receipts WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM mirrorgate.request_receipts
        WHERE created_at < clock_timestamp() - make_interval(secs => :seconds)
        ORDER BY created_at LIMIT :limit))""")
"""Delete the oldest receipts that are past their retention."""


def read_receipts(connection: sa.Connection, identities: Collection[RequestIdentity]) -> dict[ReceiptId, StoredReceipt]:
    """Return the stored receipts of these requests."""
    ids = [identity.receipt_id for identity in identities]
    parameters = {
        "principals": [principal for principal, _, _ in ids],
        "names": [name for _, name, _ in ids],
        "sequences": [sequence for _, _, sequence in ids],
    }
    return {
        (row.principal, row.name, row.producer_sequence): StoredReceipt(bytes(row.fingerprint), row.answer)
        for row in connection.execute(SELECT_RECEIPTS, parameters)
    }


def find_producer(connection: sa.Connection, principal: str, producer: str) -> ProducerProgress | None:
    """Return how far a producer is, or None if it has no durable request."""
    row = connection.execute(SELECT_PRODUCER, {"principal": principal, "producer": producer}).one_or_none()
    return None if row is None else ProducerProgress(row.last_sequence, row.position, row.answer)


@dataclass
class IdempotencyTransaction:
    """The receipts of one staging transaction: those that are stored, and those that it adds.

    Call `lock_producers` before the tables are locked and `lock_keys` after that; then `check` and `add` each request,
    and `store` at the end.
    """

    identities: Sequence[RequestIdentity]
    _producers: dict[ProducerId, int] = field(default_factory=dict)
    _stored: dict[ReceiptId, StoredReceipt] = field(default_factory=dict)
    _new: dict[ReceiptId, StoredReceipt] = field(default_factory=dict)
    _advanced: dict[ProducerId, ProducerAdvance] = field(default_factory=dict)
    """The producers that this transaction moves."""

    @classmethod
    def of(cls, requests: Sequence[StagingRequest]) -> "IdempotencyTransaction":
        """Collect the identities of these requests."""
        return cls([request.identity for request in requests if request.identity is not None])

    def lock_producers(self, connection: sa.Connection) -> None:
        """Lock the producers of all requests."""
        producers = sorted({identity.producer_id for identity in self.identities if identity.producer_id is not None})
        if producers:
            parameters = {"principals": [one for one, _ in producers], "producers": [name for _, name in producers]}
            connection.execute(INSERT_PRODUCERS, parameters)
            rows = connection.execute(LOCK_PRODUCERS, parameters)
            self._producers = {(principal, producer): last for principal, producer, last in rows}

    def lock_keys(self, connection: sa.Connection) -> None:
        """Lock all requests against duplicates in other processes, then read their stored receipts.

        The read is a separate statement, because one that also waits would not see what the duplicate has stored.
        """
        if self.identities:
            keys = sorted({_lock_key(identity) for identity in self.identities})
            connection.execute(LOCK_KEYS, {"keys": keys})
            self._stored = read_receipts(connection, self.identities)

    def check(self, identity: RequestIdentity) -> None:
        """Raise AlreadyStaged for a repeated request, and RejectedInput for a different one under the same name."""
        known = self._new.get(identity.receipt_id) or self._stored.get(identity.receipt_id)
        answer = replayed(identity, known)
        if answer is not None:
            raise AlreadyStaged(answer)
        if identity.producer_id is not None:
            check_producer_sequence(identity, self._producers[identity.producer_id])

    def add(self, identity: RequestIdentity, answer: StoredAnswer) -> None:
        """Keep the answer of a request that this transaction stages."""
        self._new[identity.receipt_id] = StoredReceipt(identity.fingerprint, answer)
        if identity.producer_id is not None:
            self._producers[identity.producer_id] = identity.producer_sequence
            _, position = self._advanced.get(identity.producer_id, (0, None))
            position = position if identity.position is None else identity.position
            self._advanced[identity.producer_id] = identity.producer_sequence, position

    def store(self, connection: sa.Connection) -> None:
        """Write the new receipts, and the producers' last numbers and positions; dying before COMMIT leaves none."""
        if self._new:
            connection.execute(INSERT_RECEIPT, [_row(*entry) for entry in self._new.items()])
        for (principal, producer), (last, position) in self._advanced.items():
            moved = {"principal": principal, "producer": producer, "last_sequence": last, "position": position}
            connection.execute(ADVANCE_PRODUCER, moved)


def _lock_key(identity: RequestIdentity) -> int:
    """Return a number for the advisory lock; two requests that share one only wait for each other."""
    digest = hashlib.sha256("\n".join(map(str, identity.receipt_id)).encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def _row(receipt_id: ReceiptId, stored: StoredReceipt) -> dict[str, object]:
    principal, name, sequence = receipt_id
    return {
        "principal": principal,
        "name": name,
        "producer_sequence": sequence,
        "fingerprint": stored.fingerprint,
        "answer": json.dumps(stored.answer),
    }
