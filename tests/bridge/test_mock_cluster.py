"""The mock cluster and the registry double do what the tests of the bridge rely on."""

import sys
from subprocess import run

import httpx
import pytest
from confluent_kafka import Consumer, KafkaException

from tests.support.kafka import MockCluster, Record, framed, kafka_cluster, registry_double
from tests.support.waiting import wait_until

_CONSUME = """
import sys
from confluent_kafka import Consumer
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "other", "auto.offset.reset": "earliest"})
consumer.subscribe(["orders"])
message = consumer.poll(20)
print(message.key(), message.value(), message.headers())
consumer.commit(message, asynchronous=False)
consumer.close()
"""


def consumed(cluster: MockCluster, topic: str, count: int, group: str = "group") -> list[tuple[int, bytes]]:
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": group, "auto.offset.reset": "earliest", "log_level": 0}
    )
    consumer.subscribe([topic])
    found: list[tuple[int, bytes]] = []

    def complete() -> bool:
        messages = consumer.consume(count, timeout=0.05)
        found.extend((message.offset(), message.value()) for message in messages if message.error() is None)
        return len(found) >= count

    try:
        wait_until(complete, within=60, what=f"{count} messages are read")
    finally:
        consumer.close()
    return found


def test_another_process_reads_what_was_produced_and_its_group_keeps_the_offset() -> None:
    with kafka_cluster() as cluster:
        cluster.create_topic("orders")
        assert cluster.produce("orders", [Record({"a": 1}, key="k", headers={"h": b"v"})]) == [0]
        command = [sys.executable, "-c", _CONSUME, cluster.bootstrap]
        printed = run(command, capture_output=True, text=True, check=True).stdout
        assert printed == """b'"k"' b'{"a":1}' [('h', b'v')]\n"""
        assert cluster.committed("other", "orders") == 1


def test_records_are_deleted_by_retention_and_offsets_begin_again_in_a_new_topic() -> None:
    with kafka_cluster(brokers=1) as cluster:
        cluster.create_topic("orders", partitions=2)
        assert cluster.produce("orders", [Record(b"%d" % n, partition=n % 2) for n in range(6)]) == [0, 0, 1, 1, 2, 2]
        cluster.delete_records("orders", 1, before=2)
        assert cluster.offsets("orders", 1) == (2, 3)
        cluster.delete_topic("orders")
        cluster.create_topic("orders")
        assert cluster.offsets("orders") == (0, 0)


def test_messages_survive_a_broker_that_stops() -> None:
    with kafka_cluster(brokers=1) as cluster:
        cluster.create_topic("orders")
        cluster.produce("orders", [Record(b"1")])
        cluster.stop_broker()
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g", "log_level": 0})
        with pytest.raises(KafkaException):
            consumer.list_topics(timeout=0.1)
        consumer.close()
        cluster.start_broker()
        assert consumed(cluster, "orders", 1) == [(0, b"1")]


def test_the_registry_answers_by_id_and_by_subject_with_the_codes_of_the_real_one() -> None:
    with registry_double() as registry, httpx.Client(base_url=registry.url, trust_env=False) as client:
        first = client.post("/subjects/orders-value/versions", json={"schema": '"string"'}).json()
        assert first == {"id": registry.register("orders-value", '"string"')} == {"id": 1}
        assert registry.register("orders-value", {"type": "object"}, "JSON") == 2
        assert client.get("/schemas/ids/1").json() == {"schema": '"string"'}
        assert client.get("/schemas/ids/2").json() == {"schema": '{"type":"object"}', "schemaType": "JSON"}
        assert client.get("/subjects/orders-value/versions/latest").json()["id"] == 2
        assert client.get("/schemas/ids/3").json()["error_code"] == 40403
        assert client.get("/subjects/other/versions/1").json()["error_code"] == 40401
        registry.require_basic("user", "secret")
        assert client.get("/subjects").status_code == 401
        assert client.get("/subjects", auth=("user", "secret")).json() == ["orders-value"]
        registry.away = True
        assert client.get("/subjects", auth=("user", "secret")).status_code == 503
    assert framed(258, b"x") == b"\x00\x00\x00\x01\x02x"
