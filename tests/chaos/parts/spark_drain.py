"""The real drain with its JVM, whose Python workers are killed while they write."""

import os
import random
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from app.local.embedded import find_java
from benchmarks.machine.process_facts import descendants
from tests.support.processes import command_of, environment_with, start_program


class SparkDrain:
    """`python -m spark_jobs.drain` in a session of its own."""

    def __init__(self, database_url: str, landing_zone: Path, log: Path, source: random.Random) -> None:
        environment = environment_with(
            DATABASE_URL=database_url,
            LANDING_ZONE=landing_zone,
            SPARK_MASTER="local[2,4]",
            LEASE_SECONDS=3,
            MAX_DELAY_SECONDS=0.1,
            SPARK_JOB_MIN_BYTES=0,
            ALLOW_UNSAFE="true",  # Postgres runs without fsync here: its processes are killed, not its machine
        )
        environment["JAVA_HOME"] = str(find_java(log.parent, os.environ))
        self._environment, self._log, self._source = environment, log, source
        self._process = self._start()

    def tend(self) -> None:
        """Start it again if it has ended: it does not start while Postgres is away."""
        if self._process.poll() is not None:
            self.end()
            self._process = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "spark_jobs.drain", "--parent-pid", str(os.getpid())]
        self._began = self._log.stat().st_size if self._log.exists() else 0
        return start_program(self._log, *command, environment=self._environment, start_new_session=True)

    def kill_worker(self) -> int:
        """Kill one of Spark's Python workers, or the daemon that forks them; how many were killed.

        Not before the drain has started: it needs them for that, and nothing is written yet.
        """
        if not self.started:
            return 0
        workers = [pid for pid in descendants(self._process.pid) if "worker_daemon" in " ".join(command_of(pid))]
        if not workers:
            return 0
        with suppress(ProcessLookupError):
            os.kill(self._source.choice(workers), signal.SIGKILL)
        return 1

    @property
    def started(self) -> bool:
        return b"drain_started" in self._log.read_bytes()[self._began :]

    def end(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
