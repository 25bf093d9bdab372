"""Dry runs: a request goes through everything up to COMMIT, then the transaction is rolled back.

Invariant: nothing of a dry run stays, also not what its metadata messages declare. It returns the rows that would land.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from typing import Any

import structlog
from msgspec import UNSET, UnsetType

from app.domain.access.mask_secret import MaskSecret
from app.domain.access.rights import Principal, Right
from app.domain.model.names import ROW_MARKER
from app.domain.rows.projection.source_rows import landed_columns
from app.errors import RejectedInput
from app.ingest.loads import ArrowLoad
from app.ingest.moved_tables import retry_moved
from app.ingest.parsed_request import ParsedRequest
from app.ingest.readers import BodyReader
from app.ingest.request_typing import RequestTyper, TypedRequest
from app.ingest.table_cache import TableCache
from app.staging.batches.batch import Batch, StagingRequest
from app.staging.batches.locked_table import StagedBatch
from app.staging.batches.sequence_lock import shorten_lock_timeout
from app.staging.batches.stage_transaction import encode_blocks, stage_requests
from app.staging.connection.database import Connection, Engine, translated_errors


@dataclass(frozen=True, slots=True)
class WithheldColumns:
    """Columns of a row that the answer omits, masked or from row images, because the caller may not read the table.

    A hash that a sender sees would tell which of the values that it tries is the one behind a hash in the files.
    """

    row: int
    columns: list[str]


@dataclass(frozen=True, slots=True)
class DryRunTable:
    """The rows that would land in one table, in order, by column name and with the row marker."""

    table: str
    generation: int
    schema_version: int
    rows: list[dict[str, Any]]
    withheld: list[WithheldColumns] | UnsetType = UNSET
    """Absent from the answer if nothing is withheld."""


@dataclass(frozen=True, slots=True)
class DryRunResult:
    """The result that a request would have; see `IngestResult`."""

    tables: list[DryRunTable]
    ignored: int
    duplicates: int


async def perform_dry_run(
    engine: Engine, reader: BodyReader, principal: Principal, *, marker_first: bool, mask_secret: MaskSecret | None
) -> DryRunResult:
    """Do everything that accepting the request would do, metadata messages included, and roll it back.

    Takes the sequence locks of its tables in no fixed order, so it waits for a lock only briefly. Raises what
    `Ingest.accept` raises.
    """

    def typed(table_cache: TableCache) -> tuple[ParsedRequest, TypedRequest]:
        parsed = reader.read(table_cache, principal, marker_first)
        return parsed, RequestTyper(table_cache, principal, marker_first).type_request(parsed)

    return await retry_moved(lambda: asyncio.to_thread(_run, engine, typed, principal, mask_secret))


async def perform_stream_dry_run(
    engine: Engine, load: ArrowLoad, principal: Principal, *, marker_first: bool, mask_secret: MaskSecret | None
) -> DryRunResult:
    """Do for an Arrow stream what `perform_dry_run` does for messages."""

    def typed(table_cache: TableCache) -> tuple[ParsedRequest, TypedRequest]:
        batch, _ = load.batch(table_cache, principal, marker_first=marker_first)
        return ParsedRequest([]), TypedRequest([batch])

    return await retry_moved(lambda: asyncio.to_thread(_run, engine, typed, principal, mask_secret))


def _run(
    engine: Engine,
    type_rows: Callable[[TableCache], tuple[ParsedRequest, TypedRequest]],
    principal: Principal,
    mask_secret: MaskSecret | None,
) -> DryRunResult:
    with (
        structlog.contextvars.bound_contextvars(dry_run=True),
        translated_errors(),
        engine.connect() as connection,
        connection.begin() as transaction,
    ):
        shorten_lock_timeout(connection)
        table_cache = TableCache(lambda: _savepoint(connection), mask_secret=mask_secret)
        parsed, typed = type_rows(table_cache)
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
    withheld = [] if shows_stored else _withheld(batch, len(rows))
    for hidden in withheld:
        for name in hidden.columns:
            del rows[hidden.row][name]
    for row in rows:
        if table.schema.landing.bare:
            del row[ROW_MARKER]
        row |= {name: str(value) for name, value in row.items() if isinstance(value, float) and not isfinite(value)}
    return DryRunTable(str(table.name), table.generation, table.schema_version, rows, withheld or UNSET)


def _withheld(batch: Batch, landed: int) -> list[WithheldColumns]:
    """Return the masked columns and those that the messages do not give, which a real request takes from row images.

    `landed` is the number of rows that land.
    """
    schema, options = batch.table.schema, batch.table.options
    names = [column.name for column in landed_columns(schema.columns, options)]
    masked = {landing for landing, name in zip(names, schema.names, strict=True) if name in options.masks}
    stored = _stored(batch, names, landed)
    hidden = [masked.union(stored.get(row, ())) for row in range(landed)]
    return [WithheldColumns(row, sorted(columns)) for row, columns in enumerate(hidden) if columns]


def _stored(batch: Batch, names: Sequence[str], landed: int) -> Mapping[int, Collection[str]]:
    """Return the columns of each row, of these names, whose values a real request takes from row images."""
    images, schema, options = batch.rows.images, batch.table.schema, batch.table.options
    if images is None:
        return {}
    hidden = {row: [names[at] for at in entry.missing.ordinals] for row, entry in images.incomplete.items()}
    if options.flags_deletes:
        values = [names[at] for at, name in enumerate(schema.names) if name not in schema.key_set]
        hidden |= dict.fromkeys(images.deletes, values)
    if options.filter is not None or images.key_changes:
        # Rows are left out or land in another order, so that every row hides what one of them lacks.
        in_any = {name for columns in hidden.values() for name in columns}
        return dict.fromkeys(range(landed), in_any)
    return hidden
