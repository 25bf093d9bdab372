"""A Kafka cluster inside the tests' process: librdkafka's mock cluster, which other processes reach on 127.0.0.1.

It is not a broker: it keeps the newest 5 MB or 100,000 messages of a partition, knows no ACLs, compaction or admin
requests, gives the records of aborted transactions, and has no listener with TLS. It does have consumer groups with
rebalances, offsets, headers and lost brokers.
"""

import ctypes
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, Message, Producer, TopicPartition

from tests.support.kafka import librdkafka

ALL_BROKERS: Final = -1
_WITHIN: Final = 60.0


@dataclass(frozen=True, slots=True)
class Record:
    """A message to produce; `key` and `value` are bytes, or anything that becomes JSON, or None for null."""

    value: Any
    key: Any = None
    partition: int = 0
    headers: Mapping[str, bytes] = field(default_factory=dict)


class MockCluster:
    """A running cluster; `bootstrap` is its `bootstrap.servers`."""

    def __init__(self, library: ctypes.CDLL, cluster: int) -> None:
        self._library = library
        self._cluster = cluster
        self.bootstrap: str = library.rd_kafka_mock_cluster_bootstraps(cluster).decode()
        self._producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 0, "log_level": 0})

    def create_topic(self, topic: str, partitions: int = 1) -> None:
        """Create a topic; a topic that a client names is created too, with 4 partitions."""
        self._checked(self._library.rd_kafka_mock_topic_create(self._cluster, topic.encode(), partitions, 1))

    def delete_topic(self, topic: str) -> None:
        """Delete a topic; created again, its offsets begin at 0."""
        self._checked(self._library.rd_kafka_mock_topic_delete(self._cluster, topic.encode()))

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Delete the messages below the offset `before`, as retention does."""
        call = self._library.rd_kafka_mock_partition_delete_records
        self._checked(call(self._cluster, topic.encode(), partition, before))

    def stop_broker(self, broker: int = ALL_BROKERS) -> None:
        """Disconnect a broker (1, 2, …) and let it refuse connections; its messages stay."""
        self._checked(self._library.rd_kafka_mock_broker_set_down(self._cluster, broker))

    def start_broker(self, broker: int = ALL_BROKERS) -> None:
        """Let a stopped broker accept connections again."""
        self._checked(self._library.rd_kafka_mock_broker_set_up(self._cluster, broker))

    def fail_requests(self, api_key: int, errors: Sequence[int]) -> None:
        """Answer the next requests of this kind (1 is Fetch, 8 OffsetCommit) with these codes of `KafkaError`."""
        array = (ctypes.c_int * len(errors))(*errors)
        self._library.rd_kafka_mock_push_request_errors_array(self._cluster, api_key, len(errors), array)

    def produce(self, topic: str, records: Iterable[Record]) -> list[int]:
        """Append the records; return their offsets, in the order of `records`, when all are stored."""
        delivered: dict[int, int] = {}
        count = 0
        for number, record in enumerate(records):
            self._send(topic, record, number, delivered)
            count += 1
        self._producer.flush(_WITHIN)
        assert len(delivered) == count, f"the cluster stored {len(delivered)} of {count} messages"
        return [delivered[number] for number in range(count)]

    def offsets(self, topic: str, partition: int = 0) -> tuple[int, int]:
        """Return the first offset of the partition and the offset after its last message."""
        with self._asking("tests") as consumer:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_WITHIN)
            return low, high

    def committed(self, group: str, topic: str, partition: int = 0) -> int | None:
        """Return the offset that the group has committed for the partition."""
        with self._asking(group) as consumer:
            [found] = consumer.committed([TopicPartition(topic, partition)], timeout=_WITHIN)
            return None if found.offset == OFFSET_INVALID else int(found.offset)

    def _send(self, topic: str, record: Record, number: int, delivered: dict[int, int]) -> None:
        def note(error: KafkaError | None, message: Message) -> None:
            assert error is None, error.str()
            delivered[number] = message.offset()

        while True:
            try:
                self._producer.produce(
                    topic,
                    value=_bytes(record.value),
                    key=_bytes(record.key),
                    partition=record.partition,
                    headers=list(record.headers.items()),
                    on_delivery=note,
                )
            except BufferError:
                self._producer.poll(0.1)
            else:
                self._producer.poll(0)
                return

    @contextmanager
    def _asking(self, group: str) -> Iterator[Consumer]:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group, "log_level": 0})
        try:
            yield consumer
        finally:
            consumer.close()

    def _checked(self, error: int) -> None:
        assert error == 0, self._library.rd_kafka_err2str(error).decode()


@contextmanager
def kafka_cluster(brokers: int = 3, *, topic_ids: bool = False) -> Iterator[MockCluster]:
    """Run a cluster while the block runs. A group that begins waits 50 ms for more members, not 3 s.

    With `topic_ids` broker 1 is the controller, which tells the ids of topics, as brokers since Kafka 2.8 do.
    """
    library = librdkafka.load()
    handle = librdkafka.new_handle(library)
    cluster = library.rd_kafka_mock_cluster_new(handle, brokers)
    try:
        library.rd_kafka_mock_group_initial_rebalance_delay_ms(cluster, 50)
        if topic_ids:
            library.rd_kafka_mock_set_controller_id(cluster, 1)
        yield MockCluster(library, cluster)
    finally:
        library.rd_kafka_mock_cluster_destroy(cluster)
        library.rd_kafka_destroy(handle)


def _bytes(value: Any) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else msgspec.json.encode(value)
