"""The rules of one table by which its changes become rows, and a cache of what was worked out from them."""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from enum import IntEnum
from threading import Lock
from typing import Final, Generic, Self, TypeVar

from app.domain.access.mask_secret import MaskSecret
from app.domain.model.table import Table
from app.domain.model.table_options import DEFAULT_OPTIONS, TableOptions
from app.domain.model.table_schema import TableSchema
from app.domain.rows.projection.masking import Masking

MAX_KEPT_COLUMNS: Final = 2**17
"""Columns of all that one cache keeps. A column of a layout takes about 200 bytes."""

_T = TypeVar("_T")


class RowMarker(IntEnum):
    """Values of `__rowMarker__`, which tells Fabric what to do with a landing row."""

    INSERT = 0
    UPDATE = 1
    DELETE = 2
    UPSERT = 4


@dataclass(frozen=True, slots=True)
class RowRules:
    """The rules by which changes of one table become rows."""

    schema: TableSchema
    options: TableOptions = DEFAULT_OPTIONS
    left_columns: frozenset[str] = frozenset()
    """Nullable columns that the source no longer has; they are NULL if a message does not give them."""
    cdc_started: bool = False
    """True if changes other than snapshot rows were accepted before."""
    images_complete: bool = False
    """True if every row of the table has a row image, so that a key without one is new."""
    in_load: bool = False
    """True for the rows of a load session (decision 0069)."""
    masking: Masking | None = None
    """Masks the values of a source; None if there is nothing to mask, and for values of row images."""

    @classmethod
    def of(cls, table: Table, *, in_load: bool = False) -> Self:
        """Return the rules of a table as it is now, for values that are masked already if the table has masks."""
        return cls(table.schema, table.options, table.left_columns, table.cdc_started, table.images_complete, in_load)

    @classmethod
    def of_source(cls, table: Table, mask_secret: MaskSecret | None, *, in_load: bool = False) -> Self:
        """Return the rules of a table as it is now, for values as its source has them."""
        rules = cls.of(table, in_load=in_load)
        return replace(rules, masking=Masking(table, mask_secret)) if table.options.masks else rules

    def after_start(self) -> "RowRules":
        """Return the rules once a change other than a snapshot row was accepted."""
        return replace(self, cdc_started=True)


class KeptByTable(Generic[_T]):
    """What was worked out from the schema and options of tables, all thrown away when it is too much.

    Schema and options are recognized by identity, because hashing them costs more than typing a small request.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: dict[Hashable, tuple[_T, RowRules]] = {}
        self._columns = 0

    def get(self, rules: RowRules, key: Hashable = None) -> _T | None:
        """Return what is kept for these rules under a key; None if nothing is."""
        found = self._kept.get((id(rules.schema), id(rules.options), key))
        return found and found[0]

    def keep(self, rules: RowRules, key: Hashable, value: _T) -> _T:
        """Keep a value for these rules under a key, and return it.

        The rules are held with it, so that no other object has the identity of their schema or options.
        """
        with self._lock:
            columns = len(rules.schema.columns)
            self._columns += columns
            if self._columns > MAX_KEPT_COLUMNS:
                self._kept, self._columns = {}, columns
            self._kept[id(rules.schema), id(rules.options), key] = value, rules
        return value
