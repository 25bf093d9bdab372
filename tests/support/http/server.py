"""The real API, in a thread of the tests' process or in its own process."""

import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
import uvicorn

from app.api import application
from app.api.server.http_protocol import BoundedHttpProtocol
from app.settings import Settings
from tests.support.processes import environment_with, started
from tests.support.waiting import wait_until


@contextmanager
def served(
    settings: Settings,
    *,
    port: int = 0,
    in_front: bool = True,
    send_buffer: int | None = None,
    configures_logging: bool = False,
) -> Iterator[str]:
    """Run the API in a thread, and yield its address. Without `in_front` the framework answers change requests too.

    With `send_buffer` the kernel accepts only about that many bytes of an unread answer. The API changes the logging
    of this process only with `configures_logging`.
    """
    with socket.create_server(("127.0.0.1", port)) as listener:
        if send_buffer is not None:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        config = uvicorn.Config(
            application.create_app(settings, in_front=in_front),
            http=BoundedHttpProtocol,
            ws="none",
            log_config=None,
            log_level="error",
            access_log=False,
            lifespan="on",
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="api")
        try:
            with pytest.MonkeyPatch.context() as patch:
                if not configures_logging:
                    patch.setattr(application, "configure_logging", lambda _: None)
                thread.start()
                wait_until(lambda: server.started or not thread.is_alive(), within=30, what="the API serves")
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def api_process(
    database_url: str, admin_key: str, scheme: str = "http", **settings: object
) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Run `python -m app.main` with only these settings; yield the serving process and its address."""
    port = free_port()
    given = {"DATABASE_URL": database_url, "ADMIN_KEY": admin_key, "PORT": str(port), **settings}
    address = f"{scheme}://127.0.0.1:{port}"
    with started("app.main", environment=environment_with(**given)) as process:
        wait_until(
            lambda: process.poll() is not None or (listens(port) and _serves(address)),
            within=60,
            what="the API serves",
        )
        assert process.poll() is None, stopped(process)
        yield process, address


def stopped(process: "subprocess.Popen[str]") -> str:
    """Everything that the process wrote until it ended on SIGTERM."""
    process.terminate()
    stdout, stderr = process.communicate(timeout=30)
    return stdout + stderr


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def listens(port: int) -> bool:
    """Return whether a connection to this port of 127.0.0.1 is accepted."""
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


def _serves(address: str) -> bool:
    try:
        with httpx.Client(trust_env=False, verify=False) as client:
            return client.get(f"{address}/healthz").status_code == 200
    except httpx.TransportError:
        return False
