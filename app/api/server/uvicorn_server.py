"""uvicorn's server for one process, and its supervisor for several processes on one port.

Both override methods of uvicorn; tests/api/server/test_uvicorn_contract.py checks that they still exist.
"""

import socket
from typing import Any

import structlog
import uvicorn
from prometheus_client.multiprocess import mark_process_dead
from uvicorn.supervisors import Multiprocess

log = structlog.get_logger()


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
    """Supervises API processes that share one port."""

    def keep_subprocess_alive(self) -> None:
        """Replace processes that died, and delete their gauges, which would count forever otherwise."""
        before = {process.pid for process in self.processes}
        super().keep_subprocess_alive()
        for pid in before - {process.pid for process in self.processes}:
            mark_process_dead(pid)  # type: ignore[no-untyped-call]  # the package has no types for it

    def terminate_all(self) -> None:
        """Stop all processes. The listening sockets are closed first, so that new connections are refused at once."""
        for listener in self.sockets:
            listener.close()
        super().terminate_all()
