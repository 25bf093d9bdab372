"""Reading lines: lines of the modules for reading, strictness and fast paths, without CSV."""

from typing import Final

from benchmarks.bench import Bench
from benchmarks.reading_lines import reading_lines
from benchmarks.reports.figure import Figure, Goal, Measured, Of

MAX_LINES: Final = 900


def measure(_: Bench) -> list[Figure]:
    """Count the lines of this checkout."""
    lines = reading_lines()
    return [
        Figure(
            "reading-lines",
            "Reading, strictness and fast paths, without CSV",
            "lines",
            Measured.of([sum(lines.values())]),
            goal=Goal(MAX_LINES, at_least=False, of=Of.VALUE),
            details={"modules": str(len(lines))},
        )
    ]
