"""The drains of a history are the real ones with shorter pauses."""

import time

from spark_jobs.scheduling import RetrySchedule
from tests.chaos.parts.light_drain import MAX_BACKOFF, short_pauses


def test_a_drain_of_a_history_soon_tries_a_failed_table_again() -> None:
    with short_pauses():
        schedule = RetrySchedule[str]()
        for _ in range(9):
            schedule.back_off("t")
        assert schedule.postponed(time.monotonic())
        assert not schedule.postponed(time.monotonic() + MAX_BACKOFF)
