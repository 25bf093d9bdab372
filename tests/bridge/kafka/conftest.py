"""One mock cluster for the tests of a module, and a bridge against it and the real gateway."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import pytest

from mirrorgate_bridge.kafka import bridge
from tests.bridge.kafka.running import RunningBridge, running
from tests.support.kafka import MockCluster, kafka_cluster


class Run(Protocol):
    """Runs a bridge for these topics while a block runs, in the group of the first topic's name."""

    def __call__(
        self, *topics: dict[str, Any], url: str | None = None, **more: Any
    ) -> AbstractContextManager[RunningBridge]: ...


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    with kafka_cluster(1) as cluster:
        yield cluster


@pytest.fixture
def run(cluster: MockCluster, api_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(bridge, "LOOK_SECONDS", 0.5)

    def start(*topics: dict[str, Any], url: str | None = None, **more: Any) -> AbstractContextManager[RunningBridge]:
        given = {"group": topics[0].get("topic", "bridge"), **more}
        return running(tmp_path, cluster, url or api_address, list(topics), **given)

    return start
