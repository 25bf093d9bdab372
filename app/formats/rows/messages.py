"""Plain rows as JSON, read one by one: the exact path, which explains each rejection."""

from collections.abc import Set
from dataclasses import dataclass, field
from typing import Any, Final

from app.domain.model.change import UNLIMITED, Change, InputLimits
from app.domain.model.dead_letter import RejectedMessage
from app.formats.foreign_forms import Form, foreign_problem, remedy_of
from app.formats.json.decoder import MessageDecoder
from app.formats.rows.operations import BAD_OPERATION, OPERATION_COLUMN, operation_of, row_change
from mirrorgate.errors import Code, Problem, RejectedInput
from mirrorgate.errors.json_pointer import pointer_to
from mirrorgate.parameters import RowOperation

_DECODER: Final = MessageDecoder(dict[str, Any])
_UNWRAP: Final = "Send the array of rows itself as the body. Parameters, such as the table, are part of the address."


@dataclass(slots=True)
class RowChanges:
    """The changes of a body in order, and the rows that are set aside or wrong."""

    changes: list[Change] = field(default_factory=list)
    rejected: list[RejectedMessage] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def add(self, index: int, row: dict[str, Any], default: RowOperation, *, keep: bool, prefix: str = "") -> None:
        """Add the change of a row, or the problem of its operation; with `keep`, the row is set aside for it.

        `prefix` is in front of the detail of a problem, such as a line number.
        """
        operation = operation_of(row.pop(OPERATION_COLUMN, None), default)
        if operation is not None:
            self.changes.append(row_change(index, operation, row))
            return
        problem = Problem(
            Code.BAD_OP, prefix + BAD_OPERATION, index, pointer_to("", OPERATION_COLUMN), OPERATION_COLUMN
        )
        if keep:
            self.rejected.append(RejectedMessage(index, (problem,)))
        else:
            self.problems.append(problem)


def decode_rows(
    body: bytes,
    operation: RowOperation,
    columns: Set[str],
    limits: InputLimits = UNLIMITED,
    *,
    keep_rejected: bool = False,
) -> RowChanges:
    """Return the changes of a JSON body for a table with these columns, in order.

    Raises RejectedInput naming every wrong row. With `keep_rejected`, rows with a wrong operation are set aside.
    """
    decoded = RowChanges()
    known = columns | {OPERATION_COLUMN}
    for index, row in enumerate(_DECODER.decode(body, limits)):
        if wrapper := _wrapper(row, columns):
            raise RejectedInput.of((_wrapped(index, wrapper),), remedy=_UNWRAP)
        foreign = foreign_problem(index, row, Form.ROWS, known)
        if foreign is not None:
            raise RejectedInput.of(
                (*decoded.problems, foreign), remedy=None if decoded.problems else remedy_of(foreign)
            )
        decoded.add(index, row, operation, keep=keep_rejected)
    if decoded.problems:
        raise RejectedInput.of(tuple(decoded.problems))
    return decoded


def _wrapper(row: dict[str, Any], columns: Set[str]) -> str | None:
    """Return the key that has a list of rows, for an object around rows; None for a row."""
    if not columns.isdisjoint(row):
        return None
    lists = (name for name, value in row.items() if isinstance(value, list) and value and isinstance(value[0], dict))
    return next(lists, None)


def _wrapped(index: int, wrapper: str) -> Problem:
    detail = "the rows are in a list inside an object; the body must be the rows themselves"
    return Problem(Code.MALFORMED_MESSAGE, detail, index, pointer_to("", wrapper))
