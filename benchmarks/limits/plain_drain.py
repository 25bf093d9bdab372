"""The limit of draining, `python -m benchmarks.limits.plain_drain`: one process, one loop, no guarantees.

It reads the same payloads from Postgres and writes the same Parquet files with the same settings, but without fsync,
digests, a ledger or numbering.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq

from app.landing.parquet_file import MAX_ROW_GROUP_BYTES, open_writer
from benchmarks.machine.processes import run_to_end


class PlainDrainJob(msgspec.Struct, frozen=True):
    """What to read: the first and last batch sequence of each file; `schema` is a serialized Arrow schema."""

    database_url: str
    table_id: int
    schema: bytes
    files: tuple[tuple[int, int], ...]
    folder: str


SELECT = """
    SELECT payload FROM mirrorgate.block_payloads
    WHERE table_id = %s AND generation = 1 AND first_sequence BETWEEN %s AND %s ORDER BY first_sequence"""


def write_file(
    connection: "psycopg.Connection[tuple[bytes]]", job: PlainDrainJob, sequences: tuple[int, int], file: Path
) -> int:
    """Write one file; return its rows."""
    schema = pa.ipc.read_schema(pa.py_buffer(job.schema))
    rows = 0
    with connection.cursor(name="payloads", binary=True) as cursor, ExitStack() as stack:
        cursor.itersize = 200
        cursor.execute(SELECT, (job.table_id, *sequences))
        writer: pq.ParquetWriter | None = None
        for group in _groups(_batches(cursor, schema)):
            table = pa.Table.from_batches(group, schema)
            writer = writer or stack.enter_context(open_writer(file, table, "zstd"))
            writer.write_table(table)
            rows += table.num_rows
    return rows


def _batches(cursor: "psycopg.ServerCursor[tuple[bytes]]", schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for (payload,) in cursor:
        yield pa.ipc.read_record_batch(pa.py_buffer(payload), schema)


def _groups(batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    group: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        group.append(batch)
        size += batch.nbytes
        if size >= MAX_ROW_GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def plain_rate(job: PlainDrainJob) -> float:
    """Return the rows per second of the plain loop, in its own process, with a connection opened beforehand."""
    output = run_to_end(
        "the plain loop", [sys.executable, "-m", "benchmarks.limits.plain_drain"], given=msgspec.json.encode(job)
    )
    return float(output)


def main() -> None:
    """Write all files of the job on standard input; print rows per second."""
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=PlainDrainJob)
    folder = Path(job.folder)
    folder.mkdir(parents=True)
    with psycopg.connect(job.database_url) as connection:
        connection.execute("SELECT 1")
        started = time.perf_counter()
        rows = sum(
            write_file(connection, job, sequences, folder / f"{number}.parquet")
            for number, sequences in enumerate(job.files)
        )
        sys.stdout.write(f"{rows / (time.perf_counter() - started)}\n")


if __name__ == "__main__":
    main()
