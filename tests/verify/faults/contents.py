"""Faults of the content of data files: footers, columns, types, and delimited text."""

from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe

from app.domain.model.landing_file import FileIdentity
from app.domain.model.table import BatchSequence, FileNumber, Generation
from mirrorgate_zone.verify.codes import FindingCode
from tests.support.publishers import parquet_name
from tests.verify.planting import plants, plants_each
from tests.verify.zones import TableFolder, Zone, rows

CONTENTS: Final = {
    "zero_bytes": (FindingCode.ZERO_BYTE_FILE, b""),
    "only_the_first_word": (FindingCode.TRUNCATED_FILE, b"PAR1"),
    "text_under_a_parquet_name": (FindingCode.NOT_PARQUET, b"id,name\r\n1,a\r\n"),
    "footer_longer_than_the_file": (FindingCode.DAMAGED_FOOTER, b"PAR1\xff\xff\xff\x7fPAR1"),
}
plants_each(CONTENTS, lambda zone, content: zone.clean().raw(parquet_name(3), content))

OPTIONS: Final[dict[str, tuple[FindingCode, dict[str, Any]]]] = {
    "brotli": (FindingCode.UNSUPPORTED_COMPRESSION, {"compression": "brotli"}),
    "lz4_in_one_column": (
        FindingCode.UNSUPPORTED_COMPRESSION,
        {"compression": {"id": "zstd", "name": "lz4", "__rowMarker__": "none"}},
    ),
    "a_row_group_per_row": (FindingCode.SMALL_ROW_GROUPS, {"row_group_size": 1}),
}
plants_each(OPTIONS, lambda zone, options: zone.clean().file(3, rows(*range(10, 30)), **options))


@plants(FindingCode.TRUNCATED_FILE)
def half_a_file(zone: Zone) -> Path:
    path = zone.clean().file(3, rows(3))
    path.write_bytes(path.read_bytes()[:-100])
    return path


@plants(FindingCode.DAMAGED_FOOTER)
def noise_in_the_footer(zone: Zone) -> Path:
    path = zone.clean().file(3, rows(3))
    content = bytearray(path.read_bytes())
    content[-60:-20] = b"\xff" * 40
    path.write_bytes(bytes(content))
    return path


class _Keys(pe.KmsClient):  # type: ignore[misc]  # PyArrow has no types
    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
        return key_bytes

    def unwrap_key(self, wrapped_key: bytes, master_key_identifier: str) -> bytes:
        return wrapped_key


def write_encrypted(zone: Zone, plaintext_footer: bool) -> Path:
    path, table = zone.clean().path / parquet_name(3), rows(3)
    factory = pe.CryptoFactory(lambda _: _Keys())
    configuration = pe.EncryptionConfiguration(
        footer_key="footer", column_keys={"column": ["name"]}, plaintext_footer=plaintext_footer
    )
    properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), configuration)
    with pq.ParquetWriter(path, table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)
    return path


FOOTERS: Final = {
    "encrypted_footer": (FindingCode.ENCRYPTED_FILE, False),
    "encrypted_columns": (FindingCode.ENCRYPTED_FILE, True),
}
plants_each(FOOTERS, write_encrypted)


@plants(FindingCode.LARGE_CELL)
def value_of_17_megabytes(zone: Zone) -> Path:
    value = pa.array(["x" * (17 * 2**20)])
    return zone.clean().file(3, rows(3, marker=None, note=value))


def made_for(table: str, number: int) -> pa.Table:
    """Return rows with the footer that a gateway gives a file."""
    identity = FileIdentity(
        table, Generation(1), FileNumber(number), BatchSequence(number), BatchSequence(number), 1, "digest"
    )
    return rows(3).replace_schema_metadata(identity.footer())


MADE_FOR: Final = {
    "file_under_the_number_of_another": (FindingCode.MISPLACED_FILE, ("t", 2)),
    "file_of_another_table": (FindingCode.MISPLACED_FILE, ("u", 3)),
    "file_of_a_name_that_no_table_has": (FindingCode.MISPLACED_FILE, ("a.b.c", 3)),
}
plants_each(MADE_FOR, lambda zone, made: zone.clean().file(3, made_for(*made)))


FIRST_FILES: Final = {
    "marker_first": (FindingCode.MARKER_NOT_LAST, rows(1).select(["__rowMarker__", "id", "name"])),
    "marker_of_floats": (FindingCode.MARKER_TYPE, rows(1, marker=None, __rowMarker__=pa.array([0.0]))),
    "marker_in_lower_case": (FindingCode.MARKER_CASE, rows(1).rename_columns(["id", "name", "__rowmarker__"])),
    "marker_without_underscores": (
        FindingCode.MARKER_MISSPELLED,
        rows(1).rename_columns(["id", "name", "_row_marker_"]),
    ),
    "columns_of_one_name": (FindingCode.COLUMNS_DIFFER_IN_CASE, rows(1, marker=None, Name=pa.array(["x"]))),
    "blank_name": (FindingCode.BLANK_COLUMN_NAME, rows(1, marker=None, **{" ": pa.array([1])})),
    "list_column": (FindingCode.UNSUPPORTED_TYPE, rows(1, marker=None, tags=pa.array([["a"]]))),
    "struct_column": (FindingCode.UNSUPPORTED_TYPE, rows(1, marker=None, place=pa.array([{"city": "a"}]))),
    "column_without_a_type": (FindingCode.UNSUPPORTED_TYPE, rows(1, marker=None, nothing=pa.nulls(1))),
    "decimal_of_50_digits": (
        FindingCode.UNSUPPORTED_TYPE,
        rows(1, marker=None, amount=pa.nulls(1, pa.decimal256(50, 2))),
    ),
    "nanoseconds": (FindingCode.DOUBTFUL_TYPE, rows(1, marker=None, at=pa.array([1], pa.timestamp("ns")))),
    "time_of_day": (FindingCode.DOUBTFUL_TYPE, rows(1, marker=None, at=pa.array([1], pa.time64("us")))),
}
plants_each(FIRST_FILES, lambda zone, content: zone.table().file(1, content))

LATER_FILES: Final = {
    "column_in_capitals": (FindingCode.COLUMN_CASE_CHANGED, rows(3).rename_columns(["id", "NAME", "__rowMarker__"])),
    "column_dropped": (FindingCode.COLUMN_MISSING, rows(3).drop_columns("name")),
}
plants_each(LATER_FILES, lambda zone, content: zone.clean().file(3, content))


@plants(FindingCode.NO_COLUMNS)
def only_the_marker(zone: Zone) -> Path:
    return zone.table(keys=None).file(1, rows(1).select(["__rowMarker__"]))


@plants(FindingCode.TYPE_CHANGED)
def wider_type(zone: Zone) -> Path:
    table = zone.table()
    table.file(1, rows(1, marker=None, amount=pa.array([1], pa.int32())))
    table.file(2, rows(2, marker=None, amount=pa.array([1], pa.int32())))
    return table.file(3, rows(3, marker=None, amount=pa.array([1], pa.int64())))


def required(name: str, table: pa.Table) -> pa.Table:
    """Return the table with one column declared as REQUIRED."""
    fields = [field.with_nullable(field.name != name) for field in table.schema]
    return table.cast(pa.schema(fields))


@plants(FindingCode.REQUIRED_COLUMN_MISSING)
def required_column_dropped(zone: Zone) -> Path:
    table = zone.table()
    table.file(1, required("name", rows(1)))
    return table.file(2, rows(2).drop_columns("name"))


@plants(FindingCode.NEW_REQUIRED_COLUMN)
def required_column_added(zone: Zone) -> Path:
    table = zone.table()
    table.file(1, rows(1).drop_columns("name"))
    return table.file(2, required("name", rows(2)))


NAME: Final = f"{1:020}.csv"


def schema(of_name: str = "String") -> dict[str, object]:
    return {"Columns": [{"Name": "id", "DataType": "Int64"}, {"Name": "name", "DataType": of_name}]}


def text_table(zone: Zone, content: bytes = b"id,name\r\n1,a\r\n", **metadata: object) -> TableFolder:
    described = {"FileFormat": "CSV", "SchemaDefinition": schema()} | metadata
    table = zone.table(**{name: value for name, value in described.items() if value is not None})
    table.raw(NAME, content)
    return table


TEXTS: Final = {
    "ragged_rows": (FindingCode.DAMAGED_TEXT, b"id,name\r\n1,a,b\r\n"),
    "text_that_is_no_number": (FindingCode.DAMAGED_TEXT, b"id,name\r\nx,a\r\n"),
    "empty_text": (FindingCode.ZERO_BYTE_FILE, b""),
}
plants_each(TEXTS, lambda zone, content: text_table(zone, content).path / NAME)


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
