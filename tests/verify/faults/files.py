"""Faults of the content of data files."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe

from mirrorgate_zone.verify.codes import FindingCode
from tests.verify.planting import plants
from tests.verify.zones import Zone, file_name, rows


@plants(FindingCode.ZERO_BYTE_FILE)
def zero_bytes(zone: Zone) -> Path:
    return zone.clean().raw(file_name(3), b"")


@plants(FindingCode.TRUNCATED_FILE)
def half_a_file(zone: Zone) -> Path:
    path = zone.clean().file(3, rows(3))
    path.write_bytes(path.read_bytes()[:-100])
    return path


@plants(FindingCode.TRUNCATED_FILE)
def only_the_first_word(zone: Zone) -> Path:
    return zone.clean().raw(file_name(3), b"PAR1")


@plants(FindingCode.NOT_PARQUET)
def text_under_a_parquet_name(zone: Zone) -> Path:
    return zone.clean().raw(file_name(3), b"id,name\r\n1,a\r\n")


@plants(FindingCode.DAMAGED_FOOTER)
def noise_in_the_footer(zone: Zone) -> Path:
    path = zone.clean().file(3, rows(3))
    content = bytearray(path.read_bytes())
    content[-60:-20] = b"\xff" * 40
    path.write_bytes(bytes(content))
    return path


@plants(FindingCode.DAMAGED_FOOTER)
def footer_longer_than_the_file(zone: Zone) -> Path:
    return zone.clean().raw(file_name(3), b"PAR1" + b"\xff\xff\xff\x7f" + b"PAR1")


class _Keys(pe.KmsClient):  # type: ignore[misc]  # PyArrow has no types
    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
        return key_bytes

    def unwrap_key(self, wrapped_key: bytes, master_key_identifier: str) -> bytes:
        return wrapped_key


def write_encrypted(path: Path, table: pa.Table, *, plaintext_footer: bool) -> None:
    factory = pe.CryptoFactory(lambda _: _Keys())
    configuration = pe.EncryptionConfiguration(
        footer_key="footer", column_keys={"column": ["name"]}, plaintext_footer=plaintext_footer
    )
    properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), configuration)
    with pq.ParquetWriter(path, table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)


@plants(FindingCode.ENCRYPTED_FILE)
def encrypted_footer(zone: Zone) -> Path:
    path = zone.clean().path / file_name(3)
    write_encrypted(path, rows(3), plaintext_footer=False)
    return path


@plants(FindingCode.ENCRYPTED_FILE)
def encrypted_columns(zone: Zone) -> Path:
    path = zone.clean().path / file_name(3)
    write_encrypted(path, rows(3), plaintext_footer=True)
    return path


@plants(FindingCode.UNSUPPORTED_COMPRESSION)
def brotli(zone: Zone) -> Path:
    return zone.clean().file(3, rows(3), compression="brotli")


@plants(FindingCode.UNSUPPORTED_COMPRESSION)
def lz4_in_one_column(zone: Zone) -> Path:
    compression = {"id": "zstd", "name": "lz4", "__rowMarker__": "none"}
    return zone.clean().file(3, rows(3), compression=compression)


@plants(FindingCode.SMALL_ROW_GROUPS)
def a_row_group_per_row(zone: Zone) -> Path:
    return zone.clean().file(3, rows(*range(10, 30)), row_group_size=1)


@plants(FindingCode.LARGE_CELL)
def value_of_17_megabytes(zone: Zone) -> Path:
    value = pa.array(["x" * (17 * 2**20)])
    return zone.clean().file(3, rows(3, marker=None, note=value))
