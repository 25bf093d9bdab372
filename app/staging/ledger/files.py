"""The landing ledger and the metadata chain: planned files become registered builds (W5), then published files (W8).

`planning` writes the lines of the ledger; the number, batch range and digest of a planned file never change. Foreign
keys chain each file to its predecessor's number and last sequence, so the database itself rejects a gap or an overlap
(decision 0003).

`newest_files` and `batches_of_file` return pages of the ledger for people: files from the newest on, and the batches of
one file. Retention deletes old files and blocks, so a page can end before the first file, and a file can have lost its
batches.

`append_block` extends the metadata chain: append-only blocks, written in the transaction of what they record. Each
block holds the hash of the one before, and the database rejects a second block with the same number.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import sqlalchemy as sa

from app.domain.model.landing_file import BuiltFile, FileIdentity, PlannedFile
from app.domain.model.table import BatchSequence, Epoch, FileNumber, Generation, Table, TableId, TableLife
from app.domain.model.table_schema import SchemaVersion
from app.domain.publication import ChainBlock, ChainEvent, add_data
from app.staging.batches.sequence_lock import lock_counters, shorten_lock_timeout
from app.staging.ledger.leases import check_epoch, check_epochs
from mirrorgate.errors import Code, InvariantBroken

_SELECT = """
    SELECT number, first_sequence, last_sequence, schema_version, row_count, change_count, digest, state, file_bytes,
        file_sha256, planned_at, published_at, repair_requested
    FROM mirrorgate.landing_files WHERE table_id = :table_id AND generation = :generation"""
"""Read the files of a generation as LedgerEntry has them; the beginning of five statements."""

SELECT_NEWEST_FILES = sa.text(f"{_SELECT} AND number < :before ORDER BY number DESC LIMIT :limit")
"""List a generation's files before a number, the newest first."""

SELECT_FILE = sa.text(f"{_SELECT} AND number = :number")
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
class LedgerEntry:
    """One file of the ledger."""

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
) -> list[LedgerEntry]:
    """Return at most `limit` files of a generation with smaller numbers than `before`, the newest first."""
    keys = {"table_id": table_id, "generation": generation, "before": before, "limit": limit}
    return [LedgerEntry(*row) for row in connection.execute(SELECT_NEWEST_FILES, keys)]


def find_file(
    connection: sa.Connection, table_id: TableId, generation: Generation, number: FileNumber
) -> LedgerEntry | None:
    """Return a file of a generation, None if there is none or retention deleted it."""
    keys = {"table_id": table_id, "generation": generation, "number": number}
    row = connection.execute(SELECT_FILE, keys).one_or_none()
    return None if row is None else LedgerEntry(*row)


def batches_of_file(
    connection: sa.Connection,
    table_id: TableId,
    generation: Generation,
    file: LedgerEntry,
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


SELECT_LAST_BLOCKS = sa.text("""
    SELECT chain.table_id, chain.generation, clock_timestamp() AS system_time, b.sequence_number, b.block_hash
    FROM unnest(CAST(:table_ids AS bigint[]), CAST(:generations AS integer[])) AS chain (table_id, generation)
    LEFT JOIN LATERAL (
        SELECT sequence_number, block_hash FROM mirrorgate.metadata_blocks
        WHERE table_id = chain.table_id AND generation = chain.generation
        ORDER BY sequence_number DESC LIMIT 1) b ON true""")
"""Read the last block of each chain, and the time of the database."""

INSERT_METADATA_BLOCK = sa.text("""
    INSERT INTO mirrorgate.metadata_blocks (table_id, generation, sequence_number, block_hash, previous_hash,
        system_time, event)
    VALUES (:table_id, :generation, :sequence_number, :block_hash, :previous_hash, :system_time,
        CAST(:event AS jsonb))""")
"""Append a block; a foreign key checks the number and hash of the one before."""

_SELECT_CHAIN = """
    SELECT sequence_number, previous_hash, system_time, event FROM mirrorgate.metadata_blocks
    WHERE table_id = :table_id AND generation = :generation"""
"""Read a chain; the beginning of two statements."""

SELECT_CHAIN = sa.text(f"{_SELECT_CHAIN} AND sequence_number >= :start ORDER BY sequence_number LIMIT :limit")
"""Read a chain from a block number on."""

SELECT_SCHEMA_EVENTS = sa.text(f"""{_SELECT_CHAIN}
    AND event ->> 'kind' = 'SetDataSchema' AND sequence_number < :before
    ORDER BY sequence_number DESC LIMIT :limit""")
"""List the schemas of a chain before a number, the newest first."""


def append_block(connection: sa.Connection, table_id: TableId, generation: Generation, event: ChainEvent) -> None:
    """Append an event to a chain, by the database's clock. The caller holds the sequence lock of the table.

    A process that dies before the commit leaves the chain as it was.
    """
    append_blocks(connection, {(table_id, generation): event})


def append_blocks(connection: sa.Connection, events: Mapping[TableLife, ChainEvent]) -> None:
    """Append one event to each of several chains, as `append_block` does."""
    keys = {
        "table_ids": [table_id for table_id, _ in events],
        "generations": [generation for _, generation in events],
    }
    connection.execute(
        INSERT_METADATA_BLOCK,
        [
            _next_block(last, events[last.table_id, last.generation])
            for last in connection.execute(SELECT_LAST_BLOCKS, keys)
        ],
    )


def _next_block(last: sa.Row[Any], event: ChainEvent) -> dict[str, object]:
    number = 0 if last.sequence_number is None else last.sequence_number + 1
    block = ChainBlock(number, last.block_hash, last.system_time, event)
    return {
        "table_id": last.table_id,
        "generation": last.generation,
        "sequence_number": number,
        "block_hash": block.hash,
        "previous_hash": block.previous_hash,
        "system_time": block.system_time,
        "event": json.dumps(event),
    }


def read_chain(
    connection: sa.Connection, table_id: TableId, generation: Generation, *, start: int = 0, limit: int = 1_000
) -> Iterator[ChainBlock]:
    """Yield at most `limit` blocks of a chain in order, beginning with number `start`."""
    keys = {"table_id": table_id, "generation": generation, "start": start, "limit": limit}
    for row in connection.execute(SELECT_CHAIN, keys):
        yield ChainBlock(*row)


def schema_events(
    connection: sa.Connection, table_id: TableId, generation: Generation, *, before: int = 2**62, limit: int
) -> list[ChainBlock]:
    """Return at most `limit` blocks that set a schema, before the block with number `before`, the newest first."""
    keys = {"table_id": table_id, "generation": generation, "before": before, "limit": limit}
    return [ChainBlock(*row) for row in connection.execute(SELECT_SCHEMA_EVENTS, keys)]


SELECT_UNRECORDED = sa.text(f"{_SELECT} AND state = 'planned' ORDER BY number LIMIT :limit")
"""List a table's planned files that are not recorded as published."""

SELECT_IS_BUILD_REGISTERED = sa.text("""
    SELECT nominated_temp IS NOT NULL FROM mirrorgate.landing_files
    WHERE table_id = :table_id AND generation = :generation AND number = :number""")
"""Return True if a build of a file is registered."""

SELECT_RECORDED_NUMBER = sa.text("""
    SELECT recorded_file_number FROM mirrorgate.table_counters WHERE table_id = :table_id""")
"""Read the last file number that is recorded as published."""

SELECT_FILES = sa.text(f"{_SELECT} AND number > :after ORDER BY number LIMIT :limit")
"""List a generation's files after a number."""

REGISTER_BUILDS = sa.text("""
    UPDATE mirrorgate.landing_files f
    SET nominated_epoch = built.epoch, nominated_temp = built.temp, file_bytes = built.file_bytes,
        file_sha256 = built.sha256
    FROM unnest(CAST(:table_ids AS bigint[]), CAST(:generations AS integer[]), CAST(:numbers AS bigint[]),
        CAST(:epochs AS bigint[]), CAST(:temps AS text[]), CAST(:sizes AS bigint[]), CAST(:sha256 AS text[]))
        AS built (table_id, generation, number, epoch, temp, file_bytes, sha256)
    WHERE f.table_id = built.table_id AND f.generation = built.generation AND f.number = built.number
      AND f.state = 'planned' AND (f.nominated_epoch IS NULL OR f.nominated_epoch < built.epoch
        OR f.nominated_epoch = built.epoch AND f.nominated_temp = built.temp)
    RETURNING f.table_id""")
"""Register one build per planned file, unless this epoch or a later one has registered another."""

RECORD_FILES = sa.text("""
    UPDATE mirrorgate.landing_files f SET state = 'published', published_at = clock_timestamp()
    FROM unnest(CAST(:table_ids AS bigint[]), CAST(:generations AS integer[]), CAST(:numbers AS bigint[]))
        AS visible (table_id, generation, number)
    WHERE f.table_id = visible.table_id AND f.generation = visible.generation AND f.number = visible.number
      AND f.state = 'planned'
    RETURNING f.table_id, f.file_bytes, f.file_sha256""")
"""Mark planned files as published, and return their sizes and digests."""

SELECT_RECORDED = sa.text("""
    SELECT f.table_id FROM mirrorgate.landing_files f
    JOIN unnest(CAST(:table_ids AS bigint[]), CAST(:generations AS integer[]), CAST(:numbers AS bigint[]))
        AS visible (table_id, generation, number)
      ON f.table_id = visible.table_id AND f.generation = visible.generation AND f.number = visible.number
    WHERE f.state = 'published'""")
"""List those of these files that are already recorded as published."""

RECORD_COUNTERS = sa.text("""
    UPDATE mirrorgate.table_counters c
    SET recorded_file_number = visible.number, published_through = visible.last_sequence
    FROM unnest(CAST(:table_ids AS bigint[]), CAST(:numbers AS bigint[]), CAST(:last_sequences AS bigint[]))
        AS visible (table_id, number, last_sequence)
    WHERE c.table_id = visible.table_id AND c.recorded_file_number = visible.number - 1
    RETURNING c.table_id""")
"""Advance each table's counters to the file, if it is the next one."""

SELECT_FILE_POSITIONS = sa.text("""
    SELECT visible.table_id, b.source_position
    FROM unnest(CAST(:table_ids AS bigint[]), CAST(:generations AS integer[]), CAST(:first_sequences AS bigint[]),
        CAST(:last_sequences AS bigint[])) AS visible (table_id, generation, first_sequence, last_sequence)
    CROSS JOIN LATERAL (
        SELECT source_position FROM mirrorgate.staged_blocks
        WHERE table_id = visible.table_id AND generation = visible.generation AND source_position IS NOT NULL
          AND first_sequence BETWEEN visible.first_sequence AND visible.last_sequence
        ORDER BY first_sequence DESC LIMIT 1) b""")
"""Read the last source position in each file."""

SELECT_TABLES_TO_REPAIR = sa.text("""
    SELECT DISTINCT f.table_id FROM mirrorgate.landing_files f
    JOIN mirrorgate.tables t ON t.table_id = f.table_id AND t.generation = f.generation
    WHERE f.table_id = ANY(:table_ids) AND f.repair_requested""")
"""List those of these tables that have files to repair."""

SELECT_TO_REPAIR = sa.text(f"{_SELECT} AND repair_requested ORDER BY number LIMIT :limit")
"""List the files of a table that an operator asked to repair."""

SELECT_NUMBERS_TO_REPAIR = sa.text("""
    SELECT number FROM mirrorgate.landing_files
    WHERE table_id = :table_id AND generation = :generation AND number > :after AND repair_requested""")
"""List the numbers, after a number, of the files of a table that an operator asked to repair."""

RECORD_REPAIR = sa.text("""
    UPDATE mirrorgate.landing_files SET repair_requested = false, file_bytes = :file_bytes, file_sha256 = :sha256
    WHERE table_id = :table_id AND generation = :generation AND number = :number AND repair_requested""")
"""Store size and digest of a repaired file, and end the request."""


def unrecorded_files(connection: sa.Connection, table: Table, *, limit: int) -> list[PlannedFile]:
    """Return at most `limit` planned files that are not recorded as published, in order."""
    keys = {"table_id": table.table_id, "generation": table.generation, "limit": limit}
    return [_planned(table, LedgerEntry(*row)) for row in connection.execute(SELECT_UNRECORDED, keys)]


def recorded_number(connection: sa.Connection, table_id: TableId) -> FileNumber:
    """Return the last file number that is recorded as published, 0 for none."""
    return FileNumber(connection.execute(SELECT_RECORDED_NUMBER, {"table_id": table_id}).scalar_one())


def is_build_registered(connection: sa.Connection, planned: PlannedFile) -> bool:
    """Return True if the ledger knows the size and digest of a planned file."""
    return bool(connection.execute(SELECT_IS_BUILD_REGISTERED, _file_key(planned)).scalar())


def files_to_repair(connection: sa.Connection, table: Table, *, limit: int) -> list[PlannedFile]:
    """Return at most `limit` published files that an operator asked to write again, in order."""
    keys = {"table_id": table.table_id, "generation": table.generation, "limit": limit}
    return [_planned(table, LedgerEntry(*row)) for row in connection.execute(SELECT_TO_REPAIR, keys)]


def numbers_to_repair(connection: sa.Connection, table: Table, *, after: FileNumber) -> frozenset[FileNumber]:
    """Return the numbers after `after` of the published files that an operator asked to write again."""
    keys = {"table_id": table.table_id, "generation": table.generation, "after": after}
    return frozenset(FileNumber(number) for number in connection.execute(SELECT_NUMBERS_TO_REPAIR, keys).scalars())


def tables_to_repair(connection: sa.Connection, table_ids: Collection[TableId]) -> set[TableId]:
    """Return those of these tables that have files to repair."""
    return set(connection.execute(SELECT_TABLES_TO_REPAIR, {"table_ids": list(table_ids)}).scalars())


def record_repaired(connection: sa.Connection, built: BuiltFile) -> None:
    """Record that a repaired file is visible under its number again.

    A process that dies before the commit leaves the request, and the next owner repairs the file once more. Raises
    InvariantBroken `stale_epoch`.
    """
    check_epoch(connection, built.planned.table_id, built.epoch)
    facts = {"file_bytes": built.file_bytes, "sha256": built.file_sha256}
    connection.execute(RECORD_REPAIR, _file_key(built.planned) | facts)


def register_builds(connection: sa.Connection, files: Sequence[BuiltFile]) -> set[TableId]:
    """Register each build as the only source of its file's rename in this epoch (W5).

    Return the tables whose build is the registered one; another attempt was registered first for the rest. Takes one
    file of each table and is safe to repeat. A process that dies before the commit leaves no registration; after it,
    one that the next epoch's registration replaces. Raises InvariantBroken `stale_epoch`.
    """
    check_epochs(connection, {file.planned.table_id: file.epoch for file in files})
    keys = _file_keys([file.planned for file in files]) | {
        "epochs": [file.epoch for file in files],
        "temps": [file.temp_name for file in files],
        "sizes": [file.file_bytes for file in files],
        "sha256": [file.file_sha256 for file in files],
    }
    return set(connection.execute(REGISTER_BUILDS, keys).scalars())


def record_published(connection: sa.Connection, files: Mapping[PlannedFile, Epoch]) -> None:
    """Record visible files as published (W8): their state, the tables' counters and the metadata chain.

    Takes one file of each table, records all or none, and is safe to repeat. A process that dies before the commit
    leaves visible, unrecorded files, which the next owner recognizes by their footers and records. Raises
    InvariantBroken `stale_epoch`, or `internal` for a file that is not the next one of its table.
    """
    check_epochs(connection, {file.table_id: epoch for file, epoch in files.items()})
    keys = _file_keys(files) | {
        "first_sequences": [file.identity.first_sequence for file in files],
        "last_sequences": [file.identity.last_sequence for file in files],
    }
    positions = {row.table_id: row.source_position for row in connection.execute(SELECT_FILE_POSITIONS, keys)}
    if len(files) > 1:
        shorten_lock_timeout(connection)
    lock_counters(connection, [file.table_id for file in files])
    recorded = {row.table_id: row for row in connection.execute(RECORD_FILES, keys)}
    counted = set(connection.execute(RECORD_COUNTERS, keys).scalars())
    before = set() if len(recorded) == len(files) else set(connection.execute(SELECT_RECORDED, keys).scalars())
    events = {}
    for file in files:
        row = recorded.get(file.table_id)
        if row is not None and file.table_id in counted:
            event = add_data(file.identity, row.file_bytes, row.file_sha256, positions.get(file.table_id))
            events[file.table_id, file.identity.generation] = event
        elif row is not None or file.table_id not in before:
            detail = f"file {file.identity.number} of table {file.table_id} was recorded out of order"
            raise InvariantBroken(Code.INTERNAL, detail)
    if events:
        append_blocks(connection, events)


def list_files(
    connection: sa.Connection, table_id: TableId, generation: Generation, *, after: FileNumber, limit: int
) -> list[LedgerEntry]:
    """Return at most `limit` lines of a generation's ledger after file number `after`, in order."""
    keys = {"table_id": table_id, "generation": generation, "after": after, "limit": limit}
    return [LedgerEntry(*row) for row in connection.execute(SELECT_FILES, keys)]


def _planned(table: Table, entry: LedgerEntry) -> PlannedFile:
    identity = FileIdentity(
        table=str(table.name),
        generation=table.generation,
        number=entry.number,
        first_sequence=entry.first_sequence,
        last_sequence=entry.last_sequence,
        rows=entry.row_count,
        digest=entry.digest,
    )
    return PlannedFile(table.table_id, entry.schema_version, identity)


def _file_keys(files: Collection[PlannedFile]) -> dict[str, object]:
    return {
        "table_ids": [file.table_id for file in files],
        "generations": [file.identity.generation for file in files],
        "numbers": [file.identity.number for file in files],
    }


def _file_key(file: PlannedFile) -> dict[str, object]:
    return {"table_id": file.table_id, "generation": file.identity.generation, "number": file.identity.number}
