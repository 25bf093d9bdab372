"""Requests that qualify for a fast path: one cached table, no schema change, no source order.

Small ones are typed together in the staging thread, large columnar ones in the reader thread. All others take the slow
path, also every request that will be rejected: a fast path declines and never rejects.
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
    """Return the request if all of it is for one table on the fast path that keeps no row images; else None."""
    if len(parsed.sources) != 1 or parsed.lines:
        return None
    (entry,) = parsed.sources
    if entry.rejected:
        return None
    table = _fast_path_table(entry.source, parsed.requested, table_cache, principal)
    if table is None or table.options.partial_updates is PartialUpdates.COMPLETE:
        return None
    return PendingRequest(table, entry.changes, identity, parsed.ignored)


@dataclass(frozen=True, slots=True)
class ColumnarRequest:
    """An Arcion JSON body that can be columnar, and the parameters of its request."""

    body: bytes
    requested: SourceName | None
    override: bool
    limits: InputLimits
    principal: Principal

    def open(self, table_cache: TableCache) -> "tuple[ColumnarBody, Table] | None":
        """Return the decoded body and its table, or None if the body does not qualify or exceeds a limit.

        Raises NotCached if a query has to find the table first.
        """
        if len(self.body) > self.limits.value_bytes:  # a value can be too long
            return None
        columnar = decode_columnar(self.body)
        if columnar is None or columnar.messages > self.limits.messages or (self.override and not self.requested):
            return None
        source = self.requested if self.override and self.requested else columnar.source
        for name in filter(None, (source, self.requested)):
            table_cache.require_cached(name)
        table = _fast_path_table(source, self.requested, table_cache, self.principal)
        return None if table is None or table.options.exclude else (columnar, table)


def read_columnar(requests: Sequence[ColumnarRequest], table_cache: TableCache) -> list[Batch | NotCached | None]:
    """Return the typed batch of each request, None where the body does not qualify, NotCached where a query is needed.

    Requests for one table are typed together: a kernel takes nearly as long for a few rows as for a hundred.
    """
    outcomes: list[Batch | NotCached | None] = [None] * len(requests)
    alike: dict[int, tuple[Table, dict[int, ColumnarBody]]] = {}
    for index, request in enumerate(requests):
        try:
            opened = request.open(table_cache)
        except NotCached as unknown:
            outcomes[index] = unknown
            continue
        if opened is not None:
            columnar, table = opened
            alike.setdefault(id(table), (table, {}))[1][index] = columnar
    for table, bodies in alike.values():
        for index, batch in zip(bodies, _batches(table, [*bodies.values()]), strict=True):
            outcomes[index] = batch
    return outcomes


def _batches(table: Table, bodies: Sequence[ColumnarBody]) -> Sequence[Batch | None]:
    if len(bodies) > 1:
        has_images = table.options.partial_updates is PartialUpdates.COMPLETE
        together = None if has_images else _typed(table, bodies)
        return together or [batch for body in bodies for batch in _batches(table, [body])]
    return _typed(table, bodies) or [None]


def _typed(table: Table, bodies: Sequence[ColumnarBody]) -> list[Batch] | None:
    """Return one batch per body; None if one of them does not qualify or holds a value that does not fit."""
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


def _fast_path_table(
    source: SourceName, requested: SourceName | None, table_cache: TableCache, principal: Principal
) -> Table | None:
    """Return the table that this source feeds if it is cached and changes need neither its schema nor its order."""
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
    is_simple = options.new_columns is NewColumns.REJECT and options.source_order is SourceOrder.ARRIVAL
    return table if is_simple else None
