"""A destination table: its identity, its lifetime and its state."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType, TypeAlias

from app.domain.model.drop_plan import DropPlan
from app.domain.model.names import TableName
from app.domain.model.table_options import DEFAULT_OPTIONS, TableOptions
from app.domain.model.table_schema import SchemaVersion, TableSchema

TableId = NewType("TableId", int)
"""The database's number for a table; it keeps its meaning through renames."""

Generation = NewType("Generation", int)
"""One lifetime of a landing folder, counted 1, 2, …"""

TableLife: TypeAlias = tuple[TableId, Generation]
"""One lifetime of one table: what sequences and file numbers belong to."""

BatchSequence = NewType("BatchSequence", int)
"""Dense number of a change batch within a generation, from 1."""

FileNumber = NewType("FileNumber", int)
"""Dense number of a landing file within a generation, from 1."""

Epoch = NewType("Epoch", int)
"""Grows with each claim of a table by a drain; an older epoch may change nothing."""


class TableState(StrEnum):
    """*Paused* and *quarantined* stop publishing only; *dropping* and *dropped* reject ingest."""

    ACTIVE = "active"
    PAUSED = "paused"
    QUARANTINED = "quarantined"
    DROPPING = "dropping"
    DROPPED = "dropped"

    @property
    def accepts_changes(self) -> bool:
        return self is not TableState.DROPPING and self is not TableState.DROPPED

    @property
    def publishes(self) -> bool:
        return self is TableState.ACTIVE


@dataclass(frozen=True, slots=True)
class Table:
    """What a reader of one moment knows of a table; the sequence lock rechecks it before staging."""

    table_id: TableId
    name: TableName
    generation: Generation
    state: TableState
    schema_version: SchemaVersion
    schema: TableSchema
    options: TableOptions = DEFAULT_OPTIONS
    revision: int = 1
    """Grows with each change of the options or of what the source has; a batch is typed under one of them."""
    left_columns: frozenset[str] = frozenset()
    """Columns that have left the source."""
    returned_columns: Mapping[str, BatchSequence] = field(default_factory=dict)
    """Columns that left the source and came back after this batch: older row images know nothing of them."""
    cdc_started: bool = False
    """Whether changes other than snapshot rows were accepted in this generation."""
    arcion_catalog: str | None = None
    """The catalog whose messages feed this table, once one with a catalog has come."""

    any_letter_case: bool = False
    """Whether sources feed this table by its name in whatever letter case: as before it counted."""

    drop_plan: DropPlan | None = None
    """What comes after, while the table is being dropped."""
