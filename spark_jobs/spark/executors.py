"""Says when a cluster gives the driver no executor, which Spark's master alone knows the reason of.

Without executors, jobs wait, and the driver's calls do not return: at the start because no worker is large enough or
free, later because all workers or the master were lost. A restarted standalone master does not know the application.
"""

import time
from collections.abc import Callable
from typing import Any, Final

import structlog
from pyspark.sql import SparkSession

from app.observability.periodic_thread import PeriodicThread
from mirrorgate.errors import Code

log = structlog.get_logger()

_CHECK_SECONDS: Final = 2.0
_PATIENCE_SECONDS: Final = 15.0
"""A cluster needs some seconds to start executors."""
_REMINDER_SECONDS: Final = 60.0


class ExecutorWatch:
    """Watch that logs that there is no executor, after some seconds and every minute, and when there is one again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.are_missing = False
        """True while there has been no executor for so long that it was logged."""
        self._clock = clock
        self._seen_at = clock()
        self._logged_at = 0.0

    def watching(self, spark: SparkSession) -> PeriodicThread:
        """Check every two seconds in a separate thread until a block ends."""
        return PeriodicThread(
            "spark-executors",
            _CHECK_SECONDS,
            lambda: self.check(count_executors(spark), str(spark.sparkContext.master)),
            on_failure=lambda _: None,  # Spark ends, which SparkPing reports
            waits_first=True,
            join_seconds=0.0,
        )

    def check(self, executors: int, master: str) -> None:
        """Judge how many executors there are now."""
        now = self._clock()
        if executors:
            if self.are_missing:
                log.info("spark_has_executors", executors=executors, master=master)
            self._seen_at, self.are_missing = now, False
            return
        silent = now - self._seen_at
        if silent < _PATIENCE_SECONDS or (self.are_missing and now - self._logged_at < _REMINDER_SECONDS):
            return
        self.are_missing, self._logged_at = True, now
        code = Code.SPARK_WITHOUT_EXECUTORS
        detail = f"{master} has given this program no executor for {silent:.0f} s"
        log.warning("spark_without_executors", code=code, detail=detail, remedy=code.remedy)


def count_executors(spark: SparkSession) -> int:
    """Return the number of registered executors, which the driver's own block manager is none of."""
    context: Any = spark.sparkContext
    return int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1
