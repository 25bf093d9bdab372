"""A landing file: its name, its identity, and its two recorded states, which cannot be confused."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Final

from app.domain.model.table import BatchSequence, Epoch, FileNumber, Generation, TableId
from app.domain.model.table_schema import SchemaVersion

FOOTER_PREFIX: Final = "mirrorgate."
_NAME: Final = re.compile(r"(\d{20})\.parquet", re.ASCII)


def file_name(number: FileNumber) -> str:
    """The visible name of a landing file: 20 digits, `.parquet`."""
    return f"{number:020d}.parquet"


def parse_file_name(name: str) -> FileNumber | None:
    """The number of a landing file's name, None for any other name."""
    match = _NAME.fullmatch(name)
    return FileNumber(int(match[1])) if match else None


@dataclass(frozen=True, slots=True)
class BatchRange:
    """Consecutive change batches of one generation, both ends included; 1 to 0 is none."""

    first: BatchSequence
    last: BatchSequence


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """What a landing file is, written into its Parquet footer: two files with one identity hold the same rows."""

    table: str
    generation: Generation
    number: FileNumber
    first_sequence: BatchSequence
    last_sequence: BatchSequence
    rows: int
    digest: str

    def footer(self) -> dict[str, str]:
        """Key-value metadata for the Parquet footer."""
        return {FOOTER_PREFIX + name: str(value) for name, value in asdict(self).items()}

    @classmethod
    def from_footer(cls, metadata: Mapping[bytes, bytes]) -> "FileIdentity | None":
        """The identity a footer states; None when the file is not one of ours."""
        text = {key.decode(errors="replace"): value.decode(errors="replace") for key, value in metadata.items()}
        try:
            return cls(
                table=text[FOOTER_PREFIX + "table"],
                generation=Generation(int(text[FOOTER_PREFIX + "generation"])),
                number=FileNumber(int(text[FOOTER_PREFIX + "number"])),
                first_sequence=BatchSequence(int(text[FOOTER_PREFIX + "first_sequence"])),
                last_sequence=BatchSequence(int(text[FOOTER_PREFIX + "last_sequence"])),
                rows=int(text[FOOTER_PREFIX + "rows"]),
                digest=text[FOOTER_PREFIX + "digest"],
            )
        except (KeyError, ValueError):
            return None


def seed_identity(table: str, generation: Generation) -> FileIdentity:
    """File 1 of a table that is to be seen before it has data: the columns, no batch and no row."""
    return FileIdentity(
        table, generation, FileNumber(1), BatchSequence(1), BatchSequence(0), rows=0, digest=content_digest([])
    )


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file recorded in the ledger that may or may not be visible: its content is fixed, its number is its own."""

    table_id: TableId
    schema_version: SchemaVersion
    identity: FileIdentity
    payload_bytes: int | None = field(default=None, compare=False)
    """Compressed size of what it is built from, where that is known: the ledger does not keep it."""


@dataclass(frozen=True, slots=True)
class BuiltFile:
    """A finished, fsynced and verified temp of a planned file: `temp_name` in the scratch of `epoch`."""

    planned: PlannedFile
    epoch: Epoch
    temp_name: str
    file_bytes: int
    file_sha256: str


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """A file that is visible under its number and recorded so."""

    planned: PlannedFile
    file_bytes: int


def content_digest(block_digests: Iterable[bytes]) -> str:
    """Digest of a file's logical content: SHA-256 over its blocks' payload digests, in order, as hex."""
    digest = hashlib.sha256()
    for block_digest in block_digests:
        digest.update(block_digest)
    return digest.hexdigest()
