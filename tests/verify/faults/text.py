"""Faults of tables of delimited text."""

from pathlib import Path
from typing import Final

from mirrorgate_zone.verify.codes import FindingCode
from tests.verify.planting import plants, plants_each
from tests.verify.zones import TableFolder, Zone

NAME: Final = f"{1:020}.csv"


def schema(of_name: str = "String") -> dict[str, object]:
    return {"Columns": [{"Name": "id", "DataType": "Int64"}, {"Name": "name", "DataType": of_name}]}


def text_table(zone: Zone, content: bytes = b"id,name\r\n1,a\r\n", **metadata: object) -> TableFolder:
    described = {"FileFormat": "CSV", "SchemaDefinition": schema()} | metadata
    table = zone.table(**{name: value for name, value in described.items() if value is not None})
    table.raw(NAME, content)
    return table


CONTENTS: Final = {
    "ragged_rows": (FindingCode.DAMAGED_TEXT, b"id,name\r\n1,a,b\r\n"),
    "text_that_is_no_number": (FindingCode.DAMAGED_TEXT, b"id,name\r\nx,a\r\n"),
    "empty_text": (FindingCode.ZERO_BYTE_FILE, b""),
}
plants_each(CONTENTS, lambda zone, content: text_table(zone, content).path / NAME)


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
def text_that_is_no_time(zone: Zone) -> Path:
    return text_table(zone, b"id,name\r\n1,25:00\r\n", SchemaDefinition=schema("ITime")).path / NAME


@plants(FindingCode.DAMAGED_TEXT)
def text_that_is_not_compressed_with_snappy(zone: Zone) -> Path:
    path = text_table(zone).path / NAME
    return path.rename(path.with_name(f"{NAME}.snappy"))
