"""Small requests, typed together just before they are staged together.

An Arrow batch of one row costs nearly as much as one of a hundred.
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
    """The changes of one request, all for one table, that ask nothing of its schema or its positions."""

    table: Table
    changes: Sequence[Change]
    identity: RequestIdentity | None = None
    ignored: int = 0


class FallBack(Exception):
    """The request is not typed together with others: typed alone, it is rejected with its reasons, or staged."""


Typed: TypeAlias = StagingRequest | FallBack


def type_pending_requests(requests: Sequence[PendingRequest]) -> dict[PendingRequest, Typed]:
    """What became of each request."""
    by_table: dict[int, list[PendingRequest]] = defaultdict(list)
    for request in requests:
        by_table[id(request.table)].append(request)
    typed: dict[PendingRequest, Typed] = {}
    for members in by_table.values():
        _type(members, typed)
    return typed


def _type(requests: Sequence[PendingRequest], typed: dict[PendingRequest, Typed]) -> None:
    """Type requests for one table; halves find the one that is wrong among many."""
    table = requests[0].table
    try:
        all_rows = landing_rows_of_each([request.changes for request in requests], RowRules.of(table))
    except Exception:  # noqa: BLE001  # a fault of ours over one request fails that one alone, where it is logged
        all_rows = None
    if all_rows is not None:
        for request, rows in zip(requests, all_rows, strict=True):
            typed[request] = StagingRequest([Batch(table, rows)], request.identity, request.ignored)
    elif len(requests) == 1:
        typed[requests[0]] = FallBack()
    else:
        middle = len(requests) // 2
        _type(requests[:middle], typed)
        _type(requests[middle:], typed)
