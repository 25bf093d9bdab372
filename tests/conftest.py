"""Shared fixtures: one private Postgres per session, one migrated template database cloned per test."""

import atexit
import gc
import itertools
import os
import signal
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
import typer.main

from app.local.embedded import PrivatePostgres
from app.staging.connection.database import open_engine
from app.staging.connection.schema_revision import migrate
from tests.support.postgres.databases import create_database, database_in, emptied
from tests.support.suite import hypothesis_profile as _  # noqa: F401  # loads the profile
from tests.support.suite.distribution import LongFirst, long_first
from tests.support.suite.selection import add_option, is_left_out

_NUMBERS = itertools.count(1)

for size in ("COLUMNS", "LINES"):  # pytest-xdist gives them to its workers; tests of commands set their own
    os.environ.pop(size, None)

# Tests start hundreds of processes: each would compile the program again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as a shell starts what it runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # processes that tests interrupt inherit it

# jsonschema uses it for IRIs, which no test validates. It compiles 38 grammars on import: 1.4 s in each process.
sys.modules.update(rfc3987_syntax=None)  # None makes the import fail

# Tests run hundreds of commands, and Typer would build the whole command line for each: 0.1 s.
typer.main.get_command = cache(typer.main.get_command)

gc.set_threshold(50_000, 20, 50)  # with Python's own, a twentieth of the run is searching for garbage


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LongFirst | None:
    return LongFirst(config, log) if config.option.dist == "load" else None  # what --numprocesses alone means


def pytest_addoption(parser: pytest.Parser) -> None:
    add_option(parser)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return is_left_out(collection_path, config) or None  # None leaves the question to pytest


@pytest.hookimpl(trylast=True)  # once those that are not asked for have gone
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):  # of pytest-xdist
        long_first(items)


def pytest_collection_finish() -> None:
    """Keep all that was imported and collected out of each later search for garbage."""
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # or DuckDB prints at exit that its objects were never freed


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivatePostgres]:
    fast = {"max_connections": "400", "fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
    with PrivatePostgres(tmp_path_factory.mktemp("postgres"), fast) as server:
        with psycopg.connect(server.administration_url, autocommit=True) as connection:
            # What tests do beside the gateway: databases of their own, and deletions in any order.
            connection.execute("ALTER ROLE gateway CREATEDB")
            connection.execute("GRANT SET ON PARAMETER session_replication_role TO gateway")
        yield server


@pytest.fixture(scope="session")
def template_database(postgres: PrivatePostgres) -> str:
    migrate(create_database(postgres.url, "template_mirrorgate"))
    return "template_mirrorgate"


@pytest.fixture(scope="session")
def left_databases() -> list[str]:
    """Give the databases that earlier tests have finished with."""
    return []


@pytest.fixture
def database_url(postgres: PrivatePostgres, template_database: str, left_databases: list[str]) -> Iterator[str]:
    """Give a migrated, empty database of this test alone: a used one that could be emptied, else a new one."""
    name = left_databases.pop(0) if left_databases else None
    if name is None or not emptied(database_in(postgres.url, name)):
        name = f"test_{next(_NUMBERS)}"
        create_database(postgres.url, name, template=template_database)
    yield database_in(postgres.url, name)
    left_databases.append(name)


@pytest.fixture
def engine(database_url: str) -> Iterator[sa.Engine]:
    engine = open_engine(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def samples() -> Path:
    return Path(__file__).parent.parent / "demo" / "samples"
