"""The real PgBouncer in front of the tests' Postgres."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from pwd import getpwuid
from typing import Final

import pytest
import sqlalchemy as sa

from tests.support.http.server import free_port, listens
from tests.support.postgres.swallowing_proxy import swallowing_proxy
from tests.support.processes import program


def _pgbouncer() -> str | None:
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


needs_pgbouncer = pytest.mark.skipif(
    _pgbouncer() is None, reason="PgBouncer is not installed: apt-get install --no-install-recommends pgbouncer"
)

_UNPRIVILEGED: Final = 65534
"""User id of Linux for an account without rights."""

IGNORE_OPTIONS = "ignore_startup_parameters = options"
"""Lets sessions start whose settings the pooler does not pass on."""


@contextmanager
def pooled(database_url: str, folder: Path, mode: str, *lines: str) -> Iterator[str]:
    """Yield the URL of a pooler in front of a database that listens on a Unix socket; `lines` add to its settings."""
    with (
        swallowing_proxy(database_url) as forwarder,  # the folder of the socket is closed to the pooler's account
        _pooler(sa.make_url(forwarder.url), folder, mode, *lines) as url,
    ):
        yield url


@contextmanager
def _pooler(url: sa.URL, folder: Path, mode: str, *lines: str) -> Iterator[str]:
    port = free_port()
    settings = [
        "[databases]",
        f"{url.database} = host={url.host} port={url.port} user={url.username} dbname={url.database}",
        "[pgbouncer]",
        "listen_addr = 127.0.0.1",
        f"listen_port = {port}",
        "unix_socket_dir =",
        "auth_type = any",
        f"pool_mode = {mode}",
        *lines,
    ]
    pgbouncer = _pgbouncer()
    assert pgbouncer is not None
    configuration = folder / "pgbouncer.ini"
    configuration.write_text("\n".join(settings))
    account = ["-u", getpwuid(_UNPRIVILEGED).pw_name] if os.geteuid() == 0 else []  # PgBouncer rejects root
    with configuration.open() as given:
        command = [pgbouncer, *account, f"/dev/fd/{given.fileno()}"]
        options = {"ready": lambda: listens(port), "pass_fds": [given.fileno()]}
        with program(folder / "pgbouncer.log", *command, **options):
            yield f"postgresql://{url.username}@127.0.0.1:{port}/{url.database}?sslmode=disable&gssencmode=disable"
