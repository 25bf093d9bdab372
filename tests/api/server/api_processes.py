"""Program for tests: two API processes under their supervisor, whose starts wait for a file.

`api_processes FOLDER MAX_START_SECONDS MAX_SILENT_SECONDS [STATUS]`. Each process appends its id to FOLDER/starts, then
waits until FOLDER/gate exists, before it can answer its supervisor; with STATUS it then ends. Writes the supervisor's
log to standard output as JSON, and a line `looked` after each look at the processes.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any

import structlog
import uvicorn
from uvicorn.config import STARTUP_FAILURE

from app.api.server.uvicorn_server import ApiProcesses
from app.local.child_process import exit_with_parent

FOLDER = Path(sys.argv[1])


class Watched(ApiProcesses):
    """Says each time that it has looked at its processes."""

    def keep_subprocess_alive(self) -> None:
        super().keep_subprocess_alive()
        structlog.get_logger().info("looked")


async def answer(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answer any request with 200 and no body."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body"})


def main() -> None:
    structlog.configure(
        processors=[structlog.processors.add_log_level, structlog.processors.JSONRenderer()],
        logger_factory=structlog.PrintLoggerFactory(sys.stdout),
    )
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(FOLDER)
    config = uvicorn.Config("tests.api.server.api_processes:answer", port=0, workers=2, log_config=None, lifespan="off")
    listener = config.bind_socket()
    facts = {"port": listener.getsockname()[1]}
    limits = {"max_start_seconds": float(sys.argv[2]), "max_silent_seconds": float(sys.argv[3])}
    processes = Watched(config, [listener], facts, **limits)
    processes.run()
    sys.exit(STARTUP_FAILURE if processes.cannot_start else 0)


if __name__ == "__mp_main__":  # in a process of the supervisor, before it can answer
    exit_with_parent()
    with (FOLDER / "starts").open("a") as starts:
        starts.write(f"{os.getpid()}\n")
    give_up = time.monotonic() + 120
    while not (FOLDER / "gate").exists() and time.monotonic() < give_up:
        time.sleep(0.02)
    if len(sys.argv) > 4:
        sys.exit(int(sys.argv[4]))

if __name__ == "__main__":
    main()
