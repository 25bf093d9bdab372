"""A standalone Spark master and its workers on this machine, each a process of its own on 127.0.0.1."""

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
_READY_WITHIN: Final = 60.0
_LOOK_EVERY: Final = 0.05


@dataclass(frozen=True, slots=True)
class StandaloneWorker:
    """A worker; `folder` is where the executors that it starts write their logs."""

    process: "subprocess.Popen[bytes]"
    folder: Path

    def kill(self) -> None:
        """End the worker with its executors at once, as a machine that is lost."""
        self.process.kill()
        stop(self.process)

    def executors(self) -> list[Path]:
        """The folders of the executors that it has started so far."""
        return sorted(self.folder.glob("app-*/*"))


@dataclass(frozen=True, slots=True)
class StandaloneCluster:
    """`environment` is what a driver needs to use it: its Java, and 127.0.0.1 as its own address."""

    url: str
    environment: dict[str, str]
    workers: Sequence[StandaloneWorker]


@contextmanager
def standalone_cluster(folder: Path, *, workers: int) -> Iterator[StandaloneCluster]:
    """A master and so many workers of one core and 1 GB; all of it ends with the block.

    Ports are the system's choice. Raises BenchmarkFailed when one does not start.
    """
    folder.mkdir(parents=True)
    environment = {
        "JAVA_HOME": str(find_java(folder, os.environ)),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        # The address is on the command line; what the machine sets for a cluster of its own is not meant.
        "SPARK_CONF_DIR": str(folder),
        # They only schedule, as the driver does.
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    with ExitStack() as stack:

        def start(name: str, role: str, *words: str) -> tuple["subprocess.Popen[bytes]", Path]:
            command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}"]
            command += ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *words]
            log_file = folder / f"{name}.log"
            return stack.enter_context(started(name, command, environment=environment, log_file=log_file)), log_file

        url = _said(*start("master", "master.Master"), r"Starting Spark master at (spark://\S+)")
        begun = []
        for number in range(workers):
            own = folder / f"worker-{number}"
            words = ("--cores", "1", "--memory", "1g", "--work-dir", str(own), url)
            process, log_file = start(own.name, "worker.Worker", *words)
            begun.append((StandaloneWorker(process, own), log_file))
        for worker, log_file in begun:
            _said(worker.process, log_file, r"Successfully registered with master (spark://\S+)")
        yield StandaloneCluster(url, environment, [worker for worker, _ in begun])


def _said(process: "subprocess.Popen[bytes]", log_file: Path, pattern: str) -> str:
    """What a process says in its log once it serves."""
    give_up = time.monotonic() + _READY_WITHIN
    while (found := re.search(pattern, log_file.read_text(errors="replace"))) is None:
        if process.poll() is not None or time.monotonic() > give_up:
            raise BenchmarkFailed(f"Spark's {log_file.stem} did not start; see {log_file}")
        time.sleep(_LOOK_EVERY)
    return found[1]
