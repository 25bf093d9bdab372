"""`mirrorgate up`: the whole gateway on one machine, under one command.

`up` runs Postgres, the API and the drain as child processes of this one, which only starts, watches and stops them.

`plan_up` checks what is going to run, before `up` creates a folder or starts a process.

`gateway_file`, `admin_key` and `signing_key` are files in the data directory: the gateway's URL and the admin key,
which client commands read, and the signing key.

`answers_ready` asks a started gateway whether it serves, and `print_ready` announces that it does.
"""

import errno
import http.client
import json
import os
import secrets
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog
from rich.console import Console

from app.checks.preflight import examine, require_safe
from app.domain.access.rights import ApiKey, format_key
from app.landing.open_zone import ZoneAddress
from app.local import supervisor
from app.local.child_process import find_start_failure
from app.local.data_directory import DataDirectory, write_private
from app.local.embedded import PrivatePostgres, find_java, find_programs, require_java
from app.local.log_files import ChildLog, Rotation
from app.local.supervisor import Child
from app.observability.resource_watch import ResourceWatch, memory_limit, raise_descriptor_limit
from app.settings import PREFIX, LogFormat, Settings
from app.settings.start_checks import check_memory, check_serving, check_space, free_port
from app.staging.connection.database import parse_database_url
from app.staging.connection.schema_revision import migrate
from app.zone_settings import zone_address
from mirrorgate.certificates import trusting_only
from mirrorgate.errors import Code, Misconfigured, RejectedInput
from mirrorgate.http import ADMIN_KEY_FILE, GATEWAY_FILE

SIGNING_KEY_FILE: Final = "signing.key"


def admin_key(settings: Settings, file: Path) -> str:
    """Return the key from the settings, else the one in `file`, which the first start creates.

    After a crash here, the file is absent or holds the complete key.
    """
    if settings.admin_key is not None:
        return settings.admin_key.get_secret_value()
    if not file.exists():
        write_private(file, format_key(secrets.token_hex(4), secrets.token_urlsafe(32)) + "\n")
    key = _stored(file)
    try:
        ApiKey.parse(key)
    except RejectedInput:
        raise _wrong_key_file(f"{file} does not hold an API key") from None
    return key


def signing_key(settings: Settings, file: Path) -> str:
    """Return the signing key from the settings, else the one in `file`, which the first start creates."""
    if settings.signing_key is not None:
        return settings.signing_key.get_secret_value()
    if not file.exists():
        write_private(file, secrets.token_urlsafe(32) + "\n")
    key = _stored(file)
    if len(key) < 32:
        raise _wrong_key_file(f"{file} does not hold a signing key")
    return key


def _stored(file: Path) -> str:
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise _wrong_key_file(f"{file} cannot be read: {type(error).__name__}") from None


def _wrong_key_file(why: str) -> Misconfigured:
    return Misconfigured(Code.BAD_SETTING, why, remedy="Restore it, or delete it; the next start creates a new one.")


@contextmanager
def gateway_file(file: Path, url: str, certificate: Path | None = None) -> Iterator[None]:
    """Write the gateway's URL, pid and certificate to `file` for client commands; remove the file after the block.

    After a crash, the file remains until the next start and names a pid that is gone.
    """
    shown = {} if certificate is None else {"certificate": str(certificate)}
    write_private(file, json.dumps({"url": url, "pid": os.getpid(), **shown}) + "\n")
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


_TIMEOUT_SECONDS: Final = 2.0
_REQUIRED_PARTS: Final = ("api", "database", "writer", "drain")
"""Parts that must work before the gateway serves. Others, such as a quarantined table, do not hold it up."""


def answers_ready(address: str, port: int, certificate: Path | None) -> bool:
    """Return True if `/statusz` reports every required part as working; False for any failure to ask."""
    with suppress(OSError, http.client.HTTPException, ValueError, KeyError), ExitStack() as stack:
        connection = (
            http.client.HTTPConnection(address, port, timeout=_TIMEOUT_SECONDS)
            if certificate is None
            else http.client.HTTPSConnection(
                address, port, timeout=_TIMEOUT_SECONDS, context=trusting_only(certificate)
            )
        )
        stack.callback(connection.close)
        connection.request("GET", "/statusz")
        parts = json.loads(connection.getresponse().read())["parts"]
        return all(parts[part] == "ok" for part in _REQUIRED_PARTS)
    return False


def print_ready(url: str) -> None:
    """Print `ready <url>` to standard output, which scripts wait for."""
    sys.stdout.write(f"ready {url}\n")
    sys.stdout.flush()


@dataclass(frozen=True, slots=True)
class UpPlan:
    """A gateway that can be started. `settings` contains the effective landing zone."""

    settings: Settings
    data_dir: Path
    zone: ZoneAddress
    port: int
    mirror_target: str | None = None
    """Folder or address of the Delta tables; None: no mirror runs."""

    @property
    def zone_folder(self) -> Path | None:
        """The landing zone, if it is a folder of this machine."""
        return None if self.zone.is_remote else Path(self.zone.location)

    @property
    def mirror_folder(self) -> Path | None:
        """The mirror's target, if it is a folder of this machine."""
        return None if self.mirror_target is None or "://" in self.mirror_target else Path(self.mirror_target)

    @property
    def address(self) -> str:
        """The address under which this machine reaches the API."""
        return {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(self.settings.host, self.settings.host)

    @property
    def certificate(self) -> Path | None:
        """The certificate of the API; None without TLS."""
        file = self.settings.tls_certificate_file
        return None if file is None else file.absolute()

    @property
    def url(self) -> str:
        """The URL of the API for clients on this machine."""
        scheme = "http" if self.certificate is None else "https"
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{scheme}://{host}:{self.port}"


def plan_up(
    settings: Settings,
    data_dir: Path,
    landing_zone: str | None,
    environment: Mapping[str, str],
    *,
    mirror: bool = False,
) -> UpPlan:
    """Check every setting that `up` and its children need, without leaving anything behind.

    `landing_zone` overrides the setting; the default is a folder in `data_dir`. With `mirror`, the default of its
    target is another one. Raises Misconfigured with the variable or option at fault.
    """
    data_dir = data_dir.absolute()
    DataDirectory(data_dir).check()
    if mirror:
        settings = settings.model_copy(update={"mirror_target": settings.mirror_target or str(data_dir / "mirror")})
    location = landing_zone or settings.landing_zone or str(data_dir / "landing-zone")
    settings = settings.model_copy(update={"landing_zone": location})
    zone = zone_address(settings)
    zone.check()
    check_serving(settings)
    port = free_port(settings.host, settings.port)
    if settings.database_url is None:
        find_programs()
    else:
        parse_database_url(settings.database_url.get_secret_value())
    require_java(environment)
    if zone.is_remote:
        zone.check_credential()
    else:
        setting = "MIRRORGATE_LANDING_ZONE or --landing-zone"
        _check_folder(Path(zone.location), Code.LANDING_ZONE_UNUSABLE, setting, data_dir)
    plan = UpPlan(settings, data_dir, zone, port, settings.require_mirror_target() if mirror else None)
    if plan.mirror_folder is not None:
        _check_folder(plan.mirror_folder, Code.BAD_SETTING, "MIRRORGATE_MIRROR_TARGET", data_dir)
    return plan


def _check_folder(folder: Path, code: Code, setting: str, data_dir: Path) -> None:
    """Raise Misconfigured for a path that is not a folder, or can neither be written nor created.

    Permission bits do not tell everything, so the folder is created, and removed again. Other programs read it, so it
    must contain neither the keys of the data directory nor the database.
    """
    place, private = folder.resolve(), data_dir.resolve()
    if place == private or place.is_relative_to(private / "postgres"):
        raise Misconfigured(
            code,
            f"{setting}, {folder}: the keys or the database in the data directory {data_dir} would be in it",
            remedy="Give another folder.",
        )
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, "this user may not write it")
    except OSError as error:
        raise Misconfigured(
            code,
            f"{setting}, {folder}: {error.strerror}",
            remedy="Give a folder that this user can create and write.",
        ) from error
    finally:
        for path in missing:
            with suppress(OSError):
                path.rmdir()


_log = structlog.get_logger()

_OWNER_ONLY: Final = 0o077
"""The umask of processes whose files only this account may read."""

MIRROR_FILE: Final = "mirror.json"
"""File in the data directory that the mirror writes when it mirrors tables, with its pid, target and metrics port."""


def up(
    settings: Settings,
    data_dir: Path,
    landing_zone: str | None,
    console: Console,
    *,
    environment: Mapping[str, str],
    mirror: bool = False,
) -> None:
    """Run the gateway, with `mirror` also the Delta mirror, until SIGTERM, SIGINT or SIGHUP.

    Returns when every child process has ended. Prints one line `ready http://…` to standard output once it serves, and
    messages for people to `console`. The children inherit `environment`. Raises Misconfigured if the configuration
    keeps the gateway, or one of its children, from starting. If this process dies, the children end, and the next `up`
    on the data directory continues.
    """
    # Outside of everything else: an interrupt before or after `supervisor.run` is a clean stop, too.
    with suppress(KeyboardInterrupt), supervisor.stop_signals_interrupt():
        plan = plan_up(settings, data_dir, landing_zone, environment, mirror=mirror)
        with DataDirectory(plan.data_dir) as directory:
            found_open = directory.close_to_others()
            if found_open is not None:
                _log.warning("data_directory_open", detail=found_open)
            _run(plan, console, environment)
    console.print("stopped")


def _run(plan: UpPlan, console: Console, environment: Mapping[str, str]) -> None:
    settings, data_dir = plan.settings, plan.data_dir
    raise_descriptor_limit()
    folders = {"data_directory_space": data_dir, **_other_folders(plan)}
    check_space(folders.values(), settings.min_free_bytes)
    check_memory(settings, memory_limit())
    key = admin_key(settings, data_dir / ADMIN_KEY_FILE)
    signing = signing_key(settings, data_dir / SIGNING_KEY_FILE)
    java_home = find_java(data_dir, environment)
    with ExitStack() as stack:
        stack.enter_context(ResourceWatch(folders, min_free=settings.min_free_bytes))

        def log_of(name: str) -> ChildLog:
            rotation = Rotation(settings.log_bytes, settings.log_files)
            is_json = settings.log_format is LogFormat.JSON
            return stack.enter_context(ChildLog(data_dir / f"{name}.log", rotation, as_json=is_json))

        database_url, postgres = stack.enter_context(_database(settings, data_dir, log_of))
        migrate(database_url)
        _require_safe(plan, database_url, environment)
        variables = {
            f"{PREFIX}DATABASE_URL": database_url,
            f"{PREFIX}ADMIN_KEY": key,
            f"{PREFIX}SIGNING_KEY": signing,
            "JAVA_HOME": str(java_home),
        }
        mirror_file = data_dir / MIRROR_FILE
        mirror_file.unlink(missing_ok=True)  # of an earlier run
        children = [*postgres, *_children(log_of, {**environment, **_variables(plan), **variables}, plan)]
        with gateway_file(data_dir / GATEWAY_FILE, plan.url, plan.certificate), _start_failures_explained():
            supervisor.run(
                children,
                is_ready=lambda: (
                    answers_ready(plan.address, plan.port, plan.certificate)
                    and (plan.mirror_folder is None or mirror_file.exists())  # changes do not wait for a remote target
                ),
                on_ready=lambda: _announce(console, plan),
                on_trouble=lambda child: _warn(console, child),
            )


def _variables(plan: UpPlan) -> dict[str, str]:
    """Return the settings of the children that the plan has decided."""
    return {
        f"{PREFIX}LANDING_ZONE": plan.zone.location,
        f"{PREFIX}HOST": plan.settings.host,
        f"{PREFIX}PORT": str(plan.port),
        **({} if plan.mirror_target is None else {f"{PREFIX}MIRROR_TARGET": plan.mirror_target}),
    }


def _other_folders(plan: UpPlan) -> dict[str, Path]:
    """Return the landing zone and the mirror's target, as far as they are folders, by name of their check."""
    zone = {} if plan.zone_folder is None else {"zone_space": plan.zone_folder}
    return zone | ({} if plan.mirror_folder is None else {"mirror_space": plan.mirror_folder})


def _announce(console: Console, plan: UpPlan) -> None:
    """Print that the gateway serves, and for people where the console is and where its key is, never the key."""
    print_ready(plan.url)
    if plan.settings.console:
        key = f"{PREFIX}ADMIN_KEY" if plan.settings.admin_key is not None else plan.data_dir / ADMIN_KEY_FILE
        console.print(f"console {plan.url}/console; sign in with the key in {key}", markup=False, soft_wrap=True)


def _warn(console: Console, child: Child) -> None:
    text = f"{child.name} keeps ending; the last lines of {child.log and child.log.path} say why"
    console.print(text, style="yellow", markup=False, soft_wrap=True)


@contextmanager
def _start_failures_explained() -> Iterator[None]:
    """Raise the error with which a child process could not start, instead of ChildCannotStart."""
    try:
        yield
    except supervisor.ChildCannotStart as failure:
        name, log = failure.child.name, failure.child.log
        said = None if log is None else find_start_failure(log.recent())
        raise said or Misconfigured(
            Code.BAD_SETTING, f"{name} cannot start", remedy=f"Read {log and log.path}."
        ) from None


def _require_safe(plan: UpPlan, database_url: str, environment: Mapping[str, str]) -> None:
    """Raise Misconfigured `unsafe_setup` if a check finds the setup unsafe.

    Only the drain tests a remote landing zone: while its service is unreachable, changes are accepted nonetheless.
    """
    folder = None if plan.zone.is_remote else plan.zone
    with _umask(_umask_for(plan, plan.zone_folder)):  # the checks create the landing zone
        findings = examine(folder, database_url, environment, data_dir=plan.data_dir)
    require_safe(findings, allow_unsafe=plan.settings.allow_unsafe)


@contextmanager
def _database(
    settings: Settings, data_dir: Path, log_of: Callable[[str], ChildLog]
) -> Iterator[tuple[str, list[Child]]]:
    """Yield the URL of the database from the settings; else start a private Postgres, and yield its URL and child."""
    if settings.database_url is not None:
        yield settings.database_url.get_secret_value(), []
        return
    log = log_of("postgres")
    with PrivatePostgres(data_dir, log=log) as postgres:
        yield postgres.url, [postgres_child(postgres, log)]


def postgres_child(postgres: PrivatePostgres, log: ChildLog | None = None) -> Child:
    """Return a started Postgres as a child to supervise. A restarted one has the same URL."""
    return Child(
        "postgres",
        postgres.command,
        postgres.environment,
        log=log,
        stop_signal=signal.SIGINT,
        stop_within=30.0,
        running=postgres.process,
        serves_no_longer=postgres.rejects_sessions,
    )


def _children(log_of: Callable[[str], ChildLog], environment: Mapping[str, str], plan: UpPlan) -> list[Child]:
    def python(name: str, module: str, *arguments: str, writes: Path | None = None) -> Child:
        command = [sys.executable, "-m", module, "--parent-pid", str(os.getpid()), *arguments]
        return Child(name, command, environment, log=log_of(name), umask=_umask_for(plan, writes))

    children = [python("api", "app.main"), python("drain", "spark_jobs.drain", writes=plan.zone_folder)]
    if plan.mirror_target is not None:
        ready_file = str(plan.data_dir / MIRROR_FILE)
        children.append(python("mirror", "spark_jobs.mirror", "--ready-file", ready_file, writes=plan.mirror_folder))
    return children


def _umask_for(plan: UpPlan, writes: Path | None) -> int:
    """Return the umask of a process whose files only this account may read, -1 for that of this process.

    A folder outside the data directory is for other programs too, so files there have the modes that the operator
    chose with the umask of `up`.
    """
    inside = writes is None or writes.resolve().is_relative_to(plan.data_dir.resolve())
    return _OWNER_ONLY if inside else -1


@contextmanager
def _umask(mask: int) -> Iterator[None]:
    """Set the umask of this process for the length of the block; -1 leaves it as it is."""
    before = os.umask(mask) if mask >= 0 else None
    try:
        yield
    finally:
        if before is not None:
            os.umask(before)
