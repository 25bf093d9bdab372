"""Postgres with a standby, under an address that names both hosts: the primary is killed while rows are sent.

With a synchronous standby nothing is lost. An asynchronous one lacks what the primary acknowledged last, which the
gateway reports: for published files by the table's state, for numbered requests by `producer_gap`.
"""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest

from app.staging.connection.schema_revision import migrate
from demo.landing_reader import table_folder
from mirrorgate import BufferLimits, ChangeWriter, GatewayClient
from mirrorgate.errors import Code
from mirrorgate.producer import ProducerConflict
from spark_jobs.drain_cycle import DrainCycle
from spark_jobs.drain_process import keep_lease
from tests.api.calls import ADMIN_KEY
from tests.model.gateway import Gateway
from tests.real.debezium import by_id, landed
from tests.real.report import Report
from tests.support.http.server import api_process
from tests.support.postgres.standby import Cluster, ask, cluster_of_hosts
from tests.support.small_drain import draining, publish_pending, small_drain

TABLES: Final = ("shop.orders", "shop.payments")
HOSTS: Final = [f"127.{number}.{os.getpid() >> 8 & 255}.{os.getpid() & 255}" for number in (78, 79)]
LEASE_SECONDS: Final = 3.0


@dataclass
class Running:
    """A gateway of an API process and a drain of this process, which publishes when asked to, and its database."""

    gateway: Gateway
    database: Cluster
    cycle: DrainCycle

    @property
    def version(self) -> str:
        """The name and version of the servers."""
        return f"Postgres {ask(self.database.url, 'SHOW server_version')}, primary and standby"

    def recreate(self, table: str, generation: int) -> None:
        """Begin the next generation of a table, without its rows."""
        answer = self.gateway.call("POST", f"/v1/tables/{table}/recreate", params={"generation": generation})
        assert answer.status_code < 300, answer.text
        self.gateway.until(lambda: self.gateway.status(table)["state"] == "active", f"{table} is recreated")

    def write(self, table: str, rows: list[dict[str, Any]], producer: str | None = None) -> None:
        """Write rows in requests of 20, numbered ones with the last id as the position."""
        with (
            GatewayClient(self.gateway.url, ADMIN_KEY) as client,
            ChangeWriter(client, table=table, producer=producer, limits=BufferLimits(request_rows=20)) as writer,
        ):
            for one in rows:
                writer.write(one, position=str(one["id"]) if producer else None)

    def files(self, table: str) -> dict[str, bytes]:
        """Return the files in the folder of a table."""
        return {path.name: path.read_bytes() for path in table_folder(self.gateway.zone, table).glob("*.parquet")}


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with cluster_of_hosts(tmp_path / "cluster", *HOSTS) as database, ExitStack() as stack:
        migrate(database.url)
        zone = tmp_path / "landing-zone"
        _, url = stack.enter_context(api_process(database.url, ADMIN_KEY, ALLOW_UNSAFE="true"))
        cycle = stack.enter_context(small_drain(database.url, zone))
        stack.enter_context(keep_lease(cycle, LEASE_SECONDS))
        gateway = Gateway(url, ADMIN_KEY, zone, lambda: publish_pending(cycle), no_mirror)
        stack.callback(gateway.close)
        for table in TABLES:
            gateway.register(table, {"id": "int64", "note": "string"})
        yield Running(gateway, database, cycle)


def no_mirror(_: str) -> NoReturn:
    raise NotImplementedError


def rows_of(numbers: range, note: str = "first") -> list[dict[str, Any]]:
    return [{"id": number, "note": note} for number in numbers]


def test_a_synchronous_standby_has_all_that_was_acknowledged_and_it_lands_once(
    running: Running, report: Report
) -> None:
    rows, half = rows_of(range(2000)), threading.Barrier(3)

    def write(table: str, producer: str | None) -> None:
        running.write(table, rows[:1000], producer)
        half.wait(60)
        running.write(table, rows[1000:], producer)

    running.database.let_commits_wait()
    with draining(running.cycle), ThreadPoolExecutor(2) as pool:
        writers = [pool.submit(write, TABLES[0], None), pool.submit(write, TABLES[1], "app/outbox")]
        half.wait(60)
        running.database.fail_over()
        for writer in writers:
            writer.result(180)
    for table in TABLES:
        running.gateway.until_published(table)
        assert landed(running.gateway, table, "id") == by_id(rows)
    report.add(running.version, 2 * len(rows))


def test_files_that_an_asynchronous_standby_lacks_stop_their_table_until_it_is_loaded_again(
    running: Running, report: Report
) -> None:
    known, lost, later = rows_of(range(100)), rows_of(range(100, 200)), rows_of(range(200, 300))
    for table in TABLES:
        running.write(table, known)
        running.gateway.until_published(table)
    running.database.leave_the_standby_behind()
    running.write(TABLES[0], lost)
    running.gateway.until_published(TABLES[0])
    before = running.files(TABLES[0])
    running.database.fail_over()
    for table in TABLES:
        running.write(table, later)
    running.gateway.until(lambda: running.gateway.status(TABLES[0])["state"] == "quarantined", "the table stops")
    assert running.gateway.status(TABLES[0])["state_reason"].startswith("ledger_behind_zone: ")
    assert running.files(TABLES[0]) == before
    running.gateway.until_published(TABLES[1])
    assert landed(running.gateway, TABLES[1], "id") == by_id(known + later)
    running.recreate(TABLES[0], 1)
    running.write(TABLES[0], known + lost + later)
    running.gateway.until_published(TABLES[0])
    assert landed(running.gateway, TABLES[0], "id") == by_id(known + lost + later)
    report.add(running.version, len(known + later) + len(known + lost + later))


def test_a_folder_of_a_generation_that_an_asynchronous_standby_lacks_is_left_alone(
    running: Running, report: Report
) -> None:
    table, lost, later = TABLES[0], rows_of(range(100), "lost"), rows_of(range(50, 150), "later")
    running.database.leave_the_standby_behind()
    running.recreate(table, 1)
    running.write(table, lost)
    running.gateway.until_published(table)
    before = running.files(table)
    running.database.fail_over()
    running.write(table, later)
    running.gateway.until(lambda: running.gateway.status(table)["state"] == "quarantined", "the table stops")
    assert running.gateway.status(table)["state_reason"].startswith("landing_folder_lost: ")
    assert running.files(table) == before
    folder = table_folder(running.gateway.zone, table)
    folder.rename(running.gateway.zone.with_name("moved away"))
    running.recreate(table, 1)
    running.write(table, later)
    running.gateway.until_published(table)
    assert landed(running.gateway, table, "id") == by_id(later)
    report.add(running.version, len(later))


def test_numbered_requests_that_an_asynchronous_standby_lacks_are_asked_for_again(
    running: Running, report: Report
) -> None:
    table, rows = TABLES[0], rows_of(range(300))
    with (
        GatewayClient(running.gateway.url, ADMIN_KEY) as client,
        pytest.raises(ProducerConflict) as error,
        ChangeWriter(client, table=table, producer="app/outbox") as writer,
    ):
        for number, one in enumerate(rows):
            if number in (100, 200):
                writer.flush()
            if number == 100:
                running.database.leave_the_standby_behind()
            if number == 200:
                running.database.fail_over()
            writer.write(one, position=str(number))
    assert error.value.code is Code.PRODUCER_GAP
    with (
        GatewayClient(running.gateway.url, ADMIN_KEY) as client,
        ChangeWriter(client, table=table, producer="app/outbox") as writer,
    ):
        assert writer.position == "99"
        for one in rows[100:]:
            writer.write(one, position=str(one["id"]))
    running.gateway.until_published(table)
    assert landed(running.gateway, table, "id") == by_id(rows)
    report.add(running.version, len(rows))
