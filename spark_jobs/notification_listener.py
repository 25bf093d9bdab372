"""The thread that wakes the drain's loop when an API process has staged changes."""

import threading
from typing import Final

from app.observability.periodic_thread import PeriodicThread
from app.staging.connection.notifications import NotificationListener

_WAIT_SECONDS: Final = 1.0


def start_notification_listener(database_url: str, wake: threading.Event, stopping: threading.Event) -> None:
    """Set `wake` at each notification, and at least once a second, until `stopping` is set."""
    listener = NotificationListener(database_url)

    def listen() -> None:
        listener.wait(_WAIT_SECONDS)
        wake.set()

    PeriodicThread("notification-listener", 0.0, listen, at_end=listener.close, ended=stopping).start()
