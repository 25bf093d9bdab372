"""What the values of an Avro type mean: its logical type, or the semantic type that a Connect converter recorded.

Avro's logical types and the names of Kafka Connect and Debezium say the same things in two ways, and a converter writes
one, the other or both. Sources: Apache Avro 1.12, "Logical Types"; Kafka `org.apache.kafka.connect.data`; Debezium,
"Temporal types"; Confluent AvroConverter, `connect.name`.
"""

from collections.abc import Mapping
from typing import Final

from app.bridge.kafka.avro.tree import Node

MAX_SCALE: Final = 6_144

CONNECT_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"

_BY_CONNECT_NAME: Final = {
    CONNECT_DECIMAL: "decimal",
    "org.apache.kafka.connect.data.Date": "date",
    "org.apache.kafka.connect.data.Time": "time-millis",
    "org.apache.kafka.connect.data.Timestamp": "timestamp-millis",
    "io.debezium.time.Date": "date",
    "io.debezium.time.Time": "time-millis",
    "io.debezium.time.MicroTime": "time-micros",
    "io.debezium.time.NanoTime": "time-nanos",
    "io.debezium.time.Timestamp": "local-timestamp-millis",
    "io.debezium.time.MicroTimestamp": "local-timestamp-micros",
    "io.debezium.time.NanoTimestamp": "local-timestamp-nanos",
}

CONNECT_NAMES: Final = {
    "decimal": CONNECT_DECIMAL,
    "date": "org.apache.kafka.connect.data.Date",
    "time-millis": "org.apache.kafka.connect.data.Time",
    "timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
    "time-micros": "io.debezium.time.MicroTime",
    "timestamp-micros": "io.debezium.time.MicroTimestamp",
    "timestamp-nanos": "io.debezium.time.NanoTimestamp",
    "local-timestamp-millis": "io.debezium.time.Timestamp",
    "local-timestamp-micros": "io.debezium.time.MicroTimestamp",
    "local-timestamp-nanos": "io.debezium.time.NanoTimestamp",
}
"""The Connect name of a logical type that has none, as when the converter leaves its metadata out."""

_CARRIERS: Final = {
    "decimal": ("bytes", "fixed"),
    "date": ("int",),
    "time-millis": ("int",),
    "uuid": ("fixed",),
}
"""The types that may carry a logical type; all others are longs. Another combination means nothing, as Avro has it."""


def meaning_of(node: Node) -> str | None:
    """Return the logical type of a node's values, None if they are what they are."""
    properties = node.properties
    meaning = _BY_CONNECT_NAME.get(str(properties.get("connect.name"))) or properties.get("logicalType")
    if not isinstance(meaning, str) or node.kind not in _CARRIERS.get(meaning, ("long",)):
        return None
    if meaning == "decimal" and not 0 <= scale_of(properties) <= MAX_SCALE:
        return None
    return meaning


def scale_of(properties: Mapping[str, object]) -> int:
    """Return the scale of a decimal: Avro's property, or the parameter of Connect; -1 if neither is a number."""
    parameters = properties.get("connect.parameters")
    written = properties.get("scale", parameters.get("scale", 0) if isinstance(parameters, dict) else 0)
    try:
        return int(str(written))
    except ValueError:
        return -1
