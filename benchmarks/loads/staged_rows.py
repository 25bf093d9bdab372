"""Backlogs: many rows staged as the API stages them, without the cost of making and parsing messages."""

from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from app.domain.model.names import ROW_MARKER, TableName
from app.domain.model.table import Generation, Table, TableState
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import Column, ColumnType, TableSchema
from app.domain.rows.landing_rows import LandingRows
from app.staging.batches.batch import Batch, StagingRequest
from app.staging.tables.operations import set_publishing
from app.staging.tables.registration import register_table
from app.staging.writer.group_commit import GroupCommit
from benchmarks.loads.workloads import FIRST_KEY, TableSpec

PER_BATCH: Final = 1_000
_IN_FLIGHT: Final = 4
"""Requests that wait for their commit at the same time, as with four connections."""


def registered(engine: sa.Engine, spec: TableSpec, *, paused: bool = False) -> Table:
    """Register a table and return it; a paused one accepts rows and publishes none."""
    described = spec.registration()
    columns = tuple(
        Column(entry["name"], ColumnType.parse(entry["type"]), entry["nullable"]) for entry in described["columns"]
    )
    schema, options = TableSchema(columns, tuple(described["key_columns"])), TableOptions.parse(described["options"])
    with engine.begin() as connection:
        table = register_table(connection, TableName.parse(spec.name), schema, options).table
    if paused:
        set_state(engine, table, TableState.PAUSED)
    return table


def set_state(engine: sa.Engine, table: Table, state: TableState) -> None:
    """Pause or resume a table."""
    set_states(engine, [table], state)


def set_states(engine: sa.Engine, tables: Iterable[Table], state: TableState) -> None:
    """Pause or resume tables in one transaction."""
    with engine.begin() as connection:
        for table in tables:
            set_publishing(connection, table.name, Generation(table.generation), state, "benchmark")


def stage_rows(engine: sa.Engine, table: Table, rows: int, *, per_batch: int = PER_BATCH) -> None:
    """Stage this many inserts with different keys, `per_batch` rows a batch."""
    writer = GroupCommit(engine)
    writer.start()
    waiting: deque[Future[object]] = deque()
    try:
        for first in range(FIRST_KEY, FIRST_KEY + rows, per_batch):
            count = min(per_batch, FIRST_KEY + rows - first)
            batch = Batch(table, LandingRows(row_batch(table.schema.arrow, first, count), count, starts_cdc=True))
            waiting.append(writer.submit(StagingRequest([batch])))  # type: ignore[arg-type]  # only waited for
            if len(waiting) >= _IN_FLIGHT:
                waiting.popleft().result()
        for future in waiting:
            future.result()
    finally:
        writer.close()


def row_batch(schema: pa.Schema, first: int, count: int) -> pa.RecordBatch:
    """Return rows with the same values as the messages of the workloads."""
    keys = pa.array(np.arange(first, first + count))
    texts = pc.binary_join_element_wise("text of row", pc.cast(keys, pa.string()), " ")
    marker = pa.array(np.zeros(count, np.int32))
    columns = [
        marker if field.name == ROW_MARKER else texts if pa.types.is_string(field.type) else keys for field in schema
    ]
    return pa.RecordBatch.from_arrays(
        [column.cast(field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )
