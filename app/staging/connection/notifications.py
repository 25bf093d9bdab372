"""Waking the drain: one notification channel, sent after the commit on a connection of its own.

A hint only: a lost notification costs at most one polling interval, never a batch.
"""

import threading
import time
from typing import Final

import psycopg
import structlog

from app.staging.connection.bounded_connection import CONNECT_SECONDS, KEEPALIVES, BoundedConnection

log = structlog.get_logger()

CHANNEL: Final = "mirrorgate_staged"
_MIN_SECONDS_BETWEEN: Final = 0.05
_SILENCE_SECONDS: Final = 5.0

ASK_AFTER: Final = 10.0
"""Seconds without a notification after which the listener asks whether its connection still answers."""


class NotificationSender:
    """Notifies drains when `staged` is set, at most 20 times a second. `start` once, `close` at the end."""

    def __init__(self, database_url: str, staged: threading.Event) -> None:
        self._database_url = database_url
        self._staged = staged
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="notification-sender", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._staged.set()
        self._thread.join()

    def _run(self) -> None:
        connection: BoundedConnection | None = None
        while not self._closing.wait(_MIN_SECONDS_BETWEEN):
            self._staged.wait()
            self._staged.clear()
            try:
                if connection is None:
                    connection = _connect(self._database_url)
                connection.execute("SELECT pg_notify(%s, '')", [CHANNEL])
            except psycopg.Error as error:
                log.warning("wake_send_failed", error=type(error).__name__)
                connection = None
        if connection is not None:
            connection.close()


class NotificationListener:
    """Waits for the next notification. Falls back to plain waiting while the connection is broken."""

    def __init__(self, database_url: str) -> None:
        self._database_url = database_url
        self._connection: BoundedConnection | None = None
        self._heard_at = 0.0
        self._stopped = threading.Event()

    def wait(self, seconds: float) -> None:
        """Return at a notification, or after `seconds`."""
        try:
            if self._connection is None:
                self._connection = _connect(self._database_url)
                self._connection.execute(f"LISTEN {CHANNEL}")
                self._heard_at = time.monotonic()
                return  # something may have been staged before this connection listened
            for _ in self._connection.notifies(timeout=seconds, stop_after=1):
                self._heard_at = time.monotonic()
            if time.monotonic() - self._heard_at > ASK_AFTER:  # nothing was staged, or the connection is silent
                self._connection.execute("SELECT 1")
                self._heard_at = time.monotonic()
        except psycopg.Error as error:
            log.warning("wake_listen_failed", error=type(error).__name__)
            self.close()
            self._stopped.wait(seconds)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _connect(database_url: str) -> BoundedConnection:
    return BoundedConnection.open(
        database_url, silence_seconds=_SILENCE_SECONDS, autocommit=True, connect_timeout=CONNECT_SECONDS, **KEEPALIVES
    )
