"""A landing file: its name, its identity, and its states *planned* and *built*, which have separate types."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Final

import msgspec

from app.domain.model.table import BatchSequence, Epoch, FileNumber, Generation, TableId
from app.domain.model.table_schema import SchemaVersion, TableSchema

FOOTER_PREFIX: Final = "mirrorgate."
_NAME: Final = re.compile(r"(\d{20})\.parquet", re.ASCII)


def file_name(number: FileNumber) -> str:
    """Return the visible name of a landing file: 20 digits and `.parquet`."""
    return f"{number:020d}.parquet"


def parse_file_name(name: str) -> FileNumber | None:
    """Return the number in a landing file's name, None for any other name."""
    match = _NAME.fullmatch(name)
    return FileNumber(int(match[1])) if match else None


@dataclass(frozen=True, slots=True)
class BatchRange:
    """Consecutive batches of one generation, both ends included; 1 to 0 means none."""

    first: BatchSequence
    last: BatchSequence


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """The identity of a landing file, in its Parquet footer: two files with one identity have the same rows."""

    table: str
    generation: Generation
    number: FileNumber
    first_sequence: BatchSequence
    last_sequence: BatchSequence
    rows: int
    digest: str

    def footer(self) -> dict[str, str]:
        """Return the key-value metadata for the Parquet footer."""
        return {FOOTER_PREFIX + name: str(value) for name, value in asdict(self).items()}

    @classmethod
    def from_footer(cls, metadata: Mapping[bytes, bytes]) -> "FileIdentity | None":
        """Return the identity in a footer, None if the gateway did not write the file."""
        written = {
            name.removeprefix(FOOTER_PREFIX): value.decode(errors="replace")
            for key, value in metadata.items()
            if (name := key.decode(errors="replace")).startswith(FOOTER_PREFIX)
        }
        try:
            return msgspec.convert(written, cls, strict=False)
        except msgspec.ValidationError:
            return None


def seed_identity(table: str, generation: Generation, schema: TableSchema) -> FileIdentity:
    """Return the identity of a seed file: file 1, with the columns of a schema, no batch and no row."""
    digest = content_digest([msgspec.json.encode(schema.to_json())])
    return FileIdentity(table, generation, FileNumber(1), BatchSequence(1), BatchSequence(0), rows=0, digest=digest)


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file in the ledger that may or may not be visible. Its content and its number are fixed."""

    table_id: TableId
    schema_version: SchemaVersion
    identity: FileIdentity
    payload_bytes: int | None = field(default=None, compare=False)
    """Compressed size of its payloads, if known; the ledger does not store it."""
    landed_bytes: int | None = field(default=None, compare=False)
    """Size of its rows once they are decoded, if known."""


@dataclass(frozen=True, slots=True)
class BuiltFile:
    """A finished, fsynced and verified attempt of a planned file: `temp_name` in the scratch of `epoch`."""

    planned: PlannedFile
    epoch: Epoch
    temp_name: str
    file_bytes: int
    file_sha256: str


def content_digest(block_digests: Iterable[bytes]) -> str:
    """Return the digest of a file's content: SHA-256 over its blocks' payload digests in order, as hex."""
    digest = hashlib.sha256()
    for block_digest in block_digests:
        digest.update(block_digest)
    return digest.hexdigest()
