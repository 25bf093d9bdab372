"""A gateway as an operator has it: its own safe Postgres, a landing zone on its own small disk, an API, and a drain."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psycopg
import pytest
import sqlalchemy as sa

from app.api.routes import probes
from app.local.embedded import PrivatePostgres
from app.settings import PREFIX
from app.staging.connection.database import open_engine
from app.staging.connection.schema_revision import migrate
from app.staging.ledger.leases import give_up_lease
from app.staging.tables.status import gateway_facts
from spark_jobs.drain_cycle import DrainCycle
from tests.api.calls import Gateway, own_gateway
from tests.support.postgres import sql
from tests.support.processes import started
from tests.support.small_drain import publish_pending, small_drain
from tests.support.waiting import wait_until

DISK_BYTES: Final = 32 * 2**20


@dataclass
class Site:
    """The parts that faults are done to."""

    postgres: PrivatePostgres
    engine: sa.Engine
    zone: Path
    gateway: Gateway
    drains: ExitStack = field(default_factory=ExitStack)
    drain: DrainCycle | None = None

    def start_drain(self) -> None:
        """Do what `mirrorgate drain` does, without Spark and in this process."""
        url = self.engine.url.render_as_string(hide_password=False)
        self.drain = self.drains.enter_context(small_drain(url, self.zone))

    def stop_drain(self) -> None:
        """End the drain as SIGTERM does."""
        assert self.drain is not None
        sql.call(self.engine, give_up_lease, self.drain.context.worker_id)
        self.drains.close()
        self.drain = None

    @contextmanager
    def drain_process(self) -> Iterator["subprocess.Popen[str]"]:
        """Run `mirrorgate drain` with a lease of a few seconds, from its first lease to the end of the block."""
        given = {"DATABASE_URL": self.postgres.url, "LANDING_ZONE": str(self.zone), "LEASE_SECONDS": "5"}
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {**given, "MIN_FREE_BYTES": str(2**20)}.items():
                patch.setenv(f"{PREFIX}{name}", value)
            with started("spark_jobs.drain") as process:
                wait_until(self._has_drain, within=120, what="the drain has a lease")
                yield process

    def _has_drain(self) -> bool:
        return sql.call(self.engine, gateway_facts).drains > 0

    def publish(self) -> None:
        """Let the drain try once to publish everything that waits."""
        assert self.drain is not None
        publish_pending(self.drain)

    def register(self, table: str) -> None:
        columns = {"order_id": "int64", "total": "decimal(12,2)"}
        self.gateway.register(table, columns, ["order_id"], dead_letters="accept").raise_for_status()

    def send(self, table: str, *totals: str) -> None:
        """Send one row for each total; wrong ones become dead letters."""
        rows = [{"order_id": number, "total": total} for number, total in enumerate(totals, start=1)]
        self.gateway.rows(table, *rows, on_reject="dead_letter").raise_for_status()

    def change_role(self, statement: str) -> None:
        """Change the gateway's role as the superuser, and end its sessions, so that new ones have the change."""
        with psycopg.connect(self.postgres.administration_url, autocommit=True) as connection:
            connection.execute(statement.encode())
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'gateway'")


@contextmanager
def running_site(folder: Path) -> Iterator[Site]:
    """Yield a healthy gateway without tables, whose drain runs."""
    with ExitStack() as stack:
        postgres = stack.enter_context(PrivatePostgres(folder / "data"))
        migrate(postgres.url)
        engine = open_engine(postgres.url)
        stack.callback(engine.dispose)
        zone = folder / "zone"
        zone.mkdir()
        if has_own_disk():
            stack.enter_context(_mounted(zone))
        stack.enter_context(pytest.MonkeyPatch.context()).setattr(probes, "CACHE_SECONDS", -1.0)
        gateway = stack.enter_context(own_gateway(postgres.url, landing_zone=str(zone), min_free_bytes=2**20))
        site = Site(postgres, engine, zone, gateway)
        stack.callback(lambda: site.drains.close())
        site.start_drain()
        yield site


def has_own_disk() -> bool:
    """Return True if this process may mount a file system for the landing zone."""
    return os.geteuid() == 0 and Path("/proc/filesystems").exists()


@contextmanager
def _mounted(folder: Path) -> Iterator[None]:
    options = f"size={DISK_BYTES},mode=0755"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True, capture_output=True)
