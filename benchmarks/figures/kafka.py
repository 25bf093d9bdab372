"""Kafka bridge: durable changes per second from a topic's messages, compared with bulk requests over HTTP."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import msgspec

from benchmarks.bench import Bench
from benchmarks.gateway import Gateway, wait_until
from benchmarks.loads.driver import load_details, load_on
from benchmarks.loads.topics import PARTITIONS
from benchmarks.loads.workloads import find_workload
from benchmarks.machine.processes import started
from benchmarks.reports.figure import BenchmarkFailed, Figure, Goal, Measured

CONNECTIONS: Final = 8
TOPICS: Final = 20
"""350 MB of messages a run, which the cluster keeps in memory to the end."""
_CONFIGURATION: Final = """
gateway: {{url: "{url}", key: "{key}", requests: {requests}}}
kafka: {{cluster: bench, settings: {{bootstrap.servers: "{bootstrap}"}}}}
health: {{port: 0}}
topics:
  - pattern: '{name}-\\d+'
    format: arcion
"""
_STAGED: Final = "SELECT coalesce(sum(change_count), 0) FROM mirrorgate.staged_blocks WHERE staged_at > :began"
_RATE: Final = """
    WITH block AS (
        SELECT staged_at, sum(change_count) OVER (ORDER BY staged_at) AS so_far, sum(change_count) OVER () AS total
        FROM mirrorgate.staged_blocks WHERE staged_at > :began)
    SELECT (max(so_far) - min(so_far)) / extract(epoch FROM max(staged_at) - min(staged_at))
    FROM block WHERE so_far <= 0.9 * total"""
"""Without the end of the topics, where each partition waits for records that do not come."""
_Answer = TypeVar("_Answer", int, str)


def measure(bench: Bench) -> list[Figure]:
    """Measure one bridge and the load generator on one API process, in turn."""
    workload, topics = find_workload("bulk"), bench.scaled(TOPICS, least=2)
    bridged, posted = [], []
    with bench.gateway() as gateway, _topics(topics) as source:
        api = gateway.start_api()
        api.prepare(workload)
        with load_on(api.url, gateway.key, workload.name, CONNECTIONS) as load:
            load.send(bench.seconds / 4)
            for number in bench.each_run("kafka bridge"):
                sent = load.send(bench.seconds)
                posted.append(sent.requests * workload.per_request / sent.seconds)
                bridged.append(_bridged(gateway, api.url, source, f"run{number}"))
    return [
        Figure(
            "kafka",
            f"Kafka bridge: durable changes of {topics * PARTITIONS} partitions, messages of 1.47 kB",
            "changes/s",
            Measured.of(bridged),
            Measured.of(posted),
            f"bulk requests of {workload.per_request:,} changes over {CONNECTIONS} connections",
            Goal(0.7, at_least=True),
            load_details(sent),
        )
    ]


class _Source:
    """The process with the mock cluster."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self.bootstrap = self._read(str)

    def fill(self, name: str) -> int:
        """Fill topics of this name; return the number of messages."""
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(name) + b"\n")
        self._process.stdin.flush()
        return self._read(int)

    def _read(self, kind: type[_Answer]) -> _Answer:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise BenchmarkFailed("the mock cluster ended early; see its errors above")
        return msgspec.json.decode(line, type=kind)


@contextmanager
def _topics(topics: int) -> Iterator[_Source]:
    command = [sys.executable, "-m", "benchmarks.loads.topics", str(topics)]
    with started("topics", command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield _Source(process)


def _bridged(gateway: Gateway, url: str, source: _Source, name: str) -> float:
    """Let a new bridge read new topics to their end; return the rate of the first 90 % that are durable."""
    messages = source.fill(name)
    configuration = gateway.folder / f"{name}.yaml"
    configuration.write_text(
        _CONFIGURATION.format(url=url, key=gateway.key, requests=CONNECTIONS, bootstrap=source.bootstrap, name=name)
    )
    began = gateway.value("SELECT clock_timestamp()")
    command = [sys.executable, "-m", "app.cli", "bridge", "kafka", "--config", str(configuration)]
    with started("bridge", command, log_file=gateway.folder / f"{name}.log") as process:
        wait_until(
            lambda: gateway.value(_STAGED, began=began) >= messages, "the topics are read", process, within=300.0
        )
    return float(gateway.value(_RATE, began=began))
