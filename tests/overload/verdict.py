"""Compare the callers' receipts with what is staged, row by row."""

from collections.abc import Iterator
from itertools import accumulate, pairwise

import pyarrow as pa
import sqlalchemy as sa

from app.domain.arrow import decode_payload
from app.domain.model.table import Generation, TableId
from app.domain.model.table_schema import SchemaVersion
from app.staging.tables.schema_versions import schema_of_version
from tests.overload.callers import Journal

SELECT_BLOCKS = sa.text("""
    SELECT t.table_id, t.name, b.generation, b.schema_version, b.first_sequence, b.batch_rows, p.payload
    FROM mirrorgate.staged_blocks b
    JOIN mirrorgate.tables t ON t.table_id = b.table_id
    JOIN mirrorgate.block_payloads p ON p.table_id = b.table_id AND p.generation = b.generation
        AND p.first_sequence = b.first_sequence
    ORDER BY b.table_id, b.first_sequence""")

Place = tuple[str, int]
"""A table and a sequence in it."""


def violations(engine: sa.Engine, journal: Journal) -> list[str]:
    """Return a text for each accepted request that is not staged exactly once, and each rejected one that is."""
    places: dict[str, list[Place]] = {}
    found: list[str] = []
    for place, rows, numbers in staged_batches(engine):
        if len(numbers) != 1:
            found.append(f"batch {place} mixes {len(numbers)} requests")
        for number in numbers:
            places.setdefault(number, []).append(place)
            receipt = journal.accepted.get(number)
            if receipt is not None and receipt["rows"] != rows:
                found.append(f"request {number}: {rows} rows are staged, its receipt says {receipt['rows']}")
    for number, receipt in journal.accepted.items():
        told = (receipt["table"], receipt["sequence"])
        if places.get(number) != [told]:
            found.append(f"request {number} was told {told} and is staged at {places.get(number)}")
    rejected = places.keys() - journal.accepted.keys() - journal.in_doubt
    found += [f"request {number} was rejected and is staged at {places[number]}" for number in rejected]
    found += [f"request {number} is staged twice" for number in journal.in_doubt if len(places.get(number, ())) > 1]
    return found


def staged_batches(engine: sa.Engine) -> Iterator[tuple[Place, int, set[str]]]:
    """Yield each staged batch: where, how many rows, and of which requests."""
    schemas: dict[tuple[int, int, int], pa.Schema] = {}
    with engine.connect() as connection, connection.begin():
        rows = connection.execution_options(stream_results=True, max_row_buffer=20).execute(SELECT_BLOCKS)
        for table_id, name, generation, version, first, batch_rows, payload in rows:
            life = (table_id, generation, version)
            if life not in schemas:
                schemas[life] = _schema(engine, *life)
            column = decode_payload(bytes(payload), schemas[life]).column("request")
            for number, (start, end) in enumerate(pairwise(accumulate(batch_rows, initial=0))):
                yield (name, first + number), end - start, set(column.slice(start, end - start).unique().to_pylist())


def _schema(engine: sa.Engine, table_id: int, generation: int, version: int) -> pa.Schema:
    with engine.begin() as connection:
        place = (TableId(table_id), Generation(generation), SchemaVersion(version))
        return schema_of_version(connection, *place).arrow
