"""W5: Spark tasks that build landing files in scratch: payloads from Postgres -> Parquet, fsynced and read back.

A task may run more than once, and a lost attempt may go on writing: so each attempt writes under a name of its
own, and a task returns its failures instead of raising them, so that one file's trouble fails no other.
"""

import gc
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import SparkSession

from app.domain.arrow.payload import decode_payload, payload_digest
from app.domain.model.landing_file import BatchRange, BuiltFile, PlannedFile
from app.domain.model.table import Epoch
from app.domain.publication.failure import described
from app.errors import Code, InvariantBroken, MirrorgateError
from app.landing.open_zone import ZoneAddress, open_zone
from app.landing.parquet_file import FileLayout, read_identity, write_parquet
from app.landing.publish import Scratch
from app.staging.batches.staged_blocks import read_payloads
from app.staging.connection.database import Connection, Engine, open_engine
from app.staging.tables.registry import schema_of_version
from spark_jobs.spark.health import SparkCalls
from spark_jobs.worker_slots import MAX_WORKER_SLOTS, balance

SLICE_BYTES: Final = 16 * 2**20
"""Compressed payload bytes that a task reads from Postgres at once."""

MAX_DRIVER_BUILDS: Final = 4
"""So many small files of a folder are built without Spark at the most, one after the other; of a remote zone one."""

_ENGINES = threading.Lock()

_NO_RESULT: Final = dict.fromkeys(("temp_name", "file_bytes", "file_sha256", "code", "detail", "remedy"))


@dataclass(frozen=True, slots=True)
class BuildOrder:
    """One planned file to build under one epoch."""

    planned: PlannedFile
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class BuildConfig:
    """Where tasks read and write. It travels inside the job, never in Spark's configuration: it holds a password."""

    database_url: str
    landing_zone: ZoneAddress
    layout: FileLayout
    application: str = "mirrorgate build"
    """Name of the tasks' connections to Postgres, by which the drain sees that they work."""


@dataclass(frozen=True, slots=True)
class BuildFailure:
    """A file that could not be built; `code` says why."""

    order: BuildOrder
    code: Code
    detail: str
    remedy: str


def build_files(
    spark: SparkSession,
    place: BuildConfig,
    orders: Sequence[BuildOrder],
    *,
    tasks: int,
    min_bytes: int = 0,
    calls: SparkCalls | None = None,
) -> list[BuiltFile | BuildFailure]:
    """Build files as one Spark job of at most `tasks` tasks; one result per order, in the order given.

    A few files that together have fewer than `min_bytes` compressed payload bytes are built here and now: that takes
    less time than a Spark job takes to start.
    """
    few = 1 if place.landing_zone.is_remote else MAX_DRIVER_BUILDS
    if len(orders) <= few and _are_small([order.planned for order in orders], min_bytes):
        return [_result(order, _attempt(place, position, order)) for position, order in enumerate(orders)]
    shares = balance(enumerate(orders), lambda item: item[1].planned.identity.rows, tasks)
    job = spark.sparkContext.parallelize(shares, len(shares)).mapPartitions(_task(place))
    with calls.running() if calls else nullcontext():
        rows = sorted(job.collect(), key=lambda row: row["position"])
    return [_result(orders[row["position"]], row) for row in rows]


def _are_small(files: Sequence[PlannedFile], min_bytes: int) -> bool:
    known = [file.payload_bytes for file in files if file.payload_bytes is not None]
    return len(known) == len(files) and sum(known) < min_bytes


def _task(
    place: BuildConfig,
) -> Callable[[Iterable[Sequence[tuple[int, BuildOrder]]]], Iterator[dict[str, Any]]]:
    def run(shares: Iterable[Sequence[tuple[int, BuildOrder]]]) -> Iterator[dict[str, Any]]:
        for share in shares:
            for position, order in share:
                yield _attempt(place, position, order)
        _pass_over_imports()

    return run


@cache
def _pass_over_imports() -> None:
    """Spark collects garbage after each task: that took 50 ms while it looked at all that was ever imported."""
    gc.collect()
    gc.freeze()


def _attempt(place: BuildConfig, position: int, order: BuildOrder) -> dict[str, Any]:
    result = _NO_RESULT | {"position": position}
    try:
        built = build_file(place, order, attempt=uuid4().hex)
        return result | {
            "temp_name": built.temp_name,
            "file_bytes": built.file_bytes,
            "file_sha256": built.file_sha256,
        }
    except MirrorgateError as error:
        return result | {"code": str(error.code), "detail": error.detail, "remedy": error.remedy}
    except Exception as error:  # noqa: BLE001  # a task answers for each file
        failure = described(error)
        code = Code.BUILD_FAILED if failure.code is Code.INTERNAL else failure.code
        return result | {"code": str(code), "detail": failure.detail, "remedy": failure.remedy}


def _result(order: BuildOrder, row: Mapping[str, Any]) -> BuiltFile | BuildFailure:
    if row["code"] is not None:
        return BuildFailure(order, Code(row["code"]), row["detail"], row["remedy"])
    return BuiltFile(order.planned, order.epoch, row["temp_name"], row["file_bytes"], row["file_sha256"])


def build_file(place: BuildConfig, order: BuildOrder, *, attempt: str) -> BuiltFile:
    """Write one file into the epoch's scratch, make it durable, and check what was written.

    A process that dies inside leaves a temp that nobody nominates. Raises InvariantBroken `payload_corrupt`,
    ScratchRevoked once the epoch is over.
    """
    planned, identity = order.planned, order.planned.identity
    zone = open_zone(place.landing_zone)
    temp_name = f"{identity.number:020d}-{attempt}.parquet"
    path = Scratch(planned.table_id, order.epoch).path(temp_name)
    with _engine(place.database_url, place.application).begin() as connection:
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


def _engine(database_url: str, application: str) -> Engine:
    """One pool per process, kept between jobs, with as many connections as threads build at the same time: one in a
    Spark worker, in the drain one for each bin."""
    with _ENGINES:
        return _opened(database_url, application)


@cache
def _opened(database_url: str, application: str) -> Engine:
    return open_engine(database_url, pool_size=MAX_WORKER_SLOTS, application=application)
