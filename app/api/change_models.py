"""Answers to change requests, and what became of their batches."""

from typing import Any

from app.api.models import Model


class ReceiptModel(Model):
    """One durable change batch."""

    table: str
    generation: int
    sequence: int
    changes: int
    rows: int


class AcceptedModel(Model):
    """The answer to a change request, given after commit; `dead_letters` messages were refused and are kept."""

    receipts: list[ReceiptModel]
    ignored: int
    duplicates: int
    dead_letters: int
    replayed: bool


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
    state: str
    changes: int | None
    rows: int | None
    file: str | None
