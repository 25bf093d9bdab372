"""Requests that ask nothing of their table before they are staged: neither its schema nor its positions.

Nearly all are. Small ones are typed together when they are staged, large ones without a look at each change; the
others, and every request that is to be rejected, take the way of `RequestTyper`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from app.domain.access.rights import Principal
from app.domain.model.input_limits import InputLimits
from app.domain.model.request_identity import RequestIdentity
from app.domain.model.source_name import SourceName
from app.domain.model.table import Table
from app.domain.model.table_options import NewColumns, PartialUpdates, SourceOrder
from app.domain.rows.columnar_rows import landing_rows_of_columns
from app.domain.rows.landing_rows import RowRules
from app.formats.arcion.columnar import ColumnarBody, columnar_rows_of, decode_columnar
from app.ingest.parsed_request import ParsedRequest
from app.ingest.table_cache import NotCached, TableCache
from app.observability.telemetry import HASH_MISMATCHES
from app.staging.batches.batch import Batch
from app.staging.batches.pending_request import PendingRequest


def pending_request(
    parsed: ParsedRequest, table_cache: TableCache, principal: Principal, identity: RequestIdentity | None
) -> PendingRequest | None:
    """The request if all of it is for one table that is known, plain, and without row images."""
    if len(parsed.sources) != 1 or parsed.lines:
        return None
    (entry,) = parsed.sources
    if entry.rejected:
        return None
    table = _plain_table(entry.source, parsed.requested, table_cache, principal)
    if table is None or table.options.partial_updates is PartialUpdates.COMPLETE:
        return None
    return PendingRequest(table, entry.changes, identity, parsed.ignored)


@dataclass(frozen=True, slots=True)
class ColumnarRequest:
    """An Arcion JSON body that may be plain, and what its request says of it."""

    body: bytes
    requested: SourceName | None
    override: bool
    limits: InputLimits
    principal: Principal

    def open(self, table_cache: TableCache) -> "tuple[ColumnarBody, Table] | None":
        """The body, if it may be plain and is within the limits, and its table, if that is known.

        Raises NotCached where the table_cache must first ask for the table.
        """
        if len(self.body) > self.limits.value_bytes:  # a value may be too long
            return None
        plain = decode_columnar(self.body)
        if plain is None or plain.messages > self.limits.messages or (self.override and not self.requested):
            return None
        source = self.requested if self.override and self.requested else plain.source
        for name in filter(None, (source, self.requested)):
            table_cache.require_cached(name)
        table = _plain_table(source, self.requested, table_cache, self.principal)
        return None if table is None or table.options.exclude else (plain, table)


def read_columnar(requests: Sequence[ColumnarRequest], table_cache: TableCache) -> list[Batch | NotCached | None]:
    """The typed batches of requests, None for one that is not plain, or whose table must be asked for first.

    Those for one table are typed together: Arrow costs a few rows nearly what it costs a hundred.
    """
    outcomes: list[Batch | NotCached | None] = [None] * len(requests)
    alike: dict[int, tuple[Table, dict[int, ColumnarBody]]] = {}
    for place, request in enumerate(requests):
        try:
            opened = request.open(table_cache)
        except NotCached as unknown:
            outcomes[place] = unknown
            continue
        if opened is not None:
            plain, table = opened
            alike.setdefault(id(table), (table, {}))[1][place] = plain
    for table, bodies in alike.values():
        for place, batch in zip(bodies, _batches(table, [*bodies.values()]), strict=True):
            outcomes[place] = batch
    return outcomes


def _batches(table: Table, bodies: Sequence[ColumnarBody]) -> Sequence[Batch | None]:
    if len(bodies) > 1:
        has_images = table.options.partial_updates is PartialUpdates.COMPLETE
        together = None if has_images else _typed(table, bodies)
        return together or [batch for body in bodies for batch in _batches(table, [body])]
    return _typed(table, bodies) or [None]


def _typed(table: Table, bodies: Sequence[ColumnarBody]) -> list[Batch] | None:
    """One batch for each body, None where one of them is not plain, or holds a value that does not fit."""
    rules = RowRules.of(table)
    rows = columnar_rows_of(bodies, table.schema.names, table.schema.key_columns, rules.fillable)
    landing = landing_rows_of_columns(rows, rules) if rows else None
    if landing is None:
        return None
    HASH_MISMATCHES.inc(sum(body.wrong_hashes for body in bodies))
    if len(bodies) == 1:
        return [Batch(table, landing)]
    ends = accumulate(body.messages for body in bodies)
    return [
        Batch(
            table,
            replace(
                landing,
                batch=landing.batch.slice(end - body.messages, body.messages),
                changes=body.messages,
                source_position=body.position,
            ),
        )
        for body, end in zip(bodies, ends, strict=True)
    ]


def _plain_table(
    source: SourceName, requested: SourceName | None, table_cache: TableCache, principal: Principal
) -> Table | None:
    """The table that this source feeds, if it is known, and no change can ask for another schema or order."""
    table = table_cache.get_cached(source, principal)
    if table is None or not table.state.accepts_changes or table.schema.bare:
        return None
    if requested is not None:
        named = table_cache.get_cached(requested, principal)
        if named is None or named.table_id != table.table_id:
            return None
    if source.catalog not in {None, table.arcion_catalog}:
        return None
    options = table.options
    is_plain = options.new_columns is NewColumns.REJECT and options.source_order is SourceOrder.ARRIVAL
    return table if is_plain else None
