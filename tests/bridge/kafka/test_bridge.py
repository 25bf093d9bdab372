"""Records of topics land once and in order, across restarts of the bridge, and its end is clean."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.api.calls import Gateway
from tests.bridge.kafka.running import register, running, staged
from tests.support.kafka import MockCluster, Record, kafka_cluster

ROWS = {"format": "rows", "table": "sales.orders"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    with kafka_cluster(1) as cluster:
        yield cluster


def test_each_record_lands_once_in_the_order_of_its_partition_across_restarts(
    cluster: MockCluster, gateway: Gateway, api_address: str, api_engine: sa.Engine, tmp_path: Path
) -> None:
    register(gateway, "sales.orders")
    cluster.create_topic("orders", 2)
    topics = [{"topic": "orders", **ROWS}]
    records = [Record({"id": n, "n": n % 2, "text": "x" * 100}, partition=n % 2) for n in range(2_000)]
    cluster.produce("orders", records[:1_000])
    with running(tmp_path, cluster, api_address, topics) as bridge:
        bridge.reaches("orders", 499)
        bridge.reaches("orders", 499, 1)
    cluster.produce("orders", records[1_000:])
    with running(tmp_path, cluster, api_address, topics) as bridge:
        bridge.reaches("orders", 999)
        bridge.reaches("orders", 999, 1)
    for partition in (0, 1):
        found = [row["id"] for row in staged(api_engine, "sales.orders") if row["n"] == partition]
        assert found == list(range(partition, 2_000, 2))
    assert cluster.committed("bridge", "orders") == 1_000
