"""Answers to change requests, and what became of their batches."""

from typing import Any, Literal

from app.api.schemas.common import Model


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
    """The answer to a change request, given after commit; `dead_letters` messages were rejected and are kept."""

    receipts: list[ReceiptModel]
    """One for each table."""

    ignored: int
    """Messages without a body."""

    duplicates: int
    """Changes that were accepted before, by the source's own order."""

    dead_letters: int
    """Messages that were rejected and are kept."""

    replayed: bool
    """Whether the request was accepted before, and this is the answer of then."""


class ProducerModel(Model):
    """The last durable number; its receipts are null once they are no longer kept."""

    producer: str
    sequence: int
    receipts: list[ReceiptModel] | None


class WithheldModel(Model):
    """Columns of a row that are missing from a dry run: the message does not give them, and the key lacks `read`."""

    row: int
    """The place of the row in `rows`, from 0."""

    columns: list[str]
    """The columns that the stored row gives."""


class DryRunTableModel(Model):
    """The rows that would land in a table, by column name, `__rowMarker__` among them."""

    table: str
    generation: int
    schema_version: int
    rows: list[dict[str, Any]]
    """The rows in order."""

    withheld: list[WithheldModel] | None = None
    """Columns that only a key with the right `read` is shown; left out where there are none."""


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
