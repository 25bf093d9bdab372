"""Detection of a Spark that is gone or makes no progress, so that the drain ends and is started again.

A Spark call never returns while its executor, its Python workers or its JVM hang, and Spark does not limit that
(decision 0025). Progress is each statement that a build task sends to Postgres, and the return of the oldest call.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import SparkSession

from app.observability.periodic_thread import PeriodicThread

_CHECK_SECONDS: Final = 0.5
_SILENT_SECONDS: Final = 1.0
"""After so long without progress, Postgres is asked what the build tasks do."""
_PING_SECONDS: Final = 5.0


class SparkCalls:
    """The calls to Spark that have not returned, and the time of the last progress. Threads share it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._started: dict[object, float] = {}
        self._progress_at = clock()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count a call to Spark until the block ends."""
        call = object()
        with self._lock:
            self._started[call] = self._clock()
        try:
            yield
        finally:
            with self._lock:
                del self._started[call]

    def note_progress(self) -> None:
        """Note that Spark has made progress now."""
        with self._lock:
            self._progress_at = self._clock()

    def silent_seconds(self) -> float:
        """Return how long the oldest call has run without progress since; 0 while none runs."""
        with self._lock:
            return self._clock() - max(min(self._started.values()), self._progress_at) if self._started else 0.0


@dataclass
class SparkWatch:
    """Watch that calls `on_dead` once, with the reason, when Spark has ended or is silent for `stuck_seconds`."""

    calls: SparkCalls
    stuck_seconds: float
    """0 never ends Spark."""
    has_ended: Callable[[], str | None]
    newest_statement: Callable[[], object]
    """Changes while build tasks read."""
    on_dead: Callable[[str], None]
    _seen: object = None

    def check(self) -> str | None:
        """Return why Spark is unusable, None as far as is known."""
        ended = self.has_ended()
        if ended is not None:
            return ended
        silent = self.calls.silent_seconds()
        if not self.stuck_seconds or silent < min(_SILENT_SECONDS, self.stuck_seconds) or self._tasks_read():
            return None
        return f"Spark has made no progress for {silent:.0f} s" if silent >= self.stuck_seconds else None

    def _tasks_read(self) -> bool:
        """Return True if build tasks have sent a statement since the last check, or Postgres is unreachable."""
        try:
            newest = self.newest_statement()
        except Exception:  # noqa: BLE001  # whatever failed, it says nothing about Spark
            self.calls.note_progress()
            return True
        if newest == self._seen:
            return False
        self._seen = newest
        self.calls.note_progress()
        return True

    def start(self, over: threading.Event) -> None:
        """Check twice a second in a separate thread, until `over` is set or Spark is unusable."""

        def watch() -> bool:
            reason = self.check()
            if reason is not None:
                self.on_dead(reason)
            return reason is None

        PeriodicThread("spark-watch", _CHECK_SECONDS, watch, waits_first=True, ended=over).start()


class SparkPing:
    """Ping of the Spark context every few seconds, and of the JVM if this process started it."""

    def __init__(self, spark: SparkSession, *, stuck_seconds: float) -> None:
        self._context: Any = spark.sparkContext
        self._jvm = getattr(self._context._gateway, "proc", None)
        self._calls = SparkCalls()
        self._stuck_seconds = stuck_seconds
        self._stopped: str | None = None

    def has_ended(self) -> str | None:
        """Return why Spark has ended, None as far as is known. Never block."""
        if self._jvm is not None and (status := self._jvm.poll()) is not None:
            return f"Spark's JVM has ended with exit code {status}"
        if self._stuck_seconds and (silent := self._calls.silent_seconds()) >= self._stuck_seconds:
            return f"Spark's JVM has not answered for {silent:.0f} s"
        return self._stopped

    def silent_seconds(self) -> float:
        """Return how long the JVM has not answered a question; 0 while none is open."""
        return self._calls.silent_seconds()

    def kill(self) -> None:
        """End the JVM that this process started, if any, at once."""
        if self._jvm is not None:
            self._jvm.kill()

    def start(self, over: threading.Event) -> None:
        """Ask in a separate thread, because a JVM that hangs never answers."""

        def ask() -> bool:
            try:
                with self._calls.running():
                    if self._context._jsc.sc().isStopped():
                        self._stopped = "the Spark context is stopped"
            except Exception as error:  # noqa: BLE001  # with any error, Spark cannot be used
                self._stopped = f"Spark does not answer: {type(error).__name__}"
            return self._stopped is None

        PeriodicThread("spark-ping", _PING_SECONDS, ask, waits_first=True, ended=over).start()
