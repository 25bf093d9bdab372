"""A Postgres whose log can be decoded, a gateway with a drain and a Delta mirror, and the report of the run."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from app.local.embedded import PrivatePostgres
from mirrorgate.testing import _emulator_process, mirrorgate_emulator
from tests.model.gateway import Gateway, small_gateway
from tests.real.debezium import PostgresSource
from tests.real.report import Report, write_page
from tests.support.kafka import MockCluster, kafka_cluster

__all__ = ["_emulator_process", "mirrorgate_emulator"]

_REPORT = pytest.StashKey[Report]()
_NUMBERS = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_REPORT] = Report()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    outcome = yield
    item.config.stash[_REPORT].ended(item, outcome.get_result())


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Write the page after a green run of the whole suite."""
    report, is_whole = session.config.stash[_REPORT], session.config.args == ["tests/real"]
    if exitstatus == 0 and report.compared and is_whole and not session.config.option.keyword:
        write_page(report)


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Report:
    return request.config.stash[_REPORT]


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivatePostgres]:
    """Give the tests' Postgres with logical decoding, and TCP for JDBC, on an address of this process alone."""
    host = f"127.77.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"
    settings = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "200"}
    settings |= {"wal_level": "logical", "max_wal_senders": "40", "max_replication_slots": "40"}
    folder = tmp_path_factory.mktemp("postgres")
    with PrivatePostgres(folder, settings | {"listen_addresses": host}) as server:
        with (folder / "postgres" / "pg_hba.conf").open("w") as rules:
            rules.write("local all all trust\nhost all all 127.0.0.0/8 trust\nhost replication all 127.0.0.0/8 trust\n")
        with psycopg.connect(server.administration_url, autocommit=True) as connection:
            connection.execute("SELECT pg_reload_conf()")
            connection.execute("ALTER ROLE gateway CREATEDB")
            connection.execute("GRANT SET ON PARAMETER session_replication_role TO gateway")
        yield server


@pytest.fixture
def gateway(database_url: str, tmp_path: Path) -> Iterator[Gateway]:
    with small_gateway(database_url, tmp_path) as gateway:
        yield gateway
        gateway.close()


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with kafka_cluster(1) as cluster:
        yield cluster


@pytest.fixture
def source(postgres: PrivatePostgres) -> Iterator[PostgresSource]:
    """Give a new database, whose replication slots are dropped in the end."""
    name = f"source_{next(_NUMBERS)}"
    with psycopg.connect(postgres.administration_url, autocommit=True) as administration:
        administration.execute(f'CREATE DATABASE "{name}"')
        (host,) = administration.execute("SHOW listen_addresses").fetchone() or ()
        with psycopg.connect(postgres.administration_url, dbname=name, autocommit=True) as connection:
            yield PostgresSource(connection, {"hostname": host, "port": 5432, "user": "mirrorgate", "dbname": name})
        administration.execute(
            """SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = %s AND active""",
            [name],
        )
        administration.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active")
