"""Fixtures for tests that need OneLake; a conftest imports those that it offers."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from mirrorgate_zone.emulator.faults import Switches
from mirrorgate_zone.emulator.onelake import OneLake, Trust, certificates, served

NewOneLake = Callable[..., OneLake]


@pytest.fixture(scope="session")
def trust() -> Iterator[Trust]:
    with certificates() as made:
        yield made


@pytest.fixture
def new_onelake(trust: Trust) -> Iterator[NewOneLake]:
    """Create endpoints with the given switches; `account=True` creates a plain storage account."""
    with ExitStack() as stack:

        def make(*, account: bool = False, **switches: object) -> OneLake:
            return stack.enter_context(served(OneLake(account=account, switches=Switches(**switches)), trust))

        yield make


@pytest.fixture
def onelake(new_onelake: NewOneLake) -> OneLake:
    return new_onelake()
