"""W5: Spark tasks that build landing files in scratch: payloads from Postgres -> Parquet, fsynced and read back.

A task may run more than once, and a lost attempt may keep writing. So each attempt writes under its own name, and a
task returns its failures instead of raising them: one file's failure fails no other.
"""

import gc
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final, TypeAlias
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import SparkSession

from app.domain.arrow import decode_payload, payload_digest
from app.domain.model.landing_file import BatchRange, BuiltFile, PlannedFile
from app.domain.model.table import Epoch
from app.domain.publication import Failure, described
from app.landing.open_zone import ZoneAddress, open_zone
from app.landing.parquet_file import FileLayout, read_identity, write_parquet
from app.landing.publish import Scratch
from app.staging.batches.staged_blocks import read_payloads
from app.staging.connection.database import Engine, open_engine, translated_errors
from app.staging.tables.schema_versions import schema_of_version
from mirrorgate.errors import Code, InvariantBroken
from spark_jobs.scheduling import MAX_WORKER_SLOTS, balance
from spark_jobs.spark.health import SparkCalls

MAX_SLICE_BYTES: Final = 16 * 2**20
"""Compressed payload bytes that a task reads from Postgres at once."""

MIN_LOCAL_JOB_BYTES: Final = 32 * 2**20
MIN_CLUSTER_JOB_BYTES: Final = 256 * 2**10
"""Staged bytes from which Spark builds files, unless a setting says otherwise. A Spark job costs 60 to 100 ms of
processor time. Without a cluster, tasks run on the drain's own cores, so a job gains nothing until there are several
files for several cores. On a cluster it frees the driver for other tables (performance notebook)."""

MAX_DRIVER_BUILDS: Final = 4
"""Small files that the driver builds by itself, one after the other; of a remote zone it builds one."""

MAX_DRIVER_BYTES: Final = 64 * 2**20
"""Decoded bytes up to which the driver builds files by itself: all its worker slots may do so at a time, while a Spark
job has a task for each core."""

_USUAL_ROW_BYTES: Final = 128
_ENGINES = threading.Lock()


@dataclass(frozen=True, slots=True)
class BuildConfig:
    """Locations and limits with which tasks read and write.

    It travels inside the job, never in Spark's configuration, because it has a password.
    """

    database_url: str
    landing_zone: ZoneAddress
    layout: FileLayout
    application: str = "mirrorgate build"
    """Name of the tasks' connections to Postgres, by which the drain sees that they work."""


@dataclass(frozen=True, slots=True)
class BuildOrder:
    """One planned file to build under one epoch."""

    planned: PlannedFile
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class BuildFailure(Failure):
    """The failure to build a file."""

    def error(self) -> InvariantBroken:
        """Return the failure as an exception."""
        return InvariantBroken(self.code, self.detail, remedy=self.remedy)


BuildResult: TypeAlias = BuiltFile | BuildFailure
_Numbered: TypeAlias = tuple[int, BuildOrder]


@dataclass(frozen=True, slots=True)
class FileBuilder:
    """Builder of files for one drain: in Spark tasks, or in the driver if they are few and small. Threads share it."""

    spark: SparkSession
    config: BuildConfig
    tasks: int | None = None
    """Maximum number of tasks of one Spark job; None: as many as Spark runs at a time."""
    spark_job_min_bytes: int = 0
    """Files with fewer compressed payload bytes in total are built without a Spark job."""
    calls: SparkCalls = field(default_factory=SparkCalls)
    """Calls to Spark that have not returned."""

    @property
    def parallel_tasks(self) -> int:
        """The number of tasks that run at a time; it changes with a cluster's executors."""
        return self.tasks or int(self.spark.sparkContext.defaultParallelism)

    def build(self, orders: Sequence[BuildOrder]) -> list[BuildResult]:
        """Build files; return one result per order, in the same order.

        A few small files are built in the driver: that takes less time than a Spark job takes to start. A process that
        dies inside leaves files in scratch that no ledger entry names.
        """
        few = 1 if self.config.landing_zone.is_remote else MAX_DRIVER_BUILDS
        if len(orders) <= few and _are_small([order.planned for order in orders], self.spark_job_min_bytes):
            return [attempt_build(self.config, order) for order in orders]
        assignments = balance(enumerate(orders), lambda item: _work(item[1].planned), self.parallel_tasks)
        job = self.spark.sparkContext.parallelize(assignments, len(assignments)).mapPartitions(_task(self.config))
        with self.calls.running():
            results = dict(job.collect())
        return [results[number] for number in range(len(orders))]


def _are_small(files: Sequence[PlannedFile], min_bytes: int) -> bool:
    known = [file.payload_bytes for file in files if file.payload_bytes is not None]
    landed = sum(file.landed_bytes or 0 for file in files)
    return len(known) == len(files) and sum(known) < min_bytes and landed < MAX_DRIVER_BYTES


def _work(file: PlannedFile) -> int:
    """Return the bytes that building a file decodes, as far as they are known."""
    return _USUAL_ROW_BYTES * file.identity.rows if file.landed_bytes is None else file.landed_bytes


def _task(config: BuildConfig) -> Callable[[Iterable[Sequence[_Numbered]]], Iterator[tuple[int, BuildResult]]]:
    def run(assignments: Iterable[Sequence[_Numbered]]) -> Iterator[tuple[int, BuildResult]]:
        for assignment in assignments:
            for number, order in assignment:
                yield number, _named_machine(attempt_build(config, order))
        _freeze_imports()

    return run


def _named_machine(result: BuildResult) -> BuildResult:
    """Name this machine in a failure: an executor may not see what the driver sees."""
    if isinstance(result, BuildFailure):
        return replace(result, detail=f"{result.detail}, on machine {socket.gethostname()}")
    return result


@cache
def _freeze_imports() -> None:
    """Exclude imported modules from the garbage collection that Spark runs after each task; they cost 50 ms of it."""
    gc.collect()
    gc.freeze()


def attempt_build(config: BuildConfig, order: BuildOrder) -> BuildResult:
    """Build one file under a new attempt's name; return whatever fails instead of raising it."""
    try:
        with translated_errors():
            return build_file(config, order, attempt=uuid4().hex)
    except Exception as error:  # noqa: BLE001  # a task returns a result for each of its files
        failure = described(error)
        code = Code.BUILD_FAILED if failure.code is Code.INTERNAL else failure.code
        return BuildFailure(code, failure.detail, failure.remedy)


def build_file(config: BuildConfig, order: BuildOrder, *, attempt: str) -> BuiltFile:
    """Write one file into the epoch's scratch, make it durable, and check what was written.

    A process that dies inside leaves an unregistered file in scratch, which a sweep deletes. Raise InvariantBroken
    `payload_corrupt`, and ScratchRevoked once the epoch is over.
    """
    planned, identity = order.planned, order.planned.identity
    zone = open_zone(config.landing_zone)
    temp_name = f"{identity.number:020d}-{attempt}.parquet"
    path = Scratch(planned.table_id, order.epoch).path(temp_name)
    engine = worker_engine(config.database_url, config.application)
    with engine.begin() as connection:
        version = schema_of_version(connection, planned.table_id, identity.generation, planned.schema_version)
    schema = version.landing
    with zone.write_file(path) as file:
        written = write_parquet(file, schema, _record_batches(engine, planned, schema.arrow), identity, config.layout)
    with zone.read_file(path) as file:
        if read_identity(file) != identity:
            detail = f"file {identity.number} does not hold the rows it was planned for"
            raise InvariantBroken(Code.PAYLOAD_CORRUPT, detail)
    return BuiltFile(planned, order.epoch, temp_name, written.file_bytes, written.file_sha256)


def _record_batches(engine: Engine, planned: PlannedFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    identity = planned.identity
    batches = BatchRange(identity.first_sequence, identity.last_sequence)
    for digest, payload in read_payloads(
        engine, planned.table_id, identity.generation, batches, slice_bytes=MAX_SLICE_BYTES
    ):
        if payload_digest(payload) != digest:
            raise InvariantBroken(Code.PAYLOAD_CORRUPT, f"a payload of file {identity.number} differs from its digest")
        yield decode_payload(payload, schema)


def worker_engine(database_url: str, application: str) -> Engine:
    """Return the process's pool, kept between jobs. A Spark worker uses one connection, the drain one per slot."""
    with _ENGINES:
        return _open_engine(database_url, application)


@cache
def _open_engine(database_url: str, application: str) -> Engine:
    return open_engine(database_url, pool_size=MAX_WORKER_SLOTS, application=application)
