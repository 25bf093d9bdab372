"""Rebuilds under chaos in one process and one thread: the same seed makes the same history.

A source changes rows by keys that change too. Each round rebuilds the table by another plan, or after its folder is
lost, and the drain dies or loses Postgres once, while the source goes on. In the end of each round the files, folded as
a mirror folds them, must have exactly the rows of the source.
"""

import random
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch
from uuid import uuid4

import pyarrow.parquet as pq
import sqlalchemy as sa

from app.domain.model.names import TableName
from app.domain.model.table import Table, TableId, TableState
from app.domain.model.table_schema import Column, ColumnType
from app.domain.publication.drain_plan import FileLimits
from app.domain.rebuild.plan import RebuildPhase, RebuiltColumn
from app.landing.open_zone import ZoneAddress
from app.landing.parquet_file import FileLayout
from app.staging.ledger.leases import renew_lease
from app.staging.rebuild import switch
from app.staging.rebuild.progress import begin_rebuild, find_rebuild
from spark_jobs.build_files import BuildConfig
from spark_jobs.drain_cycle import DrainCycle, open_cycle
from spark_jobs.rebuilding import parts, rebuild_run
from spark_jobs.rebuilding.rebuild_run import RebuildRun
from spark_jobs.steps import dropping, publishing
from tests.chaos.checks.oracle import Violation
from tests.chaos.faults.failpoints import wrapped
from tests.chaos.parts.building import builds_in_process
from tests.chaos.parts.simulated_drains import END_LEASE, LEASE_SECONDS, Died
from tests.support.ingest_harness import IngestHarness, open_harness
from tests.support.samples.schemas import schema_of

T: Final = TableName.parse("t")
AMOUNTS: Final = ("decimal(12,2)", "decimal(18,4)", "string")
MAX_TURNS: Final = 100

STEPS: Final[dict[str, tuple[Any, str]]] = {
    "attempt": (RebuildRun, "run"),
    "start of the attempt, not committed": (rebuild_run, "start_attempt"),
    "snapshot": (rebuild_run, "image_snapshot"),
    "copy of a part": (rebuild_run, "copy_part"),
    "stored part, not committed": (parts, "store_part"),
    "round of corrections, not committed": (rebuild_run, "correct_copies"),
    "last corrections, not committed": (switch, "correct_copies"),
    "switch, not committed": (rebuild_run, "switch_generation"),
    "switch": (RebuildRun, "_switch"),
    "removal of the folder": (dropping, "remove_table_folder"),
    "end of the drop, not committed": (dropping, "finish_drop"),
    "plan": (DrainCycle, "prepare"),
    "folder": (publishing, "prepare_folder"),
    "rename": (publishing, "make_visible"),
    "record, not committed": (publishing, "record_published"),
}

TERMINATE: Final = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"""


class RebuildHistory:
    """One table, its source and its drain."""

    def __init__(self, harness: IngestHarness, database_url: str, zone: Path, seed: int) -> None:
        self.harness, self._zone, self._source = harness, zone, random.Random(seed)
        self._config = BuildConfig(database_url, ZoneAddress(str(zone)), FileLayout(False, "zstd"))
        self._drain: DrainCycle | None = None
        self._rows: list[dict[str, str]] = []
        self._fate: tuple[str, int, bool] | None = None
        self._last = 0
        self.kills = 0
        self.phases: list[str] = []
        schema = schema_of({"id": "int64", "code": "string", "amount": AMOUNTS[0]}, ["id"])
        harness.put("t", schema, partial_updates="complete")

    def run(self, kills: int) -> None:
        """Rebuild until the drain has died so often."""
        for _ in range(12):
            self._change()
        self._settle()
        while self.kills < kills:
            self._round()

    def _round(self) -> None:
        for _ in range(self._source.randrange(4)):
            self._change()
        if self._source.random() < 0.2:
            shutil.rmtree(self._zone / "t", ignore_errors=True)
            self._turn()
        point = self._source.choice([f"{when} {step}" for step in STEPS for when in ("before", "after")])
        self._fate = (point, self._source.randrange(1, 4), self._source.random() < 0.2)
        self._begin()
        self._settle()
        self._fate = None

    def _begin(self) -> None:
        table = self.table
        names = list(table.schema.names)
        columns = [
            RebuiltColumn(Column(self._new_name(name), self._new_type(table, name), nullable=name == "amount"), name)
            for name in self._source.sample(names, len(names))
        ]
        keys = [self._source.choice([entry.column.name for entry in columns if entry.source[:2] in ("id", "co")])]
        with self.harness.engine.begin() as connection:
            begin_rebuild(connection, T, table.generation, columns, keys, "chaos", dry_run=False)

    def _new_name(self, name: str) -> str:
        base = name.rstrip("_")
        return f"{base}_" if self._source.random() < 0.3 else base

    def _new_type(self, table: Table, name: str) -> ColumnType:
        present = next(column.type for column in table.schema.columns if column.name == name)
        return ColumnType.parse(self._source.choice(AMOUNTS)) if name.startswith("amount") else present

    @property
    def table(self) -> Table:
        """The table as it is now."""
        return self.harness.table("t")

    def _change(self) -> None:
        """Let the source change some rows in one request."""
        table = self.table
        names = {name.rstrip("_"): name for name in table.schema.names}
        key = table.schema.key_columns[0].rstrip("_")
        other = "code" if key == "id" else "id"

        def message(kind: str, before: dict[str, str], after: dict[str, str]) -> dict[str, Any]:
            old, new = ({names[name]: value for name, value in image.items()} for image in (before, after))
            exists = {name: str((name in new) + 2 * (name in old)) for name in {**old, **new}}
            address = {"namespace": {"catalog": None, "schema": None}, "name": "t"}
            return {"tableName": address, "opType": kind, "before": old, "after": new, "exists": exists}

        action = self._source.choice(["insert", "insert", "update", "other", "key", "swap", "delete"])
        if action == "insert" or len(self._rows) < 4:
            row = {"id": self._fresh(), "code": f"c{self._fresh()}", "amount": f"{self._source.randrange(999)}.25"}
            self._rows.append(row)
            self.harness.arcion(message("I", {}, row))
            return
        row = self._source.choice(self._rows)
        before = {key: row[key]}
        if action == "delete":
            self._rows.remove(row)
            self.harness.arcion(message("D", before, {}))
        elif action == "swap":
            two = self._source.choice([one for one in self._rows if one is not row])
            messages = [
                message("U", {key: one[key]}, {key: one[key], other: by[other]}) for one, by in ((row, two), (two, row))
            ]
            row[other], two[other] = two[other], row[other]
            self.harness.arcion(*messages)
        else:
            changed = {"update": "amount", "other": other, "key": key}[action]
            fresh = self._fresh()
            row[changed] = {"amount": f"{fresh}.5", "id": fresh, "code": f"c{fresh}"}[changed]
            self.harness.arcion(message("U", before, {key: row[key], changed: row[changed]}))

    def _fresh(self) -> str:
        self._last += 1
        return str(self._last)

    def reached(self, point: str) -> None:
        """Let the source go on, and the drain die or lose Postgres if this is the point."""
        if self._fate is None:
            return
        if "not committed" not in point and "snapshot" not in point and self._source.random() < 0.5:
            self._change()
        chosen, passes, is_database = self._fate
        if point != chosen:
            return
        self._fate = (chosen, passes - 1, is_database) if passes > 1 else None
        if passes == 1:
            self.kills += 1
            if not is_database:
                raise Died
            with self.harness.engine.begin() as connection:
                connection.exec_driver_sql(TERMINATE)

    def _settle(self) -> None:
        """Let drains go on until the rebuild has ended and everything is published, then compare."""
        for _ in range(MAX_TURNS):
            self._turn()
            table = self.table
            rebuild = self._rebuild_phase(table.table_id)
            if rebuild in (None, RebuildPhase.DONE) and table.state is TableState.ACTIVE and self._is_published():
                self._compare(table)
                return
            if rebuild is RebuildPhase.FAILED:
                with self.harness.engine.begin() as connection:
                    raise Violation(f"a rebuild failed: {find_rebuild(connection, table.table_id)}")
        raise Violation(f"not published although nothing fails any more: {self.table}")

    def _rebuild_phase(self, table_id: TableId) -> RebuildPhase | None:
        with self.harness.engine.begin() as connection:
            found = find_rebuild(connection, table_id)
        return found.phase if found else None

    def _is_published(self) -> bool:
        with self.harness.engine.begin() as connection:
            return bool(
                connection.exec_driver_sql(
                    "SELECT last_sequence = published_through FROM mirrorgate.table_counters"
                ).scalar()
            )

    def _turn(self) -> None:
        drain = self._drain = self._drain or self._new_drain()
        try:
            with self.harness.engine.begin() as connection:
                renew_lease(connection, drain.context.worker_id, LEASE_SECONDS)
            due = drain.due()
            claimed, alone = drain.prepare_leased(due)
            claimed += [entry for table_id in alone if (entry := drain.prepare(table_id)) is not None]
            if claimed:
                drain.build_and_publish(claimed)
        except Died:
            drain.context.engine.dispose()
            with self.harness.engine.begin() as connection:
                connection.execute(END_LEASE, {"worker_id": drain.context.worker_id})
            self._drain = None

    def close(self) -> None:
        """Close the connections of the drain that still lives."""
        if self._drain is not None:
            self._drain.context.engine.dispose()

    def _new_drain(self) -> DrainCycle:
        limits = FileLimits(128 * 2**20, 40, 0.0)
        drain = open_cycle(uuid4(), None, self._config, limits, tasks=1)  # type: ignore[arg-type]  # no Spark here
        drain.rebuilds.start = RebuildRun(drain.context, drain.builder, lambda: False).run  # type: ignore[method-assign]  # in this thread
        return drain

    def _compare(self, table: Table) -> None:
        """Compare the folded files with the source. Raises Violation."""
        paths = sorted((self._zone / "t").glob("*.parquet"))
        if [int(path.stem) for path in paths] != [*range(1, len(paths) + 1)]:
            raise Violation(f"the numbers have a gap: {paths}")
        [key] = table.schema.key_columns
        landed: dict[Any, dict[str, str]] = {}
        for row in (row for path in paths for row in pq.read_table(path).to_pylist()):
            marker = row.pop("__rowMarker__", 0)
            if marker == 2:
                landed.pop(row[key], None)
                continue
            if marker == 0 and row[key] in landed:
                raise Violation(f"row {row} is inserted twice")
            landed[row[key]] = row
        if _plain(landed.values()) != _plain(self._rows):
            raise Violation(f"landed {_plain(landed.values())}, the source has {_plain(self._rows)}")
        self.phases.append(str(table.generation))


def _plain(rows: Any) -> list[tuple[str, str, Decimal]]:
    return sorted(
        (str(row["id"]), row["code"], Decimal(row["amount"]))
        for row in ({name.rstrip("_"): value for name, value in row.items()} for row in rows)
    )


@contextmanager
def rebuild_history(engine: sa.Engine, database_url: str, zone: Path, seed: int) -> Iterator[RebuildHistory]:
    """Open a history whose rebuilds copy four rows at a time and correct two at once."""
    with ExitStack() as stack:
        history = RebuildHistory(stack.enter_context(open_harness(engine)), database_url, zone, seed)
        stack.callback(history.close)
        stack.enter_context(builds_in_process())
        run_tasks = lambda _, orders: [rebuild_run.copy_part(history._config, order) for order in orders]  # noqa: E731
        stack.enter_context(patch.object(RebuildRun, "_run_tasks", run_tasks))
        stack.enter_context(patch.multiple(rebuild_run, ROWS_PER_PART=4, MAX_LAST_CORRECTIONS=2, PARTS_PER_TASK=2))
        for step, (owner, name) in STEPS.items():
            stack.enter_context(patch.object(owner, name, wrapped(step, getattr(owner, name), history.reached)))
        yield history
