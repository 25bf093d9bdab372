"""uvicorn's server for one process, and its supervisor for several processes on one port.

Both override methods of uvicorn; tests/api/server/test_uvicorn_contract.py checks that they still exist.
"""

import pickle
import socket
import time
from typing import Any, Final

import structlog
import uvicorn
from prometheus_client.multiprocess import mark_process_dead
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process

from app.process_endings import EndReasons, RestartDelays

log = structlog.get_logger()

MAX_START_SECONDS: Final = 300.0
"""Seconds for which a starting API process may be silent: on a slow disk or a busy machine, imports last minutes."""

MAX_SILENT_SECONDS: Final = 30.0
"""Seconds for which an API process that serves may be silent."""

_MAX_COUNTED_SECONDS: Final = 2.0
"""The most that one look adds to a silence. After a pause of the whole machine, the processes answer a bit later."""


class ApiServer(uvicorn.Server):
    """The server of a single API process. Logs `api_started` once it listens."""

    def __init__(self, config: uvicorn.Config, facts: dict[str, Any]) -> None:
        super().__init__(config)
        self._facts = facts

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and log the address and the version."""
        await super().startup(sockets)
        if self.started:
            log.info("api_started", **self._facts)


class ApiProcesses(Multiprocess):
    """Supervisor of API processes that share one port; it logs `api_started` when the first one listens.

    A process is replaced when it ends or is silent for too long; each replacement is a log line with its reason.
    Looking at the processes never waits for one: a slow start delays neither a stop nor another's replacement.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        sockets: list[socket.socket],
        facts: dict[str, Any],
        *,
        max_start_seconds: float = MAX_START_SECONDS,
        max_silent_seconds: float = MAX_SILENT_SECONDS,
    ) -> None:
        """Supervise nothing yet. `facts` are logged with `api_started`."""
        super().__init__(config, sockets)
        self.cannot_start = False
        """True if the processes cannot start as they are configured."""
        self._facts = facts
        self._max_start_seconds = max_start_seconds
        self._max_silent_seconds = max_silent_seconds
        self._end_reasons = EndReasons()
        self._watches: dict[Process, _ProcessWatch] = {}
        self._has_served = False

    def keep_subprocess_alive(self) -> None:
        """Look at each process; replace those that ended or are silent for too long."""
        self._watches = {one: self._watches.get(one) or _ProcessWatch(one) for one in self.processes}
        for index, process in enumerate(self.processes):
            if self.should_exit.is_set():
                return
            watch = self._watches[process]
            if watch.restart_at is None:
                self._look(watch)
            elif time.monotonic() >= watch.restart_at:
                self._replace(index, watch)

    def terminate_all(self) -> None:
        """Stop all processes. The listening sockets are closed first, so that new connections are refused at once."""
        for listener in self.sockets:
            listener.close()
        super().terminate_all()

    def _look(self, watch: "_ProcessWatch") -> None:
        """Log that a process serves, or plan its replacement. Its gauges, which would count forever, are deleted."""
        served = watch.serves
        watch.look()
        if watch.serves and not served:
            log.info("api_process_serves", pid=watch.pid, seconds=round(watch.lived_seconds(), 1))
            if not self._has_served:
                self._has_served = True
                log.info("api_started", **self._facts)
        limit = self._max_silent_seconds if watch.serves else self._max_start_seconds
        is_alive = watch.is_alive()
        if is_alive and watch.silent_seconds < limit:
            return
        watch.process.kill()  # closes the pipe, too
        watch.process.join()
        mark_process_dead(watch.pid)  # type: ignore[no-untyped-call]  # the package has no types for it
        exit_status = watch.process.exitcode or 0
        reason = self._end_reasons.describe(exit_status)
        if is_alive:
            reason = f"it {'did not answer' if watch.serves else 'has not started'} within {limit:g} seconds"
        facts = {"pid": watch.pid, "reason": reason}
        if exit_status == STARTUP_FAILURE and not self._has_served:
            log.error("api_process_cannot_start", **facts)
            self.cannot_start = True
            self.should_exit.set()
            return
        delay = watch.plan_restart(is_accident=watch.serves or exit_status < 0)
        log.warning("api_process_ended", **facts, restart_in_seconds=delay)

    def _replace(self, index: int, ended: "_ProcessWatch") -> None:
        process = Process(self.config, self.sockets)
        process.start()
        self.processes[index] = process
        self._watches[process] = _ProcessWatch(process, ended.delays)


class _ProcessWatch:
    """The supervisor's knowledge of one API process: whether it serves, and for how long it has been silent."""

    def __init__(self, process: Process, delays: RestartDelays | None = None) -> None:
        self.process = process
        self.pid = process.pid or 0
        self.serves = False
        self.silent_seconds = 0.0
        self.restart_at: float | None = None
        """Time at which a process that ended is replaced."""
        self.delays = delays or RestartDelays()
        self._is_asked = False
        self._started_at = self._looked_at = time.monotonic()

    def is_alive(self) -> bool:
        """Return True if the process has not ended."""
        return bool(self.process.process.is_alive())

    def lived_seconds(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self._started_at

    def look(self) -> None:
        """Read the process's answer if there is one, and ask it again; count the time without an answer."""
        now = time.monotonic()
        self.silent_seconds += min(now - self._looked_at, _MAX_COUNTED_SECONDS)
        self._looked_at = now
        connection = self.process.parent_conn
        try:
            if connection.poll():
                self.serves |= connection.recv()
                self.silent_seconds, self._is_asked = 0.0, False
            if not self._is_asked:
                connection.send(b"ping")
                self._is_asked = True
        except (OSError, EOFError, pickle.UnpicklingError):
            return  # the process ends, which its exit status tells

    def plan_restart(self, *, is_accident: bool) -> float:
        """Plan the start of a replacement, and return the seconds until then."""
        delay = self.delays.next_delay(lived_seconds=self.lived_seconds(), is_accident=is_accident)
        self.restart_at = time.monotonic() + delay
        return delay
