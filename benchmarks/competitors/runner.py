"""Running the peers: their input, their environments, their figures."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.loads.workloads import Workload
from benchmarks.machine.processes import run_to_end
from benchmarks.machine.venv import own_environment

DLT: Final = "dlt[filesystem,parquet]==1.31.0"
PANDAS: Final = ("pandas==2.3.3", "pyarrow==26.0.1")
CHANGES_PER_FILE: Final = 8_000


class PeerOrder(msgspec.Struct, frozen=True):
    """Read the NDJSON files of `source`, write Parquet below `target`, for so many seconds."""

    source: str
    target: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Peer:
    """A program that takes a PeerOrder on standard input and prints its changes a second."""

    name: str
    module: str
    packages: tuple[str, ...] = ()
    """Installed into an environment of its own; without any it has the suite's own."""

    def rate(self, order: PeerOrder, environment: Mapping[str, str]) -> float:
        """Changes a second. Raises BenchmarkFailed when the program fails, or cannot be installed."""
        python = own_environment(self.module, self.packages) if self.packages else sys.executable
        command = [str(python), "-m", f"benchmarks.competitors.{self.module}"]
        said = run_to_end(self.name, command, given=msgspec.json.encode(order), environment=environment)
        return float(said.split()[-1])


def find_peers() -> list[Peer]:
    return [
        Peer("a json and pandas script", "json_pandas", PANDAS),
        Peer("Spark's own JSON to Parquet", "spark_json"),
        Peer("dlt", "dlt_pipeline", (DLT,)),
    ]


def write_source(workload: Workload, folder: Path) -> None:
    """The workload's changes as NDJSON files of a fair size."""
    folder.mkdir(parents=True)
    lines = [line for body in workload.bodies() for line in msgspec.json.decode(body, type=list[msgspec.Raw])]
    for number, first in enumerate(range(0, len(lines), CHANGES_PER_FILE)):
        part = lines[first : first + CHANGES_PER_FILE]
        (folder / f"{number:03d}.json").write_bytes(b"\n".join(map(bytes, part)) + b"\n")
