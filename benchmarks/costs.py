"""What one change costs: processor time in each part, and bytes sent, logged, stored and landed."""

import msgspec


class Costs(msgspec.Struct, frozen=True):
    """Per change: microseconds of one core, and bytes."""

    api: float
    postgres_accepting: float
    drain: float
    """Driver, JVM and executors together."""
    postgres_draining: float
    sent_bytes: float
    """The body of the request."""
    log_bytes: float
    """Write-ahead log until the change is published."""
    staged_bytes: float
    """The payload, which is kept until retention and read by an executor."""
    disk_bytes: float
    """Growth of the database, payload included."""
    file_bytes: float

    @property
    def processors(self) -> float:
        """Return the microseconds of one core in all parts together."""
        return self.api + self.postgres_accepting + self.drain + self.postgres_draining
