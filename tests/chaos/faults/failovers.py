"""Random histories with a failover of Postgres under running drains, to a synchronous or an asynchronous standby.

Mirroring consumes files all the time, and may take the last one too. Whatever the standby lacks: no number is published
a second time, what it has lands once, and a table whose files it does not know stops and says why.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
import sqlalchemy as sa
from structlog.testing import capture_logs

from app.domain.model.table import TableState
from app.landing.landed_state import CONSUMED_FOLDERS
from app.staging.connection.database import open_engine
from app.staging.connection.schema_revision import migrate
from mirrorgate.errors import MirrorgateError
from spark_jobs.drain_process import keep_lease
from tests.chaos.checks.oracle import Result, Violation
from tests.support.gateway_parts import current, file_numbers, registered, stage_keys, state_reason
from tests.support.postgres import sql
from tests.support.postgres.standby import Cluster, cluster
from tests.support.samples.schemas import schema_of
from tests.support.small_drain import draining, small_drain
from tests.support.waiting import wait_until

TABLES: Final = ("a", "b", "c")
DRAINS: Final = 2
_LEASE_SECONDS: Final = 3.0
_SETTLES_WITHIN: Final = 90.0
_PROCESSED: Final = CONSUMED_FOLDERS[0]


class FailoverHistory:
    """One history in a cluster and a folder of its own, from one seed."""

    def __init__(self, database: Cluster, place: Path, seed: int, *, synchronous: bool, keeps_last: bool) -> None:
        self._cluster, self._zone, self._source = database, place / "landing-zone", random.Random(seed)
        self._synchronous, self._keeps_last = synchronous, keeps_last
        self._engine = open_engine(database.url)
        self._next_key = 1
        self._kept: dict[str, set[int]] = {name: set() for name in TABLES}
        """Acknowledged keys that the failover must not lose."""
        self._lost: dict[str, set[int]] = {name: set() for name in TABLES}
        """Acknowledged keys that the standby does not get, and keys whose request was not answered."""
        self.outcomes: Counter[str] = Counter()
        self.files = 0

    def run(self) -> None:
        """Publish, fail over, publish on. Raises Violation."""
        for name in TABLES:
            registered(self._engine, name, schema_of({"id": "int64"}, ["id"]))
        if self._synchronous:
            self._cluster.let_commits_wait()
        with self._drains():
            self._load(self._kept, self._source.randrange(6, 12))
            self._until_published()
            self._consume()
            if self._synchronous:
                self._fail_over_under_load()
            else:
                self._cluster.leave_the_standby_behind()
                self._load(self._lost, self._source.randrange(3, 12))
                self._until_published()
                self._consume()
                self._cluster.fail_over()
            before = {name: self._numbers(name) for name in TABLES}
            self._load(self._kept, self._source.randrange(6, 12))
            self._until_settled()
            self._consume()
        for name in TABLES:
            self._judge(name, before[name])
        self._engine.dispose()

    @contextmanager
    def _drains(self) -> Iterator[None]:
        """Run the loops and lease threads of real drains, which build their files themselves."""
        with ExitStack() as stack:
            for _ in range(DRAINS):
                cycle = stack.enter_context(small_drain(self._cluster.url, self._zone))
                stack.enter_context(keep_lease(cycle, _LEASE_SECONDS))
                stack.enter_context(draining(cycle))
            yield

    def _load(self, keys: dict[str, set[int]], batches: int) -> None:
        for _ in range(batches):
            while not self._accept(keys, self._source.choice(TABLES)):
                time.sleep(0.05)

    def _accept(self, keys: dict[str, set[int]], name: str) -> bool:
        """Stage one key; one whose request is not answered may land, once at most."""
        key, self._next_key = self._next_key, self._next_key + 1
        try:
            stage_keys(self._engine, current(self._engine, name), [key])
        except (MirrorgateError, sa.exc.SQLAlchemyError):
            self._lost[name].add(key)
            return False
        keys[name].add(key)
        return True

    def _fail_over_under_load(self) -> None:
        ended = threading.Event()

        def load() -> None:
            while not ended.is_set():
                self._accept(self._kept, self._source.choice(TABLES))
                ended.wait(0.01)

        writer = threading.Thread(target=load)
        writer.start()
        time.sleep(self._source.uniform(0.2, 1.0))
        self._cluster.fail_over()
        ended.set()
        writer.join()

    def _until_published(self) -> None:
        pending = "SELECT count(*) FROM mirrorgate.table_counters WHERE last_sequence > published_through"
        wait_until(lambda: sql.value(self._engine, pending) == 0, within=_SETTLES_WITHIN, what="all is published")

    def _until_settled(self) -> None:
        open_ = """SELECT count(*) FROM mirrorgate.table_counters JOIN mirrorgate.tables USING (table_id)
            WHERE last_sequence > published_through AND state = 'active'"""
        wait_until(lambda: sql.value(self._engine, open_) == 0, within=_SETTLES_WITHIN, what="all is decided")

    def _consume(self) -> None:
        """Let mirroring move files away in order: all, or all but the last."""
        for name in TABLES:
            files = sorted((self._zone / name).glob("*.parquet"))
            for file in files[:-1] if self._keeps_last else files:
                target = file.parent / _PROCESSED / file.name
                if target.exists():
                    raise Violation(f"{name}: number {file.stem} was published twice")
                target.parent.mkdir(exist_ok=True)
                file.rename(target)

    def _numbers(self, name: str) -> list[int]:
        return sorted(file_numbers(self._zone / name) + file_numbers(self._zone / name / _PROCESSED))

    def _judge(self, name: str, before: list[int]) -> None:
        numbers = self._numbers(name)
        self.files += len(numbers)
        if numbers != list(range(1, len(numbers) + 1)):
            raise Violation(f"{name}: the files are {numbers}")
        landed: Counter[int] = Counter()
        for place in ("", _PROCESSED):
            for file in (self._zone / name / place).glob("*.parquet"):
                landed.update(pq.read_table(file).column("id").to_pylist())
        twice = [key for key, times in landed.items() if times > 1]
        unknown = landed.keys() - self._kept[name] - self._lost[name]
        if twice or unknown:
            raise Violation(f"{name}: landed twice: {twice}; never sent: {sorted(unknown)}")
        if current(self._engine, name).state is TableState.QUARANTINED:
            self._judge_stopped(name, before, numbers)
            return
        self.outcomes["goes on"] += 1
        if missing := self._kept[name] - landed.keys():
            raise Violation(f"{name}: acknowledged and not landed: {sorted(missing)}")

    def _judge_stopped(self, name: str, before: list[int], numbers: list[int]) -> None:
        reason = state_reason(self._engine, name)
        self.outcomes[reason.partition(":")[0]] += 1
        recorded = sql.value(
            self._engine,
            "SELECT recorded_file_number FROM mirrorgate.table_counters JOIN mirrorgate.tables USING (table_id)"
            " WHERE name = :name",
            name=name,
        )
        lost = ", ".join(map(str, before[recorded:]))
        told = reason.startswith("ledger_behind_zone: ") and (len(before) - recorded > 10 or f": {lost};" in reason)
        if self._synchronous or not told or numbers != before:
            raise Violation(f"{name}: {reason}; published after the failover: {numbers[len(before) :]}")


def run_failovers(place: Path, seed: int, seconds: float) -> Result:
    """Run histories from consecutive seeds for so long, each in a new cluster; the result names a violation."""
    result = Result()
    end = time.monotonic() + seconds
    with capture_logs():  # quarantines are expected here
        while not result.violation and (result.files == 0 or time.monotonic() < end):
            run_failover(place / str(seed), seed, result, synchronous=seed % 3 == 0, keeps_last=seed % 2 == 0)
            seed += 1
    return result


def run_failover(place: Path, seed: int, result: Result, *, synchronous: bool, keeps_last: bool) -> None:
    """Run one history in a new cluster, and add it to the result."""
    place.mkdir(parents=True)
    with cluster(place) as database:
        migrate(database.url)
        history = FailoverHistory(database, place, seed, synchronous=synchronous, keeps_last=keeps_last)
        try:
            history.run()
        except Violation as violation:
            result.violation = f"seed {seed}: {violation}"
    kind = "synchronous" if synchronous else "asynchronous"
    result.kills[f"primary, {kind} standby promoted"] += 1
    result.events.update({f"failed over: {what}": times for what, times in history.outcomes.items()})
    result.files += history.files
