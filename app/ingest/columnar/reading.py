"""Reads the bodies of several requests together: -> one typed batch per table and request.

A format opens a body (finds its tables) and has a reader for tables with the same columns; everything else is the same
for all formats. What requests have for tables with equal rules is decoded and typed together, because a kernel takes
nearly as long for a few rows as for a hundred. If that fails, each part is read alone, and declined alone.

Invariant: a request gets the batches that the exact path would make of it, or it is declined.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from app.domain.access.rights import Principal
from app.domain.model.input_limits import InputLimits
from app.domain.model.source_name import SourceName
from app.domain.model.table import Table
from app.domain.model.table_options import SourceOrder
from app.domain.rows.landing_rows import landing_rows_of_shaped
from app.domain.rows.projection.landed_bytes import row_bytes
from app.domain.rows.row_rules import RowRules
from app.domain.rows.shaped_changes import ShapedChanges
from app.errors import RejectedInput, TemporarilyUnavailable
from app.ingest.columnar.decline import Decline, Declined
from app.ingest.table_cache import NotCached, TableCache
from app.observability.api_metrics import HASH_MISMATCHES
from app.staging.batches.batch import Batch, SchemaIdTables


class ReadBatches(list[Batch]):
    """The batches of a request, and how many of its messages change no row."""

    ignored: int = 0


Outcome: TypeAlias = ReadBatches | Declined | NotCached
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
    changes: int
    """How many changes the content has; more only if a text of its body looks like one."""
    found_by: SchemaIdTables | None = None
    """The Replicate schema id by which the table was found, for the sequence lock to check."""

    @property
    def rules_key(self) -> Hashable:
        """What parts have in common that are read and typed together.

        The table cache has one object for equal schemas or options, so that comparing them costs nothing.
        """
        table = self.table
        rules = (table.left_columns, table.cdc_started, table.images_complete)
        return (id(self.reader), id(table.schema), id(table.options), *rules)


class OpenedBody(NamedTuple):
    """What a body has for each table, and how many of its messages are as the fields say."""

    parts: Sequence[TablePart]
    wrong_hashes: int = 0
    """Messages that give a wrong hash of their address."""
    ignored: int = 0
    """Messages that change no row."""


Opened: TypeAlias = OpenedBody | Declined | NotCached
"""An opened body; or why the request is declined; or what a query has to find first."""


class ColumnarRequest(Protocol):
    """A body with the parameters of its request; each format has a class."""

    @property
    def body(self) -> bytes:
        """The bytes of the body."""

    @property
    def limits(self) -> InputLimits:
        """The limits of the request."""

    @staticmethod
    def open(requests: Sequence[Any], table_cache: TableCache) -> list[Opened]:
        """Decode the messages of several bodies of this format, and find their tables."""


def read_together(requests: Sequence[ColumnarRequest], table_cache: TableCache) -> list[Outcome]:
    """Return the batches of each request in order, or why it has none."""
    opened = [*map(_with_memory, requests, _opened(requests, table_cache))]
    outcomes: list[Outcome] = [_no_batches(body) if isinstance(body, OpenedBody) else body for body in opened]
    alike: dict[Hashable, list[tuple[int, TablePart]]] = {}
    for index, body in enumerate(opened):
        if isinstance(body, OpenedBody):
            for part in body.parts:
                alike.setdefault(part.rules_key, []).append((index, part))
    for group in alike.values():
        for (index, _), batch in zip(group, _typed([part for _, part in group], table_cache), strict=True):
            outcome = outcomes[index]
            if isinstance(batch, Declined):
                outcomes[index] = batch
            elif isinstance(outcome, list):
                outcome.append(batch)
    for body, outcome in zip(opened, outcomes, strict=True):
        if isinstance(body, OpenedBody) and body.wrong_hashes and isinstance(outcome, list):
            HASH_MISMATCHES.inc(body.wrong_hashes)
    return outcomes


def _with_memory(request: ColumnarRequest, body: Opened) -> Opened:
    """Reserve memory for the rows of a body before its images are decoded; decline it if that is too much.

    Values are decoded into the columns of their table, so a row without values takes as long as its table is wide.
    """
    if not isinstance(body, OpenedBody):
        return body
    try:
        request.limits.reserve(sum(part.changes * row_bytes(RowRules.of(part.table)) for part in body.parts))
    except (RejectedInput, TemporarilyUnavailable):  # the exact path meets the same trouble, and tells the caller
        return Declined(Decline.ROWS)
    return body


def _no_batches(body: OpenedBody) -> ReadBatches:
    batches = ReadBatches()
    batches.ignored = body.ignored
    return batches


def _opened(requests: Sequence[ColumnarRequest], table_cache: TableCache) -> list[Opened]:
    """Open the bodies, those of one format together."""
    first = type(requests[0])
    if all(type(request) is first for request in requests):
        return first.open(requests, table_cache)
    opened: dict[int, Opened] = {}
    for kind in {type(request) for request in requests}:
        indexes = [index for index, request in enumerate(requests) if type(request) is kind]
        opened |= zip(indexes, kind.open([requests[index] for index in indexes], table_cache), strict=True)
    return [opened[index] for index in range(len(requests))]


Content = TypeVar("Content")


def opened_or_why(
    by_table: Callable[[Content, TableCache], OpenedBody], content: Content, table_cache: TableCache
) -> Opened:
    """Return the opened body, or why it is not opened: two sources of a request may not feed one table."""
    try:
        opened = by_table(content, table_cache)
    except (Declined, NotCached) as reason:
        return reason
    tables = {part.table.table_id for part in opened.parts}
    return opened if len(tables) == len(opened.parts) else Declined(Decline.TABLE)


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
    if table is None or not table.state.accepts_changes or table.schema.can_need_marker or table.options.exclude:
        raise Declined(Decline.TABLE)
    if requested is not None:
        named = table_cache.get_cached(requested, principal)
        if named is None or named.table_id != table.table_id:
            raise Declined(Decline.TABLE)
    if table.options.source_order is not SourceOrder.ARRIVAL:
        raise Declined(Decline.TABLE)
    return table


def _typed(parts: Sequence[TablePart], table_cache: TableCache) -> Sequence[Batch | Declined]:
    """Return the batch of each part; all parts have the same `rules_key`."""
    rules = table_cache.rules(parts[0].table)
    reason = Declined(Decline.ROWS)
    try:
        all_rows = landing_rows_of_shaped(parts[0].reader.read([part.content for part in parts]), rules)
    except Declined as declined:
        all_rows, reason = None, declined
    except TemporarilyUnavailable:  # the exact path meets the same trouble, and tells the caller
        all_rows = None
    if all_rows is not None:
        return [Batch(part.table, rows, found_by=part.found_by) for part, rows in zip(parts, all_rows, strict=True)]
    return [reason] if len(parts) == 1 else [batch for part in parts for batch in _typed([part], table_cache)]
