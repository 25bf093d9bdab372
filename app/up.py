"""`mirrorgate up`: the whole gateway on one machine, under one command.

Postgres, the API and the drain run as children of this process, which only starts, watches and stops them.
"""

import http.client
import json
import os
import re
import secrets
import signal
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from rich.console import Console

from app import supervisor
from app.certificates import trusting_only
from app.doctor import examine, landing_place, require_safe
from app.embedded import DataDirectory, PrivatePostgres, find_java
from app.errors import Code, Misconfigured
from app.landing.open_zone import ZonePlace
from app.settings import PREFIX, Settings
from app.staging.schema_revision import migrate
from app.supervisor import Child

GATEWAY_FILE: Final = "gateway.json"
ADMIN_KEY_FILE: Final = "admin.key"
_KEY: Final = re.compile(r"mg_[0-9a-f]{8}_[A-Za-z0-9_-]{43}")
_READY_ANSWER_WITHIN: Final = 2.0


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
    besides. The children inherit `environment`. Raises Misconfigured for what keeps it from starting. If the
    process dies here, the children end, and the next `up` on the data directory carries on.
    """
    # The outer suppress comes first: an interrupt during the work before or after `run` is a clean stop too.
    with suppress(KeyboardInterrupt), supervisor.stop_signals_interrupt(), DataDirectory(data_dir) as directory:
        _run(settings, directory.path, landing_zone, console, environment)


def _run(
    settings: Settings, data_dir: Path, landing_zone: str | None, console: Console, environment: Mapping[str, str]
) -> None:
    location = landing_zone or settings.landing_zone or str(data_dir / "landing-zone")
    settings = settings.model_copy(update={"landing_zone": location})
    place = landing_place(settings)
    place.check()
    settings.require_safe_listening()
    certificate = settings.tls_certificate_file and settings.tls_certificate_file.absolute()
    port = _free_port(settings.host, settings.port)
    address = _local_address(settings.host)
    url = f"{'http' if certificate is None else 'https'}://{f'[{address}]' if ':' in address else address}:{port}"
    java_home = find_java(data_dir, environment)
    with _database(settings, data_dir) as (database_url, postgres):
        migrate(database_url)
        _require_safe(settings, place, database_url, data_dir, environment)
        children_environment = {
            **environment,
            f"{PREFIX}DATABASE_URL": database_url,
            f"{PREFIX}LANDING_ZONE": location,
            f"{PREFIX}ADMIN_KEY": _admin_key(settings, data_dir / ADMIN_KEY_FILE),
            f"{PREFIX}HOST": settings.host,
            f"{PREFIX}PORT": str(port),
            "JAVA_HOME": str(java_home),
        }
        children = [*postgres, *_children(data_dir, children_environment)]
        with _gateway_file(data_dir / GATEWAY_FILE, url, certificate):
            supervisor.run(
                children,
                is_ready=lambda: _answers_ready(address, port, certificate),
                on_ready=lambda: _say_ready(url),
                on_trouble=lambda child: console.print(
                    f"{child.name} keeps ending; the end of {child.log_file} says why",
                    style="yellow",
                    markup=False,
                    soft_wrap=True,
                ),
            )


def _require_safe(
    settings: Settings, place: ZonePlace, database_url: str, data_dir: Path, environment: Mapping[str, str]
) -> None:
    """Raises Misconfigured `unsafe_setup`. A remote landing zone is tried out by the drain alone: while its service is
    away, changes are accepted all the same."""
    folder = None if place.is_remote else place
    findings = examine(folder, database_url, environment, data_dir=data_dir)
    require_safe(findings, allow_unsafe=settings.allow_unsafe)


@contextmanager
def _database(settings: Settings, data_dir: Path) -> Iterator[tuple[str, list[Child]]]:
    """The database's url: the one that is set, else a private Postgres, which comes with the child that it is."""
    if settings.database_url is not None:
        yield settings.database_url.get_secret_value(), []
        return
    with PrivatePostgres(data_dir) as postgres:
        yield postgres.url, [postgres_child(postgres)]


def postgres_child(postgres: PrivatePostgres) -> Child:
    """A started Postgres as a child to supervise; started again it is reached under the same url."""
    return Child(
        "postgres",
        postgres.command,
        postgres.environment,
        log_file=postgres.log_file,
        stop_signal=signal.SIGINT,
        stop_within=30.0,
        running=postgres.process,
    )


def _children(data_dir: Path, environment: Mapping[str, str]) -> list[Child]:
    def python(name: str, module: str) -> Child:
        command = [sys.executable, "-m", module, "--parent-pid", str(os.getpid())]
        return Child(name, command, environment, log_file=data_dir / f"{name}.log")

    return [python("api", "app.main"), python("drain", "spark_jobs.drain")]


def _free_port(host: str, port: int) -> int:
    """`port`, or any free one for 0. Raises Misconfigured `bad_setting` when another process listens on it."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as trial:
            # Connections that a stopped gateway left in TIME_WAIT do not keep the port; a listener does.
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(where)
            return int(trial.getsockname()[1])
    except OSError as error:
        raise Misconfigured(
            Code.BAD_SETTING,
            f"the gateway cannot listen on port {port} of {host}: {error.strerror}",
            remedy=f"Stop the program that uses it, or give another --port (or {PREFIX}PORT); 0 takes any free one.",
        ) from error


def _local_address(host: str) -> str:
    """Where this machine reaches a server that listens on `host`."""
    return {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)


def _admin_key(settings: Settings, file: Path) -> str:
    """The key that is set, else the one in `file`, which is made on the first start.

    If the process dies here: the file is absent, or holds the whole key.
    """
    if settings.admin_key is not None:
        return settings.admin_key.get_secret_value()
    if not file.exists():
        _write_private(file, f"mg_{secrets.token_hex(4)}_{secrets.token_urlsafe(32)}\n")
    key = file.read_text().strip()
    if not _KEY.fullmatch(key):
        raise Misconfigured(
            Code.BAD_SETTING, f"{file} does not hold an API key", remedy="Delete it; the next start makes a new one."
        )
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
        connection.request("GET", "/readyz")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _say_ready(url: str) -> None:
    sys.stdout.write(f"ready {url}\n")
    sys.stdout.flush()
