"""A destination table: its identity, its generation and its state."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NewType, TypeAlias

from app.domain.model.drop_plan import DropPlan
from app.domain.model.names import TableName
from app.domain.model.projection.audit_columns import History
from app.domain.model.table_options import DEFAULT_OPTIONS, TableOptions
from app.domain.model.table_schema import SchemaVersion, TableSchema
from app.errors import Code, RejectedInput

TableId = NewType("TableId", int)
"""The number of a table in Postgres; it survives renames."""

Generation = NewType("Generation", int)
"""One lifetime of a landing folder, counted 1, 2, …"""

TableLife: TypeAlias = tuple[TableId, Generation]
"""One lifetime of one table: the scope of sequences and file numbers."""

BatchSequence = NewType("BatchSequence", int)
"""Dense number of a batch within a generation, from 1."""

FileNumber = NewType("FileNumber", int)
"""Dense number of a landing file within a generation, from 1."""

Epoch = NewType("Epoch", int)
"""Grows with each claim of a table by a drain; an older epoch can change nothing visible."""


class TableState(StrEnum):
    """States of a table. *Paused* and *quarantined* only stop publishing; *dropping* and *dropped* reject changes.

    *Rebuilding* accepts changes in the new generation and publishes once the folder of the one before is gone.
    """

    ACTIVE = "active"
    PAUSED = "paused"
    QUARANTINED = "quarantined"
    DROPPING = "dropping"
    DROPPED = "dropped"
    REBUILDING = "rebuilding"

    @property
    def accepts_changes(self) -> bool:
        """True unless the table is being dropped or is dropped."""
        return self is not TableState.DROPPING and self is not TableState.DROPPED

    @property
    def publishes(self) -> bool:
        """True if drains publish the table."""
        return self is TableState.ACTIVE

    @property
    def deletes_folder(self) -> bool:
        """True while a drain deletes the table's folder."""
        return self is TableState.DROPPING or self is TableState.REBUILDING

    def shown(self, *, is_failing: bool) -> str:
        """Return the state of a table in one word: `failing` is an active table whose publication fails."""
        return "failing" if is_failing and self is TableState.ACTIVE else self.value


@dataclass(frozen=True, slots=True)
class Table:
    """A table as it was read at one moment; the sequence lock checks it again before staging."""

    table_id: TableId
    name: TableName
    generation: Generation
    state: TableState
    schema_version: SchemaVersion
    schema: TableSchema
    options: TableOptions = DEFAULT_OPTIONS
    revision: int = 1
    """Grows with each change of options, routes, source columns or metadata; a batch is typed under one revision."""
    database_run: str = ""
    """The run of the database in which the table was read: after a failover, numbers may mean other columns."""
    left_columns: frozenset[str] = frozenset()
    """Columns that have left the source."""
    late_columns: Mapping[str, BatchSequence] = field(default_factory=dict)
    """Columns whose values rows of this batch and of those before do not have, nor do the row images that they left.

    They left the source and came back, or the source gave its rows a default when it added them.
    """
    cdc_started: bool = False
    """True if changes other than snapshot rows were accepted in this generation."""
    images_complete: bool = False
    """True if every row of this generation has a row image: they were kept from its first batch."""
    arcion_catalog: str | None = None
    """The catalog whose messages feed this table, set by the first message with a catalog."""
    drop_plan: DropPlan | None = None
    """What follows the drop, while the table is being dropped."""
    rebuild_due: bool = False
    """True while a rebuild, or its dry run, reads the row images."""
    mask_fingerprint: bytes | None = None
    """The fingerprint of the secret that the hashed columns of this generation are hashed under."""
    backfill_due: bool = False
    """True while the drain that owns the table gives row images to rows from before it kept any."""

    @property
    def typed_under(self) -> tuple[Generation, SchemaVersion, int, str]:
        """What has to be the same when a batch that was typed for this table is staged."""
        return self.generation, self.schema_version, self.revision, self.database_run

    @property
    def is_projected(self) -> bool:
        """True if rows of landing files are others than the rows of the source."""
        return self.schema.lands_as is not None or self.options.filter is not None

    @property
    def has_images(self) -> bool:
        """True if every row of the table has a row image."""
        return self.options.keeps_images and self.images_complete

    @property
    def can_land_again(self) -> bool:
        """True if the row images are the rows that the table landed, so that they can land again.

        Incomplete images lack rows, or are older than these where a backfill died, and a history has more than the
        newest row of a key.
        """
        return self.has_images and self.options.history is History.OFF

    def require_images(self) -> None:
        """Raise RejectedInput `no_row_images` unless every row of the table has a row image."""
        if not self.options.keeps_images:
            raise RejectedInput(Code.NO_ROW_IMAGES, f"table {self.name} keeps no row images")
        if not self.images_complete:
            detail = f"rows that table {self.name} had before it kept row images have none"
            raise RejectedInput(Code.NO_ROW_IMAGES, detail)


def former_generation(table: Table) -> Table:
    """Return a table that is being rebuilt in the generation whose folder is deleted."""
    return replace(table, generation=Generation(table.generation - 1))
