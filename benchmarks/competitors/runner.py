"""Run the competitors: their input, their virtual environments, their rates."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.loads.workloads import Workload
from benchmarks.machine.processes import run_to_end
from benchmarks.machine.venv import venv_python

DLT: Final = "dlt[filesystem,parquet]==1.31.0"
PANDAS: Final = ("pandas==2.3.3", "pyarrow==26.0.1")
CHANGES_PER_FILE: Final = 8_000


class ConversionJob(msgspec.Struct, frozen=True):
    """Read the NDJSON files of `source` and write Parquet below `target`, for `seconds`."""

    source: str
    target: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Competitor:
    """A program that takes a ConversionJob on standard input and prints its changes per second."""

    name: str
    module: str
    packages: tuple[str, ...] = ()
    """Installed into a virtual environment; without any, the program runs in the suite's own."""

    def rate(self, job: ConversionJob, environment: Mapping[str, str]) -> float:
        """Return changes per second.

        Raises BenchmarkFailed when the program fails or cannot be installed.
        """
        python = venv_python(self.module, self.packages) if self.packages else sys.executable
        command = [str(python), "-m", f"benchmarks.competitors.{self.module}"]
        output = run_to_end(self.name, command, given=msgspec.json.encode(job), environment=environment)
        return float(output.split()[-1])


def find_competitors() -> list[Competitor]:
    """Return all competitors."""
    return [
        Competitor("a json and pandas script", "json_pandas", PANDAS),
        Competitor("Spark's own JSON to Parquet", "spark_json"),
        Competitor("dlt", "dlt_pipeline", (DLT,)),
    ]


def write_source(workload: Workload, folder: Path) -> None:
    """Write the workload's changes as NDJSON files of 8,000 changes each."""
    folder.mkdir(parents=True)
    lines = [line for body in workload.bodies() for line in msgspec.json.decode(body, type=list[msgspec.Raw])]
    for number, first in enumerate(range(0, len(lines), CHANGES_PER_FILE)):
        part = lines[first : first + CHANGES_PER_FILE]
        (folder / f"{number:03d}.json").write_bytes(b"\n".join(map(bytes, part)) + b"\n")
