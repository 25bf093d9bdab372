"""`mirrorgate up`: the whole gateway on one machine, under one command.

Postgres, the API and the drain run as children of this process, which only starts, watches and stops them.
"""

import http.client
import json
import os
import secrets
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console

from app.certificates import trusting_only
from app.checks.preflight import examine, require_safe
from app.domain.access.api_key import ApiKey, format_key
from app.errors import Code, Misconfigured, RejectedInput
from app.local import supervisor
from app.local.child_process import rejection_among
from app.local.embedded import DataDirectory, PrivatePostgres, find_java
from app.local.log_files import ChildLog, RotatingFile, Rotation
from app.local.supervisor import Child
from app.local.up_plan import UpPlan, plan_up
from app.observability.resource_watch import ResourceWatch, memory_limit, raise_descriptor_limit
from app.observability.telemetry import Event, configure_logging
from app.settings import PREFIX, LogFormat, Settings
from app.settings.start_checks import check_memory, check_space
from app.staging.connection.schema_revision import migrate

GATEWAY_FILE: Final = "gateway.json"
ADMIN_KEY_FILE: Final = "admin.key"
_READY_ANSWER_WITHIN: Final = 2.0
_READY_PARTS: Final = ("api", "database", "writer", "drain")
"""What must work for the gateway to serve; a quarantined table, say, does not keep it from that."""


def configure_up_logging(settings: Settings, data_dir: Path, console: Console) -> None:
    """Write this process's own log lines where they disturb nobody.

    A service's standard error gets them as JSON. On a terminal they go to `up.log`, and people see only what is wrong,
    in words. The file is made with its first line, never before the data directory is there.
    """
    if not console.is_terminal or settings.log_format is not LogFormat.JSON:
        configure_logging(settings)
        return
    file = RotatingFile(data_dir.absolute() / "up.log", Rotation(settings.log_bytes, settings.log_files))
    configure_logging(settings, file, show=partial(_show, console))


def _show(console: Console, event: Event) -> None:
    """A warning or an error in words: its detail and remedy, else its name and facts."""
    facts = {name: value for name, value in event.items() if name not in {"event", "level", "timestamp"}}
    told = [str(facts[name]) for name in ("detail", "remedy") if facts.get(name)]
    words = str(event["event"]).replace("_", " ")
    text = ". ".join(told) or ", ".join([words, *(f"{name.replace('_', ' ')} {fact}" for name, fact in facts.items())])
    console.print(f"{event['level']}: {text}", style="yellow", markup=False, highlight=False, soft_wrap=True)


def up(
    settings: Settings,
    data_dir: Path,
    landing_zone: str | None,
    console: Console,
    *,
    environment: Mapping[str, str],
) -> None:
    """Run the gateway until SIGTERM, SIGINT or SIGHUP; returns when everything has ended.

    Prints one line `ready http://…` to standard output when it serves; `console` gets what people should see
    besides. The children inherit `environment`. Raises Misconfigured for what keeps it from starting, also when a
    child says so before it was ever of use. If the process dies here, the children end, and the next `up` on the data
    directory carries on.
    """
    # The outer suppress comes first: an interrupt during the work before or after `run` is a clean stop too.
    with suppress(KeyboardInterrupt), supervisor.stop_signals_interrupt():
        plan = plan_up(settings, data_dir, landing_zone, environment)
        with DataDirectory(plan.data_dir):
            _run(plan, console, environment)
    console.print("stopped")


def _run(plan: UpPlan, console: Console, environment: Mapping[str, str]) -> None:
    settings, data_dir = plan.settings, plan.data_dir
    raise_descriptor_limit()
    folders = {"data_directory_space": data_dir, **_zone_folder(plan)}
    check_space(folders.values(), settings.min_free_bytes)
    check_memory(settings, memory_limit())
    admin_key = _admin_key(settings, data_dir / ADMIN_KEY_FILE)
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
        children_environment = {
            **environment,
            f"{PREFIX}DATABASE_URL": database_url,
            f"{PREFIX}LANDING_ZONE": plan.place.location,
            f"{PREFIX}ADMIN_KEY": admin_key,
            f"{PREFIX}HOST": settings.host,
            f"{PREFIX}PORT": str(plan.port),
            "JAVA_HOME": str(java_home),
        }
        children = [*postgres, *_children(log_of, children_environment)]
        with _gateway_file(data_dir / GATEWAY_FILE, plan.url, plan.certificate), _rejections_named():
            supervisor.run(
                children,
                is_ready=lambda: _answers_ready(plan.address, plan.port, plan.certificate),
                on_ready=lambda: _say_ready(plan.url),
                on_trouble=lambda child: console.print(
                    f"{child.name} keeps ending; the end of {child.log and child.log.path} says why",
                    style="yellow",
                    markup=False,
                    soft_wrap=True,
                ),
            )


def _zone_folder(plan: UpPlan) -> dict[str, Path]:
    return {} if plan.place.is_remote else {"zone_space": Path(plan.place.location)}


@contextmanager
def _rejections_named() -> Iterator[None]:
    """Raise what a child said that keeps it from starting."""
    try:
        yield
    except supervisor.ChildRejected as rejected:
        name, log = rejected.child.name, rejected.child.log
        said = None if log is None else rejection_among(log.recent())
        raise said or Misconfigured(
            Code.BAD_SETTING, f"{name} cannot start", remedy=f"Read {log and log.path}."
        ) from None


def _require_safe(plan: UpPlan, database_url: str, environment: Mapping[str, str]) -> None:
    """Raises Misconfigured `unsafe_setup`. A remote landing zone is tried out by the drain alone: while its service is
    away, changes are accepted all the same."""
    folder = None if plan.place.is_remote else plan.place
    findings = examine(folder, database_url, environment, data_dir=plan.data_dir)
    require_safe(findings, allow_unsafe=plan.settings.allow_unsafe)


@contextmanager
def _database(
    settings: Settings, data_dir: Path, log_of: Callable[[str], ChildLog]
) -> Iterator[tuple[str, list[Child]]]:
    """The database's url: the one that is set, else a private Postgres, which comes with the child that it is."""
    if settings.database_url is not None:
        yield settings.database_url.get_secret_value(), []
        return
    log = log_of("postgres")
    with PrivatePostgres(data_dir, log=log) as postgres:
        yield postgres.url, [postgres_child(postgres, log)]


def postgres_child(postgres: PrivatePostgres, log: ChildLog | None = None) -> Child:
    """A started Postgres as a child to supervise; started again it is reached under the same url."""
    return Child(
        "postgres",
        postgres.command,
        postgres.environment,
        log=log,
        stop_signal=signal.SIGINT,
        stop_within=30.0,
        running=postgres.process,
    )


def _children(log_of: Callable[[str], ChildLog], environment: Mapping[str, str]) -> list[Child]:
    def python(name: str, module: str) -> Child:
        command = [sys.executable, "-m", module, "--parent-pid", str(os.getpid())]
        return Child(name, command, environment, log=log_of(name))

    return [python("api", "app.main"), python("drain", "spark_jobs.drain")]


def _admin_key(settings: Settings, file: Path) -> str:
    """The key that is set, else the one in `file`, which is made on the first start.

    If the process dies here: the file is absent, or holds the whole key.
    """
    if settings.admin_key is not None:
        return settings.admin_key.get_secret_value()
    if not file.exists():
        _write_private(file, format_key(secrets.token_hex(4), secrets.token_urlsafe(32)) + "\n")
    key = file.read_text().strip()
    try:
        ApiKey.parse(key)
    except RejectedInput:
        raise Misconfigured(
            Code.BAD_SETTING, f"{file} does not hold an API key", remedy="Delete it; the next start makes a new one."
        ) from None
    return key


@contextmanager
def _gateway_file(file: Path, url: str, certificate: Path | None = None) -> Iterator[None]:
    """Within the block `file` tells client commands where the gateway of this data directory is, and the certificate
    that it shows them.

    If the process dies here: the file stays, naming a pid that is gone, until the next start.
    """
    shown = {} if certificate is None else {"certificate": str(certificate)}
    _write_private(file, json.dumps({"url": url, "pid": os.getpid(), **shown}) + "\n")
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def _write_private(file: Path, text: str) -> None:
    """Replace `file` as a whole, durably, readable by this user only."""
    new = file.with_name(f"{file.name}.new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())
    new.replace(file)


def _answers_ready(address: str, port: int, certificate: Path | None) -> bool:
    try:
        connection = (
            http.client.HTTPConnection(address, port, timeout=_READY_ANSWER_WITHIN)
            if certificate is None
            else http.client.HTTPSConnection(
                address, port, timeout=_READY_ANSWER_WITHIN, context=trusting_only(certificate)
            )
        )
    except OSError:
        return False
    try:
        connection.request("GET", "/statusz")
        parts = json.loads(connection.getresponse().read())["parts"]
        return all(parts[part] == "ok" for part in _READY_PARTS)
    except (OSError, http.client.HTTPException, ValueError, KeyError):
        return False
    finally:
        connection.close()


def _say_ready(url: str) -> None:
    sys.stdout.write(f"ready {url}\n")
    sys.stdout.flush()
