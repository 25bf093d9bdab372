"""The landing ledger: which batches make which file number, planned before it is built, published once visible.

Number, batch range and digest of a planned file never change. Foreign keys chain each file to its
predecessor's number and last sequence, so the database refuses a gap or an overlap by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

import sqlalchemy as sa

from app.domain.drain_plan import FileLimits, PendingBlock, plan_files_for, range_of
from app.domain.landing_file import BuiltFile, FileIdentity, PlannedFile, content_digest, seed_identity
from app.domain.metadata_chain import add_data
from app.domain.table import BatchSequence, Epoch, FileNumber, Generation, Table, TableId
from app.domain.table_schema import SchemaVersion
from app.errors import Code, InvariantBroken
from app.staging.leases import check_epoch
from app.staging.metadata_blocks import append_block
from app.staging.staged_blocks import pending_blocks

_FILE_COLUMNS = """f.number, f.first_sequence, f.last_sequence, f.schema_version, f.row_count, f.change_count,
    f.digest, f.state, f.nominated_epoch, f.nominated_temp, f.file_bytes, f.file_sha256, f.published_at"""

SELECT_LAST_FILE = sa.text("""
    SELECT f.number, f.last_sequence, f.state = 'planned' AS is_unrecorded,
        c.flush_through > c.published_through AS is_flushed
    FROM mirrorgate.table_counters c
    LEFT JOIN LATERAL (
        SELECT number, last_sequence, state FROM mirrorgate.landing_files
        WHERE table_id = :table_id AND generation = :generation ORDER BY number DESC LIMIT 1) f ON true
    WHERE c.table_id = :table_id""")

INSERT_FILE = sa.text("""
    INSERT INTO mirrorgate.landing_files (table_id, generation, number, first_sequence, last_sequence,
        schema_version, row_count, change_count, digest)
    VALUES (:table_id, :generation, :number, :first_sequence, :last_sequence,
        :schema_version, :row_count, :change_count, :digest)""")

ADVANCE_NEXT_FILE = sa.text("""
    UPDATE mirrorgate.table_counters SET next_file_number = :next WHERE table_id = :table_id""")

SELECT_UNRECORDED = sa.text(f"""
    SELECT {_FILE_COLUMNS} FROM mirrorgate.landing_files f
    WHERE table_id = :table_id AND generation = :generation AND state = 'planned' ORDER BY number LIMIT :most""")  # noqa: S608  # constant columns

SELECT_FILES = sa.text(f"""
    SELECT {_FILE_COLUMNS} FROM mirrorgate.landing_files f
    WHERE table_id = :table_id AND generation = :generation AND number > :after ORDER BY number LIMIT :most""")  # noqa: S608  # constant text

NOMINATE = sa.text("""
    UPDATE mirrorgate.landing_files
    SET nominated_epoch = :epoch, nominated_temp = :temp, file_bytes = :file_bytes, file_sha256 = :sha256
    WHERE table_id = :table_id AND generation = :generation AND number = :number AND state = 'planned'
      AND (nominated_epoch IS NULL OR nominated_epoch < :epoch)""")

RECORD_FILE = sa.text("""
    UPDATE mirrorgate.landing_files SET state = 'published', published_at = clock_timestamp()
    WHERE table_id = :table_id AND generation = :generation AND number = :number AND state = 'planned'
    RETURNING last_sequence, file_bytes, file_sha256""")

SELECT_POSITION = sa.text("""
    SELECT source_position FROM mirrorgate.staged_blocks
    WHERE table_id = :table_id AND generation = :generation
      AND first_sequence BETWEEN :first_sequence AND :last_sequence AND source_position IS NOT NULL
    ORDER BY first_sequence DESC LIMIT 1""")

RECORD_COUNTERS = sa.text("""
    UPDATE mirrorgate.table_counters SET recorded_file_number = :number, published_through = :last_sequence
    WHERE table_id = :table_id AND recorded_file_number = :number - 1""")

SELECT_TO_REPAIR = sa.text(f"""
    SELECT {_FILE_COLUMNS} FROM mirrorgate.landing_files f
    WHERE table_id = :table_id AND generation = :generation AND repair_requested ORDER BY number LIMIT :most""")  # noqa: S608  # constant text

RECORD_REPAIR = sa.text("""
    UPDATE mirrorgate.landing_files SET repair_requested = false, file_bytes = :file_bytes, file_sha256 = :sha256
    WHERE table_id = :table_id AND generation = :generation AND number = :number AND repair_requested""")

_MOST_BLOCKS = 10_000
"""Blocks that one planning step reads; a longer backlog is planned in the next step."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One line of the ledger, for reading."""

    number: FileNumber
    first_sequence: BatchSequence
    last_sequence: BatchSequence
    schema_version: SchemaVersion
    row_count: int
    change_count: int
    digest: str
    state: Literal["planned", "published"]
    nominated_epoch: Epoch | None
    nominated_temp: str | None
    file_bytes: int | None
    file_sha256: str | None
    published_at: datetime | None


def plan_next_files(
    connection: sa.Connection, table: Table, epoch: Epoch, limits: FileLimits, *, most: int, slots: int = 1
) -> list[PlannedFile]:
    """W4: bind the next numbers to the oldest consecutive pending blocks, at most `most` files, cut so that `slots`
    tasks can build them at the same time; the seed file first where the table is to have one.

    Earlier planned files that are not published yet come first in the answer and count. A process that dies
    after the commit leaves planned files, which the next owner finds here and builds under the same numbers.
    """
    check_epoch(connection, table.table_id, epoch)
    last = connection.execute(SELECT_LAST_FILE, {"table_id": table.table_id, "generation": table.generation}).one()
    planned = unrecorded_files(connection, table, most=most) if last.is_unrecorded else []
    room = most - len(planned)
    number, through = last.number or 0, last.last_sequence or 0
    new: list[tuple[PlannedFile, int]] = []
    if last.number is None and table.options.seed_file and room > 0:
        seed = seed_identity(str(table.name), table.generation)
        new.append((PlannedFile(table.table_id, table.schema_version, seed, payload_bytes=0), 0))
        number = seed.number
    blocks = pending_blocks(
        connection, table.table_id, table.generation, after=BatchSequence(through), most=_MOST_BLOCKS
    )
    if last.is_flushed:
        limits = replace(limits, max_delay_seconds=0)
    for group, _ in zip(plan_files_for(blocks, limits, slots=slots), range(room - len(new)), strict=False):
        number = FileNumber(number + 1)
        new.append((_plan(table, number, group), sum(block.changes for block in group)))
    if new:
        connection.execute(INSERT_FILE, [_planned_row(file, changes) for file, changes in new])
        connection.execute(ADVANCE_NEXT_FILE, {"table_id": table.table_id, "next": number + 1})
    return planned + [file for file, _ in new]


def unrecorded_files(connection: sa.Connection, table: Table, *, most: int) -> list[PlannedFile]:
    """Planned files that are not recorded as published, in order."""
    keys = {"table_id": table.table_id, "generation": table.generation, "most": most}
    return [_planned(table, LedgerEntry(*row)) for row in connection.execute(SELECT_UNRECORDED, keys)]


def files_to_repair(connection: sa.Connection, table: Table, *, most: int) -> list[PlannedFile]:
    """Published files that an operator wants written again, in order."""
    keys = {"table_id": table.table_id, "generation": table.generation, "most": most}
    return [_planned(table, LedgerEntry(*row)) for row in connection.execute(SELECT_TO_REPAIR, keys)]


def record_repaired(connection: sa.Connection, built: BuiltFile) -> None:
    """The file stands under its number again. A process that dies before the commit repairs it once more."""
    check_epoch(connection, built.planned.table_id, built.epoch)
    facts = {"file_bytes": built.file_bytes, "sha256": built.file_sha256}
    connection.execute(RECORD_REPAIR, _file_key(built.planned) | facts)


def nominate(connection: sa.Connection, built: BuiltFile) -> bool:
    """W5: make one finished temp the only source of this file's rename in this epoch; False when another already is.

    A process that dies after the commit leaves a nomination that the next epoch replaces.
    """
    check_epoch(connection, built.planned.table_id, built.epoch)
    result = connection.execute(
        NOMINATE,
        _file_key(built.planned)
        | {
            "epoch": built.epoch,
            "temp": built.temp_name,
            "file_bytes": built.file_bytes,
            "sha256": built.file_sha256,
        },
    )
    return result.rowcount == 1


def record_published(connection: sa.Connection, planned: PlannedFile, epoch: Epoch) -> None:
    """W8: the file is visible: record it, what is published through it, and its block of the metadata chain.

    A process that dies before the commit leaves a visible, unrecorded file, whose footer the next owner
    recognises and records.
    """
    check_epoch(connection, planned.table_id, epoch)
    file = connection.execute(RECORD_FILE, _file_key(planned)).one()
    counters = {"table_id": planned.table_id, "number": planned.identity.number, "last_sequence": file.last_sequence}
    if connection.execute(RECORD_COUNTERS, counters).rowcount != 1:
        detail = f"file {planned.identity.number} of table {planned.table_id} was recorded out of order"
        raise InvariantBroken(Code.INTERNAL, detail)
    position = connection.execute(SELECT_POSITION, _range_key(planned)).scalar()
    event = add_data(planned.identity, file.file_bytes, file.file_sha256, position)
    append_block(connection, planned.table_id, planned.identity.generation, event)


def list_files(
    connection: sa.Connection, table_id: TableId, generation: Generation, *, after: FileNumber, most: int
) -> list[LedgerEntry]:
    """The ledger beyond file number `after`, in order."""
    keys = {"table_id": table_id, "generation": generation, "after": after, "most": most}
    return [LedgerEntry(*row) for row in connection.execute(SELECT_FILES, keys)]


def _plan(table: Table, number: FileNumber, blocks: Sequence[PendingBlock]) -> PlannedFile:
    batches = range_of(blocks)
    identity = FileIdentity(
        table=str(table.name),
        generation=table.generation,
        number=number,
        first_sequence=batches.first,
        last_sequence=batches.last,
        rows=sum(block.rows for block in blocks),
        digest=content_digest(block.digest for block in blocks),
    )
    size = sum(block.payload_bytes for block in blocks)
    return PlannedFile(table.table_id, blocks[0].schema_version, identity, payload_bytes=size)


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


def _planned_row(file: PlannedFile, changes: int) -> dict[str, object]:
    return _range_key(file) | {
        "schema_version": file.schema_version,
        "row_count": file.identity.rows,
        "change_count": changes,
        "digest": file.identity.digest,
    }


def _range_key(file: PlannedFile) -> dict[str, object]:
    return _file_key(file) | {
        "first_sequence": file.identity.first_sequence,
        "last_sequence": file.identity.last_sequence,
    }


def _file_key(file: PlannedFile) -> dict[str, object]:
    return {"table_id": file.table_id, "generation": file.identity.generation, "number": file.identity.number}
