"""Gateways with their own settings."""

import re
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


def metric(gateway: Gateway, series: str) -> float:
    """Return the value of a series of ours at `/metrics`, 0 without it."""
    text = gateway.get("/metrics").raise_for_status().text
    found = re.findall(rf"^mirrorgate_{re.escape(series)} (\S+)$", text, re.MULTILINE)
    return float(found[0]) if found else 0.0


def new_key(gateway: Gateway, **wanted: Any) -> dict[str, str]:
    """Create a key that may send changes; return it with its ID and secrets."""
    created: dict[str, str] = gateway.post("/v1/keys", json={"rights": ["ingest"], **wanted}).raise_for_status().json()
    return created
