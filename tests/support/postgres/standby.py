"""A primary with a streaming standby, behind one address or under one that names both hosts."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, LiteralString

import psycopg

from app.local.embedded import PrivatePostgres
from app.local.embedded.postgres import (
    choose_account,
    find_programs,
    make_socket_folder,
    run_program,
    superuser_url,
)
from tests.support.postgres.swallowing_proxy import SwallowingProxy, swallowing_proxy
from tests.support.processes import start_program
from tests.support.waiting import wait_until

_QUICK = {"fsync": "off", "full_page_writes": "off", "shared_buffers": "32MB", "max_wal_senders": "4"}
_SECONDS = 60.0


class Cluster:
    """The primary, its standby, and the address that leads to the one or the other."""

    def __init__(
        self, primary: PrivatePostgres, standby: "Standby", url: str, address: SwallowingProxy | None = None
    ) -> None:
        self._primary, self._standby, self._address = primary, standby, address
        self.url = url
        """The address for drains and writers: of the primary, and after the failover of the standby."""

    def let_commits_wait(self) -> None:
        """Make the standby synchronous: what is acknowledged is on both from now on."""
        for statement in ("ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"):
            ask(self._primary.administration_url, statement)
        synchronous = "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')"
        wait_until(lambda: ask(self._primary.administration_url, synchronous), within=_SECONDS, what="sync standby")

    def leave_the_standby_behind(self) -> None:
        """Let the standby receive everything until now, and nothing that follows."""
        now = ask(self._primary.administration_url, "SELECT pg_current_wal_flush_lsn()::text")
        received = "SELECT coalesce(pg_last_wal_replay_lsn() >= %s::pg_lsn, false)"
        wait_until(lambda: ask(self._standby.url, received, now), within=_SECONDS, what="the standby has caught up")
        for statement in ("ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()"):
            ask(self._standby.url, statement)
        receiving = "SELECT NOT EXISTS (SELECT FROM pg_stat_wal_receiver)"
        wait_until(lambda: ask(self._standby.url, receiving), within=_SECONDS, what="the standby is left behind")

    def fail_over(self) -> None:
        """Kill the primary and promote the standby; an address of one host then leads to it."""
        self._primary.process.kill()
        self._primary.process.wait()
        if self._address is not None:
            self._address.end_connections()
        ask(self._standby.url, "SELECT pg_promote(true, 60)")
        if self._address is not None:
            self._address.lead_to(self._standby.url)


class Standby:
    """A hot standby made from a base backup of a running primary."""

    def __init__(self, primary: PrivatePostgres, place: Path, listen: str = "") -> None:
        programs, data = find_programs(), place / "postgres"
        account = choose_account(data)
        data.mkdir(parents=True, mode=0o700)
        account.hand_over(data)
        address = primary.administration_url.replace("/mirrorgate?", "/?")
        options = ["--checkpoint=fast", "--no-sync", "--write-recovery-conf", "-D", str(data), "-d", address]
        run_program([*account.prefix, str(programs / "pg_basebackup"), *options], timeout=_SECONDS)
        folder = make_socket_folder(place / "postgres.socket", account)
        settings = {
            **_QUICK,
            "unix_socket_directories": f'"{folder}"',
            "listen_addresses": listen,
            "max_connections": "100",
        }
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self.url = superuser_url(folder)
        self._process = start_program(
            place / "postgres.log",
            *[*account.prefix, programs / "postgres", "-D", data, *words],
            environment=primary.environment,
            ready=self._answers,
            cwd="/",
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _answers(self) -> bool:
        try:
            return bool(ask(self.url, "SELECT pg_is_in_recovery()"))
        except psycopg.OperationalError:
            return False

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def cluster(place: Path) -> Iterator[Cluster]:
    """Yield a primary with an asynchronous standby. Start it from the main thread, as `PrivatePostgres` demands."""
    with PrivatePostgres(place / "primary", {**_QUICK, "max_connections": "100"}) as primary:
        standby = Standby(primary, place / "standby")
        try:
            with swallowing_proxy(primary.url) as address:
                yield Cluster(primary, standby, address.url, address)
        finally:
            standby.stop()


@contextmanager
def cluster_of_hosts(place: Path, primary_host: str, standby_host: str) -> Iterator[Cluster]:
    """Yield a cluster whose address names both hosts, of which libpq chooses the one that accepts writes."""
    settings = {**_QUICK, "max_connections": "100", "listen_addresses": primary_host}
    with PrivatePostgres(place / "primary", settings) as primary:
        with (place / "primary" / "postgres" / "pg_hba.conf").open("w") as rules:  # its owner remains
            rules.write("local all all trust\nlocal replication all trust\nhost all all 127.0.0.0/8 trust\n")
        ask(primary.administration_url, "SELECT pg_reload_conf()")
        standby = Standby(primary, place / "standby", standby_host)
        hosts = f"{primary_host}:5432,{standby_host}:5432"
        try:
            yield Cluster(primary, standby, f"postgresql://gateway@{hosts}/mirrorgate?target_session_attrs=read-write")
        finally:
            standby.stop()


def ask(url: str, statement: LiteralString, *values: object) -> Any:
    """Run one statement outside a transaction; return the first value of its answer, if it has one."""
    with psycopg.connect(url, autocommit=True) as connection:
        answer = connection.execute(statement, values or None)
        row = answer.fetchone() if answer.description else None
    return row[0] if row else None
