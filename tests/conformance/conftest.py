from collections.abc import Iterator

import pytest

from tests.support.fabric.endpoint import Fabric
from tests.support.fabric.fixtures import clock, fabric, open_client
from tests.support.onelake.endpoint import ITEM, OneLake, Trust, served
from tests.support.onelake.fixtures import trust

__all__ = ["clock", "fabric", "onelake", "open_client", "trust"]


@pytest.fixture
def onelake(fabric: Fabric, trust: Trust, monkeypatch: pytest.MonkeyPatch) -> Iterator[OneLake]:
    """The storage of the database that is created next."""
    fabric.service.next_ids.append(ITEM[0])
    with served(OneLake(tokens=fabric.service.storage_tokens), trust) as endpoint:
        monkeypatch.setenv("MIRRORGATE_STORAGE_ENDPOINT", endpoint.address)
        yield endpoint
