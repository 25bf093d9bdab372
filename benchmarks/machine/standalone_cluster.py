"""A standalone Spark master and its workers on this machine, each in its own process on 127.0.0.1."""

import os
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyspark

from app.local.embedded import find_java
from benchmarks.machine.processes import started, stop
from benchmarks.reports.figure import BenchmarkFailed

SPARK_HOME: Final = Path(pyspark.__file__).parent
_READY_TIMEOUT_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class StandaloneWorker:
    """A worker; its executors write their logs below `folder`."""

    process: "subprocess.Popen[bytes]"
    folder: Path

    def kill(self) -> None:
        """Kill the worker and its executors at once, as if the machine were lost."""
        self.process.kill()
        stop(self.process)

    def executors(self) -> list[Path]:
        """Return the folders of the executors that it has started so far."""
        return sorted(self.folder.glob("app-*/*"))


@dataclass(frozen=True, slots=True)
class StandaloneCluster:
    """`environment` is what a driver needs to use the cluster: its Java, and 127.0.0.1 as its own address."""

    url: str
    environment: dict[str, str]
    workers: Sequence[StandaloneWorker]


@contextmanager
def standalone_cluster(folder: Path, *, workers: int, worker_memory: str = "1g") -> Iterator[StandaloneCluster]:
    """Yield a master and `workers` workers of one core and, by default, 1 GB; all of them end with the block.

    The system chooses the ports. Raises BenchmarkFailed when a process does not start.
    """
    folder.mkdir(parents=True)
    environment = {
        "JAVA_HOME": str(find_java(folder, os.environ)),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        # A folder without settings, so that Spark ignores those of a cluster that the machine may belong to.
        "SPARK_CONF_DIR": str(folder),
        # Master and worker only schedule, as the driver does, and get the same options.
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    with ExitStack() as stack:

        def start(name: str, role: str, *arguments: str) -> tuple["subprocess.Popen[bytes]", Path]:
            command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}"]
            command += ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *arguments]
            log_file = folder / f"{name}.log"
            return stack.enter_context(started(name, command, environment=environment, log_file=log_file)), log_file

        url = _wait_for_log(*start("master", "master.Master"), r"Starting Spark master at (spark://\S+)")
        starting = []
        for number in range(workers):
            own = folder / f"worker-{number}"
            arguments = ("--cores", "1", "--memory", worker_memory, "--work-dir", str(own), url)
            process, log_file = start(own.name, "worker.Worker", *arguments)
            starting.append((StandaloneWorker(process, own), log_file))
        for worker, log_file in starting:
            _wait_for_log(worker.process, log_file, r"Successfully registered with master (spark://\S+)")
        yield StandaloneCluster(url, environment, [worker for worker, _ in starting])


def _wait_for_log(process: "subprocess.Popen[bytes]", log_file: Path, pattern: str) -> str:
    """Wait until the log matches `pattern`, and return its group."""
    give_up = time.monotonic() + _READY_TIMEOUT_SECONDS
    while (found := re.search(pattern, log_file.read_text(errors="replace"))) is None:
        if process.poll() is not None or time.monotonic() > give_up:
            raise BenchmarkFailed(f"Spark's {log_file.stem} did not start; see {log_file}")
        time.sleep(_POLL_SECONDS)
    return found[1]
