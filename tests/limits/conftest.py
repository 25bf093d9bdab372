"""Gateways with their own settings."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Protocol

import pytest
from pydantic import SecretStr

from app.api import application
from app.settings import Settings
from tests.api.calls import ADMIN_KEY, Gateway
from tests.support.http.server import served


class Serve(Protocol):
    """Runs a gateway with these settings and the table `t` of one column `id`; a client of it."""

    def __call__(self, *, send_buffer: int | None = None, **settings: Any) -> Gateway: ...


@pytest.fixture
def serve(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    monkeypatch.setattr(application, "configure_logging", lambda _: None)
    with ExitStack() as stack:

        def start(*, send_buffer: int | None = None, **settings: Any) -> Gateway:
            chosen = Settings(database_url=SecretStr(database_url), admin_key=SecretStr(ADMIN_KEY), **settings)
            address = stack.enter_context(served(chosen, send_buffer=send_buffer))
            gateway = stack.enter_context(Gateway.at(address, ADMIN_KEY))
            gateway.register("t", {"id": "int64"}, ["id"]).raise_for_status()
            return gateway

        yield start
