"""End a process whose Spark ends or hangs: what runs it, such as `mirrorgate up`, starts it again (decision 0025)."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import structlog

from app.errors import Code
from spark_jobs.spark.bounded_stop import BoundedStop
from spark_jobs.spark.health import SparkCalls, SparkPing, SparkWatch

log = structlog.get_logger()

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
