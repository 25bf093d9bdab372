"""Resources used by the processes of a gateway: processor time and bytes of the write-ahead log."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from benchmarks.gateway import Gateway
from benchmarks.machine.process_facts import tree_cpu_seconds

SELECT_LOG_BYTES = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8"


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """Processor seconds of each process by name, bytes of the write-ahead log, and the clock, at one moment."""

    cpu_seconds: Mapping[str, float]
    log_bytes: float
    at: float

    @classmethod
    def take(cls, gateway: Gateway, **parts: int) -> Self:
        """Read the usage so far; `parts` are process ids, each with its descendants. Postgres is always included."""
        pids = {"postgres": gateway.postgres_pid, **parts}
        seconds = {name: tree_cpu_seconds(pid) for name, pid in pids.items()}
        return cls(seconds, float(gateway.value(SELECT_LOG_BYTES)), time.monotonic())

    def since(self, earlier: "ResourceUsage") -> "ResourceUsage":
        """Return the difference to an earlier moment."""
        seconds = {name: now - earlier.cpu_seconds[name] for name, now in self.cpu_seconds.items()}
        return ResourceUsage(seconds, self.log_bytes - earlier.log_bytes, self.at - earlier.at)

    def microseconds(self, part: str, changes: int) -> float:
        """Return the microseconds of one core per change."""
        return self.cpu_seconds[part] * 1e6 / changes
