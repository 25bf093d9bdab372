"""The gateway under test: the processes of `mirrorgate up`, each started by itself so that a figure may omit one.

Postgres is the embedded one with its durable settings. The API runs under uvicorn, the drain under Spark.
"""

import http.client
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import sqlalchemy as sa

from app.local.embedded import PrivatePostgres, find_java
from app.settings import PREFIX
from app.staging.connection.database import open_engine
from app.staging.connection.schema_revision import migrate
from benchmarks.loads.workloads import Workload
from benchmarks.machine.processes import started
from benchmarks.reports.figure import BenchmarkFailed
from mirrorgate.http import GatewayClient

_READY_TIMEOUT_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.02


@dataclass
class Api:
    """A running API: its address, the id of its first process, and a client with the admin key."""

    url: str
    pid: int
    client: GatewayClient

    def prepare(self, workload: Workload) -> None:
        """Register the workload's tables and send its preparatory requests."""
        for table in workload.tables:
            self.client.put(f"/v1/tables/{table.name}", table.registration())
        for body in workload.first():
            self.client.post_changes(workload.source_format, body, content_type=workload.media_type)

    def set_publishing(self, table: str, act: str) -> None:
        """`pause` or `resume` a table of the first generation."""
        self.client.post(f"/v1/tables/{table}/{act}", None, generation=1)


@dataclass
class Gateway:
    """A private Postgres with the current schema, and what it takes to start the other processes on it."""

    folder: Path
    database_url: str
    key: str
    engine: sa.Engine
    postgres_pid: int
    _stack: ExitStack
    _java_home: Path

    @property
    def landing_zone(self) -> Path:
        """Return the folder that the drain publishes to."""
        return self.folder / "landing-zone"

    def start_api(self, **settings: object) -> Api:
        """Start another API on a free port with these settings, named in lower case; return it once it serves."""
        port = free_port()
        own = {f"{PREFIX}{name.upper()}": str(value) for name, value in settings.items()}
        own[f"{PREFIX}PORT"] = str(port)
        process = self._start(f"api-{port}", "app.main", own)
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: _status(url, "/healthz") == 200, "the API serves", process)
        client = self._stack.enter_context(GatewayClient(url, self.key))
        return Api(url, process.pid, client)

    def start_drain(
        self, *, environment: Mapping[str, str] | None = None, **settings: object
    ) -> "subprocess.Popen[bytes]":
        """Start the drain with these settings, named in lower case, and return it once it holds a lease."""
        own = {f"{PREFIX}{name.upper()}": str(value) for name, value in settings.items()}
        java = {"JAVA_HOME": str(self._java_home)}
        process = self._start("drain", "spark_jobs.drain", {**java, **(environment or {}), **own})
        leases = "SELECT count(*) FROM mirrorgate.workers WHERE lease_until > clock_timestamp()"
        wait_until(lambda: self.value(leases) > 0, "the drain runs", process)
        return process

    def value(self, statement: str, **parameters: object) -> Any:
        """Return the only value that a query finds."""
        with self.engine.begin() as connection:
            return connection.execute(sa.text(statement), parameters).scalar_one()

    def rows(self, statement: str, **parameters: object) -> list[Any]:
        """Return all rows that a query finds."""
        with self.engine.begin() as connection:
            return list(connection.execute(sa.text(statement), parameters).all())

    def wait_published(self, within: float = 1_800.0) -> None:
        """Wait until every accepted batch of every table is published.

        Raises BenchmarkFailed after `within` seconds.
        """
        wait_until(lambda: not self.value(PENDING), "everything is published", within=within, every=0.1)

    def _start(self, name: str, module: str, settings: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        environment = {
            f"{PREFIX}DATABASE_URL": self.database_url,
            f"{PREFIX}LANDING_ZONE": str(self.landing_zone),
            f"{PREFIX}ADMIN_KEY": self.key,
            **settings,
        }
        command = [sys.executable, "-m", module, "--parent-pid", str(os.getpid())]
        log_file = self.folder / f"{name}.log"
        return self._stack.enter_context(started(name, command, environment=environment, log_file=log_file))


PENDING: Final = """
    SELECT EXISTS (SELECT FROM mirrorgate.table_counters c JOIN mirrorgate.tables t USING (table_id)
        WHERE t.state = 'active' AND c.published_through < c.last_sequence)"""


@contextmanager
def running_gateway(folder: Path) -> Iterator[Gateway]:
    """Yield a gateway on a new Postgres in `folder`; all its processes end with the block."""
    folder.mkdir(parents=True)
    with ExitStack() as stack:
        postgres = stack.enter_context(PrivatePostgres(folder))
        migrate(postgres.url)
        engine = open_engine(postgres.url, application="benchmark")
        stack.callback(engine.dispose)
        key = f"mg_{secrets.token_hex(4)}_{secrets.token_urlsafe(32)}"
        yield Gateway(folder, postgres.url, key, engine, postgres.process.pid, stack, find_java(folder, os.environ))


def clear_settings() -> None:
    """Remove the gateway's settings from the environment, so that it runs with its defaults."""
    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        del os.environ[name]


def wait_until(
    holds: Callable[[], bool],
    what: str,
    process: "subprocess.Popen[bytes] | None" = None,
    *,
    within: float = _READY_TIMEOUT_SECONDS,
    every: float = _POLL_SECONDS,
) -> None:
    """Wait for a condition. Raises BenchmarkFailed after `within` seconds, or when `process` has ended."""
    give_up = time.monotonic() + within
    while not holds():
        if process is not None and process.poll() is not None:
            raise BenchmarkFailed(f"waiting until {what}: the process ended with code {process.returncode}")
        if time.monotonic() > give_up:
            raise BenchmarkFailed(f"waiting until {what}: it took more than {within:.0f} s")
        time.sleep(every)


def _status(url: str, path: str) -> int:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=2.0)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def free_port() -> int:
    """Return a port of 127.0.0.1 that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as trial:
        return int(trial.getsockname()[1])
