"""Gateways with their own settings."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Protocol

import pytest

from tests.api.calls import Gateway, own_gateway


class Serve(Protocol):
    """Runs a gateway with these settings and the table `t` of one column `id`; a client of it."""

    def __call__(self, *, send_buffer: int | None = None, **settings: Any) -> Gateway: ...


@pytest.fixture
def serve(database_url: str) -> Iterator[Serve]:
    with ExitStack() as stack:

        def start(**settings: Any) -> Gateway:
            gateway = stack.enter_context(own_gateway(database_url, **settings))
            gateway.register("t", {"id": "int64"}, ["id"]).raise_for_status()
            return gateway

        yield start


@pytest.fixture
def gateway(serve: Serve) -> Gateway:
    return serve()


def held(gateway: Gateway) -> list[float]:
    """Return how many requests, unfinished bodies and bytes count; the process may have held some before."""
    names = ("change_requests_in_flight", "unfinished_bodies", "body_bytes_in_memory")
    return [gateway.metric(name) for name in names]
