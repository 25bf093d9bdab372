"""What bridges read from in tests: librdkafka's mock cluster, and a double of the Confluent Schema Registry."""

from tests.support.kafka.cluster import MockCluster, Record, kafka_cluster
from tests.support.kafka.registry import RegistryDouble, framed, registry_double

__all__ = ["MockCluster", "Record", "RegistryDouble", "framed", "kafka_cluster", "registry_double"]
