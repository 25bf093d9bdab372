"""How often the drain's loop asks Postgres for due tables."""

import threading
import time
from itertools import pairwise

import pytest

from app.domain.model.table import TableId
from spark_jobs.drain_loop import DrainLoop
from spark_jobs.drain_process import pace_of
from tests.spark.conftest import NewWorker
from tests.support.waiting import wait_until


@pytest.mark.parametrize(
    ("max_delay", "poll", "rest"), [(0.0, 0.05, 0.0), (0.1, 0.05, 0.0125), (1.0, 0.25, 0.125), (30.0, 1.0, 0.5)]
)
def test_a_delay_of_zero_asks_at_each_notification_and_a_longer_one_rests_in_between(
    max_delay: float, poll: float, rest: float
) -> None:
    assert pace_of(max_delay) == (poll, rest)


def test_many_wakes_in_a_row_make_one_query_per_rest(new_worker: NewWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    worker, asked, wake = new_worker(), list[float](), AlwaysSet()
    due = worker.due

    def counted() -> list[TableId]:
        asked.append(time.monotonic())
        return due()

    monkeypatch.setattr(worker, "due", counted)
    loop = DrainLoop(worker, worker_slots=1)
    thread = threading.Thread(target=loop.run, args=(wake, 60.0), kwargs={"rest_seconds": 0.05})
    thread.start()
    wait_until(lambda: len(asked) >= 4, within=60, what="the loop asks four times")
    loop.stopping.set()
    thread.join(20)
    pauses = [later - earlier for earlier, later in pairwise(asked)]
    assert min(pauses) >= 0.05


class AlwaysSet(threading.Event):
    """Notifications without a pause."""

    def wait(self, timeout: float | None = None) -> bool:
        return True
