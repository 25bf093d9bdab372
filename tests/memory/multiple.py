"""Sends one request through what an API process and a drain do with it, and measures the memory that it takes."""

import asyncio
import gc
import io
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

import msgspec
import pyarrow as pa
import sqlalchemy as sa

from app.domain.arrow import decode_payload
from app.domain.model.change import InputLimits
from app.domain.model.landing_file import seed_identity
from app.domain.model.names import TableName
from app.ingest import ArrowLoad, BodyReader, perform_dry_run
from app.landing.parquet_file import FileLayout, write_parquet
from app.staging.tables.schema_versions import schema_of_version
from mirrorgate.errors import Code, RejectedInput
from tests.support.ingest_harness import ADMIN, IngestHarness
from tests.support.postgres import sql

MULTIPLE: Final = 16
"""The most memory that a counted byte of a request takes, see docs/reference/limits.md."""

FIXED_BYTES: Final = 3 * 2**20
"""What any request may take beside that, such as caches of its table and the problems of its messages."""

MAX_ROWS_BYTES: Final = 4 * 2**20
"""What the rows of a request may count here, so that the test is quick."""

_BLOCKS: Final = """
    SELECT b.schema_version, p.payload FROM mirrorgate.staged_blocks b
    JOIN mirrorgate.block_payloads p USING (table_id, generation, first_sequence)
    WHERE table_id = :table_id AND generation = :generation ORDER BY first_sequence"""

_POOLS: Final[list[pa.MemoryPool]] = []
"""All pools that were measured: what a cache keeps belongs to its pool."""


@dataclass
class Counted:
    """The bytes that a request reserves: the larger of its body and its rows, and its answer."""

    body: int
    rows: int = 0
    answer: int = 0
    limits: InputLimits = field(init=False)

    def __post_init__(self) -> None:
        self.limits = InputLimits(500_000, 2**24, self._reserve, self._reserve_answer)

    @property
    def size(self) -> int:
        return max(self.body, self.rows) + self.answer

    def _reserve(self, size: int) -> None:
        if size > MAX_ROWS_BYTES:
            raise RejectedInput(Code.BODY_TOO_LARGE, "the rows")
        self.rows = max(self.rows, size)

    def _reserve_answer(self, size: int) -> None:
        self.answer = max(self.answer, size)


@dataclass
class Peak:
    """The most bytes that Python and Arrow held above what they held at first."""

    size: int = 0


@contextmanager
def measured() -> Iterator[Peak]:
    """Measure the block; both allocators count exactly, whatever the system's allocator keeps."""
    default, peak = pa.default_memory_pool(), Peak()
    pool = pa.proxy_memory_pool(default)
    _POOLS.append(pool)
    gc.collect()
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        yield peak
        peak.size = tracemalloc.get_traced_memory()[1] + (pool.max_memory() or 0)
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(default)


Request = Callable[[InputLimits], BodyReader | ArrowLoad]


def peak_of(harness: IngestHarness, request: Request, size: int, *, dry_run: bool) -> tuple[int, int]:
    """Return the most bytes that accepting a request of `size` bytes takes, and the bytes that it counts."""
    counted = Counted(size)
    with measured() as peak, suppress(RejectedInput):
        asyncio.run(_sent(harness, request(counted.limits), dry_run=dry_run))
    return peak.size, counted.size


async def _sent(harness: IngestHarness, request: BodyReader | ArrowLoad, *, dry_run: bool) -> None:
    ingest = harness.ingest
    if dry_run:
        msgspec.json.encode(await perform_dry_run(ingest, request, ADMIN))
    elif isinstance(request, BodyReader):
        await ingest.accept(request, ADMIN)
    else:
        await request.accept(ingest, ADMIN, None)


def drain_peak(harness: IngestHarness, name: str) -> tuple[int, int]:
    """Return the most bytes that building a file of all blocks takes, and the bytes that the drain plans them by."""
    table = harness.table(name)
    keys = {"table_id": table.table_id, "generation": table.generation}
    with harness.engine.begin() as connection:
        blocks = connection.execute(sa.text(_BLOCKS), keys).all()
        schema = schema_of_version(connection, table.table_id, table.generation, table.schema_version).landing
    planned = sql.value(harness.engine, "SELECT coalesce(sum(landed_bytes), 0)::bigint FROM mirrorgate.staged_blocks")
    identity = seed_identity(name, table.generation, schema)
    with measured() as peak:
        batches = (decode_payload(bytes(payload), schema.arrow) for version, payload in blocks)
        write_parquet(io.BytesIO(), schema, batches, identity, FileLayout(marker_first=False, compression="zstd"))
    return peak.size, int(planned)


def named(table: str) -> TableName:
    return TableName.parse(table)
