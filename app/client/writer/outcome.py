"""What a caller of a writer gets back: receipts of durable rows, and the rows that the gateway rejected."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from app.client.http import RejectedByGateway
from app.domain.model.dead_letter import KEPT
from app.errors import Code, MirrorgateError

_OF_ONE_ROW: Final = KEPT | {
    Code.DUPLICATE_MEMBER,
    Code.MALFORMED_JSON,
    Code.MALFORMED_MESSAGE,
    Code.UNSTORABLE,
    Code.VALUE_TOO_LARGE,
}
"""Codes of problems that leave the other rows of a request acceptable."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a generation of a table accepted; `sequence` is that of the last batch."""

    table: str
    generation: int
    sequence: int
    changes: int
    rows: int


@dataclass(frozen=True, slots=True)
class Accepted:
    """A durable request of a writer: the handles of its rows, in their order, and its answer."""

    handles: Sequence[Any]
    receipts: Sequence[Receipt]
    ignored: int
    duplicates: int
    dead_letters: int
    replayed: bool
    """True if an earlier attempt was durable, whose answer was lost."""


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """A row that the gateway rejected, and the first reason."""

    handle: Any
    """What was given to `write` with the row; by default `number`."""
    number: int
    """How many rows were written before it."""
    index: int
    """Its index in the request."""
    code: str
    detail: str
    remedy: str
    pointer: str | None
    """JSON Pointer of the value at fault."""


class RowsRejected(MirrorgateError):
    """The gateway rejected rows, and the writer has stopped: rows after them must not overtake them.

    `rows` are the rejected ones. `unsent` counts all rows that were written and are not durable, with them.
    """

    def __init__(self, rows: Sequence[RejectedRow], cause: MirrorgateError, unsent: int) -> None:
        first = rows[0]
        others = f", and {len(rows) - 1} more rows" if len(rows) > 1 else ""
        super().__init__(cause.code, f"row {first.number}{others}: {first.detail}", remedy=cause.remedy)
        self.rows = tuple(rows)
        self.unsent = unsent


def accepted_of(handles: Sequence[Any], answer: Mapping[str, Any]) -> Accepted:
    """Return what the answer to a request says about these rows."""
    receipts = tuple(
        Receipt(one["table"], one["generation"], one["sequence"], one["changes"], one["rows"])
        for one in answer["receipts"]
    )
    counts = {name: answer.get(name, 0) for name in ("ignored", "duplicates", "dead_letters")}
    return Accepted(handles, receipts, **counts, replayed=answer["replayed"])


def first_problems(error: RejectedByGateway) -> dict[int, Mapping[str, Any]]:
    """Return the first problem of each message that an answer names, by its index in the request."""
    found: dict[int, Mapping[str, Any]] = {}
    for problem in error.errors:
        if "index" in problem:
            found.setdefault(problem["index"], problem)
    return found


def concerns_one_row(problem: Mapping[str, Any]) -> bool:
    """Return True if other rows of the request could be accepted without this one."""
    return problem.get("code") in _OF_ONE_ROW


def merged(receipts: Mapping[tuple[str, int], Receipt], new: Sequence[Receipt]) -> dict[tuple[str, int], Receipt]:
    """Return one receipt per table and generation, with the sums of the counts."""
    result = dict(receipts)
    for receipt in new:
        key = receipt.table, receipt.generation
        if earlier := result.get(key):
            changes, rows = earlier.changes + receipt.changes, earlier.rows + receipt.rows
            receipt = Receipt(*key, receipt.sequence, changes, rows)
        result[key] = receipt
    return result
