"""Kafka bridge: durable changes per second from a topic's messages, compared with bulk requests over HTTP."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Final, TypeVar

import msgspec

from benchmarks.bench import Bench
from benchmarks.gateway import Api, Gateway, wait_until
from benchmarks.loads.driver import load_details, load_on
from benchmarks.loads.topics import PARTITIONS, PER_PARTITION, TOPICS
from benchmarks.loads.workloads import find_workload
from benchmarks.machine.processes import run_to_end, started
from benchmarks.machine.resource_usage import ResourceUsage
from benchmarks.reports.figure import BenchmarkFailed, Figure, Goal, Measured, readable

CONNECTIONS: Final = 8
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
_LOOK_SECONDS: Final = 0.1
"""At 50 queries a second, Postgres would spend more on them than on the changes."""
_Answer = TypeVar("_Answer", int, str)


def measure(bench: Bench) -> list[Figure]:
    """Measure one bridge and the load generator on one API process, in turn, and a consumer that only reads.

    The processor time of each process is a detail: on a busy machine it tells more than the rates.
    """
    workload, per_partition = find_workload("bulk"), bench.scaled(PER_PARTITION, least=3_000)
    bridged, posted, read, costs = [], [], [], {}
    with bench.gateway() as gateway, _topics(per_partition) as source:
        api = gateway.start_api()
        api.prepare(workload)
        with load_on(api.url, gateway.key, workload.name, CONNECTIONS) as load:
            load.send(bench.seconds / 4)
            for number in bench.each_run("kafka bridge"):
                before = ResourceUsage.take(gateway, api=api.pid)
                sent = load.send(bench.seconds)
                used = ResourceUsage.take(gateway, api=api.pid).since(before)
                changes = sent.requests * workload.per_request
                posted.append(changes / sent.seconds)
                costs["processor time of a posted change"] = _costs(used, changes)
                run = _Run(gateway, api, source, f"run{number}")
                bridged.append(run.rate)
                costs["processor time of a bridged change"] = _costs(run.used, run.counted)
                read.append(_reading_rate(source, run))
    return [
        Figure(
            "kafka",
            f"Kafka bridge: durable changes of {TOPICS * PARTITIONS} partitions, messages of 1.47 kB",
            "changes/s",
            Measured.of(bridged),
            Measured.of(posted),
            f"bulk requests of {workload.per_request:,} changes over {CONNECTIONS} connections",
            Goal(0.7, at_least=True),
            load_details(sent) | costs | {"a consumer that only reads": f"{readable(median(read))} messages/s"},
        )
    ]


def _costs(used: ResourceUsage, changes: int) -> str:
    return ", ".join(f"{name} {used.microseconds(name, changes):.1f} µs" for name in used.cpu_seconds)


def _reading_rate(source: "_Source", run: "_Run") -> float:
    """Let a consumer read the same topics and do nothing with them; return its messages per second."""
    command = [sys.executable, "-m", "benchmarks.limits.reading_consumer", source.bootstrap, run.name]
    return msgspec.json.decode(run_to_end("reader", [*command, str(run.messages)]), type=float)


class _Source:
    """The process with the mock cluster."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.pid = process.pid
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
def _topics(per_partition: int) -> Iterator[_Source]:
    command = [sys.executable, "-m", "benchmarks.loads.topics", str(per_partition)]
    with started("topics", command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield _Source(process)


class _Run:
    """A new bridge that reads new topics to their end: the rate of the first 90 % that are durable, and its cost.

    The cost counts from the first durable changes on, without the start of the bridge.
    """

    def __init__(self, gateway: Gateway, api: Api, source: _Source, name: str) -> None:
        self.name = name
        self.messages = source.fill(name)
        configuration = gateway.folder / f"{name}.yaml"
        configuration.write_text(
            _CONFIGURATION.format(
                url=api.url, key=gateway.key, requests=CONNECTIONS, bootstrap=source.bootstrap, name=name
            )
        )
        began = gateway.value("SELECT clock_timestamp()")

        def staged() -> int:
            return int(gateway.value(_STAGED, began=began))

        command = [sys.executable, "-m", "app.cli", "bridge", "kafka", "--config", str(configuration)]
        with started("bridge", command, log_file=gateway.folder / f"{name}.log") as process:
            parts = {"api": api.pid, "bridge": process.pid, "cluster": source.pid}
            wait_until(lambda: staged() > 0, "the bridge has started", process, every=_LOOK_SECONDS)
            before, first = ResourceUsage.take(gateway, **parts), staged()
            wait_until(
                lambda: staged() >= self.messages, "the topics are read", process, within=300.0, every=_LOOK_SECONDS
            )
            self.used = ResourceUsage.take(gateway, **parts).since(before)
        self.counted = self.messages - first
        self.rate = float(gateway.value(_RATE, began=began))
