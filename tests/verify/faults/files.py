"""Faults of the content of data files."""

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
from tests.verify.zones import Zone, rows

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
