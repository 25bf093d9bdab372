"""An upper bound of the memory that rows of a table take, before they are typed and when they land.

A message of three bytes can become a row of thousands of columns, of constants, audit columns and masks. So the size of
a body does not bound the memory of its rows; their number and their table do. The API reserves this bound before it
builds rows, and the drain cuts its work by it.

Invariant: with the texts of its values, which the body has, no row takes more than `row_bytes`. An option that adds a
column, or makes a value longer, adds its bytes here.
"""

from typing import Final

from app.domain.model.projection.audit_columns import AuditValue
from app.domain.model.projection.transforms import MaskMethod
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import ColumnType, TableSchema, TypeName
from app.domain.rows.row_rules import KeptByTable, RowRules

ROW_BYTES: Final = 48
"""Bytes of a row beside its values: its change, its marker, and the lists that have an entry for each row."""

VALUE_BYTES: Final = 8
"""Bytes of a value that is no decimal. While its row is typed, one takes about 40, also if its message lacks it."""

_HASH_BYTES: Final = 64
_OPERATION_BYTES: Final = 8

_DECIMAL_BYTES: Final = 16
_WRITTEN: Final = {
    TypeName.BOOLEAN: 6,
    TypeName.INT16: 7,
    TypeName.INT32: 12,
    TypeName.INT64: 21,
    TypeName.FLOAT32: 18,
    TypeName.FLOAT64: 27,
    TypeName.DECIMAL: 43,
    TypeName.DATE: 13,
    TypeName.TIMESTAMP: 37,
}
"""Bytes of the longest value of a type in a row image, with its comma. Texts are counted with the body."""
_NULL_WRITTEN: Final = 5

MAX_BLOCK_BYTES: Final = 64 * 2**20
"""Bytes of the rows that a gateway itself makes one block of: of row images, for a rebuild or a new generation."""

_KEPT: Final = KeptByTable[int]()


def row_bytes(rules: RowRules) -> int:
    """Return the most bytes that one row takes, without the bytes of its own texts."""
    return _KEPT.get(rules) or _KEPT.keep(rules, None, _row_bytes(rules.schema, rules.options))


def rows_of_block(rules: RowRules, most: int) -> int:
    """Return how many rows make one block of MAX_BLOCK_BYTES, at most `most` and at least one."""
    return max(1, min(most, MAX_BLOCK_BYTES // row_bytes(rules)))


def _row_bytes(schema: TableSchema, options: TableOptions) -> int:
    landed = sum(_value_bytes(column.type) for column in schema.landing.columns)
    constants = sum(len(constant.value.encode()) for constant in options.constants.values())
    hashed = sum(mask.method is MaskMethod.HASH for mask in options.masks.values())
    operation = _OPERATION_BYTES if AuditValue.OPERATION in options.audit_columns.named else 0
    images = sum(_WRITTEN.get(column.type.name, _NULL_WRITTEN) for column in schema.columns)
    return ROW_BYTES + landed + constants + hashed * _HASH_BYTES + operation + (images if options.keeps_images else 0)


def _value_bytes(of_type: ColumnType) -> int:
    return _DECIMAL_BYTES if of_type.name is TypeName.DECIMAL else VALUE_BYTES
