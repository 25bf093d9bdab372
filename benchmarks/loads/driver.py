"""Driving the load generator's process, and what it says of itself: that it is not the bottleneck."""

import math
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from benchmarks.loads.client import Order, Sent, Target
from benchmarks.machine.processes import started
from benchmarks.reports.figure import BenchmarkFailed, readable

Answer = TypeVar("Answer")


@dataclass
class Load:
    """A load generator whose requests are made and whose server is known."""

    process: "subprocess.Popen[bytes]"

    def send(self, seconds: float) -> Sent:
        """Send the workload's requests again and again for so long. Raises BenchmarkFailed when one is rejected."""
        return self._order(Order(seconds))

    def send_each_once(self) -> Sent:
        return self._order(Order())

    def send_empty(self, seconds: float) -> Sent:
        """The same connections, to an endpoint that does nothing."""
        return self._order(Order(seconds, empty=True))

    def _order(self, order: Order) -> Sent:
        assert self.process.stdin is not None
        self.process.stdin.write(msgspec.json.encode(order) + b"\n")
        self.process.stdin.flush()
        sent = _read(self.process, Sent)
        if sent.rejected:
            raise BenchmarkFailed(f"the server rejected a request: {sent.rejected}")
        if not sent.requests:
            raise BenchmarkFailed("the server answered no request in time")
        return sent


@contextmanager
def load_on(url: str, key: str, workload: str, connections: int, *, pipelined: int = 1) -> Iterator[Load]:
    """A load generator in a process of its own; it ends with the block."""
    parts = urlsplit(url)
    target = Target(str(parts.hostname), int(parts.port or 80), key, workload, connections, pipelined)
    command = [sys.executable, "-m", "benchmarks.loads.client"]
    with started("load", command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(msgspec.json.encode(target) + b"\n")
        process.stdin.flush()
        _read(process, str)
        yield Load(process)


def send_at_once(loads: Sequence[Load], seconds: float) -> list[Sent]:
    """What all load generators sent meanwhile."""
    with ThreadPoolExecutor(len(loads)) as threads:
        return list(threads.map(lambda load: load.send(seconds), loads))


@contextmanager
def empty_server() -> Iterator[str]:
    """The address of a server that answers every request at once without looking at it."""
    with started("sink", [sys.executable, "-m", "benchmarks.limits.empty_server"], stdout=subprocess.PIPE) as process:
        yield f"http://127.0.0.1:{_read(process, int)}"


def ceiling(workload: str, connections: int, seconds: float) -> float:
    """Requests a second that the load generator itself manages, against a server that does nothing."""
    with empty_server() as url, load_on(url, "none", workload, connections) as load:
        load.send(seconds / 4)
        sent = load.send(seconds)
    return sent.requests / sent.seconds


def percentile(sorted_values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile of values in ascending order."""
    return sorted_values[max(0, math.ceil(share * len(sorted_values)) - 1)]


def described(sent: Sent) -> dict[str, str]:
    """Latencies, and how busy the load generator was."""
    latencies = sorted(sent.latencies)
    return {
        "latency, median": f"{percentile(latencies, 0.5) * 1e3:.2f} ms",
        "latency, 99 %": f"{percentile(latencies, 0.99) * 1e3:.2f} ms",
        "load generator": f"{sent.cpu_seconds / sent.seconds:.0%} of a core",
    }


def described_ceiling(workload: str, connections: int, seconds: float) -> dict[str, str]:
    return {"load generator's ceiling": f"{readable(ceiling(workload, connections, seconds))} requests/s"}


def _read(process: "subprocess.Popen[bytes]", kind: type[Answer]) -> Answer:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise BenchmarkFailed("a process of the benchmark ended early; its errors stand above")
    return msgspec.json.decode(line, type=kind)
