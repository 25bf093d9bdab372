"""End a process whose Spark ends or hangs: what runs it, such as `mirrorgate up`, starts it again (decision 0025).

`spark_watched` asks a process to stop when its Spark ends or hangs. `BoundedStop` bounds the stop of the drain or the
mirror, even while one of its threads hangs in Spark or in a file system.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Self

import structlog

from mirrorgate.errors import Code
from spark_jobs.spark.health import SparkCalls, SparkPing, SparkWatch

log = structlog.get_logger()

STOP_SECONDS: Final = 9.0
"""Less than the 10 s after which container runtimes kill by default."""
_LAST_ACTS_SECONDS: Final = 2.0


class BoundedStop:
    """Request to stop the process, made once, which ends it if the block does not end soon after.

    The end is safe at any moment: Postgres, or the mirror's Delta log, has every durable step first, and a table's next
    owner continues there.
    """

    def __init__(self, *, seconds: float = STOP_SECONDS) -> None:
        self.stopping = threading.Event()
        self.last_acts: list[Callable[[], object]] = []
        """Calls to try, for a moment, before the process is ended; they may hang or fail."""
        self.failure: str | None = None
        """Reason why the process stops by itself, None for a signal."""
        self._seconds = seconds
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._ended.set()

    def ask(self, failure: str | None = None) -> None:
        """Ask the process to stop. Safe in a signal handler; a repeated call changes nothing."""
        if self.stopping.is_set():
            return
        self.failure = failure
        self.stopping.set()
        threading.Thread(target=self._end_late, name="bounded-stop", daemon=True).start()

    def _end_late(self) -> None:
        if self._ended.wait(self._seconds):
            return
        last = threading.Thread(target=self._try_last_acts, name="last-acts", daemon=True)
        last.start()
        last.join(_LAST_ACTS_SECONDS)
        log.error("stop_forced", seconds=self._seconds, detail="stuck work was abandoned; a restart is safe")
        os._exit(1)

    def _try_last_acts(self) -> None:
        for act in self.last_acts:
            act()


SPARK_ENDED: Final = (
    "Start the process again; `mirrorgate up` does. If this repeats, check the machine's memory and what Spark logged "
    "before, or raise MIRRORGATE_SPARK_STUCK_SECONDS."
)


@contextmanager
def spark_watched(
    ping: SparkPing,
    calls: SparkCalls,
    stop: BoundedStop,
    *,
    stuck_seconds: float,
    newest_statement: Callable[[], object],
) -> Iterator[None]:
    """Ask the process to stop, with the reason, when Spark ends or hangs within the block.

    `newest_statement` changes while tasks work, such as the newest statement of build tasks in Postgres.
    """
    over = threading.Event()

    def end(reason: str) -> None:
        if not over.is_set():
            log.error("spark_failed", code=Code.SPARK_FAILED, detail=reason, remedy=SPARK_ENDED)
            stop.ask(reason)

    watch = SparkWatch(
        calls,
        stuck_seconds=stuck_seconds,
        has_ended=ping.has_ended,
        newest_statement=newest_statement,
        on_dead=end,
    )
    ping.start(over)
    watch.start(over)
    try:
        yield
    finally:
        over.set()
