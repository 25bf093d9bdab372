"""What the bridges read: topics of JSON and of Avro, each record with the number that it has in its partition."""

import json
from typing import Final

import msgspec

from tests.support.forms.avro import encoded
from tests.support.kafka import MockCluster, Record, RegistryDouble

COLUMNS: Final = {"partition": "int32", "number": "int64", "note": "string"}
_SCHEMA: Final = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "partition", "type": "int"},
        {"name": "number", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
    ],
}


class Source:
    """Topics `json.orders` and `avro.orders`; each goes to the table of its name."""

    def __init__(self, cluster: MockCluster, registry: RegistryDouble, partitions: int) -> None:
        self._cluster = cluster
        self._schema = registry.register("avro.orders-value", json.dumps(_SCHEMA))
        self.partitions = {"json.orders": partitions, "avro.orders": 2}
        self.produced = {(topic, at): 0 for topic, count in self.partitions.items() for at in range(count)}
        for topic, count in self.partitions.items():
            cluster.create_topic(topic, count)

    @property
    def total(self) -> int:
        """Return the number of records."""
        return sum(self.produced.values())

    def produce(self, count: int) -> None:
        """Append so many records to each partition."""
        for topic, partitions in self.partitions.items():
            records = [
                self._record(topic, at, self.produced[topic, at] + number)
                for at in range(partitions)
                for number in range(count)
            ]
            self._cluster.produce(topic, records)
        self.produced = {place: total + count for place, total in self.produced.items()}

    def _record(self, topic: str, partition: int, number: int) -> Record:
        row = {"partition": partition, "number": number, "note": "x" * (number % 50)}
        is_avro = topic.startswith("avro")
        return Record(encoded(_SCHEMA, row, self._schema) if is_avro else msgspec.json.encode(row), partition=partition)
