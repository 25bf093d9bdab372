"""The reason that a child process ended, and its supervisor's pause before the next start.

`mirrorgate up` uses this for its children, and an API of several processes for those.
"""

import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

STABLE_SECONDS: Final = 30.0
"""A process that ran this long is not in a restart loop."""

_FIRST_DELAY: Final = 0.2
_MAX_DELAY: Final = 10.0
_FREE_RESTARTS: Final = 3
"""Number of ends in a row by a signal, or after the process has served, that are not a restart loop yet."""

_CGROUPS: Final = Path("/sys/fs/cgroup")
_OWN_CGROUP: Final = Path("/proc/self/cgroup")


class RestartDelays:
    """The waits before the restarts of one process: short, and twice as long after each early end in a loop."""

    def __init__(self) -> None:
        self.failures = 0
        """Number of ends in a row soon after the start."""

    def next_delay(self, *, lived_seconds: float, is_accident: bool) -> float:
        """Return the seconds to wait after one more end.

        `is_accident`: the process was ended by a signal, or had served. The first three of these in a row restart the
        process at once, because an operator's kill or a lack of memory says nothing about the next start.
        """
        self.failures = 1 if lived_seconds >= STABLE_SECONDS else self.failures + 1
        beyond = self.failures - (_FREE_RESTARTS if is_accident else 1)
        return float(min(_FIRST_DELAY * 2 ** max(beyond, 0), _MAX_DELAY))


class EndReasons:
    """Reasons why processes ended, and whether the kernel killed one for lack of memory since the last question."""

    def __init__(self, counters: Sequence[Path] | None = None) -> None:
        """Remember the present count of kills. `counters`: the files that may have it, for tests."""
        self._counters = _oom_counters() if counters is None else counters
        self._kills = self._count()

    def describe(self, exit_status: int) -> str:
        """Return the reason for an end: the exit code, or the name of the signal if `exit_status` is negative."""
        before, self._kills = self._kills, self._count()
        known = before is not None and self._kills is not None
        by_kernel = before is not None and self._kills is not None and self._kills > before
        reason = f"killed by {_signal_name(-exit_status)}" if exit_status < 0 else f"exit code {exit_status}"
        if by_kernel:
            return f"{reason}; out of memory: the kernel killed a process of this control group"
        return f"{reason}; out of memory?" if exit_status == -signal.SIGKILL and not known else reason

    def _count(self) -> int | None:
        """Return the control group's count of processes that were killed for lack of memory; None if it has none."""
        for file in self._counters:
            with suppress(OSError, ValueError, KeyError):
                return int(dict(line.split() for line in file.read_text().splitlines())["oom_kill"])
        return None


def _oom_counters() -> list[Path]:
    """Return the files that may count the kills: of this process's control group, then of its container's."""
    files = []
    with suppress(OSError):
        for line in _OWN_CGROUP.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                files += [_CGROUPS / path.strip("/") / "memory.events", _CGROUPS / "memory.events"]
            elif "memory" in controllers.split(","):
                memory = _CGROUPS / "memory"
                files += [memory / path.strip("/") / "memory.oom_control", memory / "memory.oom_control"]
    return files


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal between the first and the last one
        return f"signal {number}"
