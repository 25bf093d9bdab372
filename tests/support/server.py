"""The real API in a thread of the tests' process."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from app.api.problem_protocol import ProblemProtocol
from app.main import create_app
from app.settings import Settings
from tests.support.waiting import wait_until


@contextmanager
def served(settings: Settings) -> Iterator[str]:
    """The address of a running API."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(
            create_app(settings),
            http=ProblemProtocol,
            ws="none",
            log_config=None,
            log_level="error",
            access_log=False,
            lifespan="on",
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="api")
        thread.start()
        try:
            wait_until(lambda: server.started or not thread.is_alive(), within=30, what="the API serves")
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
