"""The real app on a free loopback port; its database is empty at the start of each test."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Protocol
from uuid import uuid4

import pytest
import sqlalchemy as sa

from app.local.embedded import PrivatePostgres
from app.staging.connection.database import open_engine
from tests.api.calls import ADMIN_KEY, MAX_BODY_BYTES, Gateway, own_gateway
from tests.api.commands import Terminal
from tests.support.http.issuer import Issuer, issuing
from tests.support.postgres import sql
from tests.support.postgres.databases import clear, create_database


class ClientWith(Protocol):
    """Makes clients of the same gateway with keys of their own: `client_with("read", tables=["sales.*"])`."""

    def __call__(self, *rights: str, tables: list[str] | None = None) -> Gateway: ...


@pytest.fixture(scope="session")
def api_database(postgres: PrivatePostgres, template_database: str) -> str:
    name = f"api_{uuid4().hex}"  # tests of the bridges have a gateway of their own in the same process
    return create_database(postgres.url, name, template=template_database)


@pytest.fixture(scope="session")
def api_address(api_database: str) -> Iterator[str]:
    """Run one app for all tests. Its logs are tested where a separate process writes them."""
    secrets = {
        "mask_secret": "a mask secret only for tests of the api",
        "signing_key": "a-signing-key-only-for-tests-of-the-api",
    }
    with own_gateway(api_database, max_body_bytes=MAX_BODY_BYTES, **secrets) as gateway:
        yield gateway.address


@pytest.fixture(scope="session")
def api_engine(api_database: str) -> Iterator[sa.Engine]:
    """Give the tests' own connections to the app's database."""
    engine = open_engine(api_database)
    yield engine
    engine.dispose()


@pytest.fixture
def gateway(api_address: str, api_engine: sa.Engine) -> Iterator[Gateway]:
    """Give a client with the admin key."""
    sql.call(api_engine, clear, restart_ids=False)
    with Gateway.at(api_address, ADMIN_KEY) as client:
        client.engine = api_engine
        yield client


@pytest.fixture
def client_with(gateway: Gateway, api_address: str) -> Iterator[ClientWith]:
    with ExitStack() as stack:

        def client(*rights: str, tables: list[str] | None = None) -> Gateway:
            return stack.enter_context(Gateway.at(api_address, gateway.new_key(*rights, tables=tables or ["*"])["key"]))

        yield client


@pytest.fixture
def terminal(api_address: str, capsys: pytest.CaptureFixture[str]) -> Terminal:
    """Give a terminal with the address of the app and the admin key."""
    return Terminal(capsys, api_address)


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing() as issuer:
        yield issuer


@pytest.fixture
def anonymous(api_address: str) -> Iterator[Gateway]:
    """Give a client without a key."""
    with Gateway.at(api_address, None) as client:
        yield client
