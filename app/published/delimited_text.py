"""Data files in delimited text, as `fileFormatTypeProperties` and `schemaDefinition` of the metadata describe them.

Without a schema definition, every column but the marker is text: guessed types would make the types of a table depend
on the values of its first file.
"""

import io
from collections.abc import Mapping
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.csv as pa_csv

from app.published.table_metadata import TableMetadata

_TYPES: Final[Mapping[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "bool": pa.bool_(),
    "byte": pa.uint8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "single": pa.float32(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "idate": pa.date32(),
    "datetime": pa.timestamp("us"),
    "datetimeoffset": pa.timestamp("us", "UTC"),
    "string": pa.string(),
    "binary": pa.binary(),
    "bytearray": pa.binary(),
}
_COMPRESSIONS: Final = {".gz": "gzip", ".zst": "zstd"}


def read_delimited_text(file: BinaryIO, name: str, metadata: TableMetadata) -> pa.Table:
    """Read a file of delimited text.

    Raise pa.ArrowException, UnicodeDecodeError or LookupError for content that does not fit its description.
    """
    properties = _lowered((metadata.raw or {}).get("fileformattypeproperties"))
    declared = _declared_types((metadata.raw or {}).get("schemadefinition"))
    has_header = str(properties.get("firstrowasheader", "true")).lower() != "false"
    quote = _one(properties.get("quotecharacter"), '"')
    escape = _one(properties.get("escapecharacter"), "\\")
    null = properties.get("nullvalue")
    encoding = str(properties.get("encoding") or "utf-8")
    content = _decompressed(file, name).decode(encoding).removeprefix("\ufeff").encode()
    first_line = content.partition(b"\n")[0] + b"\n"
    separator = _one(properties.get("columnseparator"), ",")
    names = _names(first_line, separator, quote) if has_header else [column for column, _ in declared]
    by_name = {column.casefold(): column_type for column, column_type in declared}
    types = {column: by_name.get(column.casefold(), pa.string()) for column in names}
    return pa_csv.read_csv(
        io.BytesIO(content),
        read_options=pa_csv.ReadOptions(
            column_names=names or None,
            skip_rows=1 if has_header and names else 0,
        ),
        parse_options=pa_csv.ParseOptions(
            delimiter=separator,
            quote_char=quote or False,
            escape_char=False if escape in ("", quote) else escape,  # two quotes are one quote in any case
            newlines_in_values=True,
        ),
        convert_options=pa_csv.ConvertOptions(
            column_types=types,
            null_values=[str(null)] if null is not None else [""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _names(first_line: bytes, separator: str, quote: str) -> list[str]:
    """Return the names of a header line, which Arrow's reader splits as it splits rows."""
    if not first_line.strip():
        return []
    parse = pa_csv.ParseOptions(delimiter=separator, quote_char=quote or False)
    return list(pa_csv.read_csv(io.BytesIO(first_line), parse_options=parse).column_names)


def _declared_types(definition: object) -> list[tuple[str, pa.DataType]]:
    """Return the declared columns in order, with their types; an unknown type is text."""
    columns = _lowered(definition).get("columns")
    found = [_lowered(column) for column in columns] if isinstance(columns, list) else []
    return [
        (str(column["name"]), _TYPES.get(str(column.get("datatype", "string")).lower(), pa.string()))
        for column in found
        if "name" in column
    ]


def _lowered(value: object) -> dict[str, Any]:
    return {str(name).lower(): item for name, item in value.items()} if isinstance(value, dict) else {}


def _one(value: object, default: str) -> str:
    """Return a single character; a backslash and a `t` mean a tab."""
    text = default if value is None else str(value).replace("\\t", "\t")
    return text[:1]


def _decompressed(file: BinaryIO, name: str) -> bytes:
    ending = next((ending for ending in _COMPRESSIONS if name.lower().endswith(ending)), None)
    if ending is None:
        return file.read()
    with pa.CompressedInputStream(pa.PythonFile(file), _COMPRESSIONS[ending]) as stream:
        content: bytes = stream.read()
    return content
