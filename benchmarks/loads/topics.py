"""Topics full of Arcion messages in librdkafka's mock cluster, in its own process: what the Kafka bridge reads.

Prints the cluster's addresses as a JSON line. Each line of input, a JSON text, is a name: the topics `NAME-0` and
`NAME-1` are then filled, and the number of messages is printed.

The cluster keeps 5 MB of a partition. Messages are compressed by lz4, as in most clusters, so that this is enough for
30,000 of them. Uncompressed it is 3,400, and a run would mostly measure how many partitions are opened.
"""

import logging
import re
import sys
from typing import Final

import msgspec
from confluent_kafka import Producer

from benchmarks.loads.messages import arcion_insert, column_names
from benchmarks.loads.workloads import COLUMNS, FIRST_KEY

TOPICS: Final = 2
PARTITIONS: Final = 4
"""Of a topic that the mock cluster creates."""
PER_PARTITION: Final = 30_000
"""Messages of a run at scale 1 and above: of more, the cluster would drop the first ones."""
_MESSAGES: Final = 1_000


class _Lines(logging.Handler):
    """Keeps what the library logs: only a line says where the cluster listens."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line."""
        self.text += record.getMessage() + "\n"


def main(per_partition: int) -> None:
    """Serve the cluster until standard input ends."""
    lines = _Lines()
    logger = logging.Logger("mock")
    logger.addHandler(lines)
    producer = Producer(
        {
            "bootstrap.servers": "mock",
            "test.mock.num.brokers": 1,
            "linger.ms": 50,
            "compression.type": "lz4",
            "queue.buffering.max.kbytes": 2**20,
            "queue.buffering.max.messages": TOPICS * PARTITIONS * PER_PARTITION,
        },
        logger=logger,
    )
    while not (found := re.search(r"replaced with (\S+)", lines.text)):
        producer.poll(0.1)
    _say(found[1])
    names = column_names(COLUMNS)
    messages = [
        msgspec.json.encode(arcion_insert("bench.bulk", names, FIRST_KEY + number)) for number in range(_MESSAGES)
    ]
    for line in sys.stdin:
        name = msgspec.json.decode(line, type=str)
        for number in range(TOPICS):
            _fill(producer, f"{name}-{number}", messages, per_partition)
        _say(TOPICS * PARTITIONS * per_partition)


def _fill(producer: Producer, topic: str, messages: list[bytes], per_partition: int) -> None:
    for number in range(per_partition):
        for partition in range(PARTITIONS):
            producer.produce(topic, messages[number % len(messages)], partition=partition)
    if producer.flush(60):
        raise TimeoutError(f"the mock cluster did not store {topic}")


def _say(value: object) -> None:
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]))
