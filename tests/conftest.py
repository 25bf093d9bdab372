"""Shared fixtures: one private Postgres per session, one migrated template database cloned per test."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from app.embedded import PrivatePostgres
from app.staging.database import migrate, open_engine
from tests.support import hypothesis_profile as _  # noqa: F401  # loads the profile

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivatePostgres]:
    fast = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
    with PrivatePostgres(tmp_path_factory.mktemp("postgres"), fast) as server:
        yield server


@pytest.fixture(scope="session")
def template_database(postgres: PrivatePostgres) -> str:
    create_database(postgres.url, "template_mirrorgate")
    migrate(database_in(postgres.url, "template_mirrorgate"))
    return "template_mirrorgate"


@pytest.fixture
def database_url(postgres: PrivatePostgres, template_database: str) -> str:
    """A migrated, empty database of this test alone."""
    name = f"test_{next(_NUMBERS)}"
    create_database(postgres.url, name, template=template_database)
    return database_in(postgres.url, name)


@pytest.fixture
def engine(database_url: str) -> Iterator[sa.Engine]:
    engine = open_engine(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def samples() -> Path:
    return Path(__file__).parent.parent / "demo" / "samples"


def create_database(server_url: str, name: str, template: str = "template1") -> None:
    engine = open_engine(server_url)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text(f'CREATE DATABASE "{name}" TEMPLATE "{template}"'))
    engine.dispose()


def database_in(server_url: str, name: str) -> str:
    url = sa.make_url(server_url).set(database=name)
    return url.render_as_string(hide_password=False)
