"""Chaos in one process and one thread: the same seed makes the same steps.

Clients, operators, mirroring and drains act one after the other; drains and storage fail at random.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from app.domain.model.names import TableName
from app.domain.model.table import DropAction, DropPlan, TableState
from app.ingest import ArcionJson, IngestResult, ReplicateJson
from app.staging.tables.operations import begin_drop, request_flush, set_publishing
from demo.workload import Post, stock_metadata
from mirrorgate.errors import MirrorgateError
from tests.chaos.checks.consumer_view import LocalConsumer
from tests.chaos.checks.journal import Journal
from tests.chaos.checks.ledger_view import counts_of, recorded_files
from tests.chaos.checks.oracle import Oracle, Violation
from tests.chaos.faults.database_faults import set_clock_back
from tests.chaos.parts.simulated_drains import SimulatedDrains
from tests.chaos.workload import bad_post, chaos_tables, registration
from tests.support.gateway_parts import current
from tests.support.ingest_harness import ADMIN, IngestHarness, open_harness
from tests.support.samples.schemas import schema_of

RECREATED: Final = "shop.orders"
MAX_TURNS: Final = 200
"""Turns of calm drains within which everything pending must be published."""


class Simulation:
    """One history in the folder `place`, from one seed."""

    def __init__(self, harness: IngestHarness, database_url: str, place: Path, seed: int) -> None:
        self.harness, self._source = harness, random.Random(seed)
        self.consumer = LocalConsumer(place / "landing-zone")
        self.journal = Journal(place / "journal.jsonl")
        self.oracle = Oracle(self.journal)
        self.drains = SimulatedDrains(harness.engine, database_url, str(place / "landing-zone"), self._source)
        self.drains.between = self.look
        self.tables = chaos_tables(self._source)
        self.consumed_share = 0.5
        """Of the files that mirroring may take away, how many it does at each look."""
        self._posts = 0

    def register(self, *, seed_files: bool) -> None:
        for table in self.tables:
            if table.source_format == "arcion":
                wanted = registration(table)
                options = {"seed_file": seed_files} | wanted.get("options", {})
                self.harness.put(table.name, schema_of(table.columns, wanted["key_columns"]), **options)
        self.harness.accept(ReplicateJson(stock_metadata()))

    def run(self, steps: int) -> None:
        """Take so many steps of chaos, then calm down and see that everything adds up."""
        choices = [(self.post, 6), (self.drains.turn, 6), (self.look, 3), (self.act, 1), (self.step_clock, 1)]
        for _ in range(steps):
            (step,) = self._source.choices([step for step, _ in choices], [weight for _, weight in choices])
            step()
        self.settle()

    def settle(self) -> None:
        """Without chaos everything that was accepted is published, and adds up. Raises Violation."""
        self.drains.calm = True
        for table in self.tables:
            self._set_state(table.name, TableState.ACTIVE)
        for _ in range(MAX_TURNS):
            self.drains.turn()
            self.look()
            counts = counts_of(self.harness.engine)
            if all(c.state == "active" and c.published == c.accepted for c in counts.values()):
                self.oracle.finish(self.consumer.folders(), counts)
                return
        raise Violation(f"not published although nothing fails any more: {counts}")

    def post(self, name: str | None = None) -> None:
        """Post one request to a table; some name no table and cannot be typed."""
        table = self._source.choice([table for table in self.tables if name in (None, table.name)])
        if name is None and self._source.random() < 0.1:
            self._send(bad_post(table), bad=True)
            return
        live = list(table.live)
        if not self._send(table.post(self._source.randrange(1, 30)), bad=False):
            table.live[:] = live

    def step_clock(self) -> None:
        """Set the database's clock back."""
        set_clock_back(self.harness.engine)
        self.drains.events["clock set back"] += 1

    def act(self) -> None:
        """Do what an operator might do."""
        name = self._source.choice(self.tables).name
        act = self._source.choice(("pause", "resume", "resume", "flush", "recreate"))
        if act == "recreate":
            self._recreate()
        elif act == "flush":
            table = current(self.harness.engine, name)
            with self._rejectable(), self.harness.engine.begin() as connection:
                request_flush(connection, table.name, table.generation, "test")
        else:
            self._set_state(name, TableState.PAUSED if act == "pause" else TableState.ACTIVE)

    def look(self) -> None:
        """Let the oracle read the zone, and mirroring consume some of the files that it read."""
        recorded = recorded_files(self.harness.engine)
        self.oracle.look(self.consumer, recorded, lambda: self._source.random() < self.consumed_share)

    def _send(self, post: Post, *, bad: bool) -> bool:
        self._posts += 1
        key = f"{self._posts:06d}"
        self.journal.sent(key, post.table, post.rows)
        try:
            accepted = self._accept(post)
        except MirrorgateError as error:
            self.journal.rejected(key, 409, error.code)
            if not bad and error.code != "table_not_accepting":
                raise
            return False
        receipt = accepted.receipts[0]
        self.journal.accepted(key, receipt.generation, receipt.sequence)
        return True

    def _accept(self, post: Post) -> IngestResult:
        decode: type[ArcionJson | ReplicateJson] = ArcionJson if post.source_format == "arcion" else ReplicateJson
        return self.harness.accept(decode(post.body), ADMIN)

    def _recreate(self) -> None:
        table = current(self.harness.engine, RECREATED)
        plan = DropPlan(DropAction.RECREATE)
        with self._rejectable(), self.harness.engine.begin() as connection:
            begin_drop(connection, table.name, table.generation, plan, "test")
            next(table for table in self.tables if table.name == RECREATED).live.clear()

    def _set_state(self, name: str, state: TableState) -> None:
        table = current(self.harness.engine, name)
        with self._rejectable(), self.harness.engine.begin() as connection:
            set_publishing(connection, TableName.parse(name), table.generation, state, "test")

    @contextmanager
    def _rejectable(self) -> Iterator[None]:
        """Accept the rejection of operations that a table's state does not allow."""
        try:
            yield
        except MirrorgateError as error:
            if error.code not in ("wrong_table_state", "table_not_accepting"):
                raise


@contextmanager
def simulation(
    engine: sa.Engine, database_url: str, place: Path, seed: int, *, seed_files: bool = True
) -> Iterator[Simulation]:
    """Yield a history. `seed_files`: whether the tables that are not registered by metadata begin with one."""
    with open_harness(engine) as harness:
        made = Simulation(harness, database_url, place, seed)
        made.register(seed_files=seed_files)
        with made.drains.opened():
            yield made
        made.journal.close()
