"""What /proc says of a process: memory, processor time, children."""

import os
import re
from pathlib import Path
from typing import Final

from benchmarks.figure import BenchmarkFailed

_TICKS: Final = os.sysconf("SC_CLK_TCK")


def resident(pid: int, line: str) -> float:
    """A size in /proc/<pid>/status, in MB: VmRSS is the present one, VmHWM the largest so far."""
    found = re.search(rf"^{line}:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    if found is None:
        raise BenchmarkFailed(f"/proc/{pid}/status has no {line}")
    return int(found[1]) * 1_024 / 1e6


def cpu_seconds(pid: int) -> float:
    """Processor time of all threads so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def children(pid: int) -> list[int]:
    """The processes that `pid` has started and that still run."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
