"""What a change takes on its way: processor time of each part, bytes in the log, on disk and on the network."""

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
    """What Postgres writes ahead, until the change is published."""
    staged_bytes: float
    """The payload, which stays until retention, and which an executor reads."""
    disk_bytes: float
    """What the database grew by, payload included."""
    file_bytes: float

    @property
    def processors(self) -> float:
        """Microseconds of one core in all parts together."""
        return self.api + self.postgres_accepting + self.drain + self.postgres_draining
