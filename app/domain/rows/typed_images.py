"""Row images -> typed Arrow columns, as the rows landed."""

from collections.abc import Iterable, Sequence

import pyarrow as pa

from app.domain.model.change import SourceValue
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import TableSchema
from app.domain.rows.conversion.column_conversion import BadValues, convert
from app.domain.rows.conversion.value_reading import reading_of
from app.domain.rows.row_image import by_position, known_values, list_images
from app.errors import Code, InvariantBroken


def typed_images(
    images: Sequence[bytes], schema: TableSchema, options: TableOptions, names: Iterable[str]
) -> list[pa.Array]:
    """Return these columns of rows, each as `ColumnType.arrow`; what an image does not know is NULL.

    Raises InvariantBroken `internal` if a value does not have the type with which it was accepted.
    """
    width = len(schema.columns)
    rows = list_images(images, width)
    if rows is None:
        known = [by_position(known_values(image), width) for image in images]
        rows = [[row.get(at) for at in range(width)] for row in known]
    by_column = list(zip(*rows, strict=True)) if rows else [()] * width
    ordinals = {column.name: at for at, column in enumerate(schema.columns)}
    return [_typed(by_column[ordinals[name]], schema, options, ordinals[name]) for name in names]


def _typed(values: Sequence[SourceValue], schema: TableSchema, options: TableOptions, ordinal: int) -> pa.Array:
    column = schema.columns[ordinal]
    try:
        return convert(values, column.type, reading_of(column.name, options))
    except BadValues:  # its text has no value, and neither has this one
        detail = f"a row image has a value in column {column.name!r} that is not {column.type}"
        raise InvariantBroken(Code.INTERNAL, detail) from None
