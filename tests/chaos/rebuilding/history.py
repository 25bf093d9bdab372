"""Rebuilds under chaos: the same seed makes the same history, up to what the killed processes had in flight.

Each round gives one table a cause to be rebuilt: another key, other types and names, a lost landing zone or a restored
database. The drain is killed at some step, or loses its connections, while the source continues; the next drain goes
on. In the end of each round the files, folded as a mirror folds them, must have exactly the rows of the source.
"""

import random
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from app.checks.landing_zone import move_landing_zone
from app.domain.model.names import TableName
from app.domain.model.table import Table, TableState
from app.domain.model.table_schema import Column, ColumnType
from app.domain.rebuild import RebuildPhase, RebuiltColumn
from app.landing.open_zone import ZoneAddress
from app.staging.connection.database import open_engine
from app.staging.rebuild.progress import Rebuild, begin_rebuild, find_rebuild
from tests.chaos.checks.oracle import Violation
from tests.chaos.rebuilding.drain_process import POINTS, DrainProcess, is_repeated
from tests.chaos.rebuilding.source import KeyedSource
from tests.support.gateway_parts import folded
from tests.support.ingest_harness import IngestHarness, open_harness
from tests.support.postgres import sql
from tests.support.postgres.databases import clone_database
from tests.support.postgres.ledger import end_lease
from tests.support.samples.schemas import schema_of

T: Final = TableName.parse("t")
AMOUNTS: Final = ("decimal(12,2)", "decimal(18,4)", "string")
MAX_TURNS: Final = 100
MAX_KILLS_PER_REBUILD: Final = 3


class Cause(StrEnum):
    """Why a table is rebuilt."""

    KEY = "another key"
    TYPES = "other types and names"
    LOST_ZONE = "a lost landing zone"
    RESTORE = "a restored database"


class RebuildHistory:
    """One table, its source and its drain."""

    def __init__(self, database_url: str, place: Path, seed: int) -> None:
        self._place, self._zone, self._url = place, place / "zone", database_url
        self._chance = random.Random(seed)
        self._source = KeyedSource(self._chance)
        self._drain: DrainProcess | None = None
        self._fates: list[str] = []
        self._tries: Counter[str] = Counter()
        self._cause = Cause.KEY
        self._open = ExitStack()
        self._harness = self._opened(database_url)
        self.kills: Counter[Cause] = Counter()
        """Processes that were killed while a table was rebuilt, or published after it."""
        self.killed_at: Counter[str] = Counter()
        self.lost_connections = 0
        schema = schema_of({"id": "int64", "code": "string", "amount": AMOUNTS[0]}, ["id"])
        self._harness.put("t", schema, partial_updates="complete")

    def run(self, kills: int) -> None:
        """Rebuild for each cause in turn until drains have been killed so often. Raises Violation."""
        for _ in range(8):
            self._change()
        self._settle()
        causes = list(Cause)
        while self.kills.total() < kills:
            self._round(causes[0])
            causes.append(causes.pop(0))

    def close(self) -> None:
        """End the drain, and close what talks to the database."""
        self._end_drain()
        self._open.close()

    @property
    def table(self) -> Table:
        """The table as it is now."""
        return self._harness.table("t")

    def _round(self, cause: Cause) -> None:
        self._cause = cause
        for _ in range(self._chance.randrange(4)):
            self._change()
        if cause is Cause.LOST_ZONE:
            self._lose_zone()
        elif cause is Cause.RESTORE:
            self._restore()
        # Points that were tried least come first, so that a hundred kills meet every step.
        points = sorted(POINTS, key=lambda point: (self._tries[point], self._chance.random()))
        self._fates = points[: self._chance.randint(1, MAX_KILLS_PER_REBUILD)]
        self._tries.update(self._fates)
        self._begin(cause)
        self._settle()
        self._fates = []

    def _lose_zone(self) -> None:
        """Lose the table's folder, or the whole landing zone; an operator then confirms the move to a new one."""
        if self._chance.random() < 0.5:
            shutil.rmtree(self._zone / "t")
            self._turn()
            return
        self._end_drain()
        shutil.rmtree(self._zone)
        self._zone = self._place / uuid4().hex
        move_landing_zone(self._harness.engine, ZoneAddress(str(self._zone)))

    def _restore(self) -> None:
        """Go back to a copy of the database, and let the source send again what came after it."""
        self._end_drain()
        self._open.close()
        backup = clone_database(self._url, f"restored_{uuid4().hex}")
        self._harness = self._opened(self._url)
        sent = []
        for _ in range(self._chance.randint(1, 4)):
            sent.append(self._change())
            if self._chance.random() < 0.7:
                self._turn()
        self._end_drain()
        self._open.close()
        self._url, self._harness = backup, self._opened(backup)
        sql.run(self._harness.engine, "DELETE FROM mirrorgate.workers")
        for messages in sent:
            self._harness.arcion(*messages)

    def _opened(self, database_url: str) -> IngestHarness:
        engine = open_engine(database_url)
        self._open.callback(engine.dispose)
        return self._open.enter_context(open_harness(engine))

    def _begin(self, cause: Cause) -> None:
        """Ask for the rebuild, with every column in another place for a change of key or types."""
        table = self.table
        names = list(table.schema.names)
        columns: list[RebuiltColumn] | None = None
        keys: list[str] | None = None
        if cause in {Cause.KEY, Cause.TYPES}:
            columns = [self._rebuilt(table, name, cause) for name in self._chance.sample(names, len(names))]
        if columns is not None and cause is Cause.KEY:
            [key] = table.schema.key_columns
            keys = [entry.column.name for entry in columns if entry.source[:2] in {"id", "co"} and entry.source != key]
        with self._harness.engine.begin() as connection:
            begin_rebuild(connection, T, table.generation, columns, keys, "chaos", dry_run=False)

    def _rebuilt(self, table: Table, name: str, cause: Cause) -> RebuiltColumn:
        [present] = (column for column in table.schema.columns if column.name == name)
        base = name.rstrip("_")
        if cause is Cause.KEY:
            return RebuiltColumn(Column(name, present.type, nullable=base == "amount"), name)
        of_type = self._other_amount(present.type) if base == "amount" else present.type
        return RebuiltColumn(Column(self._chance.choice([base, f"{base}_"]), of_type, nullable=base == "amount"), name)

    def _other_amount(self, present: ColumnType) -> ColumnType:
        return ColumnType.parse(self._chance.choice([name for name in AMOUNTS if name != str(present)]))

    def _change(self) -> Sequence[Any]:
        """Let the source change some rows in one request; return its messages."""
        messages = self._source.change(self.table.schema)
        self._harness.arcion(*messages)
        return messages

    def _settle(self) -> None:
        """Let drains go on until the rebuild has ended and everything is published, then compare."""
        for _ in range(MAX_TURNS):
            self._turn()
            table, rebuild = self.table, self._rebuild()
            if rebuild is not None and rebuild.phase is RebuildPhase.FAILED:
                raise Violation(f"a rebuild failed: {rebuild}")
            is_over = rebuild is None or rebuild.phase is RebuildPhase.DONE
            if is_over and table.state is TableState.ACTIVE and self._is_published():
                self._compare(table)
                return
        raise Violation(f"not published although nothing fails any more: {self.table}, {self._rebuild()}")

    def _turn(self) -> None:
        """Let the drain, or a new one, do what is due, until it is done or killed."""
        drain = self._drain = self._drain or DrainProcess(self._url, str(self._zone))
        for point in drain.turn():
            # The source cannot change a table whose sequence lock the drain holds, and waits for nothing else.
            if self._fates and "not committed" not in point and "snapshot" not in point and self._chance.random() < 0.3:
                self._change()
            if point not in self._fates or (is_repeated(point) and self._chance.random() < 0.5):
                continue
            self._fates.remove(point)
            if self._chance.random() < 0.1:
                self.lost_connections += 1
                sql.end_sessions(self._harness.engine)
                continue
            self._end_drain()
            self.kills[self._cause] += 1
            self.killed_at[point] += 1
            return

    def _end_drain(self) -> None:
        """Kill the drain, and let the next one have the table at once."""
        if self._drain is None:
            return
        self._drain.kill()
        end_lease(self._harness.engine, self._drain.worker_id)
        self._drain = None

    def _rebuild(self) -> Rebuild | None:
        with self._harness.engine.begin() as connection:
            return find_rebuild(connection, self.table.table_id)

    def _is_published(self) -> bool:
        published = "SELECT last_sequence = published_through FROM mirrorgate.table_counters"
        return bool(sql.value(self._harness.engine, published))

    def _compare(self, table: Table) -> None:
        """Compare the folded files with the source. Raises Violation, or what `folded` raises."""
        landed = folded(self._zone, "t", *table.schema.key_columns)
        if _plain(landed.values()) != _plain(self._source.rows):
            raise Violation(f"landed {_plain(landed.values())}, the source has {_plain(self._source.rows)}")


def _plain(rows: Any) -> list[tuple[str, str, Decimal]]:
    return sorted(
        (str(row["id"]), row["code"], Decimal(row["amount"]))
        for row in ({name.rstrip("_"): value for name, value in row.items()} for row in rows)
    )


@contextmanager
def rebuild_history(database_url: str, place: Path, seed: int) -> Iterator[RebuildHistory]:
    """Open a history, and close it at the end of the block."""
    history = RebuildHistory(database_url, place, seed)
    try:
        yield history
    finally:
        history.close()
