"""A Kafka bridge in the tests' process, against a mock cluster and the real gateway."""

import io
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import yaml

from app.bridge.common_settings import LogSettings
from app.bridge.kafka.bridge import KafkaBridge
from app.bridge.kafka.choices import Choices
from app.bridge.kafka.partition.partition import Partition
from app.bridge.kafka.settings import read_settings
from app.bridge.log import BridgeLog
from tests.api.calls import ADMIN_KEY, Gateway
from tests.support.ingest_harness import SELECT_BLOCKS, IngestHarness
from tests.support.kafka import MockCluster
from tests.support.waiting import wait_until

COLUMNS = {"id": "int64", "n": "int64", "text": "string"}


@dataclass
class RunningBridge:
    """A bridge whose thread runs until `stop`."""

    bridge: KafkaBridge
    lines: io.StringIO
    thread: threading.Thread

    def partition(self, topic: str, number: int = 0) -> Partition:
        """Return an assigned partition; wait for the assignment."""
        return wait_until(lambda: self.bridge.partitions.get((topic, number)), within=20, what="it is assigned")

    def reaches(self, topic: str, offset: int, number: int = 0) -> Partition:
        """Wait until the record at `offset` is durable."""
        partition = self.partition(topic, number)
        wait_until(
            lambda: partition.last_offset is not None and partition.last_offset >= offset,
            within=20,
            what=f"offset {offset} is durable: {partition.state}, {self.log()}",
        )
        return partition

    def stops(self, topic: str, number: int = 0) -> Partition:
        """Wait until the partition has stopped."""
        partition = self.partition(topic, number)
        wait_until(lambda: partition.state.name == "stopped", within=20, what=f"it stops: {partition.state}")
        return partition

    def log(self) -> list[dict[str, Any]]:
        """Return the log lines."""
        return [json.loads(line) for line in self.lines.getvalue().splitlines()]

    def events(self, event: str) -> list[dict[str, Any]]:
        """Return the log lines of one kind."""
        return [line for line in self.log() if line["event"] == event]

    def stop(self) -> None:
        """Stop as SIGTERM does."""
        self.bridge.stop.set()
        self.thread.join(30)
        assert not self.thread.is_alive()


def settings_text(cluster: MockCluster, url: str, topics: list[dict[str, Any]], **more: Any) -> str:
    """Return a bridge's file."""
    kafka = {
        "cluster": "test",
        "group": more.pop("group", "bridge"),
        "settings": {"bootstrap.servers": cluster.bootstrap, "session.timeout.ms": "6000", **more.pop("settings", {})},
    }
    file = {
        "gateway": {"url": url, "key": ADMIN_KEY},
        "kafka": kafka,
        "topics": topics,
        "batch": {"max_age": "20 ms", "max_bytes": "50 KiB"},
        "health": {"port": "0"},
        **more,
    }
    text: str = yaml.safe_dump(file)
    return text


@contextmanager
def running(
    folder: Path,
    cluster: MockCluster,
    url: str,
    topics: list[dict[str, Any]],
    *,
    skip: tuple[str, ...] = (),
    start: tuple[str, ...] = (),
    **more: Any,
) -> Iterator[RunningBridge]:
    """Run a bridge while the block runs."""
    file = folder / "bridge.yaml"
    file.write_text(settings_text(cluster, url, topics, **more))
    lines = io.StringIO()
    log = BridgeLog(LogSettings(format="json", repeat_seconds=0), lines)
    bridge = KafkaBridge(read_settings(file, {}), Choices.parse(skip, start), log, threading.Event())
    thread = threading.Thread(target=bridge.run, name="bridge")
    thread.start()
    found = RunningBridge(bridge, lines, thread)
    try:
        yield found
    finally:
        found.stop()


def staged(engine: sa.Engine, table: str) -> list[dict[str, Any]]:
    """Return the staged rows of a table in landing order."""
    assert SELECT_BLOCKS
    return IngestHarness(engine, None).rows(table)  # type: ignore[arg-type]  # reading rows needs no ingest


def register(gateway: Gateway, *tables: str, keys: list[str] | None = None) -> None:
    """Register tables with the columns of the tests' records."""
    for table in tables:
        gateway.register(table, COLUMNS, ["id"] if keys is None else keys).raise_for_status()
