"""Drive the process of the load generator, and show that it is not the bottleneck."""

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

from benchmarks.loads.client import LoadCommand, LoadResult, Target
from benchmarks.machine.processes import started
from benchmarks.reports.figure import BenchmarkFailed, readable

Answer = TypeVar("Answer")


@dataclass
class Load:
    """A load generator that has built its requests and knows its server."""

    process: "subprocess.Popen[bytes]"

    def send(self, seconds: float) -> LoadResult:
        """Send the workload's requests again and again for `seconds`.

        Raises BenchmarkFailed when one is rejected.
        """
        return self._run(LoadCommand(seconds))

    def send_each_once(self) -> LoadResult:
        """Send each different request of the workload once."""
        return self._run(LoadCommand())

    def send_empty(self, seconds: float) -> LoadResult:
        """Send requests to an endpoint that does nothing, over the same connections."""
        return self._run(LoadCommand(seconds, empty=True))

    def _run(self, command: LoadCommand) -> LoadResult:
        assert self.process.stdin is not None
        self.process.stdin.write(msgspec.json.encode(command) + b"\n")
        self.process.stdin.flush()
        sent = _read(self.process, LoadResult)
        if sent.rejected:
            raise BenchmarkFailed(f"the server rejected a request: {sent.rejected}")
        if not sent.requests:
            raise BenchmarkFailed("the server answered no request in time")
        return sent


@contextmanager
def load_on(url: str, key: str, workload: str, connections: int, *, pipelined: int = 1) -> Iterator[Load]:
    """Start a load generator in its own process; it ends with the block."""
    parts = urlsplit(url)
    target = Target(str(parts.hostname), int(parts.port or 80), key, workload, connections, pipelined)
    command = [sys.executable, "-m", "benchmarks.loads.client"]
    with started("load", command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(msgspec.json.encode(target) + b"\n")
        process.stdin.flush()
        _read(process, str)
        yield Load(process)


def send_at_once(loads: Sequence[Load], seconds: float) -> list[LoadResult]:
    """Send from all load generators at the same time; return what each sent."""
    with ThreadPoolExecutor(len(loads)) as threads:
        return list(threads.map(lambda load: load.send(seconds), loads))


@contextmanager
def limit_server(module: str) -> Iterator[str]:
    """Yield the address of a server of `benchmarks.limits`: empty_server, raw_asgi or bare_fastapi."""
    with started(module, [sys.executable, "-m", f"benchmarks.limits.{module}"], stdout=subprocess.PIPE) as process:
        yield f"http://127.0.0.1:{_read(process, int)}"


def ceiling(workload: str, connections: int, seconds: float) -> float:
    """Return the requests per second of the load generator itself, against a server that does nothing."""
    with limit_server("empty_server") as url, load_on(url, "none", workload, connections) as load:
        load.send(seconds / 4)
        sent = load.send(seconds)
    return sent.requests / sent.seconds


def percentile(sorted_values: Sequence[float], share: float) -> float:
    """Return the nearest-rank percentile of values in ascending order."""
    return sorted_values[max(0, math.ceil(share * len(sorted_values)) - 1)]


def load_details(sent: LoadResult) -> dict[str, str]:
    """Describe latencies, and how busy the load generator was."""
    latencies = sorted(sent.latencies)
    return {
        "latency, median": f"{percentile(latencies, 0.5) * 1e3:.2f} ms",
        "latency, 99 %": f"{percentile(latencies, 0.99) * 1e3:.2f} ms",
        "load generator": f"{sent.cpu_seconds / sent.seconds:.0%} of a core",
    }


def ceiling_details(workload: str, connections: int, seconds: float) -> dict[str, str]:
    """Describe the maximum rate of the load generator itself."""
    return {"load generator's ceiling": f"{readable(ceiling(workload, connections, seconds))} requests/s"}


def _read(process: "subprocess.Popen[bytes]", kind: type[Answer]) -> Answer:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise BenchmarkFailed("a process of the benchmark ended early; see its errors above")
    return msgspec.json.decode(line, type=kind)
