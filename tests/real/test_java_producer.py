"""Java's producer writes rows and tombstones with several settings, and the Kafka bridge reads them."""

import json
from pathlib import Path
from typing import Any, Final

from tests.bridge.kafka.running import COLUMNS, running
from tests.model.gateway import Gateway
from tests.real.counterparts import jar_version, real_python
from tests.real.debezium import java_environment, landed, mirrored, verify_zone
from tests.real.report import Report
from tests.support.kafka import MockCluster
from tests.support.processes import succeeded

PRODUCER: Final = Path(__file__).with_name("java_producer.py")
PARTITIONS: Final = 3
SETTINGS: Final[dict[str, dict[str, str]]] = {
    **{kind: {"compression.type": kind} for kind in ("none", "gzip", "snappy", "lz4", "zstd")},
    "batched": {"linger.ms": "100", "batch.size": "200000", "compression.type": "zstd"},
    "unordered": {"enable.idempotence": "false", "acks": "1"},
    "transaction": {"transactional.id": "writer"},
}
"""Of the producer, by the topic that it writes."""


def changes() -> list[tuple[int, dict[str, Any] | None]]:
    """Return the id and the row of each record: rows, newer versions of some, and tombstones of others."""
    texts = ("", "null", "\u00e9\U0001f600", 'a"\\\n', "x" * 20_000, None)
    rows = [{"id": number, "n": number**5, "text": texts[number % 6]} for number in range(60)]
    newer = [row | {"n": -1, "text": "newer"} for row in rows[::3]]
    return [*[(row["id"], row) for row in (*rows, *newer)], *[(number, None) for number in range(1, 60, 4)]]


def produce(folder: Path, bootstrap: str) -> None:
    """Write the changes to each topic, with the name of their schema in a header."""
    records = [(json.dumps({"id": number}), None if row is None else json.dumps(row)) for number, row in changes()]
    writers = [
        {"settings": chosen, "records": [(topic, *record, {"schema": "java"}) for record in records]}
        for topic, chosen in SETTINGS.items()
    ]
    (folder / "producer.json").write_text(json.dumps({"bootstrap": bootstrap, "writers": writers}))
    succeeded(real_python(), PRODUCER, folder / "producer.json", environment=java_environment(folder), timeout=300)


def test_what_the_producer_writes_lands_with_its_keys_headers_and_tombstones(
    gateway: Gateway, cluster: MockCluster, tmp_path: Path, report: Report
) -> None:
    for topic in SETTINGS:
        cluster.create_topic(topic, PARTITIONS)
        gateway.register(f"java.{topic}", COLUMNS)
    produce(tmp_path, cluster.bootstrap)
    rule = {"pattern": r"(?P<name>\w+)", "format": "rows", "table": "{header.schema}.{name}"}
    wanted = {(number,): row for number, row in dict(changes()).items() if row is not None}

    def has_landed(topic: str) -> bool:
        assert not bridge.events("partition_stopped"), bridge.lines.getvalue()
        folder = gateway.zone / "java.schema" / topic
        return folder.exists() and landed(gateway, f"java.{topic}", "id", strict=False) == wanted

    with running(tmp_path, cluster, gateway.url, [rule]) as bridge:
        gateway.until(lambda: all(has_landed(topic) for topic in SETTINGS), "each topic lands")
    for topic in SETTINGS:
        assert mirrored(gateway, f"java.{topic}", "id") == wanted
    verify_zone(gateway)
    report.add(f"Java's Kafka producer {jar_version('kafka-clients')}", len(wanted) * len(SETTINGS))
