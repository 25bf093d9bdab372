"""Count the functions and modules of `app` that one request body runs through, `python -m benchmarks.path_length`.

A reader follows a request function by function, so the length of that path is measured like a rate. The real API
runs in this process on an embedded Postgres. It gets a few requests to warm up, and then one of 1,000 changes over the
same connection. A profile function notes what runs from the first byte of that POST to the statement that inserts
its block, in all threads that work for it.

Counted: each function and method with a name that is written in `app`, nested functions included, once however
often it runs. Not counted: comprehensions, lambdas, module bodies, methods that `dataclass` generates, libraries.
"""

import argparse
import http.client
import logging
import os
import secrets
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
import psycopg
import structlog
import uvicorn

from app.local.embedded import PrivatePostgres
from app.main import SERVER_OPTIONS, check_start, served_app
from app.settings import PREFIX, Settings
from app.staging.connection.schema_revision import migrate
from benchmarks.bench import scratch_folder
from benchmarks.gateway import clear_settings, free_port, wait_until
from benchmarks.loads.workloads import Workload, find_workload
from benchmarks.machine.description import CACHE, REPOSITORY
from benchmarks.reports.figure import BenchmarkFailed

APP: Final = f"{REPOSITORY / 'app'}{os.sep}"
WORKLOADS: Final[Mapping[str, str]] = {"arcion": "bulk", "replicate": "replicate"}
"""The workload whose bodies are sent, by format."""
INSERTED_TABLES: Final = ("mirrorgate.block_payloads", "mirrorgate.staged_blocks")
"""The statement that inserts into one of these ends the path."""
OTHER_THREADS: Final = (
    "group-commit-timeouts",
    "notification-sender",
    "backlog-watch",
    "audit-writer",
    "issuer-keys",
    "resource-watch",
    "probe",
)
"""Names of threads, or their beginnings, that run periodically and not for a request
(docs/contribute/architecture.md)."""
_PSYCOPG: Final = f"{Path(psycopg.__file__).parent}{os.sep}"
_SERVER_THREAD: Final = "server"
_WARM_UP_REQUESTS: Final = 3
_ANSWER_SECONDS: Final = 120.0


class PathLength(msgspec.Struct, frozen=True):
    """The functions that a body passes, by module in the order of their names."""

    modules: Mapping[str, Sequence[str]]

    @property
    def functions(self) -> int:
        """Return how many functions there are in all modules."""
        return sum(map(len, self.modules.values()))


class PathRecorder:
    """Collects the code that runs while it records; it stops by itself at the insert."""

    def __init__(self) -> None:
        self.is_recording = False
        self.has_inserted = False
        self._codes: set[CodeType] = set()

    def profile(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a call; `threading.setprofile` calls this for each call and return in threads that start later."""
        if not self.is_recording or event != "call" or frame.f_code in self._codes:
            return
        code = frame.f_code
        if code.co_filename.startswith(APP):
            if not threading.current_thread().name.startswith(OTHER_THREADS):
                self._codes.add(code)
        elif code.co_filename.startswith(_PSYCOPG) and is_insert(frame.f_locals.get("query")):
            self.is_recording, self.has_inserted = False, True

    def start(self) -> None:
        """Forget what was noted, and record until the next insert."""
        self._codes.clear()
        self.has_inserted, self.is_recording = False, True

    def path(self) -> PathLength:
        """Return what was noted. Raises BenchmarkFailed if no block was inserted."""
        if not self.has_inserted:
            raise BenchmarkFailed(f"no statement inserted into {' or '.join(INSERTED_TABLES)}")
        modules: dict[str, set[str]] = defaultdict(set)
        for code in self._codes:
            if not code.co_name.startswith("<"):
                modules[os.path.relpath(code.co_filename, REPOSITORY)].add(code.co_qualname)
        return PathLength({name: sorted(modules[name]) for name in sorted(modules)})


def is_insert(query: object) -> bool:
    """Return whether a statement inserts or copies into one of `INSERTED_TABLES`."""
    text = query.decode() if isinstance(query, bytes) else query
    return isinstance(text, str) and any(
        f"{words} {table}" in text for words in ("INSERT INTO", "COPY") for table in INSERTED_TABLES
    )


def measure_path(source_format: str) -> PathLength:
    """Start the API, send two requests, and return the path of the second.

    Raises BenchmarkFailed when the API does not start, rejects a request or answers before an insert.
    """
    workload, recorder = find_workload(WORKLOADS[source_format]), PathRecorder()
    key = f"mg_{secrets.token_hex(4)}_{secrets.token_urlsafe(32)}"
    with scratch_folder(CACHE) as folder, PrivatePostgres(folder) as postgres:
        migrate(postgres.url)
        port = free_port()
        settings = {"DATABASE_URL": postgres.url, "ADMIN_KEY": key, "PORT": str(port), "LOG_LEVEL": "error"}
        os.environ |= {PREFIX + name: value for name, value in settings.items()}
        threading.setprofile(recorder.profile)
        try:
            with _running_api(port) as connection:
                _send_path(connection, workload, key, recorder)
        finally:
            threading.setprofile(None)
    return recorder.path()


def _send_path(connection: http.client.HTTPConnection, workload: Workload, key: str, recorder: PathRecorder) -> None:
    for table in workload.tables:
        _request(connection, "PUT", f"/v1/tables/{table.name}", key, msgspec.json.encode(table.registration()))
    for body in workload.first():
        _request(connection, "POST", workload.path, key, body)
    for number in range(_WARM_UP_REQUESTS):
        _request(connection, "POST", workload.path, key, workload.body(number))
    recorder.start()
    _request(connection, "POST", workload.path, key, workload.body(_WARM_UP_REQUESTS))


@contextmanager
def _running_api(port: int) -> Iterator[http.client.HTTPConnection]:
    """Serve in a thread with the options of `app.main.serve`, and yield a connection to it."""
    check_start(Settings.from_environment())
    server = uvicorn.Server(uvicorn.Config(served_app, port=port, **SERVER_OPTIONS))
    thread = threading.Thread(target=server.run, name=_SERVER_THREAD)
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive(), "the API serves")
        if not server.started:
            raise BenchmarkFailed("the API did not start")
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_ANSWER_SECONDS)
        yield connection
        connection.close()
    finally:
        server.should_exit = True
        thread.join()


def _request(connection: http.client.HTTPConnection, method: str, path: str, key: str, body: bytes) -> None:
    """Send a request. Raises BenchmarkFailed when it is rejected."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    content = answer.read()
    if answer.status >= 300:
        raise BenchmarkFailed(f"{method} {urlsplit(path).path}: {answer.status} {content.decode(errors='replace')}")


def main() -> int:
    """Print the length of the path of each format; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.path_length", description=__doc__)
    parser.add_argument("formats", nargs="*", metavar="FORMAT", help="arcion or replicate (default: both)")
    parser.add_argument("--details", action="store_true", help="list the functions of each module")
    parser.add_argument("--json", action="store_true", help="print one JSON document per format, for the suite")
    arguments = parser.parse_args()
    clear_settings()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    for name in arguments.formats or WORKLOADS:
        if name not in WORKLOADS:
            parser.error(f"unknown format {name}; use one of {', '.join(WORKLOADS)}")
        path = measure_path(name)
        sys.stdout.write(msgspec.json.encode(path).decode() + "\n" if arguments.json else _text(name, path))
        if arguments.details:
            for module, functions in path.modules.items():
                sys.stdout.write(f"\n{module} ({len(functions)})\n" + "".join(f"  {one}\n" for one in functions))
    return 0


def _text(name: str, path: PathLength) -> str:
    packages: dict[str, int] = defaultdict(int)
    for module, functions in path.modules.items():
        packages["/".join(module.split("/")[:2])] += len(functions)
    parts = ", ".join(f"{package} {count}" for package, count in packages.items())
    return f"{name}: {path.functions} functions in {len(path.modules)} modules ({parts})\n"


if __name__ == "__main__":
    sys.exit(main())
