"""The result of an accepted request: the receipts of its tables, and counts."""

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass

from app.staging.batches.batch import AlreadyStaged, Receipt


@dataclass(frozen=True, slots=True)
class IngestResult:
    """One receipt per table, after COMMIT, and how many messages did not become changes of a batch."""

    receipts: list[Receipt]
    ignored: int = 0
    """Messages without a body, and metadata messages that repeat an earlier version."""
    duplicates: int = 0
    """Changes that a table with `source_order=enforce` had accepted before."""
    replayed: bool = False
    """True if the request was accepted before and this is its stored answer."""
    dead_letters: int = 0
    """Rejected messages that are kept."""
    registered: Sequence[Mapping[str, str]] = ()
    """The tables that the request created, or gave columns."""


async def or_stored_result(request: Awaitable[IngestResult]) -> IngestResult:
    """Return the result of a request, or its stored result if the request was accepted before."""
    try:
        return await request
    except AlreadyStaged as staged:
        answer = staged.answer
        receipts = [Receipt(**receipt) for receipt in answer["receipts"]]
        counts = (answer["ignored"], answer["duplicates"])
        return IngestResult(
            receipts,
            *counts,
            replayed=True,
            dead_letters=answer.get("dead_letters", 0),
            registered=answer.get("registered", ()),
        )
