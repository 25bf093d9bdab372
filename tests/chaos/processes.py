"""The processes of one history: Postgres, API processes and drains, which are killed, stopped and started again."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

from app.embedded import PrivatePostgres
from app.settings import PREFIX
from tests.chaos.failpoints import POINTS
from tests.chaos.light_drain import LEASE_SECONDS, DrainPlan, run_light_drain
from tests.support.processes import REPOSITORY

ADMIN_KEY: Final = f"mg_00c4a05c_{'k' * 43}"
COMMON: Final = ("W2", "W3", "R3", "R6")
"""Steps that few passes meet: a drain that is to die there is more often than not killed elsewhere first."""

_fork_server = get_context("forkserver")
_fork_server.set_forkserver_preload(["tests.chaos.light_drain"])


class CrashingPostgres:
    """A private Postgres that is stopped as a crash would, and started again under the same address."""

    def __init__(self, folder: Path) -> None:
        # A process that crashes loses nothing that it has handed to the system; fsync is about the machine.
        self._server = PrivatePostgres(folder, {"fsync": "off", "full_page_writes": "off"})
        self._server.start()
        self.url = self._server.url

    def crash(self) -> None:
        """`immediate`: no session ends cleanly, nothing is checkpointed, the next start recovers."""
        process = self._server.process
        process.send_signal(signal.SIGQUIT)
        process.wait(timeout=30)
        self.tend()

    def tend(self) -> None:
        """Start it again if it has ended, which it does while sessions of the one before live on."""
        if self._server.process.poll() is not None:
            with self._server.log_file.open("ab") as log:
                self._server._process = subprocess.Popen(
                    self._server.command,
                    cwd="/",
                    env=self._server.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )

    def stop(self) -> None:
        self._server.stop()


class ApiProcess:
    """One real API process on a port of its own."""

    def __init__(self, database_url: str, log: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        settings = {"DATABASE_URL": database_url, "ADMIN_KEY": ADMIN_KEY, "PORT": str(port), "LOG_LEVEL": "warning"}
        self._environment = {**os.environ, **{f"{PREFIX}{name}": value for name, value in settings.items()}}
        self._log = log
        self._process = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "app.main", "--parent-pid", str(os.getpid())]
        with self._log.open("ab") as log:
            return subprocess.Popen(command, cwd=REPOSITORY, env=self._environment, stdout=log, stderr=log)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def tend(self) -> None:
        if self._process.poll() is not None:
            self._process = self._start()

    @property
    def answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", int(self.url.rpartition(":")[2])), timeout=1):
                return True
        except OSError:
            return False


@dataclass
class LightDrains:
    """So many light drains, each with a fate of its own, drawn from `source`; calm ones meet none."""

    plan: DrainPlan
    source: random.Random
    count: int = 3
    calm: bool = False
    kills: Counter[str] = field(default_factory=Counter)
    _processes: list[BaseProcess] = field(default_factory=list)
    _stopped: dict[int, float] = field(default_factory=dict)

    def tend(self) -> None:
        """Start what has died, wake what has been stopped for longer than its lease."""
        self._processes = [process for process in self._processes if process.is_alive()]
        while len(self._processes) < self.count:
            self._processes.append(self._start())
        for process in self._processes:
            self._wake(process)

    def kill_one(self) -> None:
        """At a random moment, wherever it is."""
        process = self.source.choice(self._processes)
        process.kill()
        process.join()
        self.kills["drain anywhere"] += 1

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.join()
        self._processes = []

    def _start(self) -> BaseProcess:
        plan = replace(self.plan, seed=self.source.randrange(2**32))
        if self.calm:
            plan = replace(plan, errors=0.0, deaths=0.0)
        else:
            fate = "stops_at" if self.source.random() < 0.2 else "dies_at"
            points = [p for p in POINTS if "not committed" not in p] if fate == "stops_at" else POINTS
            plan = replace(plan, **{fate: self.source.choice(points)}, passes=self.source.choice((1, 1, 2, 5)))
        process = _fork_server.Process(target=run_light_drain, args=(plan, os.getpid()), daemon=True)
        process.start()
        return process

    def _wake(self, process: BaseProcess) -> None:
        pid = process.pid or 0
        if not _is_stopped(pid):
            self._stopped.pop(pid, None)
        elif time.monotonic() - self._stopped.setdefault(pid, time.monotonic()) > 1.5 * LEASE_SECONDS:
            os.kill(pid, signal.SIGCONT)
            self.kills["drain stopped past its lease"] += 1


def _is_stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False
