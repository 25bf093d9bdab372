"""The metadata chain in Postgres: append-only blocks, written in the transaction of what they record.

Each block holds the hash of the one before, and the database rejects a second block with the same number.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from app.domain.model.table import Generation, TableId, TableLife
from app.domain.publication.metadata_chain import Block, Event

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

SELECT_CHAIN = sa.text("""
    SELECT sequence_number, previous_hash, system_time, event FROM mirrorgate.metadata_blocks
    WHERE table_id = :table_id AND generation = :generation AND sequence_number >= :start
    ORDER BY sequence_number LIMIT :limit""")
"""Read a chain from a block number on."""


def append_block(connection: sa.Connection, table_id: TableId, generation: Generation, event: Event) -> None:
    """Append an event to a chain, by the database's clock. The caller holds the sequence lock of the table.

    A process that dies before the commit leaves the chain as it was.
    """
    append_blocks(connection, {(table_id, generation): event})


def append_blocks(connection: sa.Connection, events: Mapping[TableLife, Event]) -> None:
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


def _next_block(last: sa.Row[Any], event: Event) -> dict[str, object]:
    number = 0 if last.sequence_number is None else last.sequence_number + 1
    block = Block(number, last.block_hash, last.system_time, event)
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
) -> Iterator[Block]:
    """Yield at most `limit` blocks of a chain in order, beginning with number `start`."""
    keys = {"table_id": table_id, "generation": generation, "start": start, "limit": limit}
    for number, previous_hash, system_time, event in connection.execute(SELECT_CHAIN, keys):
        yield Block(number, previous_hash, system_time, event)
