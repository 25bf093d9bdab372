"""A client and a table for the tests of the client library, and a proxy that spoils requests."""

from collections.abc import Iterator
from itertools import count

import pytest

from mirrorgate import GatewayClient
from tests.api.calls import ADMIN_KEY, Gateway
from tests.support.http.faulty_proxy import FaultyProxy, faulty_proxy


@pytest.fixture
def client(gateway: Gateway) -> Iterator[GatewayClient]:
    with GatewayClient(gateway.address, ADMIN_KEY) as client:
        yield client


@pytest.fixture
def table(gateway: Gateway) -> str:
    gateway.register("t", {"id": "int64"}, ["id"]).raise_for_status()
    return "t"


@pytest.fixture
def proxy(table: str, gateway: Gateway) -> Iterator[FaultyProxy]:
    with faulty_proxy(gateway.address) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def numbers() -> Iterator[int]:
    """Give numbers for tables that property tests register."""
    return count()
