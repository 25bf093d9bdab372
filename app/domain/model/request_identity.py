"""The identity of a request, which makes repeating it safe: a repeat gets the first answer.

A caller names a request by an idempotency key, or by a producer's dense number. The fingerprint compares the requests
themselves.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from mirrorgate.errors import Code, RejectedInput

StoredAnswer: TypeAlias = Mapping[str, Any]
"""The stored answer: `receipts`, `ignored`, `duplicates`, and `dead_letters` unless an early release stored it."""


@dataclass(frozen=True, slots=True)
class RequestIdentity:
    """The name of a request: an idempotency key, or a producer with its `producer_sequence`, from 1."""

    principal: str
    name: str
    fingerprint: bytes
    producer_sequence: int = 0
    position: str | None = None
    """Position of the request in the producer's source; None leaves the stored position unchanged."""

    @property
    def receipt_id(self) -> tuple[str, str, int]:
        """The key that its receipt is stored under."""
        return (self.principal, self.name, self.producer_sequence)

    @property
    def producer_id(self) -> tuple[str, str] | None:
        """Principal and producer, None for an idempotency key."""
        return (self.principal, self.name) if self.producer_sequence else None


@dataclass(frozen=True, slots=True)
class StoredReceipt:
    """The stored answer of a request, with its fingerprint."""

    fingerprint: bytes
    answer: StoredAnswer


def replayed(identity: RequestIdentity, stored: StoredReceipt | None) -> StoredAnswer | None:
    """Return the answer to repeat, None if nothing is stored.

    Raises RejectedInput `idempotency_key_reused` or `producer_sequence_reused` for another request.
    """
    if stored is None:
        return None
    if stored.fingerprint == identity.fingerprint:
        return stored.answer
    if identity.producer_sequence:
        detail = f"number {identity.producer_sequence} of this producer was used for another request"
        raise RejectedInput(Code.PRODUCER_SEQUENCE_REUSED, detail)
    raise RejectedInput(Code.IDEMPOTENCY_KEY_REUSED, "the idempotency key was used for another request")


def check_producer_sequence(identity: RequestIdentity, last: int) -> None:
    """Check that a number follows the last durable one. Raises RejectedInput `producer_gap` or `receipt_expired`."""
    if identity.producer_sequence > last + 1:
        raise RejectedInput(
            Code.PRODUCER_GAP, f"the next number of this producer is {last + 1}, not {identity.producer_sequence}"
        )
    if identity.producer_sequence <= last:
        detail = f"number {identity.producer_sequence} was accepted before, and its receipt is no longer kept"
        raise RejectedInput(Code.RECEIPT_EXPIRED, detail)
