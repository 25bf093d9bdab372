"""The API processes and drains of one history, which are killed, paused and restarted."""

import os
import random
import signal
import socket
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

from app.settings import PREFIX
from tests.chaos.faults.failpoints import POINTS
from tests.chaos.parts.api_process import run_api
from tests.chaos.parts.light_drain import DATABASE_SECONDS, LEASE_SECONDS, DrainPlan, run_light_drain

ADMIN_KEY: Final = f"mg_00c4a05c_{'k' * 43}"
_fork_server = get_context("forkserver")
_fork_server.set_forkserver_preload(["tests.chaos.parts.light_drain", "tests.chaos.parts.api_process"])


class ApiProcess:
    """One API process on a port of its own."""

    def __init__(self, database_url: str, log: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = int(free.getsockname()[1])
        self.url = f"http://127.0.0.1:{self._port}"
        settings = {"DATABASE_URL": database_url, "ADMIN_KEY": ADMIN_KEY, "PORT": str(self._port)}
        settings |= {"LOG_LEVEL": "warning", "DATABASE_SECONDS": str(DATABASE_SECONDS)}
        self._settings = {f"{PREFIX}{name}": value for name, value in settings.items()}
        self._log = log
        self._process = self._start()

    def _start(self) -> BaseProcess:
        arguments = (self._settings, self._log, os.getpid())
        process = _fork_server.Process(target=run_api, args=arguments, daemon=True)
        process.start()
        return process

    def kill(self) -> None:
        self._process.kill()
        self._process.join()

    def tend(self) -> None:
        if not self._process.is_alive():
            self._process = self._start()

    @property
    def answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=1):
                return True
        except OSError:
            return False


@dataclass
class LightDrains:
    """So many light drains, each with a fate of its own, drawn from `source`; calm ones meet none."""

    plan: DrainPlan
    source: random.Random
    count: int = 4
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
        plan = replace(plan, errors=0.0, deaths=0.0) if self.calm else self._doomed(plan)
        process = _fork_server.Process(target=run_light_drain, args=(plan, os.getpid()), daemon=True)
        process.start()
        return process

    def _doomed(self, plan: DrainPlan) -> DrainPlan:
        plan = replace(plan, passes=self.source.choice((1, 1, 2, 5)))
        if self.source.random() < 0.2:
            # A transaction that stops keeps its locks until Postgres ends it.
            return replace(plan, stops_at=self.source.choice([p for p in POINTS if "not committed" not in p]))
        return replace(plan, dies_at=self.source.choice(POINTS))

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
