"""Zones of delimited text, as the documentation describes them and as publishers write them."""

from pathlib import Path
from typing import Final

from tests.support.publishers.files import NAME, write_metadata, write_partner_events

_COLUMNS: Final = [
    {"Name": "id", "DataType": "Int64"},
    {"Name": "customer", "DataType": "String", "IsNullable": True},
    {"Name": "amount", "DataType": "Double", "IsNullable": True},
    {"Name": "changed_at", "DataType": "DateTime", "IsNullable": True},
]


def documented_csv(root: Path) -> Path:
    """Follow the documentation: a header, CRLF, a schema definition, and `N/A` for NULL."""
    folder = _folder(root)
    write_metadata(
        folder,
        "id",
        SchemaDefinition={"Columns": [*_COLUMNS, {"Name": "__rowMarker__", "DataType": "Int32"}]},
        FileFormat="CSV",
        FileExtension="csv",
        FileFormatTypeProperties={
            "FirstRowAsHeader": True,
            "RowSeparator": "\r\n",
            "ColumnSeparator": ",",
            "QuoteCharacter": '"',
            "EscapeCharacter": "\\",
            "NullValue": "N/A",
            "Encoding": "UTF-8",
        },
    )
    _write(
        folder, 1, "id,customer,amount,changed_at,__rowMarker__", '1,"a, b",1.5,2025-06-17 14:30:00,0', "2,N/A,2,N/A,0"
    )
    _write(folder, 2, "id,customer,amount,changed_at,__rowMarker__", "1,c,2.5,2025-06-18 14:30:00,1", "2,N/A,N/A,N/A,2")
    return folder


def camel_case_csv(root: Path) -> Path:
    """Write every member in camel case, `csv` as the format, quotes doubled inside quotes, and no schema definition."""
    folder = _folder(root)
    write_metadata(
        folder,
        "Id",
        fileExtension="csv",
        fileFormat="csv",
        fileFormatTypeProperties={
            "firstRowAsHeader": True,
            "rowSeparator": "\r\n",
            "columnSeparator": ",",
            "quoteCharacter": '"',
            "escapeCharacter": '"',
            "nullValue": "",
            "encoding": "UTF-8",
        },
    )
    _write(folder, 1, "Id,Name,__rowMarker__", '1,"a ""b""",4', "2,c,4")
    _write(folder, 2, "Id,Name,__rowMarker__", "1,,4", "2,,2")
    return folder


def csv_without_schema(root: Path) -> Path:
    """Write `fileFormat` alone, with a schema definition and neither extension nor properties; no marker column."""
    folder = _folder(root)
    write_metadata(folder, "id", SchemaDefinition={"Columns": _COLUMNS[:2]}, fileFormat="csv")
    _write(folder, 1, "id,customer", "1,a", "2,b")
    _write(folder, 2, "id,customer", "3,c")
    return folder


def semicolon_csv(root: Path) -> Path:
    """Separate columns by semicolons, quote by apostrophes, and encode in windows-1252."""
    folder = _folder(root)
    write_metadata(
        folder,
        "id",
        SchemaDefinition={"Columns": _COLUMNS[:2]},
        FileFormat="DelimitedText",
        FileExtension="csv",
        FileFormatTypeProperties={
            "FirstRowAsHeader": True,
            "ColumnSeparator": ";",
            "QuoteCharacter": "'",
            "Encoding": "windows-1252",
        },
    )
    _write(folder, 1, "id;customer;__rowMarker__", "1;'M\u00fcller; Sohn';0", encoding="windows-1252")
    _write(folder, 2, "id;customer;__rowMarker__", "1;M\u00fcller;1", encoding="windows-1252")
    return folder


def _folder(root: Path) -> Path:
    write_partner_events(root)
    return root / NAME


def _write(folder: Path, number: int, *lines: str, encoding: str = "utf-8") -> None:
    (folder / f"{number:020}.csv").write_bytes("".join(f"{line}\r\n" for line in lines).encode(encoding))
