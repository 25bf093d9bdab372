"""Findings about the content of data files, apart from their columns and rows."""

from collections.abc import Mapping
from typing import Final

from app.verify.catalogue.entry import Entry, advice, error, warning
from app.verify.codes import FindingCode

_REPLACE: Final = (
    "Put a valid file with the same rows at the same name, complete before it is visible: write it under a hidden "
    "name, check it, and rename it."
)

FILES: Final[Mapping[FindingCode, Entry]] = {
    FindingCode.ZERO_BYTE_FILE: error(
        "A data file has no byte. It stops the table.",
        _REPLACE + " For no rows, write a Parquet file with columns and no row.",
    ),
    FindingCode.TRUNCATED_FILE: error(
        "A Parquet file has no end: it was visible before it was complete, or an upload broke off. It stops the table.",
        _REPLACE,
    ),
    FindingCode.NOT_PARQUET: error(
        "A file with the name of a Parquet file has other content. It stops the table.",
        _REPLACE,
    ),
    FindingCode.ENCRYPTED_FILE: error(
        "A Parquet file is encrypted. Mirroring has no key for it.",
        "Write files without Parquet encryption: OneLake encrypts what it stores.",
    ),
    FindingCode.DAMAGED_FOOTER: error(
        "The footer of a Parquet file cannot be read. The file stops the table.",
        _REPLACE,
    ),
    FindingCode.DAMAGED_TEXT: error(
        "A file of delimited text cannot be read as `_metadata.json` describes it.",
        "Correct the file at the same name, or the description: separator, quotes, encoding, types.",
    ),
    FindingCode.UNSUPPORTED_COMPRESSION: error(
        "A Parquet file is compressed by a codec that open mirroring does not read.",
        "Write it uncompressed, or with Snappy, GZIP or ZSTD.",
    ),
    FindingCode.SMALL_ROW_GROUPS: advice(
        "A Parquet file has many row groups of few rows. It is larger than necessary, and slow to read.",
        "Write row groups of some 100,000 to 1,000,000 rows: one write call per file, not one per row or batch.",
    ),
    FindingCode.LARGE_ROW_GROUP: advice(
        "A Parquet file has a row group of more than 1 GiB, which a reader may have to hold in memory.",
        "Write row groups of at most 1,000,000 rows or some 100 MB.",
    ),
    FindingCode.LARGE_CELL: warning(
        "A text or binary value is larger than 16 MB, the most that the SQL endpoint shows.",
        "Keep such values outside of the table, and publish their address.",
    ),
}
