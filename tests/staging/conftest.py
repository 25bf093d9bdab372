"""A Postgres that acknowledges what it receives and may stop to answer, and a table of one column."""

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from app.domain.model.table import Table
from app.staging.connection.database import open_engine
from tests.support.gateway_parts import registered
from tests.support.postgres.swallowing_proxy import SwallowingProxy, swallowing_proxy
from tests.support.samples.schemas import schema_of


@pytest.fixture
def table(engine: sa.Engine) -> Table:
    return registered(engine, "t", schema_of({"id": "int64"}, ["id"]))


@pytest.fixture
def proxy(database_url: str) -> Iterator[SwallowingProxy]:
    with swallowing_proxy(database_url) as proxy:
        yield proxy


@pytest.fixture
def other(database_url: str) -> Iterator[sa.Engine]:
    """Give connections of another process to the same database."""
    engine = open_engine(database_url)
    yield engine
    engine.dispose()
