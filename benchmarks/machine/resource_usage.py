"""What the parts of a gateway have taken so far: processor time and bytes of Postgres's log."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from benchmarks.gateway import Gateway
from benchmarks.machine.process_facts import tree_cpu_seconds

SELECT_LOG_BYTES = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8"


@dataclass(frozen=True, slots=True)
class Reading:
    """Processor seconds of each part by name, the bytes of Postgres's log and the clock, at one moment."""

    cpu_seconds: Mapping[str, float]
    log_bytes: float
    at: float

    @classmethod
    def take(cls, gateway: Gateway, **parts: int) -> Self:
        """`parts` are processes, each with its descendants; Postgres is always one."""
        pids = {"postgres": gateway.postgres_pid, **parts}
        seconds = {name: tree_cpu_seconds(pid) for name, pid in pids.items()}
        return cls(seconds, float(gateway.value(SELECT_LOG_BYTES)), time.monotonic())

    def since(self, earlier: "Reading") -> "Reading":
        """What happened between two moments."""
        seconds = {name: now - earlier.cpu_seconds[name] for name, now in self.cpu_seconds.items()}
        return Reading(seconds, self.log_bytes - earlier.log_bytes, self.at - earlier.at)

    def microseconds(self, part: str, changes: int) -> float:
        """Of one core, per change."""
        return self.cpu_seconds[part] * 1e6 / changes
