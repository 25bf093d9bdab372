"""One run: a real API process with small limits, a drain that publishes all but one table, and too many callers."""

import asyncio
import statistics
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from typing import Final

import sqlalchemy as sa

from benchmarks.machine.process_facts import resident
from tests.api.calls import ADMIN_KEY, Gateway
from tests.overload.callers import TABLE_COLUMNS, Journal, Load, body_of, run_for
from tests.overload.verdict import violations
from tests.support.http.server import api_process
from tests.support.postgres.ledger import ALL_IN_ONE_FILE, owned_now, publish_all

TIMES: Final = 10
BASE_BYTES: Final = 256 * 2**20
"""What the process takes without any request, and for what it does beside bodies."""
FACTOR: Final = 10
"""The most memory that one byte of a body takes once it is decoded and typed, for messages of the tools."""

EXPECTED: Final = ("accepted", "503 overloaded", "429 backlog_full")
"""Answers that every run must bring."""

_BYTES_IN_MEMORY: Final = 32 * 2**20
_MESSAGES: Final = 700
_BACKLOG_ROWS: Final = 7_000
_HEALTHY: Final = "healthy"
_STOPPED: Final = "stopped"


@dataclass
class Outcome:
    """What a run came to."""

    violations: list[str]
    answers: Counter[str]
    accepted: Counter[str]
    """Requests by table."""
    stopped_rows: int
    peak_bytes: int
    most_bytes: int
    waits: dict[str, list[float]] = field(default_factory=dict)

    @property
    def slowest(self) -> dict[str, float]:
        """The 99th percentile of the status calls, in seconds."""
        return {path: statistics.quantiles(seconds, n=100)[-1] for path, seconds in self.waits.items()}


def overload(database_url: str, engine: sa.Engine, seconds: float) -> Outcome:
    """Call an API process with ten times the bytes that it takes on, for so long."""
    limits = {"MAX_BODY_BYTES": 4 * 2**20, "MAX_BYTES_IN_MEMORY": _BYTES_IN_MEMORY, "MAX_CONCURRENT_REQUESTS": 100}
    limits |= {"MAX_BACKLOG_ROWS": _BACKLOG_ROWS, "BODY_GRACE_SECONDS": 5}
    with (
        api_process(database_url, ADMIN_KEY, LOG_LEVEL="error", **limits) as (process, address),
        Gateway.at(address, ADMIN_KEY) as gateway,
    ):
        for table in (_HEALTHY, _STOPPED):
            gateway.put(f"/v1/tables/{table}", json={"columns": TABLE_COLUMNS}).raise_for_status()
        with drained(engine, _HEALTHY), ProcessPoolExecutor(1, get_context("spawn")) as other:
            loading = other.submit(load, address, seconds)
            watched = asyncio.run(watch(address, loading))
            journal = loading.result()
        stopped = gateway.status(_STOPPED)["lag"]["rows"]
        found = [*watched.surprises[:10], *journal.surprises[:10], *violations(engine, journal)[:10]]
        return Outcome(
            found,
            journal.answers,
            Counter(receipt["table"] for receipt in journal.accepted.values()),
            stopped,
            int(1e6 * resident(process.pid, "VmHWM")),
            BASE_BYTES + FACTOR * _BYTES_IN_MEMORY,
            watched.seconds,
        )


async def watch(address: str, loading: "Future[Journal]") -> Journal:
    """Ask for the status during the load."""
    over = asyncio.Event()
    calls = Load(address, ADMIN_KEY, over)
    loop = asyncio.get_running_loop()
    loading.add_done_callback(lambda _: loop.call_soon_threadsafe(over.set))
    await asyncio.gather(calls.watch("/healthz"), calls.watch(f"/v1/tables/{_HEALTHY}"))
    return calls.journal


def load(address: str, seconds: float) -> Journal:
    """Run all callers in a separate process, so that they slow down neither the gateway nor the measurement."""
    return asyncio.run(_load(address, seconds))


async def _load(address: str, seconds: float) -> Journal:
    over = asyncio.Event()
    calls = Load(address, ADMIN_KEY, over)
    size = len(body_of(_HEALTHY, _MESSAGES))
    large = TIMES * _BYTES_IN_MEMORY // size
    callers = [partial(calls.post, _HEALTHY, _MESSAGES)] * (large * 4 // 5)
    callers += [partial(calls.post, _STOPPED, _MESSAGES)] * (large // 5)
    callers += [partial(calls.post, _HEALTHY, 1)] * 20
    callers += [partial(calls.hold, _HEALTHY, size)] * 5
    answers = calls.journal.answers
    await run_for(seconds, over, callers, lambda: min(answers[kind] for kind in EXPECTED) > 0)
    return calls.journal


@contextmanager
def drained(engine: sa.Engine, name: str) -> Iterator[None]:
    """Publish whatever a table has, in the ledger alone, as fast as that goes."""
    owned = owned_now(engine, name)
    done = threading.Event()

    def publish_again_and_again() -> None:
        while not done.wait(0.1):
            publish_all(engine, owned, ALL_IN_ONE_FILE)

    thread = threading.Thread(target=publish_again_and_again, name="drain")
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
