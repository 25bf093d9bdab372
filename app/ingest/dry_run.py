"""Dry runs: a request goes through everything up to COMMIT, then the transaction is rolled back.

Invariant: nothing of a dry run remains, also not what its metadata messages declare. It returns the rows that would
land.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from threading import Lock
from typing import Any, Final

import msgspec
import pyarrow as pa
import structlog
from msgspec import UNSET, UnsetType

from app.domain.access.rights import Principal, Right
from app.domain.model.names import ROW_MARKER
from app.domain.model.projection import parsed_derive
from app.domain.model.table import Table
from app.domain.rows.landing_projection import landed_columns
from app.ingest.changed_tables import retry_moved
from app.ingest.loads import ArrowLoad
from app.ingest.parsed_request import ParsedRequest
from app.ingest.pipeline import Ingest
from app.ingest.readers import BodyReader
from app.ingest.request_typing import RequestTyper, TypedRequest
from app.ingest.table_cache import TableCache
from app.staging.batches.batch import Batch, StagingRequest
from app.staging.batches.sequence_lock import shorten_lock_timeout
from app.staging.batches.stage_transaction import StagedBatch, encode_blocks, stage_requests
from app.staging.connection.database import Connection, translated_errors
from mirrorgate.errors import RejectedInput, TemporarilyUnavailable

MAX_ANSWER_BYTES: Final = 16 * 2**20
"""Bytes of JSON that the rows of an answer take, over all tables."""

_MIB: Final = 2**20
_READS_IMAGES: Final = Lock()
"""Held by the dry run that may complete rows from row images: as in real requests, one at a time does."""
_ENCODER: Final = msgspec.json.Encoder()


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
    omitted_rows: int | UnsetType = UNSET
    """Number of further rows that would land, for which the answer has no room; absent if it has all of them."""


@dataclass(frozen=True, slots=True)
class DryRunResult:
    """The result that a request would have; see `IngestResult`."""

    tables: list[DryRunTable]
    ignored: int
    duplicates: int


async def perform_dry_run(ingest: Ingest, request: BodyReader | ArrowLoad, principal: Principal) -> DryRunResult:
    """Do everything that accepting the request would do, metadata messages included, and roll it back.

    Takes the sequence locks of its tables in no fixed order, so it waits for a lock only briefly. Raises what
    `Ingest.accept` raises.
    """
    return await retry_moved(lambda: asyncio.to_thread(_run, ingest, request, principal))


def _typed(
    request: BodyReader | ArrowLoad, table_cache: TableCache, principal: Principal
) -> tuple[ParsedRequest, TypedRequest]:
    if isinstance(request, ArrowLoad):
        batch, _ = request.batch(table_cache, principal)
        return ParsedRequest([]), TypedRequest([batch])
    parsed = request.exact(table_cache, principal)
    return parsed, RequestTyper(table_cache, principal, reserve=request.limits.reserve).type_request(parsed)


def _run(ingest: Ingest, request: BodyReader | ArrowLoad, principal: Principal) -> DryRunResult:
    with (
        structlog.contextvars.bound_contextvars(dry_run=True),
        translated_errors(),
        ingest.engine.connect() as connection,
        connection.begin() as transaction,
    ):
        shorten_lock_timeout(connection)
        own = ingest.table_cache
        table_cache = TableCache(
            lambda: _savepoint(connection), mask_secret=own.mask_secret, marker_first=own.marker_first
        )
        parsed, typed = _typed(request, table_cache, principal)
        tables: list[DryRunTable] = []
        if typed.batches:
            requests = [StagingRequest(typed.batches)]
            with _READS_IMAGES:
                [outcome] = stage_requests(connection, requests, encode_blocks(requests)).outcomes
            if isinstance(outcome, RejectedInput):
                raise parsed.rejection(outcome.problems)
            if not isinstance(outcome, list):
                raise outcome
            answer = _AnswerRows(request.limits.reserve_answer)
            tables = [
                answer.table(batch, staged, shows_stored=principal.may(Right.READ, batch.table.name))
                for batch, staged in zip(typed.batches, outcome, strict=True)
            ]
        transaction.rollback()
    return DryRunResult(tables, parsed.ignored, typed.duplicates)


@contextmanager
def _savepoint(connection: Connection) -> Iterator[Connection]:
    with connection.begin_nested():
        yield connection


class _AnswerRows:
    """The rows of an answer, which end at MAX_ANSWER_BYTES over all tables; memory is reserved as they grow."""

    def __init__(self, reserve: Callable[[int], None]) -> None:
        self._reserve = reserve
        self._size = 0

    def table(self, batch: Batch, staged: StagedBatch, *, shows_stored: bool) -> DryRunTable:
        """Return the rows of a table as far as the answer has room for them."""
        table, landed = batch.table, staged.rows.batch
        hidden = _nothing_withheld if shows_stored else _withheld(batch)
        rows: list[dict[str, Any]] = []
        withheld: list[WithheldColumns] = []
        for row in _rows(landed):
            if table.schema.landing.bare:
                del row[ROW_MARKER]
            columns = hidden(len(rows))
            for name in columns:
                del row[name]
            row |= {name: str(value) for name, value in row.items() if isinstance(value, float) and not isfinite(value)}
            entry = [WithheldColumns(len(rows), [*columns])] if columns else []
            if not self._has_room(len(_ENCODER.encode((row, entry)))):
                break
            rows.append(row)
            withheld += entry
        omitted = landed.num_rows - len(rows)
        place = (str(table.name), table.generation, table.schema_version)
        return DryRunTable(*place, rows, withheld or UNSET, omitted or UNSET)

    def _has_room(self, size: int) -> bool:
        """Count a row; return whether the answer has room for it. Without memory for it, the answer ends early."""
        before, self._size = self._size, self._size + size
        if self._size > MAX_ANSWER_BYTES:
            return False
        try:
            if self._size // _MIB > before // _MIB:
                self._reserve(self._size)
        except TemporarilyUnavailable:
            self._size = MAX_ANSWER_BYTES
            return False
        return True


def _rows(landed: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Yield the rows as Python values, of which few are in memory at a time."""
    step = max(1, _MIB * landed.num_rows // max(1, landed.nbytes))
    for start in range(0, landed.num_rows, step):
        yield from landed.slice(start, step).to_pylist()


def _nothing_withheld(_: int) -> Sequence[str]:
    return ()


def _withheld(batch: Batch) -> Callable[[int], Sequence[str]]:
    """Return what tells the masked columns of a row, and those that a real request takes from row images."""
    schema, options = batch.table.schema, batch.table.options
    names = [column.name for column in landed_columns(schema.columns, options)]
    masked = {landing for landing, name in zip(names, schema.names, strict=True) if name in options.masks}
    stored = _stored(batch, names)
    return lambda row: sorted(masked.union(stored(row)))


def _stored(batch: Batch, names: Sequence[str]) -> Callable[[int], Collection[str]]:
    """Return what tells the columns of a row, of these names, whose values a real request takes from row images."""
    images, schema, options = batch.rows.images, batch.table.schema, batch.table.options
    if images is None:
        return _nothing_withheld
    missing: dict[int, Sequence[int]] = {row: entry.missing.ordinals for row, entry in images.incomplete.items()}
    if options.flags_deletes:
        values = tuple(at for at, name in enumerate(schema.names) if name not in schema.key_set)
        missing |= dict.fromkeys(images.deletes, values)
    derived = _derived_from(batch.table)

    def of(ordinals: Collection[int]) -> set[str]:
        sources = {schema.names[at] for at in ordinals}
        return {names[at] for at in ordinals} | {name for name, read in derived.items() if read & sources}

    if options.filter is not None or images.key_changes:
        # Rows are left out or land in another order, so that every row hides what one of them lacks.
        in_any = of({at for ordinals in missing.values() for at in ordinals})
        return lambda _: in_any
    return lambda row: of(missing.get(row, ()))


def _derived_from(table: Table) -> dict[str, frozenset[str]]:
    """Return the columns that each derived column reads, by its name in the files."""
    options = table.options
    return {
        options.rename.get(name, name): one.columns for name, one in parsed_derive(options.derive, table.schema).items()
    }
