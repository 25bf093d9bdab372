"""The receipts of one transaction's requests: those that are stored, and those that it will store."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa

from app.domain.model.request_identity import Answer, RequestIdentity, StoredReceipt, check_producer_sequence, replayed
from app.staging.batches.batch import AlreadyStaged, StagingRequest
from app.staging.batches.idempotency import ProducerId, ReceiptId, lock_producers, lock_receipts, store_receipts


@dataclass
class ReceiptBook:
    """`lock_producers` before the tables are locked, `lock_keys` after; then twins are settled one by one."""

    identities: Sequence[RequestIdentity]
    _producers: dict[ProducerId, int] = field(default_factory=dict)
    _stored: dict[ReceiptId, StoredReceipt] = field(default_factory=dict)
    _new: dict[ReceiptId, StoredReceipt] = field(default_factory=dict)
    _advanced: dict[ProducerId, int] = field(default_factory=dict)

    @classmethod
    def of(cls, requests: Sequence[StagingRequest]) -> "ReceiptBook":
        return cls([request.identity for request in requests if request.identity is not None])

    def lock_producers(self, connection: sa.Connection) -> None:
        producers = {identity.producer_id for identity in self.identities if identity.producer_id is not None}
        self._producers = lock_producers(connection, producers)

    def lock_keys(self, connection: sa.Connection) -> None:
        self._stored = lock_receipts(connection, self.identities)

    def check(self, identity: RequestIdentity) -> None:
        """Raises AlreadyStaged for a repeated request, RejectedInput for another one under the same name."""
        known = self._new.get(identity.receipt_id) or self._stored.get(identity.receipt_id)
        answer = replayed(identity, known)
        if answer is not None:
            raise AlreadyStaged(answer)
        if identity.producer_id is not None:
            check_producer_sequence(identity, self._producers[identity.producer_id])

    def add(self, identity: RequestIdentity, answer: Answer) -> None:
        """Keep the answer to a request that is staged in this transaction."""
        self._new[identity.receipt_id] = StoredReceipt(identity.fingerprint, answer)
        if identity.producer_id is not None:
            self._producers[identity.producer_id] = identity.producer_sequence
            self._advanced[identity.producer_id] = identity.producer_sequence

    def store(self, connection: sa.Connection) -> None:
        store_receipts(connection, self._new, self._advanced)
