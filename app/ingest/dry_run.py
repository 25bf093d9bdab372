"""A dry run: the whole way of a request up to the commit, which is then given up."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

import structlog
from msgspec import UNSET, UnsetType

from app.domain.access.rights import Principal, Right
from app.domain.model.names import ROW_MARKER
from app.errors import Code, RejectedInput, TemporarilyUnavailable
from app.ingest.readers import BodyReader
from app.ingest.request_typing import RequestTyper
from app.ingest.table_cache import TableCache
from app.staging.batches.batch import Batch, StagingRequest, TableMoved
from app.staging.batches.locked_table import StagedBatch
from app.staging.batches.sequence_lock import shorten_lock_timeout
from app.staging.batches.stage_transaction import encode_blocks, stage_requests
from app.staging.connection.database import Connection, Engine, translated_errors

_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
class WithheldColumns:
    """Columns of a row that are not shown: row images give them, and the caller may not read the table."""

    row: int
    columns: list[str]


@dataclass(frozen=True, slots=True)
class DryRunTable:
    """What would land in one table: its rows in order, by column name, the row marker among them."""

    table: str
    generation: int
    schema_version: int
    rows: list[dict[str, Any]]
    withheld: list[WithheldColumns] | UnsetType = UNSET
    """Left out of the answer where nothing is withheld."""


@dataclass(frozen=True, slots=True)
class DryRunResult:
    """What would become of a request; see `IngestResult`."""

    tables: list[DryRunTable]
    ignored: int
    duplicates: int


async def perform_dry_run(
    engine: Engine, reader: BodyReader, principal: Principal, *, marker_first: bool
) -> DryRunResult:
    """Do everything that accepting the request would do, metadata messages included, and take all of it back.

    Holds the sequence locks of its tables meanwhile, in no certain order. Raises what `Ingest.accept` raises.
    """
    for _ in range(_ATTEMPTS):
        try:
            return await asyncio.to_thread(_run, engine, reader, principal, marker_first)
        except TableMoved:
            continue
    raise TemporarilyUnavailable(Code.TABLE_BUSY, "the tables of this request keep changing")


def _run(engine: Engine, reader: BodyReader, principal: Principal, marker_first: bool) -> DryRunResult:
    with (
        structlog.contextvars.bound_contextvars(dry_run=True),
        translated_errors(),
        engine.connect() as connection,
        connection.begin() as transaction,
    ):
        shorten_lock_timeout(connection)
        table_cache = TableCache(lambda: _savepoint(connection))
        parsed = reader.read(table_cache, principal, marker_first)
        typed = RequestTyper(table_cache, principal, marker_first).type_request(parsed)
        tables: list[DryRunTable] = []
        if typed.batches:
            requests = [StagingRequest(typed.batches)]
            [outcome] = stage_requests(connection, requests, encode_blocks(requests)).outcomes
            if isinstance(outcome, RejectedInput):
                raise parsed.rejection(outcome.problems)
            if not isinstance(outcome, list):
                raise outcome
            tables = [
                _dry_run_table(batch, staged, shows_stored=principal.may(Right.READ, batch.table.name))
                for batch, staged in zip(typed.batches, outcome, strict=True)
            ]
        transaction.rollback()
    return DryRunResult(tables, parsed.ignored, typed.duplicates)


@contextmanager
def _savepoint(connection: Connection) -> Iterator[Connection]:
    with connection.begin_nested():
        yield connection


def _dry_run_table(batch: Batch, staged: StagedBatch, *, shows_stored: bool) -> DryRunTable:
    table = batch.table
    rows = staged.rows.batch.to_pylist()
    withheld = [] if shows_stored else _withheld(batch)
    for hidden in withheld:
        for name in hidden.columns:
            del rows[hidden.row][name]
    for row in rows:
        if table.schema.bare:
            del row[ROW_MARKER]
        row |= {name: str(value) for name, value in row.items() if isinstance(value, float) and not isfinite(value)}
    return DryRunTable(str(table.name), table.generation, table.schema_version, rows, withheld or UNSET)


def _withheld(batch: Batch) -> list[WithheldColumns]:
    """The columns that the messages do not give: they come from rows that were stored before."""
    if batch.rows.images is None:
        return []
    names = batch.table.schema.names
    incomplete = batch.rows.images.incomplete.items()
    return [WithheldColumns(row, [names[ordinal] for ordinal in entry.missing.ordinals]) for row, entry in incomplete]
