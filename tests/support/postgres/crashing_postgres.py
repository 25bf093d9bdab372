"""A Postgres that crashes on request."""

import signal
import subprocess
from pathlib import Path

from app.local.embedded import PrivatePostgres
from tests.support.processes import start_program


class CrashingPostgres:
    """A private Postgres that is stopped as a crash would, and started again under the same address.

    Both from the main thread: it ends with the thread that started it.
    """

    def __init__(self, folder: Path, **settings: str) -> None:
        # A process that crashes loses nothing that it has handed to the system; fsync is about the machine.
        self._server = PrivatePostgres(folder, {"fsync": "off", "full_page_writes": "off", **settings})
        self._server.start()
        self.url = self._server.url
        self.administration_url = self._server.administration_url

    def crash(self) -> None:
        """`immediate`: no session ends cleanly, what only memory holds is lost, and the next start recovers."""
        process = self._server.process
        process.send_signal(signal.SIGQUIT)
        process.wait(timeout=30)
        self.tend()

    def tend(self) -> None:
        """Start it again if it has ended, which it does while sessions of the one before live on."""
        if self._server.process.poll() is not None:
            self._server._process = start_program(
                self._server.log_file,
                *self._server.command,
                environment=self._server.environment,
                cwd="/",
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def stop(self) -> None:
        self._server.stop()
