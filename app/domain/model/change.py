"""The canonical change: one row event, whatever tool wrote it."""

from decimal import Decimal
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

SourceValue: TypeAlias = str | int | bool | Decimal | dict[str, Any] | list[Any] | None
"""A column value as the source gave it. Numbers never pass through float; containers only as JSON."""

Image: TypeAlias = dict[str, SourceValue]
"""Values at one side of a change. A member that is absent was not given; None is SQL NULL."""


class Operation(StrEnum):
    """What happened to the row. *Upsert*: the source cannot tell insert from update."""

    INSERT = "insert"
    SNAPSHOT = "snapshot"
    UPDATE = "update"
    DELETE = "delete"
    UPSERT = "upsert"


class Change(msgspec.Struct, frozen=True, gc=False):
    """One row event of one table.

    `index` is the message's place in the request, `before_at` and `after_at` the JSON Pointers of its
    images, all three for error messages only. An insert has only `after`, a delete only `before`; an
    update's `before` holds at least the key, its `after` every column whose new value is known. A delete's
    `after` is a second copy of the row, where the source wrote two: both must have the same key.
    """

    index: int
    operation: Operation
    before: Image | None
    after: Image | None
    before_at: str
    after_at: str
    source_position: str | None = None
    source_columns: frozenset[str] | None = None
    """The columns that the source had then, where it told: any other column of the table is NULL in the row."""
    is_late: bool = False
    """Whether the source's table has changed since, so that a row image may know columns that it did not have then."""
    position_at: str | None = None
    """JSON Pointer of the source position, where the format has one."""
    ends_transaction: bool = True
    """False where the source said that more changes of the same transaction follow."""
