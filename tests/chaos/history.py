"""One history: processes, clients, faults and the oracle over a new database and landing zone, from one seed."""

import random
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from app.landing.open_zone import ZoneAddress
from app.staging.connection.database import open_engine, translated_errors
from app.staging.connection.schema_revision import migrate
from mirrorgate.errors import MirrorgateError
from tests.chaos.checks.consumer_view import LocalConsumer
from tests.chaos.checks.journal import Contradiction, Journal
from tests.chaos.checks.ledger_view import counts_of, recorded_files
from tests.chaos.checks.oracle import Oracle, Result, Violation
from tests.chaos.client import Caller, TableClient
from tests.chaos.faults.database_faults import DatabaseFaults
from tests.chaos.faults.lost_mount import Mount
from tests.chaos.faults.onelake import OneLakeZone
from tests.chaos.parts.light_drain import DrainPlan, Notes
from tests.chaos.parts.processes import ADMIN_KEY, ApiProcess, LightDrains
from tests.chaos.parts.spark_drain import SparkDrain
from tests.chaos.simulation import RECREATED
from tests.chaos.workload import chaos_tables, twin_tables
from tests.support.postgres.crashing_postgres import CrashingPostgres

TICK: Final = 0.05
CLIENT_PAUSE: Final = 0.02
SETTLES_WITHIN: Final = 90.0
LOST_SECONDS: Final = (0.1, 2.0)
ERRORS, DEATHS = 0.1, 0.002
"""Of the calls of a local landing zone."""
EVERY: Final = {
    "drain": 2.5,
    "api": 2.0,
    "postgres": 8.0,
    "spark python worker": 1.0,
    "connections fall silent": 6.0,
    "clock set back": 4.0,
    "postgres read-only": 9.0,
    "landing zone lost": 5.0,
}
"""Mean seconds between faults of each kind, beside those at failpoints."""


class History:
    """Runs in `place`, which keeps the journal, the logs and the landing zone as evidence."""

    def __init__(self, place: Path, store: str, seed: int) -> None:
        place.mkdir(parents=True)
        self._place, self._source = place, random.Random(seed)
        self._notes = Notes(place / "notes.tsv")
        self.result = Result()
        self.journal = Journal(place / "journal.jsonl")
        self.oracle = Oracle(self.journal)
        self._ended = threading.Event()
        self._failures: list[str] = []
        self._onelake = OneLakeZone(self._fork(), self._note_fault) if store == "onelake" else None
        local = place / "landing-zone"
        zone = self._onelake.address if self._onelake else ZoneAddress(str(local))
        self._consumer = self._onelake or LocalConsumer(local)
        self._postgres = CrashingPostgres(place)
        migrate(self._postgres.url)
        self._engine = open_engine(self._postgres.url)
        self._database = DatabaseFaults(self._postgres.url, self._postgres.administration_url)
        self._apis = [ApiProcess(self._database.url, place / f"api-{number}.log") for number in (1, 2)]
        plan = DrainPlan(self._database.url, zone, place / "notes.tsv", 0, errors=ERRORS, deaths=DEATHS)
        self._drains = LightDrains(plan, place / "drains.log", self._fork(), count=2 if store == "spark" else 4)
        self._spark = (
            SparkDrain(self._database.url, local, place / "spark.log", self._fork()) if store == "spark" else None
        )
        self._mount = None if self._onelake else Mount(local)
        self._mounted_again = 0.0
        self._faults: dict[str, Callable[[], bool]] = {
            "landing zone lost": self._lose_zone,
            "connections fall silent": self._database.fall_silent,
            "clock set back": self._database.set_clock_back,
            "postgres read-only": self._database.become_read_only,
        }
        self._next = dict.fromkeys(EVERY, 0.0)
        self._calm = False
        self._clients = self._make_clients()

    def run(self, seconds: float) -> Result:
        """Run chaos for so long, then calm. The result names a violation."""
        threads: list[threading.Thread] = []
        try:
            self._drains.tend()
            if self._spark:
                self._until(lambda: self._spark is None or self._spark.started, "Spark starts")
            for client in self._clients:
                client.register()
            threads = [threading.Thread(target=self._load, args=(client,)) for client in self._clients]
            for thread in threads:
                thread.start()
            self._torture(seconds)
            self._ended.set()
            for thread in threads:
                self._until(partial(_has_ended, thread), "the clients are answered")
            self._settle()
        except (Violation, Contradiction) as violation:
            self.result.violation = str(violation)
        finally:
            self._ended.set()
            for thread in threads:
                thread.join()
            self._close()
        return self.result

    def _torture(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        for kind, mean in EVERY.items():
            self._next[kind] = time.monotonic() + self._source.expovariate(1 / mean)
        while time.monotonic() < end:
            self._tick()
            for kind, mean in EVERY.items():
                if time.monotonic() >= self._next[kind] and self._kill(kind):
                    self._next[kind] = time.monotonic() + self._source.expovariate(1 / mean)

    def _settle(self) -> None:
        """Stop all faults, and check that everything accepted is published and adds up."""
        self._drains.end()
        self._drains.calm = self._calm = True
        if self._onelake:
            self._onelake.faults.share = 0.0
        for client in self._clients:
            client.resume()
        self._until(self._all_published, "everything that was accepted is published")
        self.oracle.finish(self._consumer.folders(), counts_of(self._engine))

    def _all_published(self) -> bool:
        try:
            with translated_errors():
                counts = counts_of(self._engine)
        except MirrorgateError:
            return False
        if stopped := {name: c.state for name, c in counts.items() if c.state == "quarantined"}:
            raise Violation(f"quarantined: {stopped}")
        return all(c.state == "active" and c.accepted == c.published for c in counts.values())

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        give_up = time.monotonic() + SETTLES_WITHIN
        while not condition():
            self._tick()
            if time.monotonic() > give_up:
                raise Violation(f"did not happen within {SETTLES_WITHIN:.0f} s without faults: {what}")

    def _tick(self) -> None:
        threading.Event().wait(TICK)
        if self._failures:
            raise Violation(self._failures[0])
        self._postgres.tend()
        self._database.tend(calm=self._calm)
        if self._mount and (self._calm or time.monotonic() >= self._mounted_again):
            self._mount.restore()
        for api in self._apis:
            api.tend()
        self._drains.tend()
        if self._spark:
            self._spark.tend()
        self._look()

    def _look(self) -> None:
        try:
            with translated_errors():
                recorded = recorded_files(self._engine)
        except MirrorgateError:
            recorded = {}
        self.oracle.look(self._consumer, recorded, lambda: self._source.random() < 0.3)

    def _kill(self, kind: str) -> bool:
        """Kill a process; return whether there was one to kill."""
        if kind == "drain":
            self._drains.kill_one()
            return True
        if kind == "postgres":
            self._postgres.crash()
            self.result.kills["postgres (immediate)"] += 1
            return True
        if kind in self._faults:
            happened = self._faults[kind]()
            self.result.kills[kind] += happened
            return happened
        if kind == "api":
            api = self._source.choice(self._apis)
            killed = int(api.answers)
            if killed:
                api.kill()
        else:
            killed = self._spark.kill_worker() if self._spark else 0
        self.result.kills[kind] += killed
        return bool(killed)

    def _lose_zone(self) -> bool:
        """Remove the folder for a moment; an unreachable store is simulated by faults of its calls."""
        if self._mount is None or self._mount.is_lost:
            return False
        self._mounted_again = time.monotonic() + self._source.uniform(*LOST_SECONDS)
        self._mount.lose()
        return True

    def _load(self, client: TableClient) -> None:
        try:
            while not self._ended.wait(CLIENT_PAUSE):
                client.step()
        except Exception as error:  # noqa: BLE001  # whatever a client meets ends the history
            self._failures.append(f"client: {type(error).__name__}: {error}")

    def _make_clients(self) -> list[TableClient]:
        urls = [api.url for api in self._apis]
        tables = [*chaos_tables(self._fork()), *twin_tables(self._fork())]
        callers = [Caller(urls, ADMIN_KEY, self._fork(), self.result.events) for _ in tables]
        return [
            TableClient(table, caller, self.journal, recreates=table.name == RECREATED)
            for table, caller in zip(tables, callers, strict=True)
        ]

    def _close(self) -> None:
        self._drains.end()
        for api in self._apis:
            api.kill()
        if self._spark:
            self._spark.end()
        self._engine.dispose()
        self._database.close()
        self._postgres.stop()
        if self._onelake:
            self._onelake.close()
        self.journal.close()
        self._count()

    def _count(self) -> None:
        result = self.result
        result.kills += self._drains.kills
        for line in (self._place / "notes.tsv").read_text().splitlines():
            kind, _, what = line.partition("\t")
            if kind == "fault":
                result.faults[what] += 1
            elif kind == "kill":
                result.kills[what] += 1
        for client in self._clients:
            result.events += client.events
        result.rows, result.files = self.oracle.rows_checked, self.oracle.files_checked
        result.batches = self.journal.count()["acknowledged"]

    def _note_fault(self, what: str) -> None:
        self._notes.write(f"fault\t{what}")

    def _fork(self) -> random.Random:
        return random.Random(self._source.getrandbits(64))


def run_history(store: str, place: Path, seed: int, seconds: float) -> Result:
    """Run one history in a new database and landing zone; the result names a violation."""
    return History(place, store, seed).run(seconds)


def _has_ended(thread: threading.Thread) -> bool:
    return not thread.is_alive()
