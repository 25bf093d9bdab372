"""The canonical change: one row event, whatever tool wrote it."""

from decimal import Decimal
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

SourceValue: TypeAlias = str | int | bool | Decimal | dict[str, Any] | list[Any] | None
"""A column value as the source gave it. Numbers never pass through float; containers only as JSON."""

Image: TypeAlias = dict[str, SourceValue]
"""Values at one side of a change, by column. An absent column was not given; None is SQL NULL."""


SourceTime: TypeAlias = str | int | None
"""When the source made a change, as it was written: a text, or a number of seconds or smaller units since 1970."""


class Operation(StrEnum):
    """What happened to the row. *Upsert* means that the source cannot tell insert from update.

    A *merge* is an upsert of the columns that it gives: in a row that exists, the others keep their values.
    """

    INSERT = "insert"
    SNAPSHOT = "snapshot"
    UPDATE = "update"
    DELETE = "delete"
    UPSERT = "upsert"
    MERGE = "merge"


class Change(msgspec.Struct, frozen=True, gc=False):
    """One row event of one table.

    `index` is the position of the message in the request, `before_at` and `after_at` are the JSON Pointers of its
    images; all three are for error texts only. An insert has only `after`, a delete only `before`. The `before` of an
    update has at least the key, its `after` every column whose new value is known. If a delete has an `after`, the
    source wrote the row twice, and both images must have the same key.
    """

    index: int
    operation: Operation
    before: Image | None
    after: Image | None
    before_at: str
    after_at: str
    source_position: str | None = None
    source_columns: frozenset[str] | None = None
    """The columns that the source had at that time, if it told: every other column of the table lands NULL."""
    is_late: bool = False
    """True if the table may have got its other columns since: a row image that knows their values keeps them."""
    position_at: str | None = None
    """JSON Pointer of the source position, if the format has one."""
    source_time: SourceTime = None
    ends_transaction: bool = True
    """False where the source said that more changes of the same transaction follow."""
