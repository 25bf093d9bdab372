"""Kafka bridge: durable changes per second from a topic's messages, compared with bulk requests over HTTP."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import msgspec

from benchmarks.bench import Bench
from benchmarks.loads.bridges import Prepared, measure_bridge
from benchmarks.loads.topics import PARTITIONS, PER_PARTITION, TOPICS
from benchmarks.machine.processes import run_to_end, started
from benchmarks.reports.figure import BenchmarkFailed, Figure, Goal

_CONFIGURATION: Final = """
kafka: {{cluster: bench, settings: {{bootstrap.servers: "{bootstrap}"}}}}
topics:
  - pattern: '{name}-\\d+'
    format: arcion
"""
_Answer = TypeVar("_Answer", int, str)


def measure(bench: Bench) -> list[Figure]:
    """Measure one bridge and the load generator on one API process, in turn, and a consumer that only reads."""
    title = f"Kafka bridge: durable changes of {TOPICS * PARTITIONS} partitions, messages of 1.47 kB"
    per_partition = bench.scaled(PER_PARTITION, least=15_000, most=PER_PARTITION)
    with bench.gateway() as gateway, _topics(per_partition) as cluster:
        api, goal = gateway.start_api(), Goal(0.7, at_least=True)
        return [measure_bridge(bench, gateway, api, "kafka", title, cluster.prepare, goal)]


class _Cluster:
    """The process with the mock cluster."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self._bootstrap = self._read(str)

    def prepare(self, name: str) -> Prepared:
        """Fill topics of this name."""
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(name) + b"\n")
        self._process.stdin.flush()
        messages = self._read(int)
        configuration = _CONFIGURATION.format(bootstrap=self._bootstrap, name=name)
        reader = [sys.executable, "-m", "benchmarks.limits.reading_consumer", self._bootstrap, name, str(messages)]

        def read() -> float:
            return msgspec.json.decode(run_to_end("reader", reader), type=float)

        return Prepared("kafka", configuration, messages, read, {"cluster": self._process.pid})

    def _read(self, kind: type[_Answer]) -> _Answer:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise BenchmarkFailed("the mock cluster ended early; see its errors above")
        return msgspec.json.decode(line, type=kind)


@contextmanager
def _topics(per_partition: int) -> Iterator[_Cluster]:
    command = [sys.executable, "-m", "benchmarks.loads.topics", str(per_partition)]
    with started("topics", command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield _Cluster(process)
