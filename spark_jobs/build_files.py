"""W5: Spark tasks that build landing files in scratch: payloads from Postgres -> Parquet, fsynced and read back.

A task may run more than once, and a lost attempt may go on writing: so each attempt writes under a name of its
own, and a task returns its failures instead of raising them, so that one file's trouble fails no other.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import SparkSession

from app.domain.landing_file import BatchRange, BuiltFile, PlannedFile
from app.domain.payload import decode_payload, payload_digest
from app.domain.table import Epoch
from app.errors import Code, InvariantBroken, MirrorgateError
from app.landing.open_zone import ZonePlace, open_zone
from app.landing.parquet_file import FileLayout, read_identity, write_parquet
from app.landing.publish import Scratch
from app.landing.zone import StorageFailed
from app.staging.database import Connection, Engine, open_engine
from app.staging.staged_blocks import read_payloads
from app.staging.table_registry import schema_of_version
from spark_jobs.bins import balance

SLICE_BYTES: Final = 16 * 2**20
"""Compressed payload bytes that a task reads from Postgres at once."""

RESULT_SCHEMA: Final = (
    "position long, temp_name string, file_bytes long, file_sha256 string, code string, detail string"
)
_RESULT: Final = pa.schema(
    [
        ("position", pa.int64()),
        ("temp_name", pa.string()),
        ("file_bytes", pa.int64()),
        ("file_sha256", pa.string()),
        ("code", pa.string()),
        ("detail", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class BuildOrder:
    """One planned file to build under one epoch."""

    planned: PlannedFile
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class BuildPlace:
    """Where tasks read and write. It travels inside the job, never in Spark's configuration: it holds a password."""

    database_url: str
    landing_zone: ZonePlace
    layout: FileLayout


@dataclass(frozen=True, slots=True)
class BuildFailure:
    """A file that could not be built; `code` says why."""

    order: BuildOrder
    code: Code
    detail: str


def build_files(
    spark: SparkSession, place: BuildPlace, orders: Sequence[BuildOrder], *, tasks: int
) -> list[BuiltFile | BuildFailure]:
    """Build files as one Spark job of at most `tasks` tasks; one result per order, in the order given."""
    shares = balance(enumerate(orders), lambda item: item[1].planned.identity.rows, tasks)
    job = spark.range(0, len(shares), 1, len(shares))
    rows = job.mapInArrow(_task(place, shares), RESULT_SCHEMA).toArrow()
    return [_result(orders[row["position"]], row) for row in sorted(rows.to_pylist(), key=lambda row: row["position"])]


def _task(
    place: BuildPlace, shares: Sequence[Sequence[tuple[int, BuildOrder]]]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for share in batch.column(0).to_pylist():
                results = [_attempt(place, position, order) for position, order in shares[share]]
                yield pa.RecordBatch.from_pylist(results, _RESULT)

    return run


def _attempt(place: BuildPlace, position: int, order: BuildOrder) -> dict[str, object]:
    try:
        built = build_file(place, order, attempt=uuid4().hex)
        return {
            "position": position,
            "temp_name": built.temp_name,
            "file_bytes": built.file_bytes,
            "file_sha256": built.file_sha256,
        }
    except MirrorgateError as error:
        return {"position": position, "code": str(error.code), "detail": error.detail}
    except Exception as error:  # noqa: BLE001  # a task answers for each file
        return {"position": position, "code": str(Code.BUILD_FAILED), "detail": failure_text(error)}


def failure_text(error: Exception) -> str:
    """What a log may say of an error that is not Mirrorgate's own: its text may hold values, a store's does not."""
    return str(error) if isinstance(error, StorageFailed) else type(error).__name__


def _result(order: BuildOrder, row: dict[str, object]) -> BuiltFile | BuildFailure:
    if row["code"] is not None:
        return BuildFailure(order, Code(str(row["code"])), str(row["detail"]))
    return BuiltFile(
        order.planned, order.epoch, str(row["temp_name"]), int(str(row["file_bytes"])), str(row["file_sha256"])
    )


def build_file(place: BuildPlace, order: BuildOrder, *, attempt: str) -> BuiltFile:
    """Write one file into the epoch's scratch, make it durable, and check what was written.

    A process that dies inside leaves a temp that nobody nominates. Raises InvariantBroken `payload_corrupt`,
    ScratchRevoked once the epoch is over.
    """
    planned, identity = order.planned, order.planned.identity
    zone = open_zone(place.landing_zone)
    temp_name = f"{identity.number:020d}-{attempt}.parquet"
    path = Scratch(planned.table_id, order.epoch).path(temp_name)
    with _engine(place.database_url).begin() as connection:
        schema = schema_of_version(connection, planned.table_id, identity.generation, planned.schema_version)
        with zone.write_file(path) as file:
            written = write_parquet(file, schema, _batches(connection, planned, schema.arrow), identity, place.layout)
    with zone.read_file(path) as file:
        if read_identity(file) != identity:
            raise InvariantBroken(
                Code.PAYLOAD_CORRUPT, f"file {identity.number} does not hold the rows it was planned for"
            )
    return BuiltFile(planned, order.epoch, temp_name, written.file_bytes, written.file_sha256)


def _batches(connection: Connection, planned: PlannedFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    identity = planned.identity
    batches = BatchRange(identity.first_sequence, identity.last_sequence)
    for digest, payload in read_payloads(
        connection, planned.table_id, identity.generation, batches, slice_bytes=SLICE_BYTES
    ):
        if payload_digest(payload) != digest:
            raise InvariantBroken(Code.PAYLOAD_CORRUPT, f"a payload of file {identity.number} differs from its digest")
        yield decode_payload(payload, schema)


@cache
def _engine(database_url: str) -> Engine:
    """One small pool per Python worker, kept between jobs."""
    return open_engine(database_url, pool_size=1, application="mirrorgate build")
