"""The API processes and drains of one history, which are killed, paused and restarted."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

from app.main import serve
from app.settings import PREFIX, Settings
from tests.chaos.faults.failpoints import POINTS
from tests.chaos.parts.light_drain import DATABASE_SECONDS, LEASE_SECONDS, DrainPlan, run_light_drain
from tests.support.http.server import free_port, listens
from tests.support.processes import forked, preload, state_of

ADMIN_KEY: Final = f"mg_00c4a05c_{'k' * 43}"
preload(__name__)


class ApiProcess:
    """One API process on a port of its own."""

    def __init__(self, database_url: str, log: Path) -> None:
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        settings = {"DATABASE_URL": database_url, "ADMIN_KEY": ADMIN_KEY, "PORT": str(self._port)}
        settings |= {"LOG_LEVEL": "warning", "DATABASE_SECONDS": str(DATABASE_SECONDS)}
        self._settings = {f"{PREFIX}{name}": value for name, value in settings.items()}
        self._log = log
        self._process = self._start()

    def _start(self) -> BaseProcess:
        return forked(_run_api, self._settings, log=self._log)

    def kill(self) -> None:
        self._process.kill()
        self._process.join()

    def tend(self) -> None:
        if not self._process.is_alive():
            self._process = self._start()

    @property
    def answers(self) -> bool:
        return listens(self._port)


def _run_api(environment: Mapping[str, str]) -> None:
    """Do what `python -m app.main` does, until the process is killed."""
    os.environ.update(environment)
    serve(Settings.from_environment())


@dataclass
class LightDrains:
    """So many light drains, each with a fate of its own, drawn from `source`; calm ones meet none."""

    plan: DrainPlan
    log: Path
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
        return forked(run_light_drain, plan, log=self.log)

    def _doomed(self, plan: DrainPlan) -> DrainPlan:
        plan = replace(plan, passes=self.source.choice((1, 1, 2, 5)))
        if self.source.random() < 0.2:
            # A transaction that stops keeps its locks until Postgres ends it.
            return replace(plan, stops_at=self.source.choice([p for p in POINTS if "not committed" not in p]))
        return replace(plan, dies_at=self.source.choice(POINTS))

    def _wake(self, process: BaseProcess) -> None:
        pid = process.pid or 0
        if state_of(pid) != "T":
            self._stopped.pop(pid, None)
        elif time.monotonic() - self._stopped.setdefault(pid, time.monotonic()) > 1.5 * LEASE_SECONDS:
            os.kill(pid, signal.SIGCONT)
            self.kills["drain stopped past its lease"] += 1
