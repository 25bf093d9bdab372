"""Topics full of Arcion messages in librdkafka's mock cluster, in its own process: what the Kafka bridge reads.

Prints the cluster's addresses as a JSON line. Each line of input, a JSON text, is a name: topics `NAME-0`, `NAME-1`, …
are then filled, and the number of messages is printed. The cluster keeps 5 MB of a partition, so a run has many.
"""

import logging
import re
import sys
from typing import Final

import msgspec
from confluent_kafka import Producer

from benchmarks.loads.messages import arcion_insert, column_names
from benchmarks.loads.workloads import COLUMNS, FIRST_KEY

PARTITIONS: Final = 4
"""Of a topic that the mock cluster creates."""
PER_PARTITION: Final = 3_000
"""Messages: 4.4 MB."""
_MESSAGES: Final = 1_000


class _Lines(logging.Handler):
    """Keeps what the library logs: only a line says where the cluster listens."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line."""
        self.text += record.getMessage() + "\n"


def main(topics: int) -> None:
    """Serve the cluster until standard input ends."""
    lines = _Lines()
    logger = logging.Logger("mock")
    logger.addHandler(lines)
    producer = Producer(
        {"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "linger.ms": 50, "queue.buffering.max.kbytes": 2**20},
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
        for number in range(topics):
            _fill(producer, f"{name}-{number}", messages)
        _say(topics * PARTITIONS * PER_PARTITION)


def _fill(producer: Producer, topic: str, messages: list[bytes]) -> None:
    for number in range(PER_PARTITION):
        for partition in range(PARTITIONS):
            producer.produce(topic, messages[number % len(messages)], partition=partition)
    if producer.flush(60):
        raise TimeoutError(f"the mock cluster did not store {topic}")


def _say(value: object) -> None:
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]))
