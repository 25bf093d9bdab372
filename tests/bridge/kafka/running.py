"""A Kafka bridge in the tests' process, against a mock cluster and the real gateway."""

import io
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import yaml

from mirrorgate_bridge.kafka.bridge import KafkaBridge
from mirrorgate_bridge.kafka.buffer import Choices
from mirrorgate_bridge.kafka.partition import Partition
from mirrorgate_bridge.kafka.settings import read_settings
from mirrorgate_bridge.log import BridgeLog
from mirrorgate_bridge.settings_file import LogSettings
from tests.api.calls import ADMIN_KEY, Gateway
from tests.support.kafka import MockCluster
from tests.support.samples.images import staged_rows as staged
from tests.support.waiting import wait_until

__all__ = ["staged"]

COLUMNS = {"id": "int64", "n": "int64", "text": "string"}


@dataclass
class RunningBridge:
    """A bridge whose thread runs until `stop`."""

    bridge: KafkaBridge
    lines: io.StringIO
    thread: threading.Thread

    def partition(self, topic: str, number: int = 0) -> Partition:
        """Return an assigned partition; wait for the assignment."""
        return wait_until(lambda: self.bridge.partitions.get((topic, number)), within=60, what="it is assigned")

    def reaches(self, topic: str, offset: int, number: int = 0) -> Partition:
        """Wait until the record at `offset` is durable."""
        partition = self.partition(topic, number)
        self.wait(lambda: (partition.last_offset or -1) >= offset or (partition.last_offset == offset))
        return partition

    def wait(self, condition: Callable[[], Any]) -> None:
        """Wait for a condition; fail with what the bridge has logged."""
        try:
            wait_until(condition, within=60, what="the condition of the bridge")
        except AssertionError:
            raise AssertionError(self.lines.getvalue()) from None

    def stops(self, topic: str, number: int = 0) -> Partition:
        """Wait until the partition has stopped."""
        partition = self.partition(topic, number)
        self.wait(lambda: partition.state.name == "stopped")
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
        "settings": {
            "bootstrap.servers": cluster.bootstrap,
            "session.timeout.ms": "1500",
            "heartbeat.interval.ms": "200",
            **more.pop("settings", {}),
        },
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
    log_repeat: float = 0,
    **more: Any,
) -> Iterator[RunningBridge]:
    """Run a bridge while the block runs."""
    file = folder / "bridge.yaml"
    file.write_text(settings_text(cluster, url, topics, **more))
    lines = io.StringIO()
    log = BridgeLog(LogSettings(format="json", repeat=log_repeat), lines)
    bridge = KafkaBridge(read_settings(file, {}), Choices.parse(skip, start), log, threading.Event())
    thread = threading.Thread(target=bridge.run, name="bridge")
    thread.start()
    found = RunningBridge(bridge, lines, thread)
    try:
        yield found
    finally:
        found.stop()


def row(number: int, n: int = 0, text: str = "") -> dict[str, Any]:
    """Return a row of the tests' tables."""
    return {"id": number, "n": n, "text": text}


def ids(engine: sa.Engine, table: str) -> list[int]:
    """Return the keys of the staged rows in landing order."""
    return [one["id"] for one in staged(engine, table)]


def register(gateway: Gateway, *tables: str, **options: str) -> None:
    """Register tables with the columns of the tests' records."""
    for table in tables:
        gateway.register(table, COLUMNS, ["id"], **options).raise_for_status()


def rows_topic(gateway: Gateway, topic: str, table: str, **settings: str) -> dict[str, str]:
    """Return a bridge's settings of a topic with rows of a table, which this registers."""
    register(gateway, table)
    return {"topic": topic, "format": "rows", "table": table, **settings}
