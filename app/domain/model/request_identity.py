"""What makes two requests the same one, and what a repeated request is answered.

A caller names a request by an idempotency key, or by a producer's dense number. The fingerprint tells whether the
request is the same in all that counts: method, path, query and decompressed body.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from app.errors import Code, RejectedInput

Answer: TypeAlias = Mapping[str, Any]
"""The stored answer: `receipts`, `ignored`, `duplicates`, and `dead_letters` where the program knew of them."""


@dataclass(frozen=True, slots=True)
class RequestIdentity:
    """`name` is an idempotency key, or a producer where `producer_sequence` is its number, from 1."""

    principal: str
    name: str
    fingerprint: bytes
    producer_sequence: int = 0

    @property
    def receipt_id(self) -> tuple[str, str, int]:
        """Under which its receipt is stored."""
        return (self.principal, self.name, self.producer_sequence)

    @property
    def producer_id(self) -> tuple[str, str] | None:
        return (self.principal, self.name) if self.producer_sequence else None


@dataclass(frozen=True, slots=True)
class StoredReceipt:
    """What was answered to a request."""

    fingerprint: bytes
    answer: Answer


def fingerprint(method: str, path: str, query: str, body: bytes) -> bytes:
    """SHA-256 over all that makes a request, 32 bytes."""
    digest = hashlib.sha256(f"{method}\n{path}\n{query}\n".encode())
    digest.update(body)
    return digest.digest()


def replayed(identity: RequestIdentity, stored: StoredReceipt | None) -> Answer | None:
    """The answer to repeat; None where nothing is stored.

    Raises RejectedInput `idempotency_key_reused` or `producer_sequence_reused` for another request.
    """
    if stored is None:
        return None
    if stored.fingerprint == identity.fingerprint:
        return stored.answer
    if identity.producer_sequence:
        detail = f"number {identity.producer_sequence} of this producer was another request"
        raise RejectedInput(Code.PRODUCER_SEQUENCE_REUSED, detail)
    raise RejectedInput(Code.IDEMPOTENCY_KEY_REUSED, "the idempotency key was given for another request")


def check_producer_sequence(identity: RequestIdentity, last: int) -> None:
    """A new number follows the last durable one. Raises RejectedInput `producer_gap` or `receipt_expired`."""
    if identity.producer_sequence > last + 1:
        raise RejectedInput(
            Code.PRODUCER_GAP, f"the next number of this producer is {last + 1}, not {identity.producer_sequence}"
        )
    if identity.producer_sequence <= last:
        detail = f"number {identity.producer_sequence} is durable, and its receipt is no longer kept"
        raise RejectedInput(Code.RECEIPT_EXPIRED, detail)
