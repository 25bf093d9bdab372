"""Pages of the landing ledger for people: files from the newest on, and the batches of one file.

Retention deletes old files and blocks, so a page can end before the first file, and a file can have lost its batches.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import sqlalchemy as sa

from app.domain.model.table import BatchSequence, FileNumber, Generation, TableId
from app.domain.model.table_schema import SchemaVersion

_COLUMNS = """number, first_sequence, last_sequence, schema_version, row_count, change_count, digest, state, file_bytes,
    file_sha256, planned_at, published_at, repair_requested"""
"""The columns of a FileLine."""

SELECT_NEWEST_FILES = sa.text(f"""
    SELECT {_COLUMNS} FROM mirrorgate.landing_files
    WHERE table_id = :table_id AND generation = :generation AND number < :before ORDER BY number DESC LIMIT :limit""")  # noqa: S608  # constant columns
"""List a generation's files before a number, the newest first."""

SELECT_FILE = sa.text(f"""
    SELECT {_COLUMNS} FROM mirrorgate.landing_files
    WHERE table_id = :table_id AND generation = :generation AND number = :number""")  # noqa: S608  # constant columns
"""Read one file of a generation."""

SELECT_FILE_BATCHES = sa.text("""
    SELECT b.first_sequence + e.place - 1 AS sequence, e.changes, e.rows, b.staged_at
    FROM (
        SELECT first_sequence, batch_changes, batch_rows, staged_at FROM mirrorgate.staged_blocks
        WHERE table_id = :table_id AND generation = :generation
          AND last_sequence >= :first_sequence AND last_sequence <= :last_sequence
        ORDER BY last_sequence LIMIT :limit) b
    CROSS JOIN LATERAL unnest(b.batch_changes, b.batch_rows) WITH ORDINALITY AS e (changes, rows, place)
    WHERE b.first_sequence + e.place - 1 >= :first_sequence
    ORDER BY 1 LIMIT :limit""")
"""List the batches of a range that are kept, in order. Each block has at least one batch, so few blocks are read."""


@dataclass(frozen=True, slots=True)
class FileLine:
    """One file of the ledger, as people read it."""

    number: FileNumber
    first_sequence: BatchSequence
    last_sequence: BatchSequence
    schema_version: SchemaVersion
    row_count: int
    change_count: int
    digest: str
    state: Literal["planned", "published"]
    file_bytes: int | None
    file_sha256: str | None
    planned_at: datetime
    published_at: datetime | None
    repair_requested: bool


@dataclass(frozen=True, slots=True)
class FileBatch:
    """One batch of a file."""

    sequence: BatchSequence
    changes: int
    rows: int
    staged_at: datetime


def newest_files(
    connection: sa.Connection, table_id: TableId, generation: Generation, *, before: FileNumber, limit: int
) -> list[FileLine]:
    """Return at most `limit` files of a generation with smaller numbers than `before`, the newest first."""
    keys = {"table_id": table_id, "generation": generation, "before": before, "limit": limit}
    return [FileLine(*row) for row in connection.execute(SELECT_NEWEST_FILES, keys)]


def find_file(
    connection: sa.Connection, table_id: TableId, generation: Generation, number: FileNumber
) -> FileLine | None:
    """Return a file of a generation, None if there is none or retention deleted it."""
    keys = {"table_id": table_id, "generation": generation, "number": number}
    row = connection.execute(SELECT_FILE, keys).one_or_none()
    return None if row is None else FileLine(*row)


def batches_of_file(
    connection: sa.Connection,
    table_id: TableId,
    generation: Generation,
    file: FileLine,
    *,
    after: BatchSequence,
    limit: int,
) -> list[FileBatch]:
    """Return at most `limit` batches of a file after a sequence, in order, without those that retention deleted."""
    keys = {
        "table_id": table_id,
        "generation": generation,
        "first_sequence": max(file.first_sequence, after + 1),
        "last_sequence": file.last_sequence,
        "limit": limit,
    }
    return [FileBatch(*row) for row in connection.execute(SELECT_FILE_BATCHES, keys)]
