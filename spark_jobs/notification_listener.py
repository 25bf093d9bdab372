"""The thread that wakes the drain's loop when an API process has staged changes."""

import threading
from typing import Final

from app.staging.connection.notifications import NotificationListener

_WAIT_SECONDS: Final = 1.0


def start_notification_listener(database_url: str, wake: threading.Event, stopping: threading.Event) -> None:
    """Set `wake` at each notification, and at least once a second, until `stopping` is set."""

    def listen() -> None:
        listener = NotificationListener(database_url)
        while not stopping.is_set():
            listener.wait(_WAIT_SECONDS)
            wake.set()
        listener.close()

    threading.Thread(target=listen, name="notification-listener", daemon=True).start()
