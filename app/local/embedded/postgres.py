"""A private Postgres: programs from a Python package, data in the data directory, one Unix socket, no TCP.

Only the caller's account can connect: the socket is in a private folder, so no password is needed. Hold the lock of the
data directory (`DataDirectory`) before starting one: a Postgres that runs on the folder is then left over from a killed
gateway, and is stopped.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import structlog

from app.errors import Code, Misconfigured
from app.local.embedded.deadline import holds_within
from app.local.embedded.leftover_postgres import LockFile, stop_leftover
from app.local.embedded.postgres_account import SYSTEM_ENVIRONMENT, PostgresAccount, choose_account
from app.local.embedded.postgres_database import NAME, create_database, gateway_url, superuser_url
from app.local.embedded.postgres_programs import find_programs, run_program
from app.local.embedded.socket_folder import make_socket_folder, remove_socket_folder
from app.local.log_files import ChildLog

_log = structlog.get_logger()

_INITIALIZE_WITHIN: Final = 120.0
_START_WITHIN: Final = 60.0
_STOP_WITHIN: Final = 30.0
_MEMORY_FREE_WITHIN: Final = 10.0

_SETTINGS: Final[Mapping[str, str]] = {
    "listen_addresses": "",
    "port": "5432",
    # A receipt promises that the batch survives a power failure; that needs these three.
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    # For the API processes, drains and executors of one machine, each with a few connections.
    "max_connections": "100",
    # Enough for payloads between staging and draining; the system's page cache holds the rest.
    "shared_buffers": "256MB",
    # A busy stream stages gigabytes an hour; with the default of 1 GB, checkpoints would be continuous.
    "max_wal_size": "4GB",
    # Details, statements and hints in a log line can hold row values.
    "log_error_verbosity": "terse",
    "log_min_error_statement": "panic",
    "timezone": "UTC",
    "log_timezone": "UTC",
}


def running_url(data_dir: Path) -> str | None:
    """Return the URL of the private Postgres running on a data directory; None if none is."""
    link = data_dir / "postgres.socket"
    return gateway_url(link.readlink()) if link.is_symlink() and link.exists() else None


class PrivatePostgres:
    """Postgres 18 on `<data_dir>/postgres`, as a direct child process that ends with this one.

    `settings` override the defaults. Its log goes to `log`, which must stay open until `stop`, or else to
    `postgres.log`, which is not rotated. Start it from the main thread: for Linux, the parent of a process is the
    *thread* that started it, and the death signal follows that thread.
    """

    def __init__(
        self, data_dir: Path, settings: Mapping[str, str] | None = None, *, log: ChildLog | None = None
    ) -> None:
        self._data_dir = data_dir.absolute()
        self._folder = self._data_dir / "postgres"
        self._socket_link = self._data_dir / "postgres.socket"
        self._settings = {**_SETTINGS, **(settings or {})}
        self._socket_folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._log = log
        self.log_file = self._data_dir / "postgres.log"
        self.command: tuple[str, ...] = ()
        """The command line, once started. Running it again gives a Postgres with the same URL."""
        self.environment: Mapping[str, str] = SYSTEM_ENVIRONMENT

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The URL for the gateway, from `start` to `stop`."""
        return gateway_url(self._started_socket_folder())

    @property
    def administration_url(self) -> str:
        """The URL for the superuser, from `start` to `stop`; the gateway never uses it."""
        return superuser_url(self._started_socket_folder())

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The server process, from `start` to `stop`."""
        if self._process is None:
            raise RuntimeError("the private Postgres is not started")
        return self._process

    def start(self) -> None:
        """Start Postgres; return when it accepts connections and the database exists.

        Raises Misconfigured `postgres_missing` or `postgres_failed`. After a crash here, the next start discards an
        incomplete initialization and stops a Postgres that still runs.
        """
        programs = find_programs()
        self._data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        account = choose_account(self._folder)
        stale = stop_leftover(self._folder)
        remove_socket_folder(self._socket_link, os.geteuid())
        if not (self._folder / "PG_VERSION").exists():
            self._initialize(programs, account)
        try:
            self._socket_folder = make_socket_folder(self._socket_link, account)
            self.command = self._command_line(programs, account)
            self.environment = _environment(stale)
            self._launch(retry_within=_MEMORY_FREE_WITHIN if stale else 0.0)
            create_database(programs, self._socket_folder)
        except BaseException:
            self.stop()
            raise
        _log.info("postgres_started", folder=str(self._folder), pid=self.process.pid)

    def stop(self) -> None:
        """Stop Postgres, rolling back open transactions, and remove its socket folder. Safe to repeat."""
        if self._process is not None:
            if self._process.poll() is None:
                self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(_STOP_WITHIN)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None
        self._socket_folder = None
        remove_socket_folder(self._socket_link, os.geteuid())

    def _started_socket_folder(self) -> Path:
        if self._socket_folder is None:
            raise RuntimeError("the private Postgres is not started")
        return self._socket_folder

    def _initialize(self, programs: Path, account: PostgresAccount) -> None:
        """Create the data folder as `postgres.new`, then rename it, so that `postgres` is always complete.

        After a crash before the rename, the next start begins again.
        """
        new = self._folder.with_name("postgres.new")
        if new.exists():
            shutil.rmtree(new)
        new.mkdir(mode=0o700)
        account.hand_over(new)
        command = [*account.prefix, str(programs / "initdb"), "-D", str(new), "-U", NAME]
        command += ["--encoding=UTF8", "--locale=C", "--auth-local=trust", "--auth-host=reject"]
        if self._settings["fsync"] == "off":
            command.append("--no-sync")
        run_program(command, timeout=_INITIALIZE_WITHIN)
        try:
            new.rename(self._folder)
        except OSError as error:
            raise Misconfigured(
                Code.POSTGRES_FAILED,
                f"{self._folder} holds something other than Postgres data",
                remedy="Move it away, or give another --data-dir.",
            ) from error
        _sync_folder(self._data_dir)

    def _command_line(self, programs: Path, account: PostgresAccount) -> tuple[str, ...]:
        settings = {**self._settings, "unix_socket_directories": f'"{self._socket_folder}"'}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return (*account.prefix, str(programs / "postgres"), "-D", str(self._folder), *options)

    def _launch(self, *, retry_within: float) -> None:
        """Start the server, and again for `retry_within` seconds if it ends at once.

        Sessions of a killed server keep its shared memory for a moment, and until they end no server can start.
        """
        give_up = time.monotonic() + retry_within
        log_begin = self.log_file.stat().st_size if self.log_file.exists() else 0
        while not self._becomes_ready():
            if self.process.poll() is None or time.monotonic() >= give_up:
                raise Misconfigured(
                    Code.POSTGRES_FAILED,
                    f"the private Postgres did not start: {self._reason(log_begin)}",
                    remedy=f"Read {self.log_file}",
                )

    def _becomes_ready(self) -> bool:
        with ExitStack() as stack:
            log = self._log.descriptor if self._log is not None else stack.enter_context(self.log_file.open("ab"))
            self._process = process = subprocess.Popen(
                self.command,
                cwd="/",
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

        def is_ready() -> bool:
            facts = LockFile.read(self._folder)
            return facts is not None and facts.pid == process.pid and facts.ready

        holds_within(_START_WITHIN, lambda: process.poll() is not None or is_ready())
        return process.poll() is None and is_ready()

    def _reason(self, log_begin: int) -> str:
        """Return the line of the log, from `log_begin` on, that says why Postgres ended."""
        said = b"\n".join(self._log.recent()) if self._log is not None else self.log_file.read_bytes()[log_begin:]
        lines = said.decode(errors="replace").splitlines()
        fatal = [line for line in lines if "FATAL" in line or "PANIC" in line]
        return (fatal or lines or ["it was not ready in time"])[-1]


def _environment(stale: LockFile | None) -> Mapping[str, str]:
    """Return the environment of the server.

    The pid in a stale lock file may belong to another program of this account by now, which is likely in a container.
    Postgres does not start then unless PG_GRANDPARENT_PID says that this pid is not a Postgres.
    """
    return {**SYSTEM_ENVIRONMENT, "PG_GRANDPARENT_PID": str(stale.pid)} if stale else SYSTEM_ENVIRONMENT


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
