"""Faults of tables of delimited text."""

from pathlib import Path

from mirrorgate_zone.verify.codes import FindingCode
from tests.verify.planting import plants
from tests.verify.zones import TableFolder, Zone

SCHEMA = {"Columns": [{"Name": "id", "DataType": "Int64"}, {"Name": "name", "DataType": "String"}]}


def text_table(zone: Zone, content: bytes = b"id,name\r\n1,a\r\n", **metadata: object) -> TableFolder:
    described = {"FileFormat": "CSV", "SchemaDefinition": SCHEMA} | metadata
    table = zone.table(**{name: value for name, value in described.items() if value is not None})
    table.raw(f"{1:020}.csv", content)
    return table


@plants(FindingCode.TEXT_WITHOUT_EXTENSION)
def no_extension(zone: Zone) -> Path:
    return text_table(zone, FileFormat="DelimitedText").path / "_metadata.json"


@plants(FindingCode.TEXT_WITHOUT_HEADER)
def no_header(zone: Zone) -> Path:
    table = text_table(zone, b"1,a\r\n", FileFormatTypeProperties={"FirstRowAsHeader": False})
    return table.path / "_metadata.json"


@plants(FindingCode.TEXT_WITHOUT_TYPES)
def no_types(zone: Zone) -> Path:
    return text_table(zone, SchemaDefinition=None).path / "_metadata.json"


@plants(FindingCode.DAMAGED_TEXT)
def ragged_rows(zone: Zone) -> Path:
    return text_table(zone, b"id,name\r\n1,a,b\r\n").path / f"{1:020}.csv"


@plants(FindingCode.DAMAGED_TEXT)
def text_that_is_no_time(zone: Zone) -> Path:
    schema = {"Columns": [{"Name": "id", "DataType": "Int64"}, {"Name": "name", "DataType": "ITime"}]}
    return text_table(zone, b"id,name\r\n1,25:00\r\n", SchemaDefinition=schema).path / f"{1:020}.csv"


@plants(FindingCode.DAMAGED_TEXT)
def text_that_is_not_compressed_with_snappy(zone: Zone) -> Path:
    table = text_table(zone)
    (table.path / f"{1:020}.csv").rename(table.path / f"{1:020}.csv.snappy")
    return table.path / f"{1:020}.csv.snappy"


@plants(FindingCode.DAMAGED_TEXT)
def text_that_is_no_number(zone: Zone) -> Path:
    return text_table(zone, b"id,name\r\nx,a\r\n").path / f"{1:020}.csv"


@plants(FindingCode.ZERO_BYTE_FILE)
def empty_text(zone: Zone) -> Path:
    return text_table(zone, b"").path / f"{1:020}.csv"
