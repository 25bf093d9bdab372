"""Fixtures for tests that need Fabric's API; a conftest imports those that it offers."""

from collections.abc import Callable, Iterator

import pytest

from app.fabric import FabricClient, open_fabric, transport
from app.settings import Settings
from mirrorgate_zone.emulator.fabric_api import FabricService
from mirrorgate_zone.emulator.onelake import ITEM, OneLake, Trust
from mirrorgate_zone.emulator.onelake import served as onelake_served
from tests.support.fabric.endpoint import Fabric, served
from tests.support.waiting import Clock

OpenClient = Callable[..., FabricClient]


class FastClock(Clock):
    """Passes without waiting."""

    @property
    def clock(self) -> transport.Clock:
        return transport.Clock(self, self.sleep)


@pytest.fixture
def fabric(trust: Trust, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fabric]:
    """The API of a tenant with one empty workspace; this process's environment reaches it."""
    with served(FabricService(), trust.server, trust.authority_file) as endpoint:
        for name, value in endpoint.environment.items():
            monkeypatch.setenv(name, value)
        yield endpoint


@pytest.fixture
def onelake(fabric: Fabric, trust: Trust, monkeypatch: pytest.MonkeyPatch) -> Iterator[OneLake]:
    """The storage of the database that is created next."""
    fabric.service.next_ids.append(ITEM[0])
    with onelake_served(OneLake(tokens=fabric.service.storage_tokens), trust) as endpoint:
        monkeypatch.setenv("MIRRORGATE_STORAGE_ENDPOINT", endpoint.address)
        yield endpoint


@pytest.fixture
def clock() -> FastClock:
    return FastClock()


@pytest.fixture
def open_client(fabric: Fabric, clock: FastClock) -> OpenClient:
    """Open the real client with real tokens of Azure's SDK, by the environment; only waiting is cut short."""

    def make(workspace: str = "Sales workspace", database: str = "orders", **options: float) -> FabricClient:
        settings = Settings.from_environment(fabric_workspace=workspace, fabric_database=database)
        return open_fabric(settings, clock=clock.clock, **options)

    return make
