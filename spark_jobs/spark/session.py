"""The Spark session of the drain or the mirror: its options, its sockets, and who may talk to its driver.

What Spark's JVM and its Python workers print becomes log lines of the drain. Spark writes log4j lines, Java and Python
write stack traces, and the launcher writes plain text. The JVM prints into a pipe; each record, with the lines that
continue it, becomes one event `spark_log`.

A cluster can give the driver no executor, for a reason that Spark's master alone knows. Then jobs wait, and the
driver's calls do not return: at the start because no worker is large enough or free, later because all workers or the
master were lost. A restarted standalone master does not know the application.
"""

import os
import re
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeAlias, TypeVar
from uuid import UUID

import structlog
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from app.domain.publication import described
from app.local.locked_tempdir import locked_tempdir
from app.observability.periodic_thread import PeriodicThread
from app.settings import Settings
from mirrorgate.errors import Code, InvariantBroken

log = structlog.get_logger()


_CHECK_SECONDS: Final = 2.0
_PATIENCE_SECONDS: Final = 15.0
"""A cluster needs some seconds to start executors."""
_REMINDER_SECONDS: Final = 60.0


class ExecutorWatch:
    """Watch that logs that there is no executor, after some seconds and every minute, and when there is one again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.are_missing = False
        """True while there has been no executor for so long that it was logged."""
        self._clock = clock
        self._seen_at = clock()
        self._logged_at = 0.0

    def watching(self, spark: SparkSession) -> PeriodicThread:
        """Check every two seconds in a separate thread until a block ends."""
        return PeriodicThread(
            "spark-executors",
            _CHECK_SECONDS,
            lambda: self.check(count_executors(spark), str(spark.sparkContext.master)),
            on_failure=lambda _: None,  # Spark ends, which SparkPing reports
            waits_first=True,
            join_seconds=0.0,
        )

    def check(self, executors: int, master: str) -> None:
        """Judge how many executors there are now."""
        now = self._clock()
        if executors:
            if self.are_missing:
                log.info("spark_has_executors", executors=executors, master=master)
            self._seen_at, self.are_missing = now, False
            return
        silent = now - self._seen_at
        if silent < _PATIENCE_SECONDS or (self.are_missing and now - self._logged_at < _REMINDER_SECONDS):
            return
        self.are_missing, self._logged_at = True, now
        code = Code.SPARK_WITHOUT_EXECUTORS
        detail = f"{master} has given this program no executor for {silent:.0f} s"
        log.warning("spark_without_executors", code=code, detail=detail, remedy=code.remedy)


def count_executors(spark: SparkSession) -> int:
    """Return the number of registered executors, which the driver's own block manager is none of."""
    context: Any = spark.sparkContext
    return int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1


_MAX_READ_BYTES: Final = 2**16
_COMPLETE_SECONDS: Final = 0.3
"""After so long without output, a record counts as complete."""
_MAX_TEXT_CHARACTERS: Final = 8_000
_MAX_LINES: Final = 400

_HEAD: Final = re.compile(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (TRACE|DEBUG|INFO|WARN|ERROR|FATAL) ([^\s:]+): (.*)")
_FOLLOWS: Final = re.compile(
    r"\s|$|Caused by: |Traceback \(most recent|During handling of |The above exception "
    r"|[A-Za-z_][\w.$]*(Error|Exception)\b"
)
_LEVELS: Final = {"WARN": "warning", "ERROR": "error", "FATAL": "critical"}
_HARMLESS: Final = re.compile(r"(daemon failed to flush|in worker\n\s*outfile\.flush\(\)).*BrokenPipeError", re.DOTALL)
"""A Python worker whose job was over before it answered, or whose Spark stops; nothing is lost."""


@dataclass(frozen=True, slots=True)
class JvmMessage:
    """One message of the JVM, with log4j's level and logger if it has them."""

    level: str
    logger: str | None
    text: str


def records(lines: Sequence[str]) -> Iterator[JvmMessage]:
    """Group lines into records: a stack trace belongs to the line before it."""
    group: list[str] = []
    for line in lines:
        if group and (_HEAD.match(line) or not _FOLLOWS.match(line)):
            yield _record(group)
            group = []
        if group or line.strip():
            group.append(line)
    if group:
        yield _record(group)


def _record(lines: Sequence[str]) -> JvmMessage:
    head = _HEAD.match(lines[0])
    if head is None:
        text = "\n".join(lines).strip()
        return JvmMessage(_level_of_plain(text), None, text[:_MAX_TEXT_CHARACTERS])
    level, logger, message = head.groups()
    text = "\n".join([message, *lines[1:]]).strip()
    return JvmMessage(_LEVELS.get(level, "info"), logger, text[:_MAX_TEXT_CHARACTERS])


def _level_of_plain(text: str) -> str:
    if _HARMLESS.search(text):
        return "debug"
    return "warning" if "Traceback (most recent" in text or "Exception" in text else "info"


class JvmOutput:
    """A pipe to start the JVM with, read until the JVM and all that it started have closed it."""

    def __init__(self) -> None:
        self._reader, self.descriptor = os.pipe()
        self._thread = threading.Thread(target=self._follow, name="jvm-output", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close this process's end: the JVM has its own by now, or was not started."""
        os.close(self.descriptor)

    def _follow(self) -> None:
        unfinished, lines = b"", list[str]()
        while True:
            ready, _, _ = select.select([self._reader], [], [], _COMPLETE_SECONDS if lines else None)
            data = os.read(self._reader, _MAX_READ_BYTES) if ready else b""
            *complete, unfinished = (unfinished + data).split(b"\n")
            lines += [line.decode(errors="replace") for line in complete]
            if not data or len(lines) > _MAX_LINES:
                _log(lines)
                lines = []
            if ready and not data:
                _log([unfinished.decode(errors="replace")])
                os.close(self._reader)
                return


def _log(lines: Sequence[str]) -> None:
    for record in records(lines):
        with suppress(Exception):  # this thread must live: the JVM blocks when the pipe is full
            named = {"logger": record.logger} if record.logger else {}
            getattr(log, record.level)("spark_log", **named, text=record.text)


Job: TypeAlias = Literal["drain", "mirror"]
Started = TypeVar("Started")

_DEFAULTS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # The JVM only schedules: a fast start matters more than the peak speed of compiled code.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    # Over TCP each job waits 40 ms for a delayed acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
}
_ON_THIS_MACHINE: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_DAEMONS: Final = {"drain": "spark_jobs.spark.worker_daemon", "mirror": "spark_jobs.spark.mirror_daemon"}
"""By job, the module of its Python daemon. Executors on other machines run Spark's own: they may get the modules only
with the first job, when their daemon runs already."""
_AUTHENTICATED: Final = {
    # For these masters Spark makes a random secret inside the JVM at each start: it is in no argument, environment,
    # file or log. Without it, every account of the machine could command the driver through its RPC port.
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.saslFallback": "false",
}
_ONE_PROCESS: Final = re.compile(r"local(\[.*\])?")
_MAX_SOCKET_FOLDER_BYTES: Final = 103 - len(f"/.{UUID(int=0)}.sock")
"""The strictest system allows 103 bytes in a socket's path. The socket's mode depends on the umask, so its folder has
to keep other accounts out."""


@contextmanager
def running_spark(
    settings: Settings, job: Job = "drain", executors: ExecutorWatch | None = None
) -> Iterator[SparkSession]:
    """Run a Spark session with warm Python workers until the block ends.

    Under spark-submit, only its options apply. `executors` watches those of a cluster, from before the first job waits
    for one. Raise InvariantBroken `spark_failed` if Spark does not start.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(f"mirrorgate {job}")
    with ExitStack() as stack:
        # An interrupt waits for this thread: a JVM whose launch is broken off lives on, and py4j logs a broken call.
        # Spark sets its own handler of SIGINT in the main thread only.
        thread = stack.enter_context(ThreadPoolExecutor(1, "spark-start"))
        if "PYSPARK_GATEWAY_PORT" not in os.environ:  # set if spark-submit has started the JVM
            options = spark_options(settings.spark_master, job)
            if _is_on_this_machine(settings.spark_master):
                folder = stack.enter_context(locked_tempdir("spark", max_path_bytes=_MAX_SOCKET_FOLDER_BYTES))
                options |= _kept_in(folder)
            for name, value in options.items():
                builder = builder.config(name, value)
            _started(thread.submit(_launch_jvm, options, settings.spark_master))
        if settings.spark_master:
            builder = builder.master(settings.spark_master)
        spark = _started(thread.submit(builder.getOrCreate))
        stack.callback(_stop, spark)
        _log_lost_connections(spark)
        spark.sparkContext.setLogLevel("ERROR")
        if not is_one_process(spark.sparkContext.master):
            stack.enter_context((executors or ExecutorWatch()).watching(spark))
        _started(thread.submit(_start_workers, spark.sparkContext))
        yield spark


def _started(step: Future[Started]) -> Started:
    """Wait for a step of the start. Raise InvariantBroken `spark_failed`: no row is in Spark's reason this early."""
    try:
        return step.result()
    except Exception as error:
        reason = str(error).rpartition("\n: ")[2].partition("\n")[0]
        raise InvariantBroken(Code.SPARK_FAILED, f"Spark did not start: {reason}") from error


def _start_workers(spark: SparkContext) -> None:
    parallelism = spark.defaultParallelism
    spark.parallelize(range(parallelism), parallelism).mapPartitions(iter).collect()


def _launch_jvm(options: Mapping[str, str], master: str | None) -> None:
    """Start Spark's JVM, unless this process has one, with its output in log lines."""
    if SparkContext._gateway is not None:
        return
    configuration = SparkConf(loadDefaults=False).setAll([*options.items()])
    if master:
        configuration.setMaster(master)
    launch: Any = launch_gateway  # has no types
    with JvmOutput() as output:
        gateway = launch(configuration, {"stdout": output.descriptor, "stderr": output.descriptor})
    SparkContext._ensure_initialized(gateway=gateway)


def _log_lost_connections(spark: SparkSession) -> None:
    """Log one line when the JVM ends, instead of the stack trace that Spark's server in this process prints."""

    def log_lost(*_: object) -> None:
        log.warning("spark_connection_lost", error=type(sys.exception()).__name__)

    server: Any = getattr(spark.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = log_lost


def _stop(spark: SparkSession) -> None:
    """Stop Spark; if it is gone already, its error must not replace the reason."""
    try:
        spark.stop()
    except Exception as error:  # noqa: BLE001
        log.warning("spark_stop_failed", **asdict(described(error)))


def spark_options(master: str | None, job: Job = "drain") -> dict[str, str]:
    """Return what a job asks of Spark without spark-submit: executors on other machines must reach the driver."""
    options = dict(_DEFAULTS)
    if _is_on_this_machine(master):
        options |= {**_ON_THIS_MACHINE, "spark.python.daemon.module": _DAEMONS[job]}
    if is_one_process(master):
        options |= _AUTHENTICATED
    return options


def _kept_in(folder: Path) -> dict[str, str]:
    """Return options for a Spark whose sockets and temporary files all lie in a folder."""
    java = f'{_DEFAULTS["spark.driver.extraJavaOptions"]} "-Djava.io.tmpdir={folder}"'
    return {"spark.python.unix.domain.socket.dir": str(folder), "spark.driver.extraJavaOptions": java}


def is_one_process(master: str | None) -> bool:
    """Return whether Spark runs its tasks on the driver's machine, within the driver's JVM and its children."""
    return master is None or _ONE_PROCESS.fullmatch(master) is not None


def _is_on_this_machine(master: str | None) -> bool:
    return master is None or master.startswith("local")
