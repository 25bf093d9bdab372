"""The canonical change: one row event, of every tool, and the limits of a request of them."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, TypeAlias

import msgspec

from app.domain.model.log_position import LogPosition
from app.domain.model.written_values import as_json
from mirrorgate.errors import Code, Problem, RejectedInput
from mirrorgate.errors.json_pointer import pointer_to

SourceValue: TypeAlias = str | int | bool | Decimal | dict[str, Any] | list[Any] | None
"""A column value as the source gave it. Numbers never pass through float; containers only as JSON."""

Image: TypeAlias = dict[str, SourceValue]
"""Values at one side of a change, by column. An absent column was not given; None is SQL NULL."""


SourceTime: TypeAlias = str | int | None
"""Time at which the source made a change, as it was written: a string, or seconds or smaller units since 1970."""


class Operation(StrEnum):
    """The operation on the row. *Upsert* means that the source cannot tell insert from update.

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
    images; all three are for error messages only. An insert has only `after`, a delete only `before`. The `before` of
    an update has at least the key, its `after` every column whose new value is known. If a delete has an `after`, the
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
    extracted_time: SourceTime = None
    """Time at which the tool read the change in the log of its source."""
    operation_count: int | None = None
    """Number of operations that Arcion has processed with this one."""
    transaction_id: str | None = None
    transaction_order: int | None = None
    """The number of the change in its transaction, from 1 on."""
    log_position: LogPosition | None = None
    """Position of the change in the log of its source, if it can be compared."""
    ends_transaction: bool = True
    """False where the source said that more changes of the same transaction follow."""


_ENCODER: Final = msgspec.json.Encoder(decimal_format="number", enc_hook=as_json)
_MAX_CHARACTER_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class InputLimits:
    """The largest number of messages in a request, and of bytes of a string or JSON value."""

    messages: int
    value_bytes: int
    reserve: Callable[[int], None] = field(default=lambda _: None, compare=False)
    """Reserves memory for what a body becomes, in bytes in total, before it is made.

    Raises RejectedInput `body_too_large`, or TemporarilyUnavailable `overloaded`.
    """
    reserve_answer: Callable[[int], None] = field(default=lambda _: None, compare=False)
    """Reserves memory for an answer of so many bytes. Raises TemporarilyUnavailable `overloaded`."""

    def adding(self) -> "InputLimits":
        """Return limits whose `reserve` adds to what was reserved through them before."""
        held = 0

        def reserve(size: int) -> None:
            nonlocal held
            held += size
            self.reserve(held)

        return replace(self, reserve=reserve)

    def check_messages(self, count: int) -> None:
        """Raise RejectedInput `too_many_messages` if there are more messages than allowed."""
        if count > self.messages:
            raise RejectedInput(Code.TOO_MANY_MESSAGES, f"the request holds more than {self.messages} messages")


UNLIMITED: Final = InputLimits(messages=2**63, value_bytes=2**63)

OBJECT_BYTES: Final = 48
"""Bytes that are reserved for each object and list of a JSON body before it is decoded message by message."""

MAX_CELLS: Final = 2**24
"""Messages of a request times columns of its table.

Each takes about 22 bytes while the rows are typed, also if a message does not give the column; a full image takes at
least 12 bytes of JSON per column.
"""


def check_cells(messages: int, columns: int) -> None:
    """Raise RejectedInput `too_many_messages` if messages times columns exceed MAX_CELLS."""
    if messages * columns > MAX_CELLS:
        detail = f"{messages} messages of a table with {columns} columns have more than {MAX_CELLS} values"
        raise RejectedInput(Code.TOO_MANY_MESSAGES, detail)


def long_values(changes: Sequence[Change], excluded: Collection[str], max_bytes: int) -> list[Problem]:
    """Return a problem for each value longer than `max_bytes` in a column that is not `excluded`.

    This checks every value; call it only for bodies that are longer than `max_bytes` themselves.
    """
    return [
        Problem(Code.VALUE_TOO_LARGE, f"longer than {max_bytes} bytes", change.index, pointer_to(at, column), column)
        for change in changes
        for at, column, value in _values(change)
        if column not in excluded and _is_longer(value, max_bytes)
    ]


def _values(change: Change) -> Iterator[tuple[str, str, SourceValue]]:
    for at, image in ((change.before_at, change.before), (change.after_at, change.after)):
        for column, value in (image or {}).items():
            yield at, column, value


def _is_longer(value: SourceValue, max_bytes: int) -> bool:
    if isinstance(value, str):
        return len(value) > max_bytes or (
            len(value) > max_bytes // _MAX_CHARACTER_BYTES and len(value.encode("utf-8", "surrogatepass")) > max_bytes
        )
    return isinstance(value, dict | list) and len(_ENCODER.encode(value)) > max_bytes
