"""Avro records as the JSON that the gateway's endpoints read: of a schema registry, and of Replicate's metadata.

`tree` reads a schema into nodes, says what their values mean, and rebuilds the Kafka Connect schema that an Avro schema
was written from. `plan` builds what decodes and converts a record, with the functions of `values`. Everything here
takes values and returns values; decision 0052 has the reasons.
"""

from app.formats.avro.plan import DecodePlan, Style
from app.formats.avro.tree import Node, connect_schema, read_schema, unsupported

__all__ = ["DecodePlan", "Node", "Style", "connect_schema", "read_schema", "unsupported"]
