"""The drain's lease: renewed from a thread of its own, released at the end.

A drain that stops renewing loses its tables when the lease expires; W2 of their next owner makes that safe.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from app.domain.publication.failure import described
from app.observability.drain_metrics import LEASE_FAILURES, LEASE_RENEWED
from app.observability.periodic_thread import PeriodicThread
from app.staging.connection.database import answer_within, translated_errors
from app.staging.ledger.leases import give_up_lease
from spark_jobs.drain_cycle import DrainCycle

log = structlog.get_logger()


@contextmanager
def keep_lease(cycle: DrainCycle, seconds: float) -> Iterator[None]:
    """Renew the drain's lease three times per `seconds` while the block runs, and release it at the end.

    If the process dies inside, its tables are free when the lease expires.
    """
    renew(cycle, seconds)
    try:
        with PeriodicThread("lease", seconds / 3, lambda: renew(cycle, seconds), waits_first=True):
            yield
    finally:
        release_lease(cycle)


def renew(cycle: DrainCycle, seconds: float) -> None:
    """Renew the lease; log and count a failure."""
    try:
        with translated_errors(), answer_within(seconds / 3):
            cycle.renew_lease(seconds)
        LEASE_RENEWED.set_to_current_time()
    except Exception as error:  # noqa: BLE001  # this thread must live: without it the drain loses its tables
        LEASE_FAILURES.inc()
        failure = described(error)
        log.warning("lease_renewal_failed", code=failure.code, detail=failure.detail)


def release_lease(cycle: DrainCycle) -> None:
    """Release the lease at once; if that fails, it expires by itself."""
    try:
        with translated_errors(), cycle.context.engine.begin() as connection:
            give_up_lease(connection, cycle.context.worker_id)
    except Exception as error:  # noqa: BLE001  # the lease expires by itself
        failure = described(error)
        log.warning("lease_release_failed", code=failure.code, detail=failure.detail)
