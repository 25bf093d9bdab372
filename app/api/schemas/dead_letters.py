"""Answers about dead letters. The message itself is downloaded unchanged."""

from datetime import datetime

from app.api.schemas.changes import ReceiptModel
from app.api.schemas.common import Model
from app.domain.model.dead_letter import LetterFormat, LetterState


class LetterErrorModel(Model):
    """One error of the message, as a rejected request would report it."""

    code: str
    detail: str
    pointer: str | None = None
    column: str | None = None


class DeadLetterModel(Model):
    """A rejected message of an accepted request.

    `index` is the index of the message in the request, `request` the idempotency key or the producer, and
    `replayed_sequence` the batch that a replay put it in.
    """

    id: int
    generation: int
    format: LetterFormat
    bytes: int
    index: int
    errors: list[LetterErrorModel]
    key_id: str
    key_name: str | None
    """The name of the key that sent it, also of a deleted one; null if it has none."""

    request: str | None
    producer_sequence: int | None
    received_at: datetime
    state: LetterState
    settled_at: datetime | None
    settled_by: str | None
    settled_by_name: str | None
    """The name of the key that replayed or discarded it."""

    corrected: bool
    replayed_sequence: int | None


class DeadLettersModel(Model):
    """A page of dead letters. `next_after` is the `after` of the next page; null on the last page."""

    table: str
    letters: list[DeadLetterModel]
    next_after: int | None


class ReplayedModel(Model):
    """The receipt of a replayed dead letter, sent after COMMIT."""

    id: int
    receipt: ReceiptModel


class ReplayedLettersModel(Model):
    """The result of a replay: `rejected` messages stay dead letters.

    `next_after` is the `after` of the next call; null if no more dead letters wait.
    """

    replayed: int
    rejected: int
    next_after: int | None


class DiscardedModel(Model):
    """How many dead letters were discarded."""

    discarded: int
