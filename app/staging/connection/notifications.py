"""Notifications from API processes to drains: "something was staged".

The drain would otherwise find new batches only at its next poll. A notification is sent after the COMMIT, on a
separate connection. It is a hint only: a lost one delays the drain by at most one polling interval, and loses no
batch.
"""

import threading
import time
from typing import Final

import psycopg
import structlog

from app.observability.periodic_thread import PeriodicThread
from app.observability.repeated_lines import RepeatedLines
from app.staging.connection.database import CONNECT_SECONDS, KEEPALIVES, BoundedConnection

log = structlog.get_logger()

CHANNEL: Final = "mirrorgate_staged"

NOTIFY: Final = "SELECT pg_notify(%s, '')"
"""Wake every listener of a channel."""

LISTEN: Final = f"LISTEN {CHANNEL}"
"""Receive the notifications of the channel on this connection."""

PING: Final = "SELECT 1"
"""Find out whether the connection still answers."""

_MIN_SECONDS_BETWEEN: Final = 0.05
"""The shortest time between two notifications of one process."""

_SILENCE_SECONDS: Final = 5.0
"""Seconds for which these connections wait for one answer."""

_SECONDS_BETWEEN_LINES: Final = 60.0
"""Seconds between lines of a listener that cannot listen; it retries once a second."""

PING_AFTER: Final = 10.0
"""Seconds without a notification after which the listener pings its connection."""


class NotificationSender(PeriodicThread):
    """Sender of notifications to drains when `staged` is set, at most 20 a second."""

    def __init__(self, database_url: str, staged: threading.Event) -> None:
        super().__init__(
            "notification-sender", _MIN_SECONDS_BETWEEN, self._send, waits_first=True, at_end=self._disconnect
        )
        self._database_url = database_url
        self._staged = staged
        self._connection: BoundedConnection | None = None

    def close(self) -> None:
        """Send what is due, stop the thread and close its connection."""
        self.end()
        self._staged.set()
        super().close()

    def _send(self) -> None:
        self._staged.wait()
        self._staged.clear()
        try:
            if self._connection is None:
                self._connection = _connect(self._database_url)
            self._connection.execute(NOTIFY, [CHANNEL])
        except psycopg.Error as error:
            log.warning("notification_send_failed", error=type(error).__name__)
            self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class NotificationListener:
    """Wait for the next notification, or only for the time to pass while the connection is broken."""

    def __init__(self, database_url: str) -> None:
        self._database_url = database_url
        self._connection: BoundedConnection | None = None
        self._heard_at = 0.0
        self._stopped = threading.Event()
        self._failures = RepeatedLines(_SECONDS_BETWEEN_LINES)

    def wait(self, seconds: float) -> None:
        """Return at the next notification, or after `seconds`."""
        try:
            if self._connection is None:
                self._connection = _connect(self._database_url)
                self._connection.execute(LISTEN)
                self._heard_at = time.monotonic()
                return  # something may have been staged before this connection began to listen
            for _ in self._connection.notifies(timeout=seconds, stop_after=1):
                self._heard_at = time.monotonic()
            if time.monotonic() - self._heard_at > PING_AFTER:  # nothing was staged, or the connection is dead
                self._connection.execute(PING)
                self._heard_at = time.monotonic()
        except psycopg.Error as error:
            repeated = self._failures.admit("listen")
            if repeated is not None:
                log.warning("notification_listen_failed", error=type(error).__name__, repeated=repeated)
            self.close()
            self._stopped.wait(seconds)

    def close(self) -> None:
        """Close the connection; `wait` opens another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _connect(database_url: str) -> BoundedConnection:
    return BoundedConnection.open(
        database_url, silence_seconds=_SILENCE_SECONDS, autocommit=True, connect_timeout=CONNECT_SECONDS, **KEEPALIVES
    )
