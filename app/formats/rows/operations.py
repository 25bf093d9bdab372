"""The operations of plain rows, and the change that a row becomes."""

from typing import Any, Final

from app.domain.model.change import Change, Image, Operation
from mirrorgate.parameters import RowOperation

OPERATION_COLUMN: Final = "__op__"
"""The key of a JSON row, or the column of a CSV file, that has the operation of its row."""

BAD_OPERATION: Final = f"{OPERATION_COLUMN} must be upsert, insert, update or delete, or R, I, U or D"

_AT: Final = ""
"""JSON Pointer of the row: a message is the row itself."""


OPERATIONS: Final = {
    "upsert": Operation.MERGE,
    "insert": Operation.INSERT,
    "update": Operation.UPDATE,
    "delete": Operation.DELETE,
    "r": Operation.MERGE,
    "i": Operation.INSERT,
    "u": Operation.UPDATE,
    "d": Operation.DELETE,
}
"""An upsert keeps the values that its row does not give, so it is a merge."""


def operation_of(written: Any, default: RowOperation) -> Operation | None:
    """Return the operation that a row has in `__op__`, the default for NULL or nothing, None if there is no such."""
    return OPERATIONS[default] if written is None else written_operation(written)


def written_operation(written: Any) -> Operation | None:
    """Return the operation that a row has in `__op__`, None if there is no such."""
    return OPERATIONS.get(written.lower()) if isinstance(written, str) and written.isascii() else None


def row_change(index: int, operation: Operation, row: Image) -> Change:
    """Return the change that a row without its operation becomes. A delete uses the key only."""
    if operation is Operation.DELETE:
        return Change(index, operation, row, None, _AT, _AT)
    return Change(index, operation, None, row, _AT, _AT)
