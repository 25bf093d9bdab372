"""Stage batches and read landing zones in tests, with the real parts."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import sqlalchemy as sa

from app.domain.arrow import decode_payload, payload_digest
from app.domain.model.change import Change, Operation
from app.domain.model.landing_file import BatchRange
from app.domain.model.names import TableName
from app.domain.model.table import BatchSequence, DropAction, DropPlan, Epoch, Table
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import TableSchema
from app.domain.rows.landing_rows import landing_rows
from app.domain.rows.row_rules import RowMarker, RowRules
from app.staging.batches.batch import Batch, Receipt, StagingRequest
from app.staging.batches.staged_blocks import read_payloads
from app.staging.tables.operations import FinishedDrop, begin_drop, finish_drop
from app.staging.tables.registration import register_table
from app.staging.tables.registry import find_table, quarantine_table
from app.staging.writer.group_commit import GroupCommit
from demo.landing_reader import ROW_MARKER, landing_files, table_folder
from tests.support.postgres import sql

Rows = dict[tuple[Any, ...], dict[str, Any]]
"""Rows by the values of their keys."""


def registered(engine: sa.Engine, name: str, schema: TableSchema | None, options: TableOptions | None = None) -> Table:
    """Register a table and return it.

    Without options, a new table has no seed file, and files with the row marker: tests count its files of data from 1.
    """
    wanted = TableName.parse(name)
    with engine.begin() as connection:
        if options is None and find_table(connection, wanted) is None:
            options = TableOptions()
        return register_table(connection, wanted, schema, options).table


def current(engine: sa.Engine, name: str) -> Table:
    """Return the current state of a table."""
    table = sql.call(engine, find_table, TableName.parse(name))
    assert table is not None
    return table


def quarantined(engine: sa.Engine, name: str, reason: str = "foreign_file: seen") -> None:
    """Stop an active table as the drain does."""
    assert sql.call(engine, quarantine_table, current(engine, name).table_id, reason)


def state_reason(engine: sa.Engine, name: str) -> str:
    """Return why a table is in its state: the code and the detail."""
    return str(sql.value(engine, "SELECT state_reason FROM mirrorgate.tables WHERE name = :name", name=name))


def dropping(
    engine: sa.Engine, name: str, action: DropAction = DropAction.DROP, *, new_name: str | None = None
) -> Table:
    """Start to drop, recreate or rename a table and return it."""
    table, plan = current(engine, name), DropPlan(action, new_name=TableName.parse(new_name) if new_name else None)
    return sql.call(engine, begin_drop, table.name, table.generation, plan, "test")


def finished_drop(engine: sa.Engine, table: Table) -> FinishedDrop:
    """Finish a drop as the table's owner does when the folder is gone."""
    sql.run(
        engine,
        """INSERT INTO mirrorgate.table_leases VALUES (:table_id, 7, gen_random_uuid())
        ON CONFLICT (table_id) DO UPDATE SET epoch = 7""",
        table_id=table.table_id,
    )
    return sql.call(engine, finish_drop, table, Epoch(7), marker_first=False)


def next_generation(engine: sa.Engine, name: str, plan: DropPlan) -> None:
    """Drop, recreate or rename a table."""
    table = current(engine, name)
    begun = sql.call(engine, begin_drop, table.name, table.generation, plan, "test")
    finished_drop(engine, begun)


def inserts(rows: Sequence[dict[str, Any]]) -> list[Change]:
    """Return one insert per row."""
    return [Change(index, Operation.INSERT, None, row, "", "") for index, row in enumerate(rows)]


def typed(table: Table, changes: Sequence[Change]) -> Batch:
    return Batch(table, landing_rows(changes, RowRules.of(table)))


@contextmanager
def running_writer(engine: sa.Engine, **options: Any) -> Iterator[GroupCommit]:
    """Run the writer of an API process while the block runs."""
    writer = GroupCommit(engine, **options)
    writer.start()
    try:
        yield writer
    finally:
        writer.close()


def stage(engine: sa.Engine, *requests: Sequence[Batch]) -> list[Receipt]:
    """Stage requests one after the other, each in a transaction of its own; all their receipts."""
    receipts: list[Receipt] = []
    with running_writer(engine) as writer:
        for request in requests:
            receipts += writer.submit(StagingRequest(request)).result(timeout=30)
    return receipts


def together(engine: sa.Engine, *requests: Sequence[Batch] | StagingRequest) -> "list[Future[list[Receipt]]]":
    """Stage requests that all wait when the writer starts; their futures, all done."""
    writer = GroupCommit(engine)
    given = [request if isinstance(request, StagingRequest) else StagingRequest(request) for request in requests]
    futures = [writer.submit(request) for request in given]
    writer.start()
    writer.close()
    return futures


def staged_ids(engine: sa.Engine, table: Table, first: int = 1, last: int = 10**9) -> list[int]:
    """Return the staged `id` values of these batches in order, after a check of each payload against its digest."""
    whole = BatchRange(BatchSequence(first), BatchSequence(last))
    payloads = list(read_payloads(engine, table.table_id, table.generation, whole, slice_bytes=2**20))
    assert all(payload_digest(payload) == digest for digest, payload in payloads)
    batches = [decode_payload(payload, table.schema.arrow) for _, payload in payloads]
    return [key for batch in batches for key in batch.column("id").to_pylist()]


def stage_keys(engine: sa.Engine, table: Table, *batches: Sequence[int]) -> None:
    """Stage one batch of inserts per list of keys, for a table whose only column is `id`."""
    stage(engine, *([typed(table, inserts([{"id": key} for key in keys]))] for keys in batches))


def folded_rows(landed: Iterable[dict[str, Any]], *keys: str, strict: bool = True) -> Rows:
    """Apply landing rows as mirroring does; return the rows by the values of their keys, without markers.

    With `strict`, fail on a row that is inserted while it is there.
    """
    rows: Rows = {}
    for row in landed:
        marker = row.get(ROW_MARKER, RowMarker.INSERT)
        key = tuple([row[name] for name in keys])
        assert not strict or marker != RowMarker.INSERT or key not in rows, f"{key} is inserted twice"
        if marker == RowMarker.DELETE:
            rows.pop(key, None)
        else:
            rows[key] = {name: value for name, value in row.items() if name != ROW_MARKER}
    return rows


def folded(landing_zone: Path, table: str, *keys: str, strict: bool = True) -> Rows:
    """Apply the landing files of a table by `folded_rows`; fail on a gap in their numbers too."""
    files = landing_files(table_folder(landing_zone, table))
    return folded_rows((row for file in files for row in pq.read_table(file).to_pylist()), *keys, strict=strict)


def file_numbers(folder: Path) -> list[int]:
    """Return the numbers of the landing files that are directly in a folder."""
    return sorted(int(file.stem) for file in folder.glob("*.parquet"))


def landed_keys(landing_zone: Path, table: str) -> list[list[Any]]:
    """Return the `id` values of each landing file, in file order; fail on a gap in the numbers."""
    folder = table_folder(landing_zone, table)
    return [pq.read_table(file).column("id").to_pylist() for file in landing_files(folder)] if folder.exists() else []
