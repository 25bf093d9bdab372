"""Shapes of dead letters. The message itself is downloaded as it was written."""

from datetime import datetime

from app.api.schemas.changes import ReceiptModel
from app.api.schemas.common import Model
from app.domain.model.dead_letter import LetterFormat, LetterState


class LetterErrorModel(Model):
    """One thing wrong with the message, as the request would have been told."""

    code: str
    detail: str
    pointer: str | None = None
    column: str | None = None


class DeadLetterModel(Model):
    """A rejected message of an accepted request: `index` is its place there, `request` the idempotency key or the
    producer, `replayed_sequence` the batch that took it in."""

    id: int
    generation: int
    format: LetterFormat
    bytes: int
    index: int
    errors: list[LetterErrorModel]
    key_id: str
    request: str | None
    producer_sequence: int | None
    received_at: datetime
    state: LetterState
    settled_at: datetime | None
    settled_by: str | None
    corrected: bool
    replayed_sequence: int | None


class DeadLettersModel(Model):
    """`next_after` is the `after` of the next page, null on the last."""

    table: str
    letters: list[DeadLetterModel]
    next_after: int | None


class ReplayedModel(Model):
    """The receipt of a dead letter's change, given after commit."""

    id: int
    receipt: ReceiptModel


class ReplayedLettersModel(Model):
    """`rejected` letters wait on; `next_after` is the `after` of the next call, null where no more wait behind."""

    replayed: int
    rejected: int
    next_after: int | None


class DiscardedModel(Model):
    """How many dead letters were given up."""

    discarded: int
