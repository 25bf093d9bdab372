"""Read memory, processor time and children of a process from /proc."""

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from benchmarks.reports.figure import BenchmarkFailed

_TICKS: Final = os.sysconf("SC_CLK_TCK")


def resident(pid: int, line: str) -> float:
    """Return a size of /proc/<pid>/status in MB: VmRSS is the current one, VmHWM the peak."""
    if (megabytes := _megabytes(pid, line)) is None:
        raise BenchmarkFailed(f"/proc/{pid}/status has no {line}")
    return megabytes


def resident_below(pid: int, line: str) -> float:
    """Return the sum of a size over all descendants; one that has ended counts as 0."""
    return sum(_megabytes(one, line) or 0.0 for one in descendants(pid))


def _megabytes(pid: int, line: str) -> float | None:
    with suppress(FileNotFoundError, ProcessLookupError):
        found = re.search(rf"^{line}:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
        return int(found[1]) * 1_024 / 1e6 if found else None
    return None


def cpu_seconds(pid: int) -> float:
    """Return the processor time of all threads so far, in seconds."""
    return sum(_ticks(pid)[:2]) / _TICKS


def tree_cpu_seconds(pid: int) -> float:
    """Return the processor seconds of a process and its descendants, those that were reaped included."""
    return sum(sum(_ticks(one)) for one in [pid, *descendants(pid)]) / _TICKS


def _ticks(pid: int) -> tuple[int, ...]:
    """Return user and system time of the process itself, then of the children that it has reaped."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return (0, 0, 0, 0)
    return tuple(map(int, fields[11:15]))


def children(pid: int) -> list[int]:
    """Return the processes that `pid` has started and that still run."""
    found = []
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            found += [int(word) for word in thread.read_text().split()]
    return found


def descendants(pid: int) -> list[int]:
    """Return the processes below `pid` that still run."""
    below = children(pid)
    return below + [one for child in below for one in descendants(child)]
