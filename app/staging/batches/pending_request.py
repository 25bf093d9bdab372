"""Small requests, which the staging thread types together just before it stages them together.

Building an Arrow batch of one row costs nearly as much as one of a hundred (decision 0014). A request that cannot be
typed this way falls back to the slow path, which types it alone; its neighbors are not affected.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from app.domain.model.change import Change
from app.domain.model.request_identity import RequestIdentity
from app.domain.model.table import Table
from app.domain.rows.landing_rows import RowRules, landing_rows_of_each
from app.staging.batches.batch import Batch, StagingRequest


@dataclass(frozen=True, slots=True, eq=False)
class PendingRequest:
    """The untyped changes of one request: all for one table, without schema changes or source positions."""

    table: Table
    changes: Sequence[Change]
    identity: RequestIdentity | None = None
    ignored: int = 0


class FallBack(Exception):
    """The request takes the slow path, which types it alone and stages it, or rejects it with its problems."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


Typed: TypeAlias = StagingRequest | FallBack


def type_pending_requests(requests: Sequence[PendingRequest]) -> dict[PendingRequest, Typed]:
    """Return each request typed, or the signal to take the slow path."""
    by_table: dict[int, list[PendingRequest]] = defaultdict(list)
    for request in requests:
        by_table[id(request.table)].append(request)
    typed: dict[PendingRequest, Typed] = {}
    for of_table in by_table.values():
        _type(of_table, typed)
    return typed


def _type(requests: Sequence[PendingRequest], typed: dict[PendingRequest, Typed]) -> None:
    """Type requests for one table together; where that fails, halve them until the bad one is alone."""
    table = requests[0].table
    try:
        all_rows = landing_rows_of_each([request.changes for request in requests], RowRules.of(table))
    except Exception:  # noqa: BLE001  # a bug that one request triggers fails that one alone, where it is logged
        all_rows = None
    if all_rows is not None:
        for request, rows in zip(requests, all_rows, strict=True):
            typed[request] = StagingRequest([Batch(table, rows)], request.identity, request.ignored)
    elif len(requests) == 1:
        typed[requests[0]] = FallBack("its changes cannot be typed together with those of other requests")
    else:
        middle = len(requests) // 2
        _type(requests[:middle], typed)
        _type(requests[middle:], typed)
