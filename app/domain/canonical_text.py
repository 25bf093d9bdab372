"""The canonical text of rows: one form of their values that SQL of any database can make, to compare checksums."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from app.domain.model.table_schema import Column, TypeName
from app.domain.source_checks import NULL_TEXT, SEPARATOR, CanonicalRows


def canonical_rows(arrays: Sequence[pa.Array], columns: Sequence[Column], key_columns: Sequence[str]) -> CanonicalRows:
    """Return the strings of rows, given the typed arrays of these columns, which include the keys."""
    at = {column.name: number for number, column in enumerate(columns)}
    keys = [at[name] for name in key_columns]
    key_texts = _joined([arrays[number] for number in keys], [columns[number] for number in keys])
    return CanonicalRows(key_texts.to_pylist(), _joined(arrays, columns).to_pylist())


def _joined(arrays: Sequence[pa.Array], columns: Sequence[Column]) -> pa.StringArray:
    texts = [
        pc.fill_null(_text(array, column.type.name), NULL_TEXT) for array, column in zip(arrays, columns, strict=True)
    ]
    return texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, SEPARATOR)


def _text(array: pa.Array, name: TypeName) -> pa.StringArray:
    match name:
        case TypeName.BOOLEAN:
            return pc.cast(pc.cast(array, pa.int8()), pa.string())
        case TypeName.TIMESTAMP:
            return pc.cast(pc.cast(array, pa.timestamp("us")), pa.string())
        case TypeName.DECIMAL:
            return _decimal_text(array)
        case TypeName.BINARY:
            return pa.array(
                [None if value is None else value.hex().upper() for value in array.to_pylist()], pa.string()
            )
        case _:
            return pc.cast(array, pa.string())


def _decimal_text(array: pa.Decimal128Array) -> pa.StringArray:
    """Return decimals with all digits of their scale. Arrow writes small ones with an exponent."""
    texts = pc.cast(array, pa.string())
    if pc.any(pc.match_substring(texts, "E")).as_py() is True:
        return pa.array([None if value is None else f"{value:f}" for value in array.to_pylist()], pa.string())
    return texts
