"""Write the lines of the landing ledger (W4), before the files that they describe are built.

A line binds a file number to consecutive batches and never changes. A later owner of the table builds the same file,
so a crash between planning and publication never moves a batch to another number (decision 0003).
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, Final

import sqlalchemy as sa

from app.domain.model.landing_file import FileIdentity, PlannedFile, content_digest, seed_identity
from app.domain.model.table import BatchSequence, FileNumber, Table, TableId
from app.domain.publication import FileLimits, PendingBlock, plan_files_for, range_of
from app.staging.batches.sequence_lock import shorten_lock_timeout
from app.staging.batches.staged_blocks import pending_blocks
from app.staging.ledger.files import unrecorded_files
from app.staging.ledger.leases import Claim, check_epochs

SELECT_LAST_FILES = sa.text("""
    SELECT c.table_id, f.number, f.last_sequence, f.state = 'planned' AS is_unrecorded,
        c.flush_through > c.published_through AS is_flushed
    FROM unnest(CAST(:table_ids AS bigint[]), CAST(:generations AS integer[])) AS claimed (table_id, generation)
    JOIN mirrorgate.table_counters c ON c.table_id = claimed.table_id
    LEFT JOIN LATERAL (
        SELECT number, last_sequence, state FROM mirrorgate.landing_files
        WHERE table_id = claimed.table_id AND generation = claimed.generation
        ORDER BY number DESC LIMIT 1) f ON true""")
"""Read the last line of each table's ledger, and whether the table is being flushed."""

INSERT_FILE = sa.text("""
    INSERT INTO mirrorgate.landing_files (table_id, generation, number, first_sequence, last_sequence,
        schema_version, row_count, change_count, digest)
    VALUES (:table_id, :generation, :number, :first_sequence, :last_sequence,
        :schema_version, :rows, :change_count, :digest)""")
"""Add a line to the ledger."""

ADVANCE_NEXT_FILE = sa.text("""
    UPDATE mirrorgate.table_counters SET next_file_number = :number + 1 WHERE table_id = :table_id""")
"""Store the number that the next planned file gets."""

MAX_BLOCKS: Final = 10_000
"""Blocks that one planning step reads; the next step plans the rest of a longer backlog."""


def plan_next_files(
    connection: sa.Connection, claims: Sequence[Claim], limits: FileLimits, *, max_files: int, slots: int = 1
) -> dict[TableId, list[PlannedFile]]:
    """Bind the next numbers of each table to its oldest consecutive pending blocks (W4), at most `max_files` files.

    Return each table's planned files in order. Files that were planned earlier and are not published yet come first and
    count. The files are cut so that `slots` tasks can build them at the same time. The seed file comes first if the
    table has that option. If there are several tables, one with a long backlog is left out and must be planned alone.

    A process that dies before the commit leaves nothing; after it, planned files, which the next owner finds here and
    builds under the same numbers. Raises InvariantBroken `stale_epoch`.
    """
    check_epochs(connection, {claim.table.table_id: claim.epoch for claim in claims})
    tables = sorted((claim.table for claim in claims), key=lambda table: table.table_id)
    keys = {
        "table_ids": [table.table_id for table in tables],
        "generations": [table.generation for table in tables],
    }
    last = {row.table_id: row for row in connection.execute(SELECT_LAST_FILES, keys)}
    beyond = {
        (table.table_id, table.generation): BatchSequence(last[table.table_id].last_sequence or 0) for table in tables
    }
    if len(tables) > 1:
        shorten_lock_timeout(connection)
    max_blocks = MAX_BLOCKS // len(tables)
    pending = pending_blocks(connection, beyond, limit=max_blocks)
    plans: dict[TableId, list[PlannedFile]] = {}
    lines: list[dict[str, object]] = []
    for table in tables:
        blocks = pending[table.table_id]
        if len(tables) > 1 and len(blocks) == max_blocks:
            continue
        before = last[table.table_id]
        planned = unrecorded_files(connection, table, limit=max_files) if before.is_unrecorded else []
        new = _new_files(table, before, blocks, limits, max_files=max_files - len(planned), slots=slots)
        plans[table.table_id] = planned + [file for file, _ in new]
        lines += [_line(file, changes) for file, changes in new]
    if lines:
        connection.execute(INSERT_FILE, lines)
        numbers = {line["table_id"]: line["number"] for line in lines}
        connection.execute(
            ADVANCE_NEXT_FILE, [{"table_id": table_id, "number": number} for table_id, number in numbers.items()]
        )
    return plans


def adopt_file(connection: sa.Connection, claim: Claim, identity: FileIdentity) -> PlannedFile | None:
    """Plan exactly the file that is already visible under the table's next number (W3 after a restore).

    Return None unless its batches are pending here. Only a database that was restored to an older point meets such a
    file. The digest in its footer covers the payload of each batch, so an equal digest over equal sequences means equal
    rows, however files would be cut now. A process that dies after the commit leaves a planned file, which the next
    owner finds visible. Raises InvariantBroken `stale_epoch`.
    """
    table = claim.table
    check_epochs(connection, {table.table_id: claim.epoch})
    keys = {"table_ids": [table.table_id], "generations": [table.generation]}
    last = connection.execute(SELECT_LAST_FILES, keys).one()
    if last.is_unrecorded or identity.number != (last.number or 0) + 1:
        return None
    seed = seed_identity(str(table.name), table.generation, table.schema.landing)
    if identity == seed:
        file, changes = PlannedFile(table.table_id, table.schema_version, seed, payload_bytes=0, landed_bytes=0), 0
    else:
        after = {(table.table_id, table.generation): BatchSequence(last.last_sequence or 0)}
        pending = pending_blocks(connection, after, limit=MAX_BLOCKS)[table.table_id]
        blocks = [block for block in pending if block.last_sequence <= identity.last_sequence]
        if not blocks:
            return None
        file, changes = _new_file(table, identity.number, blocks), sum(block.changes for block in blocks)
    if file.identity != identity:
        return None
    connection.execute(INSERT_FILE, _line(file, changes))
    connection.execute(ADVANCE_NEXT_FILE, {"table_id": table.table_id, "number": identity.number})
    return file


def _new_files(
    table: Table, last: sa.Row[Any], blocks: Sequence[PendingBlock], limits: FileLimits, *, max_files: int, slots: int
) -> list[tuple[PlannedFile, int]]:
    """Return the next files, each with its number of changes."""
    number = last.number or 0
    new: list[tuple[PlannedFile, int]] = []
    if last.number is None and table.options.seed_file and max_files > 0:
        seed = seed_identity(str(table.name), table.generation, table.schema.landing)
        new.append((PlannedFile(table.table_id, table.schema_version, seed, payload_bytes=0, landed_bytes=0), 0))
        number = seed.number
    if last.is_flushed:
        limits = replace(limits, max_delay_seconds=0)
    for group, _ in zip(plan_files_for(blocks, limits, slots=slots), range(max_files - len(new)), strict=False):
        number = FileNumber(number + 1)
        new.append((_new_file(table, number, group), sum(block.changes for block in group)))
    return new


def _new_file(table: Table, number: FileNumber, blocks: Sequence[PendingBlock]) -> PlannedFile:
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
    landed = sum(block.landed_bytes for block in blocks)
    return PlannedFile(table.table_id, blocks[0].schema_version, identity, payload_bytes=size, landed_bytes=landed)


def _line(file: PlannedFile, changes: int) -> dict[str, object]:
    return {
        **asdict(file.identity),
        "table_id": file.table_id,
        "schema_version": file.schema_version,
        "change_count": changes,
    }
