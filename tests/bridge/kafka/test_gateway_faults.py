"""A gateway that is away, loses answers or asks to wait, and another process under the same name."""

import time
from contextlib import suppress
from functools import partial

from mirrorgate.http import GatewayClient, RejectedByGateway
from mirrorgate.producer import ChangeRequest, Patience, Producer
from mirrorgate_bridge.kafka.buffer import Position, parameters_of
from mirrorgate_bridge.kafka.partition import Partition
from mirrorgate_bridge.kafka.settings import TopicRule
from tests.api.calls import ADMIN_KEY, Gateway
from tests.bridge.kafka.conftest import Run
from tests.bridge.kafka.running import ids, row, rows_topic
from tests.support.http.faulty_proxy import Fault, Request, dropping_proxy, faulty_proxy, no_fault
from tests.support.kafka import MockCluster, Record


def overloaded(_: Request) -> Fault:
    return Fault.OVERLOADED


def test_while_the_gateway_is_away_the_bridge_waits_with_bounded_memory_and_few_lines(
    cluster: MockCluster, gateway: Gateway, run: Run
) -> None:
    topic = rows_topic(gateway, "g_away", "g.away")
    cluster.create_topic("g_away")
    with (
        faulty_proxy(gateway.address, usual=overloaded) as proxy,
        run(topic, group="away", url=proxy.url, log_repeat=60.0) as bridge,
    ):
        bridge.wait(lambda: bridge.bridge.reasons() == ["g_away/0 waiting: overloaded"])
        proxy.usual = no_fault
        cluster.produce("g_away", [Record(row(0))])
        bridge.reaches("g_away", 0)
        proxy.usual = overloaded
        cluster.produce("g_away", [Record(row(n, text="x" * 1_000)) for n in range(1, 1_001)])
        partition = bridge.partition("g_away")
        bridge.wait(lambda: partition.is_paused and partition.state.name == "waiting")
        assert partition.buffer.bytes < 2_000 * 1_300  # the records of one look at the consumer's queue
        assert partition.counters.retries
        proxy.usual = no_fault
        bridge.reaches("g_away", 1_000)
        assert len(bridge.events("partition_waits")) == 1
        assert bridge.bridge.reasons() == []
    assert ids(gateway.engine, "g.away") == [*range(1_001)]


def test_a_partition_that_comes_back_while_it_was_paused_is_read(
    cluster: MockCluster, gateway: Gateway, run: Run
) -> None:
    topic = rows_topic(gateway, "g_back", "g.back")
    cluster.create_topic("g_back", partitions=2)
    for number in range(2):
        cluster.produce("g_back", [Record(row(number), partition=number)])
    with faulty_proxy(gateway.address, usual=overloaded) as proxy, run(topic, group="back", url=proxy.url) as bridge:
        bridge.wait(lambda: len(bridge.bridge.reasons()) == 2)
        with run(topic, group="back") as other:
            bridge.wait(lambda: bridge.events("partitions_revoked"))
            proxy.usual = no_fault
            bridge.wait(lambda: len(bridge.events("partitions_assigned")) > 1)
            other.wait(lambda: sorted(ids(gateway.engine, "g.back")) == [0, 1])


def test_requests_whose_answers_are_lost_land_once(cluster: MockCluster, gateway: Gateway, run: Run) -> None:
    topic = rows_topic(gateway, "g_lost", "g.lost")
    cluster.create_topic("g_lost")
    cluster.produce("g_lost", [Record(row(n)) for n in range(100)])
    with dropping_proxy(gateway.address) as proxy, run(topic, group="lost", url=proxy.url) as bridge:
        bridge.reaches("g_lost", 99)
    assert set(proxy.posted().values()) == {2}
    assert ids(gateway.engine, "g.lost") == [*range(100)]


def test_a_bridge_continues_after_what_another_one_has_sent_under_its_name(
    cluster: MockCluster, gateway: Gateway, run: Run
) -> None:
    topic = rows_topic(gateway, "g_other", "g.other")
    cluster.create_topic("g_other")
    cluster.produce("g_other", [Record(row(n)) for n in range(3)])
    with run(topic, group="other") as bridge, GatewayClient(gateway.address, ADMIN_KEY) as client:
        bridge.reaches("g_other", 2)
        other = Producer.open(client, "kafka:test/other/g_other/0", Patience(give_up_after=5))
        body = b'{"id": 3, "n": 0, "text": ""}'
        other.send(ChangeRequest("rows", body, {"table": "g.other"}, position=Position(3).text()))
        cluster.produce("g_other", [Record(row(n)) for n in range(3, 6)])
        assert bridge.reaches("g_other", 5).counters.conflicts == 1
    assert ids(gateway.engine, "g.other") == [*range(6)]


def has_met(partition: Partition, conflicts: int, newest: int) -> bool:
    """Return true after another conflict, or if the bridge was faster and its newest record is durable."""
    return partition.counters.conflicts > conflicts or partition.last_offset == newest


def test_a_bridge_that_always_finds_another_one_under_its_name_stops_with_the_choice(
    cluster: MockCluster, gateway: Gateway, run: Run
) -> None:
    topic = rows_topic(gateway, "g_fight", "g.fight")
    cluster.create_topic("g_fight")
    with run(topic, group="fight") as bridge, GatewayClient(gateway.address, ADMIN_KEY) as client:
        other = Producer.open(client, "kafka:test/fight/g_fight/0", Patience(give_up_after=5))
        partition = bridge.partition("g_fight")
        body = b'{"id": 1, "n": 0, "text": ""}'
        give_up, newest = time.monotonic() + 60, -1
        while partition.state.name != "stopped" and time.monotonic() < give_up:
            with suppress(RejectedByGateway):  # the bridge was faster
                other.refresh()
                other.send(ChangeRequest("rows", body, {"table": "g.fight"}, position=Position(-1).text()))
            conflicts = partition.counters.conflicts
            cluster.produce("g_fight", [Record(row(2))])
            newest += 1
            bridge.wait(partial(has_met, partition, conflicts, newest))
        assert partition.state.code == "producer_shared"
        assert "another `cluster` or `group`" in str(partition.state.remedy)


def test_a_wrong_key_is_reported_and_nothing_is_consumed(cluster: MockCluster, api_address: str, run: Run) -> None:
    cluster.produce("g_key", [Record(row(0))])
    wrong = {"url": api_address, "key": "mg_0000000000000009_wrong"}
    with run({"topic": "g_key", "format": "rows", "table": "g.key"}, group="key", gateway=wrong) as bridge:
        bridge.wait(lambda: bridge.bridge.reasons()[:1] == ["g_key/0 waiting: unauthenticated"])
        assert bridge.partition("g_key").buffer.bytes == 0


def test_each_partition_has_its_own_source_order_in_tables_that_enforce_it() -> None:
    rule = TopicRule(topic="t", format="replicate")
    assert [parameters_of(rule, "t", number, None)["partition"] for number in (0, 1)] == ["t/0", "t/1"]
