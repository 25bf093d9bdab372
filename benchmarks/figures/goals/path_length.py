"""Path length: functions and modules that a body passes from the head of its POST to the insert, by format."""

import sys
from typing import Final

import msgspec

from benchmarks.bench import Bench
from benchmarks.machine.processes import run_to_end
from benchmarks.path_length import WORKLOADS, PathLength
from benchmarks.reports.figure import Figure, Goal, Measured, Of

MAX_FUNCTIONS: Final = 70
MAX_MODULES: Final = 22


def measure(bench: Bench) -> list[Figure]:
    """Count once, in a separate process: the path does not depend on time."""
    figures = []
    for source_format in WORKLOADS:
        bench.show_status(f"path length, {source_format}")
        command = [sys.executable, "-m", "benchmarks.path_length", source_format, "--json"]
        path = msgspec.json.decode(run_to_end("path length", command), type=PathLength)
        figures += [
            _count(source_format, "functions", path.functions, MAX_FUNCTIONS),
            _count(source_format, "modules", len(path.modules), MAX_MODULES),
        ]
    return figures


def _count(source_format: str, what: str, found: int, most: int) -> Figure:
    return Figure(
        f"{source_format}-{what}",
        f"Path of {'an Arcion' if source_format == 'arcion' else 'a Replicate'} body from POST to INSERT",
        what,
        Measured.of([found]),
        goal=Goal(most, at_least=False, of=Of.VALUE),
    )
