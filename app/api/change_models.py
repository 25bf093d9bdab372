"""Answers to change requests, and what became of their batches."""

from typing import Any, Literal

from app.api.models import Model


class ReceiptModel(Model):
    """One durable change batch."""

    table: str
    """`name` or `schema.name`."""

    generation: int
    """Which lifetime of the landing folder."""

    sequence: int
    """The batch's dense number in the generation, in the order of commit."""

    changes: int
    """How many messages it was made of."""

    rows: int
    """How many rows will land."""


class AcceptedModel(Model):
    """The answer to a change request, given after commit; `dead_letters` messages were refused and are kept."""

    receipts: list[ReceiptModel]
    """One for each table."""

    ignored: int
    """Messages without a body."""

    duplicates: int
    """Changes that were accepted before, by the source's own order."""

    dead_letters: int
    """Messages that were refused and are kept."""

    replayed: bool
    """Whether the request was accepted before, and this is the answer of then."""


class ProducerModel(Model):
    """The last durable number; its receipts are null once they are no longer kept."""

    producer: str
    sequence: int
    receipts: list[ReceiptModel] | None


class DryRunTableModel(Model):
    """The rows that would land in a table, by column name, `__rowMarker__` among them."""

    table: str
    generation: int
    schema_version: int
    rows: list[dict[str, Any]]


class DryRunModel(Model):
    """The answer to a change request with `dry_run=true`: nothing was staged or registered."""

    tables: list[DryRunTableModel]
    ignored: int
    duplicates: int


class BatchModel(Model):
    """Where a change batch is: `pending`, `planned` or `published`, and in which file; `discarded` where its
    generation ended before it was published. Counts and file are null once retention has purged them."""

    table: str
    generation: int
    sequence: int
    state: Literal["pending", "planned", "published", "discarded"]
    changes: int | None
    rows: int | None
    file: str | None
