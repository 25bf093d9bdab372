"""The Spark session of the drain or the mirror: its options, its sockets, and who may talk to its driver."""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias
from uuid import UUID

import structlog
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from app.domain.publication.failure import described
from app.local.locked_tempdir import locked_tempdir
from app.settings import Settings
from spark_jobs.spark.executors import ExecutorWatch
from spark_jobs.spark.jvm_output import JvmOutput

log = structlog.get_logger()

Job: TypeAlias = Literal["drain", "mirror"]

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
    for one.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(f"mirrorgate {job}")
    with ExitStack() as stack:
        if "PYSPARK_GATEWAY_PORT" not in os.environ:  # set if spark-submit has started the JVM
            options = spark_options(settings.spark_master, job)
            if _is_on_this_machine(settings.spark_master):
                folder = stack.enter_context(locked_tempdir("spark", max_path_bytes=_MAX_SOCKET_FOLDER_BYTES))
                options |= _kept_in(folder)
            for name, value in options.items():
                builder = builder.config(name, value)
            _launch_jvm(options, settings.spark_master)
        if settings.spark_master:
            builder = builder.master(settings.spark_master)
        spark: SparkSession = builder.getOrCreate()
        stack.callback(_stop, spark)
        _log_lost_connections(spark)
        spark.sparkContext.setLogLevel("ERROR")
        if not is_one_process(spark.sparkContext.master):
            stack.enter_context((executors or ExecutorWatch()).watching(spark))
        parallelism = spark.sparkContext.defaultParallelism
        spark.sparkContext.parallelize(range(parallelism), parallelism).mapPartitions(iter).collect()
        yield spark


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
