"""The columnar path: reads the bodies of several requests together: -> one typed batch per table and request.

A format opens a body (finds its tables) and has a reader for tables with the same columns; everything else is the same
for all formats. What requests have for tables with equal rules is decoded and typed together, because a kernel takes
nearly as long for a few rows as for a hundred. If that fails, each part is read alone, and declined alone.

Invariant: a request gets the batches that the exact path would make of it, or it is declined, never rejected.

A producer that adds one unknown key can move all its requests to the exact path, at several times the cost and with the
same answers. The metric `mirrorgate_ingest_path_total` and the debug log event `exact_path` show it.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import structlog
from prometheus_client import Counter

from app.domain.access.rights import Principal
from app.domain.model.change import InputLimits
from app.domain.model.names import SourceName
from app.domain.model.table import Table
from app.domain.model.table_options import SourceOrder
from app.domain.rows.landing_projection import row_bytes
from app.domain.rows.landing_rows import LandingRows, landing_rows_of_shaped
from app.domain.rows.row_rules import ShapedChanges
from app.domain.rows.source_order import advances_of_shaped
from app.formats.columnar import NotColumnar
from app.ingest.table_cache import NotCached, TableCache
from app.observability.api_metrics import HASH_MISMATCHES, INGEST_PATHS
from app.staging.batches.batch import Batch, SchemaIdTables
from mirrorgate.errors import RejectedInput, TemporarilyUnavailable

log = structlog.get_logger()


class Decline(StrEnum):
    """Reason why the columnar path declined a request. A declined request is read again on the exact path."""

    NO_COLUMNAR_READER = "no_columnar_reader"
    """The format has none."""
    BODY = "body"
    """The body is unusual: not valid, a key unknown or twice, or a part that only the exact path understands."""
    TABLE = "table"
    """The table is unknown, its options need each change, or two sources of the request feed it."""
    IMAGES = "images"
    """An image or its flags are unusual: a column unknown, missing or twice, or a value that is not a string."""
    ROWS = "rows"
    """A change cannot land as it is, or a value does not fit its column."""
    ORDER = "order"
    """The table enforces the order of its source, and a change repeats, is out of order or has no position."""
    TABLE_MOVED = "table_moved"
    """The table changed between typing and staging."""
    REJECTED = "rejected"
    """The transaction rejected a message; the exact path names it."""


class Declined(Exception):
    """The columnar path does not take a request."""

    def __init__(self, reason: Decline) -> None:
        super().__init__(reason)
        self.reason = reason


class ReadBatches(list[Batch]):
    """The batches of a request, and how many of its messages change no row."""

    ignored: int = 0


ReadOutcome: TypeAlias = ReadBatches | Declined | NotCached
"""The batches of a request, or why it has none."""


class TableReader(Protocol):
    """Decoder of what bodies have for one table."""

    def read(self, parts: Sequence[Any]) -> list[ShapedChanges]:
        """Return the changes of each part.

        Raises NotColumnar, ValueError or RecursionError if one of them cannot be read this way.
        """


@dataclass(frozen=True, slots=True, eq=False)
class TablePart:
    """Content of one body for one table; `content` belongs to its reader."""

    table: Table
    reader: TableReader
    content: Any
    changes: int
    """Number of changes in the content; more only if a string of its body looks like one."""
    found_by: SchemaIdTables | None = None
    """The Replicate schema id by which the table was found, for the sequence lock to check."""
    task: str = ""
    """Under which the source positions are kept, see `order_key`."""

    @property
    def rules_key(self) -> Hashable:
        """Rules of parts that are typed together. The table cache has one object for equal schemas or options."""
        table = self.table
        own = table.table_id if table.options.masks else None  # each table has its own hashes
        rules = (table.left_columns, table.cdc_started, table.images_complete, own)
        return (id(self.reader), id(table.schema), id(table.options), *rules)


class OpenedBody(NamedTuple):
    """Content of a body for each table, and how many of its messages are as the fields say."""

    parts: Sequence[TablePart]
    wrong_hashes: int = 0
    """Messages that give a wrong hash of their address."""
    ignored: int = 0
    """Messages that change no row."""


Opened: TypeAlias = OpenedBody | Declined | NotCached
"""An opened body; or why the request is declined; or what a query has to find first."""


class ColumnarBody(Protocol):
    """A body with what its request says about it; each format has a class."""

    @property
    def body(self) -> bytes:
        """The bytes of the body."""

    @property
    def limits(self) -> InputLimits:
        """The limits of the request."""

    @classmethod
    def columnar(cls, asked: "Sequence[Asked[Any]]", table_cache: TableCache, /) -> list[Opened]:
        """Decode the messages of several bodies of this format, and find their tables."""


Body = TypeVar("Body", covariant=True, bound=ColumnarBody)


class Asked(NamedTuple, Generic[Body]):
    """A body to read on the columnar path, and its caller."""

    body: Body
    principal: Principal


def read_together(requests: Sequence[Asked[ColumnarBody]], table_cache: TableCache) -> list[ReadOutcome]:
    """Return the batches of each request in order, or why it has none."""
    opened = [*map(_with_memory, requests, _opened(requests, table_cache))]
    outcomes: list[ReadOutcome] = [_no_batches(body) if isinstance(body, OpenedBody) else body for body in opened]
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


def _with_memory(request: Asked[ColumnarBody], body: Opened) -> Opened:
    """Reserve memory for the rows of a body before its images are decoded; decline it if that is too much.

    Values are decoded into the columns of their table, so a row without values takes as long as its table is wide.
    """
    if not isinstance(body, OpenedBody):
        return body
    try:
        request.body.limits.reserve(sum(part.changes * row_bytes(part.table) for part in body.parts))
    except (RejectedInput, TemporarilyUnavailable):  # the exact path meets the same trouble, and tells the caller
        return Declined(Decline.ROWS)
    return body


def _no_batches(body: OpenedBody) -> ReadBatches:
    batches = ReadBatches()
    batches.ignored = body.ignored
    return batches


def _opened(requests: Sequence[Asked[ColumnarBody]], table_cache: TableCache) -> list[Opened]:
    """Open the bodies, those of one format together."""
    kinds = [type(request.body) for request in requests]
    if kinds.count(kinds[0]) == len(kinds):
        return kinds[0].columnar(requests, table_cache)
    opened: dict[int, Opened] = {}
    for kind in {*kinds}:
        indexes = [index for index, other in enumerate(kinds) if other is kind]
        opened |= zip(indexes, kind.columnar([requests[index] for index in indexes], table_cache), strict=True)
    return [opened[index] for index in range(len(requests))]


def opened_or_why(by_table: Callable[..., OpenedBody], *given: Any) -> Opened:
    """Return the opened body, or why it is not opened: two sources of a request may not feed one table."""
    try:
        opened = by_table(*given)
    except (Declined, NotCached) as reason:
        return reason
    tables = {part.table.table_id for part in opened.parts}
    return opened if len(tables) == len(opened.parts) else Declined(Decline.TABLE)


def eligible_table(
    source: SourceName, requested: SourceName | None, table_cache: TableCache, principal: Principal
) -> Table:
    """Return the table that this source feeds, if its changes need no schema change.

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
    return table


def _typed(parts: Sequence[TablePart], table_cache: TableCache) -> Sequence[Batch | Declined]:
    """Return the batch of each part; all parts have the same `rules_key`."""
    rules = table_cache.rules(parts[0].table)
    reason, all_rows = Declined(Decline.ROWS), None
    try:
        changes = parts[0].reader.read([part.content for part in parts])
    except (NotColumnar, ValueError, RecursionError):
        changes, reason = None, Declined(Decline.IMAGES)
    try:
        if changes is not None:
            all_rows = landing_rows_of_shaped(changes, rules)
    except TemporarilyUnavailable:  # the exact path meets the same trouble, and tells the caller
        all_rows = None
    if all_rows is not None:
        return [*map(_batch, parts, changes or (), all_rows)]
    return [reason] if len(parts) == 1 else [batch for part in parts for batch in _typed([part], table_cache)]


def _batch(part: TablePart, changes: ShapedChanges, rows: LandingRows) -> Batch | Declined:
    """Return the batch of a part; declined if only the exact path can tell its duplicates."""
    if part.table.options.source_order is SourceOrder.ARRIVAL:
        return Batch(part.table, rows, found_by=part.found_by)
    advances = advances_of_shaped(changes, rows, part.task)
    if advances is None:
        return Declined(Decline.ORDER)
    return Batch(part.table, rows, advances, part.found_by)


def count_columnar_path(source_format: str) -> None:
    """Count a request that the columnar path staged."""
    _staged_on_columnar_path(source_format).inc()


def count_exact_path(source_format: str, reason: Decline) -> None:
    """Count a request that the exact path reads, and log why at level debug."""
    INGEST_PATHS.labels(source_format, "exact", reason).inc()
    log.debug("exact_path", format=source_format, reason=reason.value)


@cache
def _staged_on_columnar_path(source_format: str) -> Counter:
    return INGEST_PATHS.labels(source_format, "columnar", "")
