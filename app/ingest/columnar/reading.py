"""Reads the bodies of several requests together: -> one typed batch per table and request.

A format opens a body (finds its tables) and has a reader per table; everything else is the same for all formats. What
requests have for one table is decoded and typed together, because a kernel takes nearly as long for a few rows as for a
hundred. If that fails, each request is read alone, and declined alone.

Invariant: a request gets the batches that the exact path would make of it, or it is declined.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

from app.domain.access.rights import Principal
from app.domain.model.source_name import SourceName
from app.domain.model.table import Table
from app.domain.model.table_options import SourceOrder
from app.domain.rows.landing_rows import RowRules, landing_rows_of_shaped
from app.domain.rows.shaped_changes import ShapedChanges
from app.ingest.columnar.decline import Decline, Declined
from app.ingest.table_cache import NotCached, TableCache
from app.observability.telemetry import HASH_MISMATCHES
from app.staging.batches.batch import Batch

Outcome: TypeAlias = list[Batch] | Declined | NotCached
"""The batches of a request, or why it has none."""


class TableReader(Protocol):
    """Decodes what bodies have for one table."""

    def read(self, parts: Sequence[Any]) -> list[ShapedChanges]:
        """Return the changes of each part, or raise Declined if one of them cannot be read this way."""


@dataclass(frozen=True, slots=True, eq=False)
class TablePart:
    """What one body has for one table; `content` is its reader's own."""

    table: Table
    reader: TableReader
    content: Any


class OpenedBody(NamedTuple):
    """What a body has for each table, and how many of its messages give a wrong hash of their address."""

    parts: Sequence[TablePart]
    wrong_hashes: int = 0


class ColumnarRequest(Protocol):
    """A body with the parameters of its request."""

    @property
    def body(self) -> bytes:
        """The bytes of the body."""

    def open(self, table_cache: TableCache) -> OpenedBody:
        """Find the tables of the body. Raises Declined, or NotCached if a query has to find a table."""


def read_together(requests: Sequence[ColumnarRequest], table_cache: TableCache) -> list[Outcome]:
    """Return the batches of each request in order, or why it has none."""
    outcomes: list[Outcome] = []
    hashes: dict[int, int] = {}
    alike: dict[tuple[int, int], list[tuple[int, TablePart]]] = {}
    for index, request in enumerate(requests):
        try:
            parts, hashes[index] = request.open(table_cache)
            if len(parts) > 1 and len({part.table.table_id for part in parts}) < len(parts):
                raise Declined(Decline.TABLE)
        except (Declined, NotCached) as reason:
            outcomes.append(reason)
            continue
        outcomes.append([])
        for part in parts:
            alike.setdefault((id(part.table), id(part.reader)), []).append((index, part))
    for group in alike.values():
        for (index, _), batch in zip(group, _typed([part for _, part in group]), strict=True):
            outcome = outcomes[index]
            if isinstance(batch, Declined):
                outcomes[index] = batch
            elif isinstance(outcome, list):
                outcome.append(batch)
    HASH_MISMATCHES.inc(sum(wrong for index, wrong in hashes.items() if isinstance(outcomes[index], list)))
    return outcomes


def eligible_table(
    source: SourceName, requested: SourceName | None, table_cache: TableCache, principal: Principal
) -> Table:
    """Return the table that this source feeds, if its changes need neither a schema change nor the source's order.

    Raises NotCached if a query has to find it, or Declined.
    """
    for name in (source, requested):
        if name is not None:
            table_cache.require_cached(name)
    table = table_cache.get_cached(source, principal)
    if table is None or not table.state.accepts_changes or table.schema.bare or table.options.exclude:
        raise Declined(Decline.TABLE)
    if requested is not None:
        named = table_cache.get_cached(requested, principal)
        if named is None or named.table_id != table.table_id:
            raise Declined(Decline.TABLE)
    if table.options.source_order is not SourceOrder.ARRIVAL:
        raise Declined(Decline.TABLE)
    return table


def _typed(parts: Sequence[TablePart]) -> Sequence[Batch | Declined]:
    """Return the batch of each part; all parts have the same table and reader."""
    table, rules = parts[0].table, RowRules.of(parts[0].table)
    try:
        all_rows = landing_rows_of_shaped(parts[0].reader.read([part.content for part in parts]), rules)
        reason = Declined(Decline.ROWS)
    except Declined as declined:
        all_rows, reason = None, declined
    if all_rows is not None:
        return [Batch(table, rows) for rows in all_rows]
    return [reason] if len(parts) == 1 else [batch for part in parts for batch in _typed([part])]
