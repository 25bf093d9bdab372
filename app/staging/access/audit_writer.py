"""Background writer of key uses and rejected calls.

Both are noted in memory, and a thread writes them about once a second, so that no request waits for it or fails
because of it. A process that dies loses the last second of them. Operations on tables and keys are never among it:
`audit_events` records them in their own transaction.
"""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import sqlalchemy as sa
import structlog

from app.domain.access.rejections import Rejection, RejectionCounter
from app.observability.telemetry import current_request_id
from app.staging.access.api_keys import note_use
from app.staging.access.audit_events import count_rejections

log = structlog.get_logger()

MIN_SECONDS_BETWEEN_USES: Final = 60.0
"""The shortest time between two writes of a key's use by one process."""

_MAX_REMEMBERED_KEYS: Final = 10_000
"""Keys whose last write is remembered."""


class AuditWriter:
    """The writer of one API process. Call `start` once; `close` writes what is noted, if the database answers."""

    def __init__(
        self,
        engine: sa.Engine,
        *,
        pause: float = 1.0,
        pause_after_failure: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._pause = pause
        self._pause_after_failure = pause_after_failure
        self._clock = clock
        self._lock = threading.Lock()
        self._rejections = RejectionCounter()
        self._used: set[str] = set()
        self._noted: dict[str, float] = {}
        self._something = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="audit-writer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Write what is noted, and stop the thread."""
        self._closing.set()
        self._something.set()
        self._thread.join()

    def note_key_use(self, key_id: str) -> None:
        """Note that a stored key was used with a valid secret."""
        now = self._clock()
        if now - self._noted.get(key_id, float("-inf")) < MIN_SECONDS_BETWEEN_USES:
            return
        with self._lock:
            if len(self._noted) >= _MAX_REMEMBERED_KEYS:
                self._noted.clear()
            self._noted[key_id] = now
            self._used.add(key_id)
        self._something.set()

    def note_rejection(self, rejection: Rejection) -> None:
        """Note a rejected call, under the request that is being served."""
        with self._lock:
            self._rejections.note(rejection, datetime.now(UTC), current_request_id())
        self._something.set()

    def _run(self) -> None:
        while not self._closing.is_set():
            self._something.wait()
            self._something.clear()
            self._closing.wait(self._pause)
            if not self._write():
                self._something.set()
                self._closing.wait(self._pause_after_failure)
        self._write()

    def _write(self) -> bool:
        """Return true if nothing is left; what could not be written is kept for the next attempt."""
        with self._lock:
            used, self._used = self._used, set()
            rejections = self._rejections.take()
        try:
            if used or rejections:
                with self._engine.begin() as connection:
                    note_use(connection, used)
                    count_rejections(connection, rejections)
        except sa.exc.SQLAlchemyError as error:
            log.warning("audit_write_failed", error=type(error).__name__)
            with self._lock:
                self._used |= used
                self._rejections.put_back(rejections)
            return False
        return True
