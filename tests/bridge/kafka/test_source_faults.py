"""Brokers that are away, topics that are missing, recreated, cut off or repartitioned: waiting, or a reason to stop."""

from confluent_kafka import KafkaError

from tests.api.calls import Gateway
from tests.bridge.kafka.conftest import Run
from tests.bridge.kafka.running import ids, row, rows_topic
from tests.support.kafka import MockCluster, Record, kafka_cluster

FETCH = 1
"""The number of the request in Kafka's protocol."""


def test_a_topic_with_lower_offsets_stops_until_the_operator_chooses(
    cluster: MockCluster, gateway: Gateway, run: Run
) -> None:
    topic = rows_topic(gateway, "again", "f.again")
    cluster.create_topic("again")
    cluster.produce("again", [Record(row(n)) for n in range(5)])
    with run(topic) as bridge:
        bridge.reaches("again", 4)
    cluster.delete_topic("again")
    cluster.create_topic("again")
    cluster.produce("again", [Record(row(n)) for n in (10, 11)])
    with run(topic) as bridge:
        assert bridge.stops("again").state.code == "source_position_lost"
        assert "--from TOPIC/PARTITION@earliest" in bridge.events("partition_stopped")[0]["remedy"]
    assert ids(gateway.engine, "f.again") == [*range(5)]
    for number in (12, 13):  # the option stays on a service's command line, and applies once
        with run(topic, start=("again/0@earliest",)) as bridge:
            bridge.reaches("again", 1)
            [offset] = cluster.produce("again", [Record(row(number))])
            bridge.reaches("again", offset)
    assert ids(gateway.engine, "f.again") == [*range(5), 10, 11, 12, 13]


def test_offsets_that_retention_deleted_unread_stop_it(cluster: MockCluster, gateway: Gateway, run: Run) -> None:
    topic = rows_topic(gateway, "gap", "f.gap")
    cluster.create_topic("gap")
    cluster.produce("gap", [Record(row(0))])
    with run(topic) as bridge:
        bridge.reaches("gap", 0)
    cluster.produce("gap", [Record(row(n)) for n in range(1, 10)])
    cluster.delete_records("gap", 0, 5)
    with run(topic) as bridge:
        assert "4 offsets from 1 on are deleted" in str(bridge.stops("gap").state.detail)
    with run(topic, start=("gap/*@earliest",)) as bridge:
        bridge.reaches("gap", 9)
    assert ids(gateway.engine, "f.gap") == [0, *range(5, 10)]


def test_a_changed_number_of_partitions_stops_until_it_is_accepted(
    cluster: MockCluster, gateway: Gateway, run: Run
) -> None:
    topic = rows_topic(gateway, "more", "f.more")
    cluster.create_topic("more", 1)
    cluster.produce("more", [Record(row(0))])
    with run(topic) as bridge:
        bridge.reaches("more", 0)
    cluster.delete_topic("more")
    cluster.create_topic("more", 2)
    cluster.produce("more", [Record(row(0)), Record(row(1))])
    with run(topic) as bridge:
        for number in (0, 1):
            assert bridge.stops("more", number).state.code == "source_order_unsafe"
    with run({**topic, "partitions": 2}) as bridge:
        bridge.reaches("more", 1)
        bridge.wait(lambda: bridge.partition("more", 1).reads)
    assert ids(gateway.engine, "f.more") == [0, 1]


def test_a_missing_topic_is_reported_and_read_once_it_exists(cluster: MockCluster, gateway: Gateway, run: Run) -> None:
    topic = rows_topic(gateway, "absent", "f.absent")
    with run(topic) as bridge:
        bridge.wait(lambda: any("topic absent" in reason for reason in bridge.bridge.reasons()))
        cluster.create_topic("absent")
        cluster.produce("absent", [Record(row(1))])
        bridge.reaches("absent", 0)
        bridge.wait(lambda: not bridge.bridge.reasons())
    assert ids(gateway.engine, "f.absent") == [1]


def test_brokers_that_are_away_are_waited_for_and_reported(cluster: MockCluster, gateway: Gateway, run: Run) -> None:
    topic = rows_topic(gateway, "away", "f.away")
    cluster.create_topic("away")
    cluster.produce("away", [Record(row(0))])
    with run(topic, settings={"reconnect.backoff.max.ms": "200"}) as bridge:
        bridge.reaches("away", 0)
        cluster.stop_broker()
        bridge.wait(lambda: any("source_unavailable" in reason for reason in bridge.bridge.reasons()))
        cluster.start_broker()
        cluster.produce("away", [Record(row(1))])
        bridge.reaches("away", 1)
        bridge.wait(lambda: not bridge.bridge.reasons())
    assert ids(gateway.engine, "f.away") == [0, 1]


def test_a_topic_that_is_created_again_while_it_is_read_stops_and_names_the_choices_at_the_next_start(
    cluster: MockCluster, gateway: Gateway, run: Run
) -> None:
    topic = rows_topic(gateway, "live", "f.live")
    cluster.create_topic("live")
    cluster.produce("live", [Record(row(n)) for n in range(5)])
    with run(topic, settings={"topic.metadata.refresh.interval.ms": "200"}) as bridge:
        bridge.reaches("live", 4)
        cluster.delete_topic("live")
        cluster.create_topic("live")
        cluster.produce("live", [Record(row(10))])
        assert bridge.stops("live").state.code == "source_position_lost"


def test_a_longer_topic_under_the_same_name_is_known_by_its_id(gateway: Gateway, run: Run) -> None:
    topic = rows_topic(gateway, "longer", "f.longer")
    with kafka_cluster(1, topic_ids=True) as cluster:
        cluster.create_topic("longer")
        cluster.produce("longer", [Record(row(0))])
        with run(topic, settings={"bootstrap.servers": cluster.bootstrap}) as bridge:
            bridge.reaches("longer", 0)
            cluster.delete_topic("longer")
            cluster.create_topic("longer")
            cluster.produce("longer", [Record(row(n)) for n in (1, 2)])
            assert bridge.stops("longer").state.code == "source_position_lost"


def test_a_number_of_partitions_that_changes_while_they_are_read_stops_them(
    cluster: MockCluster, gateway: Gateway, run: Run
) -> None:
    topic = rows_topic(gateway, "grows", "f.grows")
    cluster.create_topic("grows")
    cluster.produce("grows", [Record(row(0))])
    with run(topic) as bridge:
        bridge.reaches("grows", 0)
        bridge.bridge.take_counts({"grows": 2})  # what the watch hands over; the mock cluster cannot add partitions
        assert bridge.stops("grows").state.code == "source_order_unsafe"


def test_a_right_that_is_missing_is_reported(cluster: MockCluster, gateway: Gateway, run: Run) -> None:
    topic = rows_topic(gateway, "right", "f.right")
    cluster.create_topic("right")
    with run(topic) as bridge:
        bridge.wait(lambda: bridge.partition("right").reads)
        cluster.fail_requests(FETCH, [KafkaError.TOPIC_AUTHORIZATION_FAILED])
        bridge.wait(lambda: any("TOPIC_AUTHORIZATION_FAILED" in reason for reason in bridge.bridge.reasons()))
