"""Takes the samples of the console's history: a thread that tries once a minute, in every API process.

Postgres lets one process take each minute's sample, so any number of processes can run, and any one suffices.
"""

import threading
import time
from collections.abc import Callable
from typing import Final

import structlog

from app.staging.connection.database import Engine, translated_errors
from app.staging.retention.history import take_sample

log = structlog.get_logger()

MINUTE_SECONDS: Final = 60.0
_AFTER_SECONDS: Final = 1.0
"""How long after the start of a minute its sample is taken: the clock of Postgres can be a little behind."""


class HistorySampler:
    """Runs `take_sample` once a minute until it is closed. Failures leave the counts to the next sample."""

    def __init__(self, engine: Engine, clock: Callable[[], float] = time.time) -> None:
        self._engine = engine
        self._clock = clock
        self._closing = threading.Event()
        self._fails = False
        self._thread = threading.Thread(target=self._run, name="history-sampler", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop the thread and wait for it."""
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closing.wait(self._pause()):
            try:
                with translated_errors(), self._engine.begin() as connection:
                    take_sample(connection)
                self._fails = False
            except Exception as error:  # noqa: BLE001  # the thread must survive until Postgres answers again
                if not self._fails:
                    log.warning("history_sample_failed", error=type(error).__name__)
                self._fails = True

    def _pause(self) -> float:
        """Return the seconds until shortly after the next full minute."""
        return MINUTE_SECONDS - self._clock() % MINUTE_SECONDS + _AFTER_SECONDS
