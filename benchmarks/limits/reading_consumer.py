"""A consumer that only reads, `python -m benchmarks.limits.reading_consumer BOOTSTRAP NAME MESSAGES`.

It reads the topics of `benchmarks.loads.topics` with the bridge's settings of librdkafka and throws the messages away.
It prints the messages per second as a JSON line: what the cluster and librdkafka allow.
"""

import sys
import time
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from benchmarks.loads.topics import PARTITIONS, TOPICS
from mirrorgate_bridge.kafka.bridge import MAX_RECORDS_AT_A_TIME
from mirrorgate_bridge.kafka.cluster import DEFAULTS, FIXED

_MAX_SECONDS: Final = 120.0


def main(bootstrap: str, name: str, messages: int) -> None:
    """Read all messages from the first one on. Raises TimeoutError if some are missing after two minutes."""
    consumer = Consumer({**DEFAULTS, **FIXED, "bootstrap.servers": bootstrap, "group.id": "reading"})
    topics = [f"{name}-{number}" for number in range(TOPICS)]
    consumer.assign([TopicPartition(topic, partition, 0) for topic in topics for partition in range(PARTITIONS)])
    started = time.perf_counter()
    first = began = 0.0
    read = 0
    while read < messages:
        if time.perf_counter() - started > _MAX_SECONDS:
            raise TimeoutError(f"{messages - read:,} messages are missing")
        for message in consumer.consume(MAX_RECORDS_AT_A_TIME, timeout=0.05):
            if (error := message.error()) is not None:
                raise KafkaException(error)
            read += 1
        if not began and read:
            first, began = read, time.perf_counter()
    rate = (read - first) / (time.perf_counter() - began)
    sys.stdout.write(f"{rate}\n")
    sys.stdout.flush()
    consumer.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
